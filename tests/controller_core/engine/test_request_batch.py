"""The request batch per version, effects as JSON, and everything as text."""

import dataclasses
from typing import get_args

import pytest
from immutables import Map

from controller_core.controller.partition_state_machine import ChangePartitionStates
from controller_core.engine import request_batch as rb
from controller_core.engine.batch import BatchFault, RequestBatch
from controller_core.messages import effects as e
from controller_core.messages import events
from controller_core.model.config import ControllerConfig, config_from
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import Broker, BrokerId, Endpoint, LeaderRecoveryState, ReplicaAssignment
from controller_core.model.states import PartitionState
from controller_core.runtime.render import render, render_context, render_refusals
from tests.conformance.request_fields import request_fields
from tests.controller_core.clusters import cluster, led, partition, perform, run, zookeeper_of

T0, T1 = partition("t-0"), partition("t-1")


def told(context):
    return rb.leader_and_isr(context, [1, 2, -1], T0, led(1, (1, 2)), ReplicaAssignment((1, 2)), is_new=False)


def sent(context, *adds):
    return rb.send(context, RequestBatch((adds,)), 4)


@pytest.mark.parametrize(
    "ibp", ["0.8.0", "0.9.0", "0.10.2", "1.0-IV0", "2.2-IV0", "2.4-IV1", "2.6-IV0", "2.8-IV1", "3.2-IV0", "3.9"]
)
def test_every_version_carries_its_fields(ibp):
    context = cluster({"t-0": (1, 2)}, version="3.9", ibp=ibp)
    stop = rb.stop_replica(context, [2], T0, delete=True)
    requests = [request_fields(request) for request in sent(context, told(context), stop).requests]
    assert [request["api"] for request in requests] == ["LeaderAndIsr"] * 2 + ["UpdateMetadata"] * 3 + ["StopReplica"]
    leader, metadata, stopped = requests[0], requests[2], requests[-1]
    assert ("broker_epoch" in leader) is (leader["version"] >= 2)
    assert ("topic_ids" in metadata) is (metadata["version"] >= 7)
    assert ("leader_epoch" in stopped["partition_states"]["t-0"]) is (stopped["version"] >= 3)
    assert all("rack" in b for b in metadata["live_broker_endpoints"].values()) is (metadata["version"] >= 2)


def test_is_new_and_delete_are_sticky_and_the_last_add_wins():
    context = cluster({"t-0": (1, 2)})
    new = rb.leader_and_isr(context, [2], T0, led(1, (1, 2)), ReplicaAssignment((1, 2)), is_new=True)
    later = rb.leader_and_isr(context, [2], T0, led(2, (2,)), ReplicaAssignment((1, 2)), is_new=False)
    row = sent(context, new, later).requests[0].partition_states[0]
    assert (row.is_new, row.leadership.leader) == (True, 2)
    stops = [rb.stop_replica(context, [2], T0, delete=delete) for delete in (True, False)]
    assert [r.delete_partition for r in sent(context, *stops).requests[0].partition_states] == [True]


@pytest.mark.parametrize(
    ("version", "groups"), [("2.5", [[True], [False]]), ("2.2", [[False], [True]]), ("1.0", [[False], [True]])]
)
def test_stop_replica_is_split_by_flag_before_2_6(version, groups):
    context = cluster({"t-0": (1, 2), "t-1": (1, 2)}, version=version)
    stops = (rb.stop_replica(context, [2], T0, delete=True), rb.stop_replica(context, [2], T1, delete=False))
    found = [[row.delete_partition for row in request.partition_states] for request in sent(context, *stops).requests]
    assert found == groups


@pytest.mark.parametrize(("version", "count"), [("3.9", 0), ("2.1", 2), ("1.1", 2)])
def test_an_empty_update_meant_everything_through_2_1(version, count):
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, version=version).queue_topic_deletion(["u"])
    request = sent(context, rb.update_metadata(context, [1], [])).requests[0]
    assert len(request.partition_states) == count
    if count:
        leaders = {row.partition.topic: row.leadership.leader for row in request.partition_states}
        assert leaders == {"t": 1, "u": -2}


