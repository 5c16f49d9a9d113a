"""Reassignments that the planner makes."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import read_plan
from spark_jobs.planner.goals import Aim, Goals
from spark_jobs.planner.waves import Limits
from tests.kafka_maintenance.kafka_world import three_brokers
from tests.kafka_maintenance.operations.plans.made import plan_of, six_on_two_brokers


def test_the_planner_balances_with_proof():
    world = six_on_two_brokers()
    store = MemoryStore()
    plan = plan_of(plan_reassignment, world, store)
    assert "4 replicas are copied: proven minimal" in plan.markdown
    assert any(key.endswith(".certificate.json") for key in store.list(""))


def test_the_plan_has_been_run_through_the_controllers_rules_before_it_is_shown():
    world = six_on_two_brokers()
    shown = plan_of(plan_reassignment, world).markdown
    assert "Run through the controller's rules, wave by wave:" in shown
    assert "every partition keeps its in-sync majority" in shown
    assert "Fewest moves by tolerance (replicas off the mean): 0: 4, 1: 3, 2: 2, 5: 0." in shown


def test_partitions_that_lack_their_majority_already_may_move():
    world = three_brokers()
    world.topic("a", *[((1, 2), 1, (1,))] * 6)
    assert "4 replicas are copied: proven minimal" in plan_of(plan_reassignment, world).markdown


@pytest.mark.parametrize(
    ("goals", "said"),
    [
        pytest.param(
            {"include_topics": ("nosuch",)}, "none of 1 found for nosuch; change the patterns", id="a pattern"
        ),
        pytest.param({"include_topics": ("a", "nosuch*")}, r"none of 1 found for nosuch\*", id="one of two patterns"),
        pytest.param({"drain": frozenset({9})}, "and not this one; name a broker of the cluster", id="a broker"),
        pytest.param({"replace": {1: 9}}, "and not this one; name a broker of the cluster", id="a replacement broker"),
    ],
)
def test_goals_that_name_what_the_cluster_lacks_are_bad_input(goals, said):
    with pytest.raises(BadInputError, match=said):
        plan_of(plan_reassignment, six_on_two_brokers(), goals=Goals(**goals))


def test_a_cluster_without_topics_has_nothing_to_reassign():
    world = three_brokers()
    found = plan_reassignment(MemoryStore(), "demo", zookeeper=world.zookeeper(), goals=Goals())
    assert found is None


@pytest.mark.parametrize(
    ("replicas", "leader", "isr"),
    [
        pytest.param((9, 1), 9, (9, 1), id="its leader is down, and nobody is elected yet"),
        pytest.param((8, 9), 1, (1,), id="its leader is none of its replicas"),
        pytest.param((1, 9), 1, (9,), id="its leader is up, its ISR is not"),
    ],
)
def test_a_partition_that_cannot_be_copied_is_left_out_and_the_others_are_planned(replicas, leader, isr):
    world = six_on_two_brokers()
    world.topic("odd", (replicas, leader, isr))
    shown = plan_of(plan_reassignment, world).markdown
    assert "odd-0" in shown
    assert "has no leader to copy from" in shown
    assert "4 replicas are copied: proven minimal" in shown
    with pytest.raises(RefusedError, match=r"none of 1 found: odd-0 has no leader to copy from"):
        plan_of(plan_reassignment, world, goals=Goals(include_topics=("odd",)))


@pytest.mark.parametrize(
    "goals", [Goals(aim=Aim.REPAIR, drain=frozenset({3})), Goals(replace={3: 4})], ids=["drain", "replace"]
)
def test_a_broker_that_only_left_out_partitions_keep_from_being_empty_is_not_called_empty(goals):
    world = three_brokers()
    world.broker(4)
    world.topic("a", ((1, 2), 1, (1, 2)), ((2, 1), 2, (2, 1)), ((3, 9), -1, (9,)))
    with pytest.raises(
        RefusedError, match=r"on the brokers to be emptied .*, found a-2 has no leader to copy from; plan"
    ):
        plan_reassignment(MemoryStore(), "demo", zookeeper=world.zookeeper(), goals=goals)


def test_a_znode_that_is_named_as_no_topic_can_be_is_left_out():
    world, store = six_on_two_brokers(), MemoryStore()
    world.topic("ü", ((1, 2), 1, (1, 2)))
    plan = plan_of(plan_reassignment, world, store)
    assert {target.partition.topic for effect in read_plan(store, plan.uri).effects for target in effect.targets} == {
        "a"
    }
    assert "its topic has a name that Kafka does not allow" in plan.markdown


def test_a_pattern_that_spares_no_topic_is_told_to_the_approver():
    goals = Goals(exclude_topics=("paymets", "a*b"))
    shown = plan_of(plan_reassignment, six_on_two_brokers(), goals=goals).markdown
    assert "exclude_topics 'paymets', 'a*b': none of 1 topic matches, so it has no effect; is it mistyped?" in shown
    assert "exclude_topics" not in plan_of(plan_reassignment, six_on_two_brokers()).markdown


def test_a_plan_whose_request_zookeeper_would_refuse_is_refused_and_not_stored():
    world, store = three_brokers(), MemoryStore()
    world.topic("a" * 249, *[((1, 2), 1, (1, 2))] * 3_600)
    unlimited = Limits(in_max=None, out_max=None, partitions_max=None, request_bytes_max=10_000_000)
    with pytest.raises(RefusedError, match=r"controller's rules: no problem expected, 1 found: \[wave 1 asks with"):
        plan_of(plan_reassignment, world, store, goals=Goals(replication_factor=3), limits=unlimited)
    assert store.list("") == []
