"""The daily proposal of one snapshot equals the plain planner's plan, and says why it moves what it moves."""

import json
from collections import defaultdict

import pyarrow as pa
import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import read_plan
from spark_jobs.on_core.bridge import SnapshotRows
from spark_jobs.on_core.proposals import cluster_state, propose
from spark_jobs.planner.goals import Goals, Tolerance
from spark_jobs.planner.planning import optimal_plan
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.plans.made import plan_of
from tests.spark_jobs.planner.clusters import KINDS, cluster, of_kind

FACTS = {
    "any_reassignment": False,
    "reassign_requests": [],
    "queued_topics": [],
    "deletion_enabled": True,
    "kafka_version": "3.9",
    "inter_broker_protocol_version": None,
    "kraft_begun": False,
}


def snapshot(state, moving=(), **facts):
    """The rows that a snapshot of `state` would hold; to those named in `moving` a replica is being added."""
    replicas = [state.ids(row) for row in state.replicas]
    live = [int(b) for b, ok in zip(state.broker_ids, state.live, strict=True) if ok]
    table = pa.table(
        {
            "topic": [state.topics[t] for t in state.topic],
            "partition": state.number.tolist(),
            "replicas": replicas,
            "isr": replicas,
            "leader": [int(broker) for broker in state.leader],
            "adding": pa.array([[9] if row in moving else [] for row in range(len(replicas))], pa.list_(pa.int32())),
            "removing": pa.array([[]] * len(replicas), pa.list_(pa.int32())),
        }
    )
    racks = [None if state.rack_names == ("",) else state.rack_names[r] for r in state.rack]
    rack_of = [{"broker_id": b, "rack": rack} for b, rack in zip(state.broker_ids.tolist(), racks, strict=True)]
    return SnapshotRows({**FACTS, "live": live, "rack_of": rack_of, **facts}, table)


def proposal(state, goals=None, **facts):
    (row,) = propose(goals or Goals())(snapshot(state, **facts))
    return row


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "replicas" not in kind and kind != "drain"])
@pytest.mark.parametrize("racks", [1, 3])
def test_a_proposal_is_the_plain_planners_plan(kind, racks):
    state = of_kind(kind, racks=racks)
    found = proposal(state)
    plain = optimal_plan(cluster_state(snapshot(state)), Goals())
    assert json.loads(found["plan"]) == plain.reassignment_json()
    assert json.loads(found["certificate"]) == plain.certificate_json()
    assert (found["moves"], found["moves_lower_bound"]) == (plain.moves, plain.moves_bound)


def world_of(state):
    """A cluster in memory as `state` has it; every replica is in sync."""
    world, rows = KafkaWorld(), defaultdict(list)
    for broker, rack, live in zip(state.broker_ids.tolist(), state.rack, state.live, strict=True):
        if live:
            world.broker(broker, state.rack_names[rack] or None)
    world.elect(int(state.broker_ids[0]))
    for topic, leader, replicas in zip(state.topic, state.leader, state.replicas, strict=True):
        ids = tuple(state.ids(replicas))
        rows[state.topics[topic]].append((ids, int(leader), ids))
    for topic, partitions in rows.items():
        world.topic(topic, *partitions)
    return world


@pytest.mark.parametrize("kind", ["grow", "skewed", "rack broken"])
@pytest.mark.parametrize("racks", [1, 3])
def test_the_plan_that_is_stored_moves_what_the_proposal_shows(kind, racks):
    state, store = of_kind(kind, racks=racks), MemoryStore()
    shown = json.loads(proposal(state)["plan"])["partitions"]
    stored = read_plan(store, plan_of(plan_reassignment, world_of(state), store).uri)
    targets = [target for effect in stored.effects for target in effect.targets]
    asked = {tuple(target.partition): list(target.replicas) for target in targets}  # the last wave of each
    assert asked == {(each["topic"], each["partition"]): each["replicas"] for each in shown}


