"""Elections that a plan asks for, and partitions that it leaves out with the reason."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.plans import validation
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.plans.elections import plan_elections
from tests.kafka_maintenance.kafka_world import three_brokers
from tests.kafka_maintenance.operations.plans.made import cluster, plan_of


def test_elections_of_the_most_imbalanced_brokers_come_first():
    plan = plan_of(plan_elections, cluster(), election_count_max=1)
    assert "pay-0" in plan.markdown.split("## What to weigh")[0]  # broker 3 leads nothing of what it should: 100 %
    assert "over the limit" in plan.markdown


def test_elections_may_be_limited_to_topics():
    plan = plan_of(plan_elections, cluster(), topics=["ord*"])
    assert (plan.count, "pay" in plan.markdown) == (1, False)


def test_a_pattern_that_no_topic_matches_is_bad_input():
    with pytest.raises(BadInputError, match=r"none of 3 found for typo\*; change the patterns"):
        plan_of(plan_elections, cluster(), topics=["ord*", "typo*"])


def test_a_partition_that_cannot_be_elected_is_left_out_with_the_reason():
    assert "* `orders-1: preferred replica is not in the ISR" in plan_of(plan_elections, cluster()).markdown


@pytest.mark.parametrize("version", ["0.10.2", "2.4", "3.9"])
def test_no_version_is_asked_for_an_election_in_vain(version):
    plan = plan_of(plan_elections, cluster(), kafka_version=version)
    assert plan.count == 2


def test_a_partition_on_its_way_is_not_elected():
    world = cluster()
    world.reassigning("orders", 0, adding=(3,))
    plan = plan_of(plan_elections, world, kafka_version="3.9")
    assert "* `orders-0: is being reassigned" in plan.markdown


def test_a_balanced_cluster_needs_no_plan():
    world = three_brokers()
    world.topic("a", ((1, 2), 1, (1, 2)))
    assert plan_elections(MemoryStore(), "demo", zookeeper=world.zookeeper()) is None


def test_a_partition_whose_leader_died_is_not_elected():
    world = cluster()
    world.set_state("orders", 0, leader=9, isr=(1, 2, 3))
    plan = plan_of(plan_elections, world, kafka_version="3.9")
    assert "* `orders-0: has no live leader" in plan.markdown


def test_a_plan_of_more_steps_than_apply_takes_is_refused_and_not_stored(monkeypatch):
    monkeypatch.setattr(validation, "STEPS_MAX", 1)
    store = MemoryStore()
    with pytest.raises(RefusedError, match=r"found: 2 steps, expected at most 1; plan for fewer topics, or with fewer"):
        plan_of(plan_elections, cluster(), store, elections_per_minute=1)
    assert store.list("") == []


def test_a_znode_that_is_named_as_no_topic_can_be_is_left_out():
    world = cluster()
    world.topic("ü", ((3, 1), 1, (1, 3)))
    assert "its topic has a name that Kafka does not allow" in plan_of(plan_elections, world).markdown
