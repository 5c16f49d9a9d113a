"""The gate in front of every write: a person sees the plan, answers, and exactly that plan may be applied.

Only names cross XCom. The gate reads the plan from the store, by the kind of its own DAG, the cluster of its own run and the
digest that the planning task names, in XCom and in the store's record of the run; it shows what the plan asks for, and keeps digest, hash of the text and answer in the store.
The applying task asks `approved` for them, renders the text again, and refuses anything else, whoever started it: a skipped
task is not a lock, and what Airflow holds can be edited.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowFailException

from controller_core.plans.plain import plain
from kafka_maintenance import hooks
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.gate.contents import contents_of_stored
from kafka_maintenance.operations.gate.permission import (
    Approval,
    is_decided,
    permission,
    refuse_unsigned,
    window_closed,
)
from kafka_maintenance.operations.gate.policy import policy_of
from kafka_maintenance.operations.gate.shown import shown
from kafka_maintenance.operations.record.receipts import is_begun, trusted_events
from kafka_maintenance.tasks.airflow_record import reader_of
from kafka_maintenance.tasks.airflow_versions import ask, parking
from kafka_maintenance.tasks.common import cluster_of_run, run_name, try_name
from kafka_maintenance.tasks.links import PLAN, push_links
from kafka_maintenance.tasks.notifiers import NOTIFIERS, ring
from kafka_maintenance.tasks.settings import SETTINGS

if TYPE_CHECKING:
    from controller_core.adapters.object_store.open import ObjectStore
    from kafka_maintenance.operations.gate.approvals import Asked

log = logging.getLogger(__name__)
_RETRY_DELAY = timedelta(seconds=5)


def after_rejection() -> Param:
    """The param of every gated DAG with which a new request names the rejections of the same plan."""
    said = "DAG.RUN_ID of each run in which this very plan was rejected, with commas"
    return Param(None, type=["string", "null"], description=said)


class PlanApprovalOperator(ApprovalOperator):
    """Shows a stored plan and waits for a person; no answer in time counts as Reject.

    Args:
        kind: of the plans that this DAG applies.
        plan: what the planning task returned, of which only `digest` is used.
    Returns (XCom):
        `chosen_options`, `params_input`, `responded_at`, `responded_by_user`, and `approved_by`, all who approved; for people.
    """

    template_fields = ("plan",)
    operator_extra_links = PLAN

    def __init__(self, *, kind: str, plan: Any, **kwargs: Any) -> None:
        kwargs.setdefault("response_timeout", SETTINGS.approval_timeout)
        # Airflow 3.3 loses an answer given before its scheduler heard that the gate parked; the next try asks again.
        kwargs.setdefault("retry_delay", _RETRY_DELAY)
        kwargs.setdefault("notifiers", NOTIFIERS)
        comment = Param(None, type=["string", "null"], title="Comment", description="Kept in the receipt")
        kwargs["params"] = {"comment": comment}  # Airflow hands in the DAG's, which are no questions to the approver
        super().__init__(subject="Apply the plan?", defaults=self.REJECT, **kwargs)
        self.kind = kind
        self.plan = plan

    def execute(self, context: Context) -> Any:
        """Shows the plan and parks; its digest, and the hash of what is shown, are kept before anybody can answer.

        Raises:
            BadInputError, InvalidPlanError, RefusedError: see `_planned`, `shown`, `refuse_rejected` and the policy; nobody was asked.
            ObjectStoreError, AuditSinkError: the question could not be kept, or the store lets a record be overwritten; nobody was asked.
            AirflowFailException: the gate was cleared, and Airflow goes on showing the plan of an earlier try.
        """
        values = cast("dict[str, Any]", context)
        store, asked, policy = hooks.store(), self._asked(context), hooks.policy_for(cluster_of_run(values))
        refuse_unsigned(policy, f"{self.kind} on {asked['cluster']!r} not asked about")
        store.probe()
        text = shown(store, kind=self.kind, cluster=asked["cluster"], digest=self._planned(store, asked))
        earlier = self._answered_before(context, store, text.plan.digest)
        if earlier is not None:
            return self._decided(context, _event_of(earlier.answers[-1]), earlier)
        self.subject, self.body = text.subject, text.body
        contents = contents_of_stored(store, text.plan)
        refusals = policy.refusals(self.kind, contents)
        if refusals:
            raise RefusedError(f"plan {text.plan.uri} not shown: {'; '.join(refusals)}; make it smaller")
        after = values["params"].get("after_rejection")
        approvals.refuse_rejected(store, asked["cluster"], text.plan.digest, after)
        question = {"kind": self.kind, "digest": text.plan.digest, "shown": text.digest, "policy": policy.digest}
        requester = policy.requester(requester_of(values), clears_of(values))
        who = {"requester": requester, "after": after, **_beginning(values)}
        approvals.keep_question(store, **asked, question={**question, **who})
        now = datetime.now(UTC)
        rule = policy.rule_for(self.kind, contents, now)
        if rule is not None:
            answer = {"user": f"rule {rule['name']}", "options": [self.APPROVE], "comment": None, "rule": dict(rule)}
            approvals.keep_answer(store, **asked, answer={**answer, "at": now.isoformat(timespec="seconds")})
            return {
                "chosen_options": [self.APPROVE],
                "params_input": {},
                "responded_by_user": None,
                "rule": rule["name"],
            }
        visible = ask(self, context)
        if (visible.subject, visible.body) != (self.subject, self.body):
            run = context["dag_run"]
            raise AirflowFailException(
                f"plan {text.plan.uri} not shown: Required Actions still has {visible.subject!r} of an earlier try, as Airflow "
                "keeps it when a gate is cleared; an answer to that counts for nothing: start a new run of "
                f"{run.dag_id} with {json.dumps(run.conf or {}, ensure_ascii=False)}"
            )
        log.info(
            "%s: plan %s shown, waits for %s",
            text.subject,
            text.plan.digest,
            policy.who_approves(self.kind, requester),
        )
        ring(context, notifiers=self.notifiers)
        push_links(context, PLAN)
        raise parking(self, context)

    def _planned(self, store: "ObjectStore", asked: Mapping[str, Any]) -> str:
        """The digest of the plan that the planning task returned, where the record of the run says so, too: who may edit XComs and set the
        state of a task could else have a plan shown that nobody asked for in this run.

        Raises:
            RefusedError: the record names no plan, or another one.
        """
        told = str((self.plan or {}).get("digest"))
        found = approvals.planned(store, cluster=asked["cluster"], run=asked["run"])
        if found is None or (found["kind"], found["digest"]) != (self.kind, told):
            recorded = "no plan" if found is None else f"{found['kind']} {found['digest'][:12]}"
            task = ", ".join(sorted(self.upstream_task_ids))
            raise RefusedError(
                f"{self.kind} on {asked['cluster']!r} not asked about: expected plan {told[:12]}, which {task} returned, in the record of run "
                f"{asked['run']!r}, found {recorded}; {task} ran before an upgrade to 0.2: start a new run; or its output or state was edited: clear {task}, which plans again"
            )
        return told

    def _answered_before(self, context: Context, store: "ObjectStore", digest: str) -> "Asked | None":
        """What was asked and answered at an earlier try of this gate, where it decides: the scheduler of Airflow 3.3 may take a gate for lost
        that was answered, and try it again. A gate that was cleared has another id, and asks again.
        """
        asked = self._asked(context)
        found = approvals.asked(store, cluster=asked["cluster"], run=asked["run"])
        if found is None or not found.ask_id.startswith(f"{context['ti'].id}-") or found.question["digest"] != digest:
            return None
        return found if is_decided(found, self.kind, hooks.policy_for(asked["cluster"])) else None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """The answer, kept before anything follows from it, with what was shown; asks on while the policy wants more of them."""
        store, asked = hooks.store(), self._asked(context)
        user = event.get("responded_by_user") or {}
        answer = {
            "user": user.get("name") or user.get("id") or None,
            "options": list(event.get("chosen_options") or []),
            "comment": (event.get("params_input") or {}).get("comment"),
            "responded_at": None if (moment := event.get("responded_at")) is None else moment.isoformat(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        approvals.keep_answer(store, **asked, answer=answer)
        said, who = ", ".join(event.get("chosen_options") or []), answer["user"] or "nobody in time"
        log.info("answered %s by %s: %s", said, who, plain(str(answer["comment"] or "no comment")))
        found = approvals.asked(store, cluster=asked["cluster"], run=asked["run"])
        if found is not None and found.approvals:
            verdict = hooks.policy_for(asked["cluster"]).verdict(
                self.kind, found.question["requester"], found.approvals
            )
            if verdict.missing:
                log.info("asked on: %s", "; ".join(verdict.missing))
                text = shown(store, kind=self.kind, cluster=asked["cluster"], digest=str(found.question["digest"]))
                self.subject, self.body = text.subject, text.body
                ask(self, context)
                raise parking(self, context)
            if verdict.broke_glass:
                alarm = plain(f"BREAK GLASS: {answer['user']} approved alone: {answer['comment']}")
                log.error("%s", alarm)
                ring(context, alarm, self.notifiers)
        return self._decided(context, event, found)

    def _decided(self, context: Context, event: dict[str, Any], found: "Asked | None") -> dict[str, Any]:
        """What follows from the last answer, with the names of all who approved.

        A gate that was cleared alone, after its run began the plan, skips nothing: who is skipped while it is deferred tells nobody. Without an
        answer in time the answer before counts.

        Raises:
            AirflowFailException: a person rejected what is begun.
        """
        if found is not None and not found.approvals and self._is_under_way(context, found):
            if user := found.answers[-1]["user"]:
                self._end_what_is_begun(context, found, user)
            return {**event, "approved_by": []}
        names = () if found is None else dict.fromkeys(each.user for each in found.approvals)
        return {**super().execute_complete(context, event), "approved_by": list(names)}

    def _is_under_way(self, context: Context, found: "Asked") -> bool:
        """Whether this run has begun the plan, which has not ended, and its task looks whether it shall stop."""
        from kafka_maintenance.operations.apply.executions import refuse_to_stop

        asked, digest = self._asked(context), str(found.question["digest"])
        events = trusted_events(hooks.store(), asked["cluster"], digest)
        if not is_begun([each for each in events if each.run == asked["run"]]):
            return False
        try:
            refuse_to_stop(asked["cluster"], digest, events)
        except RefusedError:
            return False
        return True

    def _end_what_is_begun(self, context: Context, found: "Asked", user: str) -> None:
        """Asks the run of the plan to end, and fails with what goes on all the same and what to do about it."""
        from kafka_maintenance.operations.apply.executions import request_stop

        asked, digest = self._asked(context), str(found.question["digest"])
        why = f"rejected at the gate of {asked['run']}, which was cleared and asked again"
        request_stop(hooks.store(), asked["cluster"], digest, by=user, reason=why, now=datetime.now(UTC))
        raise AirflowFailException(
            f"plan {digest[:12]} on {asked['cluster']!r} rejected by {user!r} after this run had begun it: its run is asked to end and asks for nothing "
            f"more; what Kafka was asked for goes on, and a throttle stays until that is over. To finish it, start a run of {context['dag_run'].dag_id} "
            f"with plan={digest} and after_rejection={asked['run']}; to go back, start cancel_execution, or reassign_partitions with rollback_of={digest}"
        )

    def _asked(self, context: Context) -> dict[str, Any]:
        """Names the question in the store."""
        values = cast("dict[str, Any]", context)
        return {"cluster": cluster_of_run(values), "run": run_name(values), "ask_id": try_name(values)}


def _event_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer that was kept, as Airflow hands one in."""
    return {
        "chosen_options": list(answer["options"]),
        "params_input": {"comment": answer["comment"]},
        "responded_at": datetime.fromisoformat(answer["at"]),
        "responded_by_user": {"id": answer["user"], "name": answer["user"]},
    }


