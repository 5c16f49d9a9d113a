"""The gate in front of every write: a person sees the plan, answers, and exactly that plan may be applied.

The gate keeps the digest of the plan that it showed, and the answer, in the store. The applying task asks `approved` for
them, and refuses anything else, whoever started it: a skipped task is not a lock, and what Airflow holds can be edited.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CreateHITLDetailPayload

from controller_core.model.errors import ControllerCoreError
from kafka_maintenance import hooks
from kafka_maintenance.operations.apply import approvals
from kafka_maintenance.tasks.common import run_name
from kafka_maintenance.tasks.settings import SETTINGS

if TYPE_CHECKING:
    from controller_core.adapters.object_store.open import ObjectStore

BODY_LENGTH_MAX = 60_000
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
        `chosen_options`, `params_input`, `responded_at`, `responded_by_user`, for people, and where the answer
        is `kept`: the address of what the applying task goes by.
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
        """Shows the plan and parks; its digest is kept before anybody can answer.

        Raises:
            ObjectStoreError: the digest could not be kept; nobody was asked.
            AirflowFailException: the gate was cleared, and Airflow goes on showing the plan of an earlier try.
        """
        plan = self.plan
        self.subject = f"{plan['kind']} on {plan['cluster']}: {plan['summary']}"
        self.body = body(plan)
        approvals.keep_question(hooks.store(), digest=plan["digest"], **self._asked(context))
        shown = self._ask(context)
        if (shown.subject, shown.body) != (self.subject, self.body):
            run = context["dag_run"]
            raise AirflowFailException(
                f"plan {plan['uri']} not shown: Required Actions still has {shown.subject!r} of an earlier try, as Airflow keeps "
                "it when a gate is cleared; an answer to that counts for nothing: start a new run of "
                f"{run.dag_id} with {json.dumps(run.conf or {}, ensure_ascii=False)}"
            )
        for notifier in self.notifiers:
            notifier(context)
        raise TaskAwaitingInput(method_name="execute_complete", timeout=self.response_timeout)

    def _ask(self, context: Context) -> Any:
        """Opens the question; what Airflow shows from now on, as `subject` and `body`.

        Not `super().execute`, which drops Airflow's reply: of a cleared gate, Airflow 3.3 keeps subject and body.
        """
        question = CreateHITLDetailPayload(
            ti_id=context["ti"].id,
            options=self.options,
            subject=self.subject,
            body=self.body,
            defaults=self.defaults,
            multiple=self.multiple,
            params=self.serialized_params,
            assigned_users=self.assigned_users or [],  # type: ignore[arg-type]  # pydantic takes the dicts
        )
        return task_runner.SUPERVISOR_COMMS.send(msg=question)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """The answer, kept before anything follows from it, with the digest that was shown when the question was asked."""
        kept = approvals.keep_answer(hooks.store(), answer=event, **self._asked(context))
        return {**super().execute_complete(context, event), "kept": kept}

    def _asked(self, context: Context) -> dict[str, Any]:
        """Names the question in the store: a clear gives the task instance a fresh UUIDv7, a retry the next number."""
        return {
            "cluster": self.plan["cluster"],
            "run": run_name(cast("dict[str, Any]", context)),
            "ask_id": f"{context['ti'].id}-{context['ti'].try_number:04d}",
        }


def body(plan: Mapping[str, Any]) -> str:
    """What the approver reads: the plan, cut where it would not be read anyway, then its place and digest."""
    text = str(plan["markdown"])
    if len(text) > BODY_LENGTH_MAX:
        text = f"{text[:BODY_LENGTH_MAX]}\n\n… cut after {BODY_LENGTH_MAX} of {len(text)} characters; the tab Plan shows all."
    return f"{text}\n\nStored as `{plan['uri']}` with digest `{plan['digest']}`; only exactly this plan can be applied."


def approved(
    plan: Mapping[str, Any], returned: Mapping[str, Any] | None, *, store: "ObjectStore", run: str
) -> Approval:
    """The approval of `plan` as the gate of the run kept it in the store, or the reason why there is none.

    Args:
        plan: what the planning task returned.
        returned: what the gate returned, of which only the address `kept` is used; None when it was skipped or never ran.
        store: where the answer is.
        run: the run that applies the plan, by `run_name`.

    Raises:
        NotApprovedError: with what was found; nothing has been written.
    """
    what = f"plan {plan['uri']} not applied"
    kept = str((returned or {}).get("kept"))
    answer = approvals.kept_answer(store, cluster=plan["cluster"], run=run, uri=kept)
    if not answer:
        raise NotApprovedError(
            f"{what}: the gate has no answer; expected it as this run's last in {store.uri}, found {kept!r} named; clear the "
            "gate and answer it"
        )
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
