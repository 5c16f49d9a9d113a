"""Deletions that a plan asks for, and topics that it leaves out with every reason."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.plans.deletions import plan_deletions
from tests.kafka_maintenance.operations.plans.made import ORDERS_0, cluster, plan_of


def test_an_ineligible_topic_is_left_out_with_every_reason():
    plan = plan_of(plan_deletions, cluster(), topics=["pay", "old"], kafka_version="3.9")
    assert "* `old: old-0 has replicas on brokers [9]" in plan.markdown
    assert plan.count == 1


def test_only_ineligible_topics_make_no_plan():
    with pytest.raises(RefusedError, match="no topic is eligible: old: old-0 has replicas"):
        plan_of(plan_deletions, cluster(), topics=["old"], kafka_version="3.9")


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
        plan_of(plan_deletions, world, topics=["pay"], kafka_version="3.9")


@pytest.mark.parametrize("path", [znode.topic_path("orders"), znode.state_path(ORDERS_0)])
def test_a_topic_that_cannot_be_read_is_not_deleted(path):
    world = cluster()
    world.own.set(path, b"{", ANY_VERSION)
    plan = plan_of(plan_deletions, world, topics=["pay", "orders"], kafka_version="3.9")
    assert f"* `orders: {path}: " in plan.markdown
    assert "is not enough to judge it" in plan.markdown
    assert plan.count == 1


def test_an_unknown_topic_is_refused():
    with pytest.raises(RefusedError, match="topic nope: expected a topic of this cluster"):
        plan_of(plan_deletions, cluster(), topics=["nope"], kafka_version="3.9")


def test_nothing_is_deleted_that_nobody_named():
    assert plan_deletions(MemoryStore(), "demo", zookeeper=cluster().zookeeper()) is None
