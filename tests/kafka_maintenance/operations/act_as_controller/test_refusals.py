"""The rules before we become the active controller: each has the row that it refuses."""

from dataclasses import replace
from typing import Any

import pytest

from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.plans.observation import ActiveController, Observation, TopicIdentity
from kafka_maintenance.operations.act_as_controller.refusals import Prepared, refusals

NEW = {1: (0, 17), 4: (0, 7), 5: (0, 4), 6: (0, 8)}
OLD = {1: (0, 7), 4: (0, 1), 5: (0, 0), 6: (0, 4)}
P = TopicPartition("t", 0)


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


def observed(**change: Any) -> Observation:
    fine = Observation(
        active_controller=ActiveController(BrokerId(1), 7, 0),
        controller_epoch=3,
        controller_epoch_version=3,
        brokers={each: Broker(each, 100 + each) for each in brokers(1, 2, 3)},
        broker_json_versions=dict.fromkeys(brokers(1, 2, 3), 5),
        topics={"t": TopicIdentity(1, 1)},
        assignments={P: ReplicaAssignment(brokers(1, 2, 3))},
        states={P: LeaderAndIsr(BrokerId(1), 0, brokers(1, 2, 3))},
    )
    return replace(fine, **change)


def prepared(found: Observation | None = None, **change: Any) -> Prepared:
    found = found or observed()
    fine = Prepared(
        observed=found,
        controller_age_ms=61_000,
        versions=dict.fromkeys(found.brokers, NEW),
        rights=dict.fromkeys(found.brokers, "STALE_CONTROLLER_EPOCH"),
        move_count=100,
    )
    return replace(fine, **change)


def test_a_healthy_cluster_is_not_refused() -> None:
    assert refusals(prepared(), confirmed_unfenced=False) == ()


SMALL_ISR = {P: LeaderAndIsr(BrokerId(1), 0, brokers(1, 2))}


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        pytest.param(prepared(observed(migration="{}")), "/migration exists", id="a migration to KRaft has begun"),
        pytest.param(
            prepared(observed(active_controller=ActiveController(BrokerId(1), 7, 0, kraft_epoch=0))),
            "kraftControllerEpoch 0",
            id="KRaft has claimed the cluster",
        ),
        pytest.param(prepared(observed(active_controller=None)), "no znode", id="nobody is controller"),
        pytest.param(prepared(controller_age_ms=59_000), "59 s old", id="the controller is younger than a minute"),
        pytest.param(
            prepared(observed(brokers={each: Broker(each, 1) for each in brokers(1, 2)})),
            "no broker 3",
            id="a broker of the assignments is away",
        ),
        pytest.param(
            prepared(observed(states={P: LeaderAndIsr(BrokerId(-1), 0, brokers(1))})), "none for t-0", id="no leader"
        ),
        pytest.param(prepared(observed(states={})), "none for t-0", id="no state"),
        pytest.param(
            prepared(observed(states=SMALL_ISR)), "some outside of t-0", id="a follower is out, and ISRs would be frozen"
        ),
        pytest.param(
            prepared(observed(pending={"/admin/reassign_partitions": "t-0"})), "reassign_partitions", id="a reassignment"
        ),
        pytest.param(
            prepared(observed(pending={"/admin/preferred_replica_election": "t-0"})), "preferred", id="an election"
        ),
        pytest.param(prepared(observed(queued_topics=frozenset({"t"}))), "delete_topics", id="a deletion"),
        pytest.param(
            prepared(observed(assignments={P: ReplicaAssignment(brokers(1, 2, 3), adding=brokers(3))})),
            "none that is being reassigned",
            id="a reassignment by the Admin API",
        ),
        pytest.param(
            prepared(observed(unreadable={"/brokers/topics/x": "no JSON"})), "no JSON", id="a znode that cannot be read"
        ),
        pytest.param(
            prepared(rights={**dict.fromkeys(brokers(1, 2), "STALE_CONTROLLER_EPOCH"), BrokerId(3): "CLUSTER_AUTHORIZATION_FAILED"}),
            "broker 3: expected STALE_CONTROLLER_EPOCH.*found CLUSTER_AUTHORIZATION_FAILED",
            id="no ClusterAction",
        ),
        pytest.param(prepared(rights={}), "broker 1: .*found no answer", id="a broker that does not answer"),
        pytest.param(prepared(move_count=101), "at most 100 leaders", id="more than a hundred leaders"),
        pytest.param(
            prepared(versions={each: {**NEW, 6: (0, 3)} for each in brokers(1, 2, 3)}),
            "Kafka 1.0 to 3.9",
            id="brokers older than 1.0",
        ),
        pytest.param(
            prepared(observed(brokers={each: Broker(each, 1) for each in brokers(1, 2, 3, 2_000_000_001)})),
            "no broker 2000000001",
            id="a broker has our id",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(found: Prepared, complaint: str) -> None:
    import re

    reasons = refusals(found, confirmed_unfenced=True)
    assert any(re.search(complaint, str(reason)) for reason in reasons), reasons


def test_a_follower_may_be_out_where_leaders_write_isrs_themselves() -> None:
    old = observed(states=SMALL_ISR, broker_json_versions=dict.fromkeys(brokers(1, 2, 3), 4))
    assert refusals(prepared(old), confirmed_unfenced=False) == ()


def test_brokers_whose_former_controller_is_not_fenced_need_a_second_confirmation() -> None:
    found = prepared(versions=dict.fromkeys(brokers(1, 2, 3), OLD))
    (reason,) = refusals(found, confirmed_unfenced=False)
    assert "Kafka 2.1 or newer" in str(reason)
    assert refusals(found, confirmed_unfenced=True) == ()