def test_nothing_is_proposed_once_a_migration_to_kraft_has_begun():
    found = proposal(of_kind(KINDS[0], racks=1), kraft_begun=True)
    assert (found["status"], found.get("plan")) == ("postponed", None)
    assert "on its way to KRaft: nothing is written to ZooKeeper" in found["reason"]


def test_brokers_without_a_rack_postpone_a_proposal_unless_racks_are_to_be_ignored():
    state = of_kind("rack broken", racks=3)
    whole = snapshot(state)
    bare = [{**entry, "rack": None} if place == 0 else entry for place, entry in enumerate(whole.facts["rack_of"])]
    waits = proposal(state, rack_of=bare)
    assert (waits["status"], "broker.rack" in waits["reason"]) == ("postponed", True)
    asked = proposal(state, Goals(ignore_racks=True), rack_of=bare)
    assert asked["status"] in {"planned", "balanced"}
    assert "racks are ignored, as asked" in f"{asked['reason']} {asked['explanation']}"


def test_a_proposal_says_why_and_what_the_controller_will_do():
    said = proposal(of_kind("skewed"))["explanation"]
    assert "Why: a broker holds too many replicas:" in said
    assert "waves, at least" in said
    assert "Fewest moves by tolerance" in said
    assert "Run through the controller's rules, wave by wave:" in said


def test_a_proposal_says_what_it_makes_of_the_balance_and_how_it_was_made_possible():
    state = of_kind("skewed")
    capped = proposal(state, Goals(moves_max=proposal(state)["moves"] // 2))
    said = capped["explanation"].split("\n")
    assert any(line.startswith("Replicas per broker: ") and " before, " in line for line in said)
    assert any(line.startswith("Leaders per broker: ") for line in said)
    assert any("replica and topic bounds widened by" in line for line in said)
    unmoved = proposal(state, Goals(moves_max=0, tolerance=Tolerance(leaders=240)))
    assert unmoved["status"] == "balanced"
    assert "at most 0 moves: replica and topic bounds widened by" in unmoved["reason"]


def test_a_pending_request_postpones_the_proposal():
    request = {"topic": "t000", "partition": 0, "replicas": [1, 2]}
    assert proposal(of_kind("skewed"), reassign_requests=[request])["status"] == "postponed"


def test_only_what_cannot_be_moved_is_left_out():
    lists = [[0, 1]] * 6
    state = cluster(lists, brokers=3, leaders=[0, -1, 0, 0, 0, 0], topics=[*["t"] * 5, "trash"])
    found = proposal(state, moving={2}, any_reassignment=True, queued_topics=["trash"])
    assert found["status"] == "planned"
    moved = {(entry["topic"], entry["partition"]) for entry in json.loads(found["plan"])["partitions"]}
    assert moved <= {("t", 0), ("t", 3), ("t", 4)}
    assert (
        "Left out: has no leader to copy from: 1 partition [t-1]; is being reassigned: 1 partition [t-2]; "
        "its topic is queued for deletion: 1 partition [trash-0]."
    ) in found["explanation"]


def test_a_leader_that_is_down_or_no_replica_costs_only_its_partition_the_plan():
    state = cluster([[0, 1]] * 4 + [[1, 3]] * 2, brokers=4, leaders=[0, 0, 0, 0, 3, 2], topics=["t"] * 6)
    found = proposal(state, live=[0, 1, 2])
    assert found["status"] == "planned"
    assert "Left out: has no leader to copy from: 2 partitions [t-4, t-5]." in found["explanation"]


def test_where_nothing_can_be_moved_the_proposal_waits():
    found = proposal(cluster([[0, 1]] * 2, brokers=3), moving={0, 1})
    assert (found["status"], found["reason"]) == (
        "postponed",
        "Left out: is being reassigned: 2 partitions [t-0, t-1].",
    )


def test_a_snapshot_without_brokers_has_no_plan():
    assert proposal(of_kind("skewed"), live=[])["status"] == "impossible"
