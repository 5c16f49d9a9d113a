"""Reassignments to given targets: in waves, under limits, with what is told to the approver."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.partitions import TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.znodes.configs import ConfigZnode, encode_config
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import read_plan
from spark_jobs.planner import prediction
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.waves import Limits
from tests.broker_ids import ids
from tests.kafka_maintenance.kafka_world import three_brokers
from tests.kafka_maintenance.operations.plans.made import ORDERS_0, cluster, plan_of, six_on_two_brokers


def test_given_targets_become_waves():
    waves = [[Target(*ORDERS_0, ids(3, 2, 1))], [Target("pay", 0, ids(2, 1))]]
    store = MemoryStore()
    plan = plan_of(plan_reassignment, cluster(), store, waves=waves)
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
    plan = plan_of(plan_reassignment, world, waves=waves, may_change_replication_factor=True)
    assert "wave 2 leaves [lean-0] with too few in-sync replicas" in plan.markdown


LESS, MORE = (Target("lean", 0, ids(*each)) for each in ((1,), (2, 3)))


@pytest.mark.parametrize(
    ("entity", "setting", "waves", "version", "said"),
    [
        pytest.param("topics/lean", "2", [[LESS]], "3.6", True, id="of the topic"),
        pytest.param("brokers/<default>", "2", [[LESS]], None, True, id="of all brokers"),
        pytest.param("topics/lean", "2", [[LESS], [MORE]], "2.8", True, id="between two waves"),
        pytest.param("topics/lean", "1", [[LESS]], "2.8", False, id="enough are left"),
        pytest.param("topics/lean", "3", [[MORE]], "2.8", False, id="as many as before"),
        pytest.param("topics/lean", "2", [[LESS]], "3.7", False, id="the number of replicas counts"),
    ],
)
def test_targets_with_fewer_replicas_than_min_isr_are_told(entity, setting, waves, version, said):
    world = three_brokers()
    world.topic("lean", ((1, 2), 1, (1, 2)))
    config = encode_config(ConfigZnode({"min.insync.replicas": setting}))
    world.own.create(f"/config/{entity}", config, make_parents=True)
    what = {"may_change_replication_factor": True, "kafka_version": version}
    shown = plan_of(plan_reassignment, world, waves=waves, **what).markdown
    told = "1 partition gets fewer replicas than min.insync.replicas, lean-0 first (1, and 2 are wanted)"
    assert (told in shown, "min.insync.replicas" in shown) == (said, said)


def test_given_targets_that_outgrow_a_znode_are_refused(monkeypatch):
    monkeypatch.setattr(prediction, "ZNODE_BYTES_MAX", 120)
    waves = [[Target(*ORDERS_0, ids(3, 2, 1))]]
    with pytest.raises(RefusedError, match=r"wave 1 writes a topic znode of [0-9]+ bytes, at most 120 fit"):
        plan_of(plan_reassignment, cluster(), waves=waves)


def test_a_bad_target_is_refused():
    with pytest.raises(RefusedError, match="it would delete the partition's data"):
        plan_of(plan_reassignment, cluster(), waves=[[Target(*ORDERS_0, ())]])


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
        plan_of(plan_reassignment, cluster(), **arguments)


def test_one_wave_of_given_targets_is_cut_under_limits():
    world = three_brokers()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 4)
    parts = [TopicPartition("a", number) for number in range(4)]
    wave = [Target(*parts[0], ids(1, 2)), *(Target(*each, ids(1, 3)) for each in parts[1:])]
    limits = Limits(broker_bytes_max=200, bandwidth=10, window_s=60)
    store = MemoryStore()
    plan = plan_of(plan_reassignment, world, store, waves=[wave], limits=limits, sizes=dict.fromkeys(parts, 100))
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
    shown = plan_of(plan_reassignment, world, waves=[wave], limits=Limits(broker_bytes_max=200), sizes=sizes).markdown
    assert "2 waves: proven fewest" in shown
    assert "1 partition is larger than the 200 bytes that a broker may copy in a wave: a-0." in shown


def test_a_target_that_gains_several_replicas_takes_steps_under_limits():
    world = three_brokers()
    world.topic("a", ((1,), 1, (1,)))
    store = MemoryStore()
    what = {"waves": [[Target("a", 0, ids(3, 2, 1))]], "may_change_replication_factor": True}
    plan = plan_of(plan_reassignment, world, store, limits=Limits(), **what)
    found = [effect.targets[0].replicas for effect in read_plan(store, plan.uri).effects]
    assert (len(found), found[-1]) == (2, (3, 2, 1))


def test_of_two_caps_on_moves_the_lower_one_holds():
    world = six_on_two_brokers()
    for goals, most in ((Goals(moves_max=2), 100), (Goals(moves_max=100), 2)):
        plan = plan_of(plan_reassignment, world, goals=goals, move_count_max=most)
        assert "2 replicas are copied" in plan.markdown


def test_targets_that_are_reached_need_no_plan():
    waves = [[Target(*ORDERS_0, ids(1, 2, 3))]]
    assert plan_reassignment(MemoryStore(), "demo", zookeeper=cluster().zookeeper(), waves=waves) is None
