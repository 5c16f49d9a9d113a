"""What was seen of a small cluster, of which the tests of this room make plans."""

from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.plans.kinds import (
    Origin,
    Refused,
    deletions_plan,
    drain_plan,
    elections_plan,
    leader_moves_plan,
    reassignment_plan,
)
from controller_core.plans.observation import (
    ActiveController,
    Notification,
    Observation,
    RequestIdentity,
    TopicIdentity,
)
from controller_core.plans.plan import Plan, PlanKind, SnapshotReference
from controller_core.plans.request_znodes import LeaderMove, Target
from tests.broker_ids import ids

A0, A1, A2, B0, D0, Q0 = (
    TopicPartition(*each) for each in (("a", 0), ("a", 1), ("a", 2), ("b", 0), ("d", 0), ("q", 0))
)
ORIGIN = Origin("demo", SnapshotReference("s3://b/v1/manifest.json", "f" * 64))


def seen(**changed: object) -> Observation:
    """Brokers 1 to 4; a-0 is led by 2, a-1 has a follower behind, a-2 is being reassigned, b-0 is dead, q is queued.

    The leader of d-0 has just died, and no election was held yet.
    """
    fields: dict[str, object] = {
        "kafka_cluster_id": "one",
        "active_controller": ActiveController(BrokerId(1), czxid=5, version=0),
        "controller_epoch": 3,
        "controller_epoch_version": 3,
        "brokers": {BrokerId(n): Broker(BrokerId(n)) for n in (1, 2, 3, 4)},
        "topics": {
            "a": TopicIdentity(9, 3),
            "b": TopicIdentity(10, 1),
            "d": TopicIdentity(12, 1),
            "q": TopicIdentity(11, 1),
        },
        "assignments": {
            A0: ReplicaAssignment(ids(1, 2)),
            A1: ReplicaAssignment(ids(2, 3)),
            A2: ReplicaAssignment(ids(3, 1), ids(3), ()),
            B0: ReplicaAssignment(ids(9, 8)),
            D0: ReplicaAssignment(ids(9, 1)),
            Q0: ReplicaAssignment(ids(1, 2)),
        },
        "states": {
            A0: LeaderAndIsr(BrokerId(2), 4, ids(2, 1)),
            A1: LeaderAndIsr(BrokerId(3), 0, ids(3)),
            A2: LeaderAndIsr(BrokerId(1), 0, ids(1)),
            B0: LeaderAndIsr(BrokerId(-1), 7, ids(9)),
            D0: LeaderAndIsr(BrokerId(9), 7, ids(9, 1)),
            Q0: LeaderAndIsr(BrokerId(1), 0, ids(1, 2)),
        },
        "queued_topics": frozenset({"q"}),
    }
    return Observation(**{**fields, **changed})  # type: ignore[arg-type]  # fields by name


def planned(made: Plan | Refused) -> Plan:
    assert isinstance(made, Plan), made
    return made


EXAMPLES = {
    PlanKind.ELECT_PREFERRED_LEADERS: lambda: elections_plan(seen(), ORIGIN, [A0]),
    PlanKind.REASSIGN_PARTITIONS: lambda: reassignment_plan(seen(), ORIGIN, [[Target(*A0, ids(1, 3))]]),
    PlanKind.DELETE_TOPICS: lambda: deletions_plan(seen(), ORIGIN, ["b"]),
    PlanKind.DRAIN_ISR_NOTIFICATIONS: lambda: drain_plan(
        seen(notifications=(Notification("isr_change_0000000001", (A0,), 0),)), ORIGIN, now_ms=3_600_000
    ),
    PlanKind.MOVE_LEADERS: lambda: leader_moves_plan(seen(), ORIGIN, [LeaderMove(*A0, BrokerId(1))]),
}
OLD, NEW = Notification("isr_change_0000000001", (A0, A1), 0), Notification("isr_change_0000000002", (A1,), 59_999)
GONE = TopicPartition("gone", 0)
REASSIGN = "/admin/reassign_partitions"
ELECTION = "/admin/preferred_replica_election"
IDLE = {
    "request_identities": {path: RequestIdentity(czxid, 0) for path, czxid in ((REASSIGN, 21), (ELECTION, 22))},
    "topic_json_versions": frozenset({1, 2}),
}
