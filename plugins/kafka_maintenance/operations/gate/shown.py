"""What a gate shows of a stored plan: rendered from what the plan asks for, by the gate and again by whoever applies it."""

import hashlib
from typing import Final, NamedTuple

from controller_core.ports.object_store import ObjectStore
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.plans.store import StoredPlan, find_plan
from kafka_maintenance.operations.restore.document import KIND as RESTORE
from kafka_maintenance.operations.restore.document import StoredRestore, find_restore
from kafka_maintenance.operations.retention.plan import KIND as RETENTION
from kafka_maintenance.operations.retention.store import StoredRetention, find_retention

BODY_LENGTH_MAX: Final = 400_000
"""Characters that a person may be asked to read; what destroys is listed in full, so a longer plan is to be split."""


class Shown(NamedTuple):
    """The text of a gate, and the plan that it was made from."""

    plan: StoredPlan | StoredRestore | StoredRetention
    subject: str
    body: str

    @property
    def digest(self) -> str:
        """64 hex digits: SHA-256 of subject and body."""
        return hashlib.sha256(f"{self.subject}\n\n{self.body}".encode()).hexdigest()


def shown(store: ObjectStore, *, kind: str, cluster: str, digest: str) -> Shown:
    """The text for the plan of that kind, cluster and digest, as the store holds it.

    Args:
        store: of snapshots, plans and records.
        kind: of the plan, or `restore` or `retention`.
        cluster: its name.
        digest: of the plan, SHA-256 in hex.

    Raises:
        BadInputError: the store has no such plan.
        InvalidPlanError: what lies there is none of that kind, cluster or digest, or was altered.
        RefusedError: its text is longer than anybody reads.
    """
    plan: StoredPlan | StoredRestore | StoredRetention
    if kind == RETENTION:
        plan = find_retention(store, cluster=cluster, digest=digest)
    elif kind == RESTORE:
        plan = find_restore(store, cluster=cluster, digest=digest)
    else:
        plan = find_plan(store, cluster=cluster, kind=kind, digest=digest)
    body = f"{plan.markdown}\n\nStored as `{plan.uri}` with digest `{digest}`; only exactly this plan can be applied."
    if len(body) > BODY_LENGTH_MAX:
        raise RefusedError(
            f"plan {plan.uri} not shown: expected at most {BODY_LENGTH_MAX} characters to read, found {len(body)}; split the plan"
        )
    return Shown(plan, f"{kind} on {cluster}: {plan.summary}", body)
