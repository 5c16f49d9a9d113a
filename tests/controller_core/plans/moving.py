"""A step of two moves, and what was seen of them."""

from controller_core.model.partitions import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.plans.conditions import AssignedTo, CaughtUp, TopicCreatedAt
from controller_core.plans.observation import Observation, TopicIdentity
from controller_core.plans.plan import PlanStep
from controller_core.plans.request_znodes import CreateReassignPartitions, Target
from tests.broker_ids import ids

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


MOVE = PlanStep(
    effects=(CreateReassignPartitions(targets=(Target(*A0, ids(2, 3, 4)),)),),
    expectations=(TopicCreatedAt(topic="a", czxid=7), AssignedTo(*A0, replicas=ids(1, 2, 3))),
    outcomes=(
        AssignedTo(*A0, replicas=ids(2, 3, 4)),
        CaughtUp(*A0, replicas=ids(2, 3, 4)),
    ),
)
BOTH = ReplicaAssignment(ids(2, 3, 4, 1))


def seen(assignment: ReplicaAssignment | None, *, leader: int = 2, isr: tuple[int, ...] = (2, 3, 4), **more: object):
    return Observation(
        topics={"a": TopicIdentity(7, 1)},
        assignments={} if assignment is None else {A0: assignment},
        states={A0: LeaderAndIsr(BrokerId(leader), 0, ids(*isr))},
        **more,  # type: ignore[arg-type]  # fields by name
    )
