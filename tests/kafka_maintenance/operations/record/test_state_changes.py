"""From which state to which a step took its partitions, as its record says: on the simulated cluster, by the controller of both kinds of reassignment."""

from dataclasses import asdict

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.operations.apply.executions import timeline
from kafka_maintenance.operations.apply.plan import apply_plan
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.operations.record.state_changes import changes
from tests.kafka_maintenance.operations.apply.on_simulated import (
    NOW,
    deletion,
    elections,
    moves,
    re_election,
    session,
    simulated,
)

ELECTED = "from (Leader:3,ISR:3,1,2,LeaderEpoch:1,Replicas:2,3,1) to (Leader:2,ISR:3,1,2,LeaderEpoch:2,Replicas:2,3,1)  (/admin/preferred_replica_election)"
CHANGED = {
    elections: [
        f"step 1  Partition old-1 state changed {ELECTED}",
        f"step 1  Partition orders-1 state changed {ELECTED}",
    ],
    moves: [
        (
            "step 1  Partition orders-0 state changed from (Leader:1,ISR:1,3,2,LeaderEpoch:1,Replicas:1,2,3) to "
            "(Leader:4,ISR:3,2,4,LeaderEpoch:4,Replicas:4,2,3)  (/admin/reassign_partitions)"
        ),
        (
            "step 2  Partition orders-0 state changed from (Leader:4,ISR:3,2,4,LeaderEpoch:4,Replicas:4,2,3) to "
            "(Leader:4,ISR:3,2,4,LeaderEpoch:5,Replicas:2,3,4)  (/admin/reassign_partitions)"
        ),
        (
            "step 2  Partition orders-1 state changed from (Leader:3,ISR:3,1,2,LeaderEpoch:1,Replicas:2,3,1) to "
            "(Leader:3,ISR:3,1,2,LeaderEpoch:2,Replicas:3,1,2)  (/admin/reassign_partitions)"
        ),
    ],
    deletion: [
        f"step 1  Partition old-{number} state changed from (Replicas:{replicas}) to NonExistentPartition  (/admin/delete_topics/old)"
        for number, replicas in enumerate(("1,2,3", "2,3,1", "3,1,2"))
    ],
    re_election: [],
}


@pytest.mark.parametrize("version", ["3.9", "1.0"])
@pytest.mark.parametrize("make", CHANGED)
def test_the_record_says_which_partition_went_from_which_state_to_which(make, version):
    store, cluster = MemoryStore(), simulated(version)
    plan = make(store, cluster)
    apply_plan(
        store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ann", zookeeper=session(cluster), now=NOW,
        settle_timeout_s=0.0,
    )  # fmt: skip
    events = read_events(store, "demo", plan.digest)
    assert [str(each) for each in changes(map(asdict, events))] == CHANGED[make]
    assert not any("leader_epoch" in line for line in timeline(events)), "they have a table of their own"


def test_a_step_that_is_not_over_and_a_record_of_before_name_no_change():
    row = {"topic": "a", "partition": 0, "replicas": [1, 2], "leader": 1, "isr": [1], "leader_epoch": 3}
    intended = {"step": 0, "detail": {"before": [row], "paths": ["/x"]}}
    assert changes([intended]) == ()
    assert changes([{"step": None, "detail": None}, {"step": 0, "detail": {"conditions": 3}}]) == ()
    assert changes([intended, {"step": 0, "detail": {"after": [row]}}]) == (), "it stayed as it was"
    (led,) = changes(
        [{"step": 0, "detail": {"before": [row]}}, {"step": 0, "detail": {"after": [{**row, "leader": 2}]}}]
    )
    assert led.asked == "as active controller"
    assert led.after == "(Leader:2,ISR:1,LeaderEpoch:3,Replicas:1,2)"
