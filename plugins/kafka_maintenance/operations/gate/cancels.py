"""Who may cancel a reassignment that is under way: one person, by the rules of the policy for `cancel_reassignment`."""

from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.gate.policy import Answered, Policy

CANCEL = "cancel_reassignment"


def refuse_cancel(policy: Policy, cluster: str, by: str | None, reason: str) -> None:
    """Nothing where the policy lets that person cancel; whoever approved the plan needs nobody else.

    Args:
        policy: of the cluster.
        cluster: its name.
        by: who asks.
        reason: in that person's words.

    Raises:
        RefusedError: nobody vouches for a person, or the policy wants another one, or a ticket in the reason.
    """
    if by is None:
        raise RefusedError(
            f"nothing cancelled on {cluster!r}: a schedule or another DAG started the run, or it was cleared since, and nobody vouches for a person; "
            "start a new run by hand"
        )
    missing = policy.verdict(CANCEL, None, (Answered(by, reason),)).missing
    if missing:
        raise RefusedError(f"nothing cancelled on {cluster!r}: {'; '.join(missing)}")
