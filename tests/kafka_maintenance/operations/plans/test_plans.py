"""Plans made from a live read or from a snapshot, stored once, and read again with doubt."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.tables import TABLES
from controller_core.model.errors import InvalidPlanError, MalformedZnodeError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes import paths as znode
from kafka_maintenance import __version__
from kafka_maintenance.operations.apply.plan import apply_plan
from kafka_maintenance.operations.cluster.observe import observe, observe_tables
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.plans import make as planning
from kafka_maintenance.operations.plans.proof import verify_again
from kafka_maintenance.operations.plans.seen import dialect_of
from kafka_maintenance.operations.plans.store import key_of, read_plan, read_proof
from spark_jobs.planner import prediction
from spark_jobs.planner.goals import Aim, Goals
from spark_jobs.planner.waves import Limits
from tests.kafka_maintenance.kafka_world import CLUSTER_ID, KafkaWorld, three_brokers

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
ORDERS_0 = TopicPartition("orders", 0)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def cluster() -> KafkaWorld:
    """`orders-0` and `pay-0` miss their leaders, `orders-1` cannot get it; `old` has a replica on broker 9, dead."""
    world = three_brokers()
    world.topic("orders", ((1, 2, 3), 2, (1, 2, 3)), ((2, 3, 1), 3, (3, 1)))
    world.topic("pay", ((3, 1), 1, (1, 3)))
    world.topic("old", ((1, 9), 1, (1,)))
    return world


def plan_of(make: Any, world: KafkaWorld, store: MemoryStore | None = None, **what: Any) -> planning.StoredPlan:
    plan = make(store or MemoryStore(), "demo", zookeeper=world.zookeeper(), now=NOW, **what)
    assert plan is not None
    return plan


def test_a_live_plan_lies_under_the_day():
    store = MemoryStore()
    plan = plan_of(planning.plan_elections, cluster(), store)
    assert store.list("") == [
        f"v1/cluster=demo/date=2026-11-21/live/plans/elect_preferred_leaders-{plan.digest[:12]}.{ending}"
        for ending in ("json", "md")
    ] + [f"v1/plans/cluster=demo/elect_preferred_leaders-{plan.digest}"]
    assert plan.summary == "2 elections in 1 step, 1 left out"
    assert store.get(key_of(store, plan.uri.removesuffix("json") + "md")).decode() == plan.markdown


def test_the_same_cluster_gives_the_same_plan():
    store, world = MemoryStore(), cluster()
    assert plan_of(planning.plan_elections, world, store) == plan_of(planning.plan_elections, world, store)


def test_a_plan_made_before_by_another_version_stays_as_it_was_stored(monkeypatch):
    store, world = MemoryStore(), cluster()
    first = plan_of(planning.plan_elections, world, store)
    monkeypatch.setattr("kafka_maintenance.operations.plans.store.__version__", "9.9")
    assert plan_of(planning.plan_elections, world, store) == first
    assert json.loads(store.get(key_of(store, first.uri)))["code_version"] == __version__


def test_planning_writes_nothing_to_the_cluster():
    world = cluster()
    before = world.server.snapshot()
    plan_of(planning.plan_elections, world)
    plan_of(planning.plan_deletions, world, topics=["pay"])
    assert world.server.snapshot() == before


def test_elections_of_the_most_imbalanced_brokers_come_first():
    plan = plan_of(planning.plan_elections, cluster(), election_count_max=1)
    assert "pay-0" in plan.markdown.split("## What to weigh")[0]  # broker 3 leads nothing of what it should: 100 %
    assert "over the limit" in plan.markdown


def test_elections_may_be_limited_to_topics():
    plan = plan_of(planning.plan_elections, cluster(), topics=["ord*"])
    assert (plan.count, "pay" in plan.markdown) == (1, False)


def test_a_pattern_that_no_topic_matches_is_bad_input():
    with pytest.raises(BadInputError, match=r"none of 3 found for typo\*; change the patterns"):
        plan_of(planning.plan_elections, cluster(), topics=["ord*", "typo*"])


def test_a_partition_that_cannot_be_elected_is_left_out_with_the_reason():
    assert "* `orders-1: preferred replica is not in the ISR" in plan_of(planning.plan_elections, cluster()).markdown


@pytest.mark.parametrize("version", ["0.10.2", "2.4", "3.9"])
def test_no_version_is_asked_for_an_election_in_vain(version):
    plan = plan_of(planning.plan_elections, cluster(), kafka_version=version)
    assert plan.count == 2


def test_a_partition_on_its_way_is_not_elected():
    world = cluster()
    world.reassigning("orders", 0, adding=(3,))
    plan = plan_of(planning.plan_elections, world, kafka_version="3.9")
    assert "* `orders-0: is being reassigned" in plan.markdown


def test_a_balanced_cluster_needs_no_plan():
    world = three_brokers()
    world.topic("a", ((1, 2), 1, (1, 2)))
    assert planning.plan_elections(MemoryStore(), "demo", zookeeper=world.zookeeper()) is None


# ----------------------------------------------------------------------------------------------------- deletion


def test_an_ineligible_topic_is_left_out_with_every_reason():
    plan = plan_of(planning.plan_deletions, cluster(), topics=["pay", "old"], kafka_version="3.9")
    assert "* `old: old-0 has replicas on brokers [9]" in plan.markdown
    assert plan.count == 1


def test_only_ineligible_topics_make_no_plan():
    with pytest.raises(RefusedError, match="no topic is eligible: old: old-0 has replicas"):
        plan_of(planning.plan_deletions, cluster(), topics=["old"], kafka_version="3.9")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        pytest.param(znode.REASSIGN_PARTITIONS, "pay-0 is being reassigned", id="a move is asked for"),
        pytest.param(
            znode.PREFERRED_REPLICA_ELECTION, r"\[pay-0 in /admin/preferred_replica_election\]: wait", id="an election"
        ),
    ],
)
def test_a_topic_that_a_request_names_is_not_deleted(path, said):
    world = cluster()
    world.hangs = True
    world.own.create(path, b'{"version":1,"partitions":[{"topic":"pay","partition":0,"replicas":[3,2]}]}')
    with pytest.raises(RefusedError, match=f"no topic is eligible: pay: {said}"):
        plan_of(planning.plan_deletions, world, topics=["pay"], kafka_version="3.9")


def test_a_partition_whose_leader_died_is_not_elected():
    world = cluster()
    world.set_state("orders", 0, leader=9, isr=(1, 2, 3))
    plan = plan_of(planning.plan_elections, world, kafka_version="3.9")
    assert "* `orders-0: has no live leader" in plan.markdown


@pytest.mark.parametrize("path", [znode.topic_path("orders"), znode.state_path(ORDERS_0)])
def test_a_topic_that_cannot_be_read_is_not_deleted(path):
    world = cluster()
    world.own.set(path, b"{", ANY_VERSION)
    plan = plan_of(planning.plan_deletions, world, topics=["pay", "orders"], kafka_version="3.9")
    assert f"* `orders: {path}: " in plan.markdown
    assert "is not enough to judge it" in plan.markdown
    assert plan.count == 1


def test_an_unknown_topic_is_refused():
    with pytest.raises(RefusedError, match="topic nope: expected a topic of this cluster"):
        plan_of(planning.plan_deletions, cluster(), topics=["nope"], kafka_version="3.9")


def test_nothing_is_deleted_that_nobody_named():
    assert planning.plan_deletions(MemoryStore(), "demo", zookeeper=cluster().zookeeper()) is None


# ------------------------------------------------------------------------------------------------- reassignment


def test_given_targets_become_waves():
    waves = [[Target(*ORDERS_0, ids(3, 2, 1))], [Target("pay", 0, ids(2, 1))]]
    store = MemoryStore()
    plan = plan_of(planning.plan_reassignment, cluster(), store, waves=waves)
    assert plan.summary == "2 partitions to move in 2 steps"
    assert plan.rollback_uri is not None
    assert read_plan(store, plan.rollback_uri).effects[0].targets[0].replicas == (3, 1)
    assert "wave by wave" in plan.markdown
    assert "every partition keeps its in-sync majority" in plan.markdown


def test_given_targets_that_cost_a_majority_are_told_and_not_refused():
    world = three_brokers()
    world.topic("calm", ((1, 2), 1, (1, 2)))
    world.topic("lean", ((1,), 1, (1,)))
    waves = [[Target("calm", 0, ids(1, 3))], [Target("lean", 0, ids(2, 3))]]
    plan = plan_of(planning.plan_reassignment, world, waves=waves, may_change_replication_factor=True)
    assert "wave 2 leaves [lean-0] with too few in-sync replicas" in plan.markdown


def test_given_targets_that_outgrow_a_znode_are_refused(monkeypatch):
    monkeypatch.setattr(prediction, "ZNODE_BYTES_MAX", 120)
    waves = [[Target(*ORDERS_0, ids(3, 2, 1))]]
    with pytest.raises(RefusedError, match=r"wave 1 writes a topic znode of [0-9]+ bytes, at most 120 fit"):
        plan_of(planning.plan_reassignment, cluster(), waves=waves)


def test_a_bad_target_is_refused():
    with pytest.raises(RefusedError, match="it would delete the partition's data"):
        plan_of(planning.plan_reassignment, cluster(), waves=[[Target(*ORDERS_0, ())]])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param({"waves": [[]], "goals": Goals()}, "--targets.* and goals for the planner exclude", id="goals"),
        pytest.param({"waves": [[]], "move_count_max": 5}, "and move_count_max for the planner", id="a cap"),
        pytest.param({"waves": [[], []], "limits": Limits()}, "2 --targets are waves already", id="limits of waves"),
        pytest.param({"waves": [[]], "sizes": {}}, "--sizes.*leave these out", id="sizes of no limit"),
        pytest.param(
            {"waves": [[]], "limits": Limits(window_s=9)}, r"window_s \(.*need the sizes", id="targets, window"
        ),
        pytest.param({"may_change_replication_factor": True}, "--targets is missing", id="a factor of no targets"),
        pytest.param({"limits": Limits(window_s=9)}, r"window_s \(.*need the sizes", id="a window without sizes"),
    ],
)
def test_what_would_be_dropped_is_bad_input(arguments, said):
    with pytest.raises(BadInputError, match=said):
        plan_of(planning.plan_reassignment, cluster(), **arguments)


def test_one_wave_of_given_targets_is_cut_under_limits():
    world = three_brokers()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 4)
    parts = [TopicPartition("a", number) for number in range(4)]
    wave = [Target(*parts[0], ids(1, 2)), *(Target(*each, ids(1, 3)) for each in parts[1:])]
    limits = Limits(broker_bytes_max=200, bandwidth=10, window_s=60)
    store = MemoryStore()
    plan = plan_of(
        planning.plan_reassignment, world, store, waves=[wave], limits=limits, sizes=dict.fromkeys(parts, 100)
    )
    assert [len(effect.targets) for effect in read_plan(store, plan.uri).effects] == [2, 1]
    assert "2 waves: proven fewest (broker 3 receives 300 bytes)" in plan.markdown
    assert "They take about 30 s at 10 bytes per second and broker." in plan.markdown
    assert "* `a-0: has these replicas already" in plan.markdown
    assert "every partition keeps its in-sync majority" in plan.markdown


def test_a_partition_larger_than_the_byte_limit_is_told():
    world = three_brokers()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 4)
    parts = [TopicPartition("a", number) for number in range(4)]
    wave = [Target(*each, ids(1, 3)) for each in parts]
    sizes = {**dict.fromkeys(parts, 50), parts[0]: 2_000}
    shown = plan_of(
        planning.plan_reassignment, world, waves=[wave], limits=Limits(broker_bytes_max=200), sizes=sizes
    ).markdown
    assert "2 waves: proven fewest" in shown
    assert "1 partition is larger than the 200 bytes that a broker may copy in a wave: a-0." in shown


def test_a_target_that_gains_several_replicas_takes_steps_under_limits():
    world = three_brokers()
    world.topic("a", ((1,), 1, (1,)))
    store = MemoryStore()
    what = {"waves": [[Target("a", 0, ids(3, 2, 1))]], "may_change_replication_factor": True}
    plan = plan_of(planning.plan_reassignment, world, store, limits=Limits(), **what)
    found = [effect.targets[0].replicas for effect in read_plan(store, plan.uri).effects]
    assert (len(found), found[-1]) == (2, (3, 2, 1))


def test_of_two_caps_on_moves_the_lower_one_holds():
    world = three_brokers()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 6)
    for goals, most in ((Goals(moves_max=2), 100), (Goals(moves_max=100), 2)):
        plan = plan_of(planning.plan_reassignment, world, goals=goals, move_count_max=most)
        assert "2 replicas are copied" in plan.markdown


def test_targets_that_are_reached_need_no_plan():
    waves = [[Target(*ORDERS_0, ids(1, 2, 3))]]
    assert planning.plan_reassignment(MemoryStore(), "demo", zookeeper=cluster().zookeeper(), waves=waves) is None


def test_the_planner_balances_with_proof():
    world = three_brokers()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 6)
    store = MemoryStore()
    plan = plan_of(planning.plan_reassignment, world, store)
    assert "4 replicas are copied: proven minimal" in plan.markdown
    assert any(key.endswith(".certificate.json") for key in store.list(""))


def test_the_plan_has_been_run_through_the_controllers_rules_before_it_is_shown():
    world = three_brokers()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 6)
    shown = plan_of(planning.plan_reassignment, world).markdown
    assert "Run through the controller's rules, wave by wave:" in shown
    assert "every partition keeps its in-sync majority" in shown
    assert "Fewest moves by tolerance (replicas off the mean): 0: 4, 1: 3, 2: 2, 5: 0." in shown


def test_partitions_that_lack_their_majority_already_may_move():
    world = three_brokers()
    world.topic("a", *[((1, 2), 1, (1,))] * 6)
    assert "4 replicas are copied: proven minimal" in plan_of(planning.plan_reassignment, world).markdown


def test_a_plan_whose_request_zookeeper_would_refuse_is_refused_and_not_stored():
    world, store = three_brokers(), MemoryStore()
    world.topic("a" * 249, *[((1, 2), 1, (1, 2))] * 3_600)
    unlimited = Limits(in_max=None, out_max=None, partitions_max=None, request_bytes_max=10_000_000)
    with pytest.raises(RefusedError, match=r"controller's rules: no problem expected, 1 found: \[wave 1 asks with"):
        plan_of(planning.plan_reassignment, world, store, goals=Goals(replication_factor=3), limits=unlimited)
    assert store.list("") == []


@pytest.mark.parametrize(
    "goals",
    [
        pytest.param(Goals(), id="balance"),
        pytest.param(Goals(moves_max=2), id="widened for a cap"),
        pytest.param(Goals(aim=Aim.REPAIR, drain=frozenset({1})), id="repair"),
        pytest.param(Goals(aim=Aim.LEADERS), id="leaders"),
        pytest.param(Goals(replace={1: 3}), id="a replacement broker"),
        pytest.param(Goals(replication_factor=3), id="more replicas"),
    ],
)
def test_the_proof_beside_a_plan_confirms_it_without_a_solver(goals):
    world, store = three_brokers(), MemoryStore()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 6)
    plan = plan_of(planning.plan_reassignment, world, store, goals=goals)
    proof = read_proof(store, plan.uri, read_plan(store, plan.uri))
    assert proof is not None
    assert verify_again(read_plan(store, plan.uri), proof).gap == 0


def first_list(proof: Any) -> None:
    proof["state"]["partitions"][0]["replicas"] = [3, 2]


def drained(proof: Any) -> None:
    proof["goals"] = {**proof["goals"], "drain": [2], "replication_factor": 2}


def without_certificate(proof: Any) -> None:
    proof["certificate"]["u"] = {"77": 1}


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        pytest.param(first_list, r"a-0 starts at \[1, 2\], in the proof at \[3, 2\]", id="another start"),
        pytest.param(drained, "wrong number of replicas", id="other goals"),
        pytest.param(without_certificate, "broker 77", id="prices of no broker"),
        pytest.param(dict.clear, "'state'", id="nothing in it"),
    ],
)
def test_what_the_verifier_does_not_confirm_is_not_applied(alter, said):
    world, store = three_brokers(), MemoryStore()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 6)
    plan = plan_of(planning.plan_reassignment, world, store, goals=Goals(replication_factor=3))
    proof = read_proof(store, plan.uri, read_plan(store, plan.uri))
    alter(proof)
    with pytest.raises(RefusedError, match=said):
        verify_again(read_plan(store, plan.uri), proof)


def test_the_apply_step_verifies_again():
    world, store = three_brokers(), MemoryStore()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 6)
    plan = plan_of(planning.plan_reassignment, world, store)
    key = key_of(store, plan.uri).replace(".json", ".proof.json")
    altered = json.loads(store.get(key))
    store.put(key, json.dumps(altered, indent=1).encode())
    assert read_proof(store, plan.uri, read_plan(store, plan.uri))["state"] == altered["state"]  # spelt in another way
    drained(altered)
    store.put(key, json.dumps(altered).encode())
    with pytest.raises(RefusedError, match="expected the planner's proof with hash"):
        apply_plan(
            store=store,
            plan_uri=plan.uri,
            approved_digest=plan.digest,
            approver="ann",
            zookeeper=world.zookeeper(),
            now=NOW,
        )
    assert world.own.exists(znode.REASSIGN_PARTITIONS) is None


# --------------------------------------------------------------------------------------------- from a snapshot


def tables_of(world: KafkaWorld) -> dict[str, pa.Table]:
    """The decoded tables of the world as a snapshot would hold them, written by hand."""
    live = observe(world.zookeeper())
    common = {"cluster": "demo", "snapshot_id": "0-r", "taken_at": NOW}
    assert live.active_controller is not None
    rows: dict[str, list[dict[str, Any]]] = {
        "partitions": [
            {
                "topic": p.topic, "partition": p.partition, "replicas": a.replicas, "adding": a.adding,
                "removing": a.removing, "preferred_leader": a.replicas[0], "leader": s.leader,
                "leader_epoch": s.leader_epoch, "isr": s.isr, "controller_epoch": s.controller_epoch,
                "recovery": int(s.recovery), "state_version": s.partition_epoch, "state_mtime": NOW,
                "czxid": live.topics[p.topic].czxid,
            }
            for p, a in live.assignments.items() if (s := live.states[p])
        ],
        "topics": [
            {
                "topic": name, "topic_id": t.topic_id, "partition_count": t.partition_count, "json_version": 2,
                "znode_version": 0, "czxid": t.czxid, "mzxid": t.czxid, "ctime": NOW, "mtime": NOW,
                "deletion_requested": name in live.queued_topics,
            }
            for name, t in live.topics.items()
        ],
        "brokers": [
            {
                "broker_id": b.id, "host": "h", "port": 9092, "rack": b.rack, "endpoints": [], "json_version": 4,
                "broker_epoch": b.epoch, "registered_at": NOW,
            }
            for b in live.brokers.values()
        ],
        "requests": [
            {"kind": "delete_topics", "topic": "old", "partition": None, "replicas": None, "ctime": NOW},
            {"kind": "reassign_partitions", "topic": "a", "partition": 0, "replicas": [1, 2], "ctime": NOW},
            {"kind": "preferred_replica_election", "topic": "a", "partition": 1, "replicas": None, "ctime": NOW},
        ],
        "notifications": [
            {"kind": "isr_change", "name": "n1", "topic": "a", "partition": 0, "broker": None, "ctime": NOW},
            {"kind": "isr_change", "name": "n1", "topic": "b", "partition": 1, "broker": None, "ctime": NOW},
            {"kind": "log_dir_event", "name": "l1", "topic": None, "partition": None, "broker": 1, "ctime": NOW},
        ],
        "bad_rows": [{"path": "/brokers/topics/bad", "reason": "no JSON"}],
        "cluster": [
            {
                "kafka_cluster_id": live.kafka_cluster_id, "controller_id": live.active_controller.controller_id,
                "controller_epoch": live.controller_epoch, "controller_epoch_version": live.controller_epoch_version,
                "controller_json_version": 2, "kraft_controller_epoch": -1, "migration": None, "zxid": 1,
                "consistent": True, "isr_change_cversion": 0, "version_znodes": sorted(live.version_znodes),
            }
        ],
    }  # fmt: skip
    return {
        name: pa.Table.from_pylist([{**common, **row} for row in found], schema=TABLES[name])
        for name, found in rows.items()
    }


@pytest.mark.parametrize(
    ("path", "version"),
    [
        pytest.param(znode.LATEST_PRODUCER_ID_BLOCK, "0.11.0", id="producer ids"),
        pytest.param(znode.LOG_DIR_EVENT_NOTIFICATION, "1.0", id="failures of log directories"),
    ],
)
def test_empty_znodes_tell_the_version(path, version):
    world = cluster()
    world.own.create(path)
    as_up_to_2_0 = {"controller_epoch": 3, "controller_epoch_version": 2, "controller_json_version": 1}
    seen = replace(observe(world.zookeeper()), topic_json_versions=frozenset({1}), **as_up_to_2_0)
    assert dialect_of(seen, None).version == version


def test_a_snapshot_is_seen_as_the_live_cluster_is():
    world = cluster()
    world.own.create(znode.LATEST_PRODUCER_ID_BLOCK)
    live, stored = observe(world.zookeeper()), observe_tables(tables_of(world))
    for name in ("kafka_cluster_id", "controller_epoch", "version_znodes", "topics", "assignments", "states"):
        assert getattr(stored, name) == getattr(live, name), name
    assert stored.brokers.keys() == live.brokers.keys()
    assert stored.queued_topics == {"old"}
    assert stored.pending == {
        znode.REASSIGN_PARTITIONS: "a-0 → [1, 2]",
        znode.PREFERRED_REPLICA_ELECTION: "a-1",
    }
    assert stored.reassign_requests == {TopicPartition("a", 0): (1, 2)}
    assert stored.election_requests == {TopicPartition("a", 1)}
    (notification,) = stored.notifications
    assert notification.partitions == (TopicPartition("a", 0), TopicPartition("b", 1))
    assert stored.kraft_sign is None
    assert stored.unreadable == {"/brokers/topics/bad": "no JSON"}


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        pytest.param(None, "has no snapshot of it; take one first", id="no snapshot at all"),
        pytest.param("memory:///v1/cluster=demo/date=2026-11-21/snap=x/manifest.json", "no manifest at", id="missing"),
    ],
)
def test_a_missing_snapshot_is_bad_input(manifest, said):
    with pytest.raises(BadInputError, match=said):
        planning.plan_elections(MemoryStore(), "demo", manifest=manifest)


# ------------------------------------------------------------------------------------------------- what is read


def test_malformed_znodes_are_left_out_by_name_and_the_rest_is_planned():
    world = cluster()
    world.own.set(znode.state_path(ORDERS_0), b'{"leader":"x"}', ANY_VERSION)
    world.own.set(znode.topic_path("old"), b"{]", ANY_VERSION)
    plan = plan_of(planning.plan_elections, world)
    assert plan.count == 1
    assert "* `/brokers/topics/old: cannot be read: offset 1" in plan.markdown
    assert "* `/brokers/topics/orders/partitions/0/state: cannot be read: field 'leader'" in plan.markdown


def test_a_malformed_controller_stops_everything():
    world = cluster()
    world.own.set(znode.CONTROLLER, b"{}", ANY_VERSION)
    with pytest.raises(MalformedZnodeError, match="/controller cannot be read"):
        plan_of(planning.plan_elections, world)


def test_an_unreadable_notification_is_reported_with_its_problem():
    world = cluster()
    world.own.create(f"{znode.ISR_CHANGE_NOTIFICATION}/isr_change_", b"{", sequential=True)
    (found,) = observe(world.zookeeper()).notifications
    assert found.partitions == ()
    assert "isr_change_0000000000 cannot be read" in str(found.problem)


def test_only_what_is_asked_for_is_read():
    seen = observe(cluster().zookeeper(), partitions=[ORDERS_0, TopicPartition("gone", 0)], topics=["pay"])
    assert set(seen.topics) == {"orders", "pay"}
    assert set(seen.states) == {ORDERS_0}
    assert seen.kafka_cluster_id == CLUSTER_ID


# ---------------------------------------------------------------------------------------------------- the store


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        pytest.param({"kind": "delete_topics"}, "expected kind 'delete_topics'", id="another kind"),
        pytest.param({"cluster": "prod"}, "expected cluster 'prod', found 'demo'", id="another cluster"),
    ],
)
def test_a_plan_of_something_else_is_not_taken(wanted, said):
    store = MemoryStore()
    plan = plan_of(planning.plan_elections, cluster(), store)
    with pytest.raises(InvalidPlanError, match=said):
        planning.load_plan(store, plan.uri, **wanted)
    assert planning.load_plan(store, plan.uri, kind=plan.kind, cluster="demo") == plan


@pytest.mark.parametrize(
    "uri",
    ["nowhere", "v1/", "memory://other/v1/cluster=demo/plans/x.json"],
    ids=["no address", "no key", "other store"],
)
def test_an_address_outside_the_store_is_bad_input(uri):
    with pytest.raises(BadInputError):
        planning.load_plan(MemoryStore(), uri)


def test_a_stored_plan_is_never_overwritten():
    store, world = MemoryStore(), cluster()
    plan = plan_of(planning.plan_elections, world, store)
    store.put(key_of(store, plan.uri), b"{}")
    with pytest.raises(InvalidPlanError, match="make the plan again"):
        plan_of(planning.plan_elections, world, store)
