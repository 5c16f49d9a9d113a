"""Rehearsals with a real controller: a cluster with every kind of entity, one run that finds all obstacles, and nothing that stays."""

import psutil
import pytest

from kafka_maintenance.cli.arguments import ExitStatus, exit_status
from kafka_maintenance.operations.kraft.rehearsal import run
from kafka_maintenance.operations.kraft.rehearsal.attempt import End
from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.operations.kraft.rehearsal.difference import Kind, counts_by_kind
from kafka_maintenance.operations.kraft.rehearsal.of_snapshot import repaired
from kafka_maintenance.operations.kraft.rehearsal.run import Quorum, rehearse
from kafka_maintenance.operations.kraft.repairs import repairs
from kafka_maintenance.servers import Workspace
from kafka_maintenance.servers.errors import VersionRefusedError
from kafka_maintenance.servers.kraft_controller import refusal
from tests.kafka_maintenance.operations.kraft.cases import EVERYTHING, KEY, two
from tests.kafka_maintenance.operations.kraft.trees import config, topic, tree
from tests.processes import command_of

pytestmark = pytest.mark.kafka
QUORUM = Quorum(settings=dict(KEY))


def test_every_kind_of_entity_is_migrated_and_nothing_stays():
    with Workspace.create_temporary() as workspace:
        outcome = rehearse(copy_of(tree(EVERYTHING)), QUORUM, workspace)
        folder = workspace.folder
    assert outcome.passed
    assert (outcome.attempts, outcome.unexplained) == (1, ())
    classes = counts_by_kind(outcome.differences)
    assert classes[Kind.SAME] >= 14
    assert {kind for kind, count in classes.items() if count} == {Kind.SAME, Kind.NOTATION, Kind.REHEARSAL}
    assert outcome.record_counts["USER_SCRAM_CREDENTIAL"] == 1
    assert not folder.exists()
    assert [each for each in psutil.Process().children(recursive=True) if str(folder) in command_of(each)] == []


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("9.9", "Version 9.9 is not a valid version"),
        ("2.8", "metadata.version 2.8-IV1 is too old to be supported"),
    ],
)
def test_a_release_version_that_kafka_does_not_have_is_told_before_a_server_starts(monkeypatch, release, said):
    monkeypatch.setattr(run, "ZooKeeperServer", lambda *_, **__: pytest.fail("started"))
    with pytest.raises(VersionRefusedError) as refused:
        rehearse(copy_of(tree()), Quorum(version="3.9", release_version=release))
    assert (
        str(refused.value)
        == f"quorum of Kafka 3.9 not formatted: expected a --release-version that it has, found '{release}': {said}; choose another one"
    )
    assert exit_status(refused.value) is ExitStatus.BAD_INPUT


@pytest.mark.parametrize(
    ("version", "printed", "said"),
    [
        (
            "3.6.2",
            (
                'Exception in thread "main" java.lang.IllegalArgumentException: Version 3.9 is not a valid version\n'
                "\tat org.apache.kafka.server.common.MetadataVersion.lambda$fromVersionString$0(MetadataVersion.java:470)\n"
            ),
            "Version 3.9 is not a valid version",
        ),
        (
            "3.7.1",
            "Must specify a valid KRaft metadata version of at least 3.0.\n",
            "Must specify a valid KRaft metadata version of at least 3.0",
        ),
    ],
)
def test_what_kafka_prints_of_a_release_version_that_it_does_not_have(version, printed, said):
    """As recorded of `StorageTool format --release-version`, 3.9 and 2.8."""
    refused = refusal(version, "x", "id", printed)
    assert isinstance(refused, VersionRefusedError)
    assert f"found 'x': {said}; choose" in str(refused)


def test_one_run_finds_every_obstacle_and_the_repairs_take_some_away():
    changes = {
        "/config/users/eve": config(producer_byte_rate="abc"),
        "/config/clients/z": config(no_such_rate="5"),
        "/brokers/topics/old": {"version": 1, "partitions": {"0": [1, 2]}},
        **two(topic(1, 9, topic_id="ZXktdG9waWMtdHdvLTAwMQ")),
    }
    copy = copy_of(tree(changes))
    outcome = rehearse(copy, QUORUM)
    found = [(each.rule, each.path, each.end, each.found_by) for each in outcome.obstacles]
    assert found == [
        ("R3", "/brokers/topics/old", End.HANGS, "log"),
        ("R4", "/brokers/ids/9", End.HANGS, "log"),
        ("R12", "/config/users/eve", End.DIED, "bisection"),
    ]
    assert outcome.obstacles[2].others == ("/config/clients/z",)
    assert outcome.reached
    assert not outcome.passed
    mended = repaired(copy, repairs(copy.tree)).without("/brokers/topics/old").with_brokers([9])
    assert rehearse(mended, QUORUM).passed