def test_through_1_1_every_update_carries_the_deletions():
    context = cluster(
        {"t-0": (1, 2), "u-0": (1, 2), "u-1": (1, 2)}, version="1.1", states={"t-0": led(1, (1,)), "u-0": led(1, (1,))}
    )
    context = context.queue_topic_deletion(["u"])
    rows = sent(context, rb.update_metadata(context, [1], [T0])).requests[0].partition_states
    assert [str(row.partition) for row in rows] == ["t-0", "u-0"]


def test_offline_replicas_are_told():
    context = cluster({"t-0": (1, 2, 9)}, offline_dirs=Map({BrokerId(2): frozenset({T0})}))
    row = sent(context, rb.update_metadata(context, [1], [T0])).requests[0].partition_states[0]
    assert row.offline_replicas == (2, 9)


def test_a_broker_without_the_listener_stops_the_batch():
    secure = Broker(BrokerId(2), 1, (Endpoint("h2", 9093, "SSL", "SSL"),))
    context = cluster({"t-0": (2, 1)}).with_brokers([secure])
    add = rb.leader_and_isr(context, [1], T0, led(2, (1, 2)), ReplicaAssignment((1, 2)), is_new=False)
    found = sent(context, add)
    assert "no endpoint for listener 'PLAINTEXT'" in found.fault
    assert rb.is_pending(found.left)
    old = cluster({"t-0": (1, 2)}, ibp="0.8.0").with_brokers([secure])
    half = sent(old, told(old))
    assert [type(request).__name__ for request in half.requests] == ["SendLeaderAndIsr"] * 2
    assert rb.is_pending(half.left)


def test_a_batch_is_pending_when_somebody_would_get_something():
    context = cluster({"t-0": (1, 2)})
    assert not rb.is_pending(RequestBatch())
    assert not rb.is_pending(RequestBatch(((rb.update_metadata(context, [-1], [T0]),),)))
    assert rb.is_pending(RequestBatch(((told(context),),)))


@pytest.mark.parametrize("version", ["3.9", "2.4", "1.0"])
def test_answers_raise_events(version):
    context = cluster({"t-0": (1, 2)}, version=version).queue_topic_deletion(["t"]).begin_topic_deletion(["t"])
    stop = rb.stop_replica(context, [2], T0, delete=True)
    leader, *_, metadata, stopped = sent(context, told(context), stop).requests
    assert rb.event_of(context, leader, "NONE", {}) == events.LeaderAndIsrAnswered(
        BrokerId(1), "NONE", {T0: "NONE"}, (("t", "id-of-t"),) if version == "3.9" else ()
    )
    assert (rb.event_of(context, metadata, "STALE", {}) is None) is (version != "3.9")
    assert rb.event_of(context, stopped, "NONE", {T0: "X"}) == events.StopReplicaAnswered(
        BrokerId(2), "NONE", {T0: "X"}
    )
    assert rb.event_of(cluster({"t-0": (1, 2)}), stopped, "NONE", {}) is None


def sample(kind, hints):
    known = {
        "partitions": (T0,), "topics": ("t",), "topic": "t", "names": ("x",), "states": ((T0, led(1, (1, 2))),), "topic_id": None,
        "assignments": ((0, ReplicaAssignment((1, 2))),), "extra": (("k", "1"),), "targets": ((T0, (1, 2)),), "broker": 1,
        "controller_epoch_version": 3, "controller_id": 1, "json_version": 2, "atomically": True, "delay_s": 5,
        "kind": e.WatchKind.TOPIC, "broker_epoch": 1, "version": 7, "controller_epoch": 2, "live_leaders": (),
        "topic_ids": (("t", None),), "brokers": (1,), "live_brokers": (), "errors": ((T0, "NONE"),), "error": "",
        "listed": ((T0, ReplicaAssignment((1, 2), (2,))),), "accepted": ((T0, led(1, (1,))),), "partitions_still_led": (T0,),
    }  # fmt: skip
    rows = {
        "SendLeaderAndIsr": (e.LeaderAndIsrPartition(T0, led(1, (1,)), ReplicaAssignment((1,)), True),),
        "SendUpdateMetadata": (e.UpdateMetadataPartition(T0, led(1, (1,)), (1, 2), (2,)),),
        "SendStopReplica": (e.StopReplicaPartition(T0, True, -2),),
    }
    fields = {name: known.get(name) for name in hints}
    if "partition_states" in fields:
        fields["partition_states"] = rows[kind.__name__]
    if kind is e.SendUpdateMetadata:
        fields["live_brokers"] = tuple(cluster({}).brokers.values())
    if kind is e.OpenChannels:
        fields["brokers"] = (Broker(BrokerId(1), 2, (Endpoint("h", 1, "L", "SSL"),), "r", (("f", (1, 2)),)),)
    return kind(**fields)