def approved(kind: str, context: dict[str, Any], *, store: "ObjectStore") -> Approval:
    """The approval of the running run, judged by the policy of its cluster; errors: see `permission`."""
    cluster = cluster_of_run(context)
    return permission(
        store,
        kind=kind,
        cluster=cluster,
        run=run_name(context),
        policy=hooks.policy_for(cluster),
        now=datetime.now(UTC),
        beginning=_beginning(context),
        airflow=reader_of(context),
    )


def closed_window(kind: str, context: dict[str, Any], *, store: "ObjectStore") -> str | None:
    """Why the running run may ask for no step now; see `window_closed`."""
    cluster = cluster_of_run(context)
    return window_closed(
        store, kind=kind, cluster=cluster, run=run_name(context), policy=policy_of(cluster), now=datetime.now(UTC)
    )


def clears_of(context: dict[str, Any]) -> int:
    """How often the run was cleared, while it was running, too; a retry is none, and Airflow does not count a request with `reset_dag_runs: false`."""
    return int(context["dag_run"].clear_number or 0)


def _beginning(context: dict[str, Any]) -> dict[str, Any]:
    """How often the run was cleared, and when it began: one that had ended begins anew, whichever request makes it go on; a retry is neither."""
    run = context["dag_run"]
    return {"clears": clears_of(context), "began": run.start_date and run.start_date.isoformat()}


def approved_plan(kind: str, context: dict[str, Any], *, store: "ObjectStore") -> Any:
    """The plan that the gate of the running run showed last; for the tasks that look at what was done.

    Raises:
        BadInputError, InvalidPlanError: the gate showed none, or it is gone.
    """
    cluster, run = cluster_of_run(context), run_name(context)
    found = approvals.asked(store, cluster=cluster, run=run)
    if found is None:
        raise BadInputError(
            f"{kind} on {cluster!r} not verified: the gate of run {run!r} showed no plan; start a new run"
        )
    return shown(store, kind=kind, cluster=cluster, digest=str(found.question["digest"])).plan


def requester_of(context: dict[str, Any]) -> str | None:
    """Who started the run, as Airflow says; None where another DAG or a schedule did, and nobody vouches for a person."""
    run = context["dag_run"]
    return getattr(run, "triggering_user_name", None) if run.run_type == "manual" else None
