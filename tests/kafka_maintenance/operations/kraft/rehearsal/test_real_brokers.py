"""Rehearsals with real brokers: one run in which every setting that Kafka refuses is told with its rule, and what a fraction in a quota does."""

import os
from pathlib import Path

import pytest

from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.operations.kraft.rehearsal.planned_broker import planned_broker
from kafka_maintenance.operations.kraft.rehearsal.real_brokers import Mode, with_real_brokers
from kafka_maintenance.operations.kraft.rehearsal.run import planned_quorum
from kafka_maintenance.servers import Workspace
from kafka_maintenance.servers.kraft_controller import program
from tests.kafka_maintenance.operations.kraft.trees import config, tree

pytestmark = pytest.mark.kafka
SERVER_PROPERTIES = """
broker.id=-1
broker.id.generation.enable=true
inter.broker.protocol.version=3.6
listeners=INTERNAL://host:9092,CONTROL://host:9093
inter.broker.listener.name=INTERNAL
control.plane.listener.name=CONTROL
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
log.dirs=/data/1,/data/2
"""
CONTROLLER_PROPERTIES = "node.id=1\ninter.broker.listener.name=REPLICATION\n"


def test_one_run_tells_everything_that_real_brokers_refuse():
    as_it_is = copy_of(tree({"/config/clients/c": config(consumer_byte_rate="2048.5")}))
    quorum = planned_quorum("3.9", None, CONTROLLER_PROPERTIES)
    with Workspace.create_temporary() as workspace:
        found = with_real_brokers(as_it_is, copy_of(tree()), quorum, {1: planned_broker(SERVER_PROPERTIES)}, workspace)
    told = {mode: sorted(str(each.rule) for each in found.refusals if each.mode is mode) for mode in Mode}
    migration, kraft = ["R12", "R19", "R2", "R20", "R21"], ["R15", "R18", "R22"]
    assert told == {Mode.MIGRATION: migration, Mode.KRAFT: kraft}, (
        found.refusals
    )  # which comes first is a race in the broker
    assert found.reached
    assert not found.passed
    assert found.topics == (1, 1)


def test_a_start_leaves_the_file_whole_that_the_one_before_still_reads():
    with Workspace.create_temporary() as workspace:
        (setting,) = [each for each in program(workspace, "3.9", heap_mb=64) if "log4j.configuration" in each]
        with Path(setting.partition("file:")[2]).open() as read_by_a_controller:
            before = os.fstat(read_by_a_controller.fileno())
            program(workspace, "3.9", heap_mb=64)
            after = os.fstat(read_by_a_controller.fileno())
            assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
            assert "kafka.zk=INFO" in read_by_a_controller.read()
