"""The maintenance operations: from what was seen of a cluster to a plan that a person can approve.

Nothing here writes. A plan asks a living controller for work through its request znodes; what the controller does with
them is predicted in words and verified afterwards. What may not be asked for is refused with the reason.
Source: controller behaviour §11, §13, §16.1 to §16.3; layout §7 to §10.
"""

from controller_core.plans.kinds.common import Origin, Refused
from controller_core.plans.kinds.deletions import plan_deletions
from controller_core.plans.kinds.drain import (
    LINGER_AGE_MS,
    lingering_notifications,
    makes_no_notifications,
    plan_drain,
)
from controller_core.plans.kinds.elections import plan_elections
from controller_core.plans.kinds.moves import plan_reassignment, target_refusals

__all__ = [
    "LINGER_AGE_MS",
    "Origin",
    "Refused",
    "lingering_notifications",
    "makes_no_notifications",
    "plan_deletions",
    "plan_drain",
    "plan_elections",
    "plan_reassignment",
    "target_refusals",
]
