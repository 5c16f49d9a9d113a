"""The gate in front of every write: a person sees the plan, answers, and exactly that plan may be applied.

Only names cross XCom. The gate reads the plan from the store, by the kind of its own DAG, the cluster of its own run and the
digest that the planning task names; it shows what the plan asks for, and keeps digest, hash of the text and answer in the store.
The applying task asks `approved` for them, renders the text again, and refuses anything else, whoever started it: a skipped
task is not a lock, and what Airflow holds can be edited.
"""

import json
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
from kafka_maintenance.operations.apply.shown import Shown, shown
from kafka_maintenance.tasks.common import cluster_of_run, run_name
from kafka_maintenance.tasks.settings import SETTINGS

if TYPE_CHECKING:
    from controller_core.adapters.object_store.open import ObjectStore

_RETRY_DELAY = timedelta(seconds=5)


class NotApprovedError(ControllerCoreError):
    """The plan may not be applied: no answer, another answer, another plan, or nobody who answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's yes to one plan, as it was shown."""

    shown: Shown
    approver: str
    comment: str | None


class PlanApprovalOperator(ApprovalOperator):
    """Shows a stored plan and waits for a person; no answer in time counts as Reject.

    Args:
        kind: of the plans that this DAG applies.
        plan: what the planning task returned, of which only `digest` is used.
    Returns (XCom):
        `chosen_options`, `params_input`, `responded_at`, `responded_by_user`, for people.
    """

    template_fields = ("plan",)

    def __init__(self, *, kind: str, plan: Any, **kwargs: Any) -> None:
        kwargs.setdefault("response_timeout", SETTINGS.approval_timeout)
        # Airflow 3.3 loses an answer given before its scheduler heard that the gate parked; the next try asks again.
        kwargs.setdefault("retry_delay", _RETRY_DELAY)
        comment = Param(None, type=["string", "null"], title="Comment", description="Kept in the receipt")
        kwargs["params"] = {"comment": comment}  # Airflow hands in the DAG's, which are no questions to the approver
        super().__init__(subject="Apply the plan?", defaults=self.REJECT, **kwargs)
        self.kind = kind
        self.plan = plan

    def execute(self, context: Context) -> Any:
        """Shows the plan and parks; its digest, and the hash of what is shown, are kept before anybody can answer.

        Raises:
            BadInputError, InvalidPlanError, RefusedError: as of `shown`; nobody was asked.
            ObjectStoreError: the question could not be kept; nobody was asked.
            AirflowFailException: the gate was cleared, and Airflow goes on showing the plan of an earlier try.
        """
        store, asked = hooks.store(), self._asked(context)
        text = shown(store, kind=self.kind, cluster=asked["cluster"], digest=str(self.plan["digest"]))
        self.subject, self.body = text.subject, text.body
        approvals.keep_question(store, kind=self.kind, digest=text.plan.digest, shown=text.digest, **asked)
        visible = self._ask(context)
        if (visible.subject, visible.body) != (self.subject, self.body):
            run = context["dag_run"]
            raise AirflowFailException(
                f"plan {text.plan.uri} not shown: Required Actions still has {visible.subject!r} of an earlier try, as Airflow "
                "keeps it when a gate is cleared; an answer to that counts for nothing: start a new run of "
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
        """The answer, kept before anything follows from it, with what was shown when the question was asked."""
        approvals.keep_answer(hooks.store(), answer=event, **self._asked(context))
        return super().execute_complete(context, event)

    def _asked(self, context: Context) -> dict[str, Any]:
        """Names the question in the store: a clear gives the task instance a fresh UUIDv7, a retry the next number."""
        values = cast("dict[str, Any]", context)
        return {
            "cluster": cluster_of_run(values),
            "run": run_name(values),
            "ask_id": f"{context['ti'].id}-{context['ti'].try_number:04d}",
        }


def approved(kind: str, cluster: str, *, store: "ObjectStore", run: str) -> Approval:
    """What the gate of the run was answered, as it was kept in the store, or the reason why that is no approval.

    Args:
        kind: of the plans that the DAG applies.
        cluster: of the run.
        store: where question, answer and plan are.
        run: the run that applies the plan, by `run_name`.

    Raises:
        NotApprovedError: with what was found; nothing has been written.
        BadInputError, InvalidPlanError: the approved plan is gone, or it is no longer that plan.
    """
    what = f"{kind} on {cluster!r} not applied"
    answer = approvals.last_answer(store, cluster=cluster, run=run)
    if answer is None:
        raise NotApprovedError(
            f"{what}: the gate of run {run!r} has no answer in {store.uri}; clear the gate and answer it"
        )
    if list(answer.get("chosen_options") or []) != [ApprovalOperator.APPROVE]:
        raise NotApprovedError(
            f"{what}: expected the answer Approve, found {answer.get('chosen_options')!r}; ask again"
        )
    user = answer.get("responded_by_user") or {}
    approver = str(user.get("name") or user.get("id") or "")
    if not approver:
        raise NotApprovedError(f"{what}: nobody answered within the time of the gate; clear the gate and answer it")
    if answer.get("kind") != kind:
        raise NotApprovedError(
            f"{what}: the gate of run {run!r} showed a plan of kind {answer.get('kind')!r}; start a run of that DAG"
        )
    text = shown(store, kind=kind, cluster=cluster, digest=str(answer.get("digest")))
    if text.digest != answer.get("shown"):
        raise NotApprovedError(
            f"{what}: the text of plan {text.plan.uri} was {str(answer.get('shown'))[:12]!r} when it was approved, this version "
            f"of the software renders {text.digest[:12]!r}; ask again"
        )
    comment = (answer.get("params_input") or {}).get("comment")
    return Approval(shown=text, approver=approver, comment=str(comment) if comment else None)
