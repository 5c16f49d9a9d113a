"""The gate in front of every write: a person sees the plan, answers, and exactly that plan may be applied.

The gate remembers the digest of the plan that it showed. The applying task asks `approved` for the answer and that
digest, and refuses anything else, whoever started it: a skipped task is not a lock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param

from controller_core.errors import ControllerCoreError
from kafka_maintenance.tasks.settings import SETTINGS

BODY_LENGTH_MAX = 60_000
_SHOWN_DIGEST = "shown_digest"
_RETRY_DELAY = timedelta(seconds=5)


class NotApprovedError(ControllerCoreError):
    """The plan may not be applied: no answer, another answer, another plan, or nobody who answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's yes to one plan, named by its digest."""

    digest: str
    approver: str
    comment: str | None


class PlanApprovalOperator(ApprovalOperator):
    """Shows a stored plan and waits for a person; no answer in time counts as Reject.

    Args:
        plan: what the planning task returned: `kind`, `cluster`, `uri`, `digest`, `summary`, `markdown`.
    Returns (XCom):
        `chosen_options`, `params_input`, `responded_at`, `responded_by_user` and the `digest` of the plan shown.
    """

    template_fields = ("plan",)

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        kwargs.setdefault("response_timeout", SETTINGS.approval_timeout)
        # Airflow 3.3 loses an answer given before its scheduler heard that the gate parked; the next try asks again.
        kwargs.setdefault("retry_delay", _RETRY_DELAY)
        comment = Param(None, type=["string", "null"], title="Comment", description="Kept in the receipt")
        kwargs["params"] = {"comment": comment}  # Airflow hands in the DAG's, which are no questions to the approver
        super().__init__(subject="Apply the plan?", defaults=self.REJECT, **kwargs)
        self.plan = plan

    def execute(self, context: Context) -> Any:
        """Shows the plan and parks; its digest is kept before anybody can answer."""
        plan = self.plan
        self.subject = f"{plan['kind']} on {plan['cluster']}: {plan['summary']}"
        self.body = body(plan)
        context["ti"].xcom_push(key=_SHOWN_DIGEST, value=plan["digest"])
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """The answer, with the digest that was shown when the question was asked."""
        answer = super().execute_complete(context, event)
        shown = context["ti"].xcom_pull(task_ids=self.task_id, key=_SHOWN_DIGEST)
        return {**answer, "digest": shown}


def body(plan: Mapping[str, Any]) -> str:
    """What the approver reads: the plan, cut where it would not be read anyway, then its place and digest."""
    text = str(plan["markdown"])
    if len(text) > BODY_LENGTH_MAX:
        text = f"{text[:BODY_LENGTH_MAX]}\n\n… cut after {BODY_LENGTH_MAX} of {len(text)} characters; the tab Plan shows all."
    return f"{text}\n\nStored as `{plan['uri']}` with digest `{plan['digest']}`; only exactly this plan can be applied."


def approved(plan: Mapping[str, Any], answer: Mapping[str, Any] | None) -> Approval:
    """The approval of `plan`, or the reason why there is none.

    Args:
        plan: what the planning task returned.
        answer: what the gate returned; None when it was skipped or never ran.

    Raises:
        NotApprovedError: with what was found; nothing has been written.
    """
    what = f"plan {plan['uri']} not applied"
    if not answer:
        raise NotApprovedError(f"{what}: the gate has no answer; clear the gate and answer it")
    if list(answer.get("chosen_options") or []) != [ApprovalOperator.APPROVE]:
        raise NotApprovedError(
            f"{what}: expected the answer Approve, found {answer.get('chosen_options')!r}; ask again"
        )
    user = answer.get("responded_by_user") or {}
    approver = str(user.get("name") or user.get("id") or "")
    if not approver:
        raise NotApprovedError(f"{what}: nobody answered within the time of the gate; clear the gate and answer it")
    digest = str(answer.get("digest") or "")
    if digest != plan["digest"]:
        raise NotApprovedError(
            f"{what}: approved digest {digest[:12] or None!r}, plan of this run {plan['digest'][:12]!r}; plan again, ask again"
        )
    comment = (answer.get("params_input") or {}).get("comment")
    return Approval(digest=digest, approver=approver, comment=str(comment) if comment else None)