EFFECTS = [sample(kind, [field.name for field in dataclasses.fields(kind)]) for kind in get_args(e.Effect)]


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: type(effect).__name__)
def test_an_effect_reads_as_a_line(effect):
    verb, said = render([effect]).split(maxsplit=1)
    assert verb == verb.lower()
    assert len(said) > 0


def test_text_of_a_failure():
    context = cluster({"t-0": (1, 2, 3)})
    found = run(
        context,
        events.BrokersChanged(),
        zookeeper_of(context, brokers=tuple(context.brokers[b] for b in (BrokerId(2), BrokerId(3)))),
    )
    text = render(found.effects)
    assert "write    t-0/state  leader=2 isr=2,3 leader_epoch=6  if version=7" in text
    assert "send     LeaderAndIsr to 2,3  t-0 leader=2 isr=2,3 leader_epoch=6 version=8 replicas=1,2,3" in text
    assert "send     UpdateMetadata to 2,3  t-0 leader=2 isr=2,3 leader_epoch=6 version=8 offline=1" in text
    assert render([]) == ""


def test_text_of_a_context_and_of_refusals():
    context = cluster(
        {"t-0": (1, 2), "n-0": (1,)}, states={"t-0": led(1, (1,))._replace(recovery=LeaderRecoveryState.RECOVERING)}
    )
    context = dataclasses.replace(
        context.queue_topic_deletion(["t"]), shutting_down=frozenset({2}), topics_ineligible_for_deletion=frozenset({"t"}),
        partitions_being_reassigned=Map({T0: None}), active_controller_id=None,
    )  # fmt: skip
    context = context.with_entry(T0, assignment=ReplicaAssignment((3, 1), (3,), (1,)))
    text = render_context(context.with_entry(partition("gone-0"), replica_states=()))
    for line in (
        "controller -",
        "shutting down  2",
        "to be deleted  t",
        "reassigning  t-0",
        "recovering",
        "adding=3 removing=1",
    ):
        assert line in text
    offline = ChangePartitionStates((T0,), PartitionState.OFFLINE)
    refused = perform(cluster({"t-0": (1, 2)}), offline, batch_fault=BatchFault.SEND)
    assert "Kafka: the rest of the batch stays in it" in render_refusals(refused.refusals)


def test_configs_have_the_defaults_of_their_version():
    assert config_from({}, controller_id=BrokerId(1), dialect=dialect_for("3.9")) == ControllerConfig(
        controller_id=BrokerId(1)
    )
    old = config_from({"delete.topic.enable": "TRUE"}, controller_id=BrokerId(1), dialect=dialect_for("0.10.2"))
    assert (old.delete_topic, old.unclean_leader_election) == (True, True)
    told = config_from({"inter.broker.listener.name": "IN"}, controller_id=BrokerId(1), dialect=dialect_for("3.9"))
    assert told.inter_broker_listener == "IN"


def test_a_leadership_that_the_context_does_not_know_goes_to_its_replicas_only():
    context = cluster({"t-0": (1, 2)}, states={})
    requests = sent(context, told(context)).requests
    assert {type(request).__name__ for request in requests} == {"SendLeaderAndIsr", "SendUpdateMetadata"}
    assert all(request.partition_states == () for request in requests if isinstance(request, e.SendUpdateMetadata))
