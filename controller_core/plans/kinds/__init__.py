"""The maintenance operations: from what was seen of a cluster to a plan that a person can approve.

Nothing here writes. A plan asks a living controller for work through its request znodes; what the controller does with
them is predicted in words and verified afterwards. What may not be asked for is refused with the reason.
Source: docs/operations.md, "The plan".
"""

from typing import assert_never

from controller_core.plans.kinds.common import KindRecord, Origin, Refused
from controller_core.plans.kinds.deletions import DELETIONS, deletions_plan
from controller_core.plans.kinds.drain import (
    DRAIN,
    LINGER_AGE_MS,
    drain_plan,
    lingering_notifications,
    lingering_requests,
    makes_no_notifications,
)
from controller_core.plans.kinds.elections import ELECTIONS, election_step, elections_plan
from controller_core.plans.kinds.leaders import (
    LEADERS,
    brokers_of_racks,
    choose_leader_moves,
    leader_moves_plan,
    may_lead,
)
from controller_core.plans.kinds.moves import MOVES, cancel_plan, reassignment_plan, reassignment_step, target_refusals
from controller_core.plans.plan import PlanKind

__all__ = [
    "LINGER_AGE_MS",
    "KindRecord",
    "Origin",
    "Refused",
    "brokers_of_racks",
    "cancel_plan",
    "choose_leader_moves",
    "deletions_plan",
    "drain_plan",
    "election_step",
    "elections_plan",
    "kind_record",
    "leader_moves_plan",
    "lingering_notifications",
    "lingering_requests",
    "makes_no_notifications",
    "may_lead",
    "reassignment_plan",
    "reassignment_step",
    "target_refusals",
]


def kind_record(kind: PlanKind) -> KindRecord:
    """What is said and done about all plans of `kind`."""
    match kind:
        case PlanKind.ELECT_PREFERRED_LEADERS:
            return ELECTIONS
        case PlanKind.REASSIGN_PARTITIONS:
            return MOVES
        case PlanKind.DELETE_TOPICS:
            return DELETIONS
        case PlanKind.DRAIN_ISR_NOTIFICATIONS:
            return DRAIN
        case PlanKind.MOVE_LEADERS:
            return LEADERS
        case _:
            assert_never(kind)
