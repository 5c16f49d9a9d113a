"""Whether a plan may be applied: what the gate of a run was answered, judged by the policy, right before the first write."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from controller_core.ports.object_store import ObjectStore
from kafka_maintenance import __version__
from kafka_maintenance.operations.errors import AirflowUnreachableError, RefusedError
from kafka_maintenance.operations.gate.airflow_record import AirflowRecord, cleared_by_others, disagreement
from kafka_maintenance.operations.gate.approvals import Asked, questions, refuse_removed_since, was_begun
from kafka_maintenance.operations.gate.contents import contents_of_stored
from kafka_maintenance.operations.gate.policy import Policy, Verdict
from kafka_maintenance.operations.gate.shown import Shown, shown
from kafka_maintenance.operations.record.audit import KEY_FILE_VARIABLE, PUBLIC_KEYS_VARIABLE, keys_from

_AGAIN: Final = "clear the gate and have it answered again, or set others_may_clear in the policy"
_CLEARED: Final = f"the run was cleared after its gate had asked, and nobody says by whom; {_AGAIN}"
_NOT_READ: Final = "Airflow's own record was not read"


class NotApprovedError(RefusedError):
    """The plan may not be applied: no answer, another answer, too few, too late, another text, or nobody who answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The yes to one plan, as it was shown; `record` is what the receipt keeps of it."""

    shown: Shown
    approver: str
    comment: str | None
    record: dict[str, Any]


def permission(
    store: ObjectStore,
    *,
    kind: str,
    cluster: str,
    run: str,
    policy: Policy,
    now: datetime,
    beginning: Mapping[str, Any] | None = None,
    airflow: Callable[[Asked], AirflowRecord] | None = None,
) -> Approval:
    """The approval of a run.

    Args:
        store: where question, answers and plan are.
        kind: of the plans that the run applies.
        cluster: of the run.
        run: `DAG.RUN_ID`.
        policy: of the cluster.
        now: the time, with zone.
        beginning: of the run, as its gate recorded it with the question: how often it was cleared, and when it began; None where nobody can clear it.
        airflow: reads Airflow's own record of the run; None where nothing says how to reach it.

    Raises:
        AirflowUnreachableError: Airflow did not answer.
        NotApprovedError: with what was found; nothing has been written.
        UntrustedRecordError: a record that the audit chain does not hold, or whose signature does not count, or that is missing.
        BadInputError, InvalidPlanError: the approved plan is gone, or it is no longer that plan.
    """
    what = f"{kind} on {cluster!r} not applied"
    refuse_unsigned(policy, what)
    found = deciding(store, kind=kind, cluster=cluster, run=run, policy=policy)
    if found is None or not found.answers:
        raise NotApprovedError(
            f"{what}: the gate of run {run!r} has no answer in {store.uri}; clear the gate and answer it"
        )
    refuse_removed_since(store, cluster=cluster, run=run, ask_id=found.ask_id)
    begun = was_begun(store, cluster, str(found.question["digest"]))
    said = _airflow_says(airflow, found, begun=begun)
    problem = _problem(found, kind, policy, now, begun=begun)
    cleared = _cleared(found, said, beginning)
    if not problem and not begun:
        problem = _disagrees(found, said, policy) or (_by_others(found, said, policy, beginning) if cleared else None)
    if problem:
        raise NotApprovedError(f"{what}: {problem}")
    text = shown(store, kind=kind, cluster=cluster, digest=str(found.question["digest"]))
    if text.digest != found.question["shown"]:
        raise NotApprovedError(
            f"{what}: expected the text of plan {text.plan.uri} that kafka-maintenance {found.question.get('code_version', 'before 0.2')} "
            f"showed ({str(found.question['shown'])[:12]}), version {__version__} renders {text.digest[:12]}; start a new run, which asks again"
        )
    refusals = () if begun else policy.refusals(kind, contents_of_stored(store, text.plan))
    if refusals:
        raise NotApprovedError(
            f"{what}: plan {text.plan.uri} is beyond what the policy lets apply by now: {'; '.join(refusals)}; start a new run that plans less, or have the policy changed"
        )
    comments = [each.comment for each in found.approvals if each.comment]
    return Approval(
        shown=text,
        approver=", ".join(dict.fromkeys(each.user for each in found.approvals)),
        comment="; ".join(comments) or None,
        record={
            "requester": found.question["requester"],
            "shown": text.digest,
            "policy": policy.digest,
            "answers": [dict(each) for each in found.answers],
            "cleared": cleared,
            "airflow": said
            if isinstance(said, str)
            else {"changes": [asdict(each) for each in said.changes if cleared]},
        },
    )


def window_closed(
    store: ObjectStore, *, kind: str, cluster: str, run: str | None, policy: Policy, now: datetime
) -> str | None:
    """Why no step may be asked for at `now`; None in an open window, which is that of the rule where one approved, and where somebody
    broke glass.

    Args:
        store: where question and answers are.
        kind: of the plan.
        cluster: of the plan.
        run: `DAG.RUN_ID` whose gate approved; None: none did.
        policy: of the cluster.
        now: the time, with zone.
    """
    found = None if run is None else deciding(store, kind=kind, cluster=cluster, run=run, policy=policy)
    if found is not None and policy.verdict(kind, found.question["requester"], found.approvals).broke_glass:
        return None
    return policy.closed(kind, now, None if found is None else found.rule)


def deciding(store: ObjectStore, *, kind: str, cluster: str, run: str, policy: Policy) -> Asked | None:
    """The question of the run that counts: the last one. Where that waits for its answer, the one that was decided before it counts, if its
    plan was begun: what was begun is finished, also while the gate was cleared and asks once more.

    Args:
        store: where question and answers are.
        kind: of the plans that the run applies.
        cluster: of the run.
        run: `DAG.RUN_ID`.
        policy: of the cluster.

    Raises:
        UntrustedRecordError: a record that the audit chain does not hold, or whose signature does not count.
    """
    found = questions(store, cluster=cluster, run=run)
    last = next(found, None)
    if last is None or is_decided(last, kind, policy):
        return last
    earlier = next((each for each in found if is_decided(each, kind, policy)), None)
    return earlier if earlier is not None and was_begun(store, cluster, str(earlier.question["digest"])) else last


def is_decided(found: Asked, kind: str, policy: Policy) -> bool:
    """Whether the question waits for no further answer: a rule or enough persons approved, or somebody rejected; no answer in time is none."""
    if not found.answers or not found.answers[-1]["user"]:
        return False
    if found.rule is not None or not found.approvals:
        return True
    return not policy.verdict(kind, found.question["requester"], found.approvals).missing


def refuse_unsigned(policy: Policy, what: str) -> None:
    """Nothing where the policy wants no signed record, or where keys to sign and to verify are configured.

    Raises:
        NotApprovedError: whoever merely writes the store could make a record that counts.
    """
    keys = keys_from(os.environ)
    if policy.signed_record and (keys.private is None or keys.public is None):
        raise NotApprovedError(
            f"{what}: the policy wants a signed record (signed_record), and the environment does not name both {KEY_FILE_VARIABLE} and "
            f"{PUBLIC_KEYS_VARIABLE}; set them (`kafka-maintenance audit keygen`)"
        )


def _airflow_says(
    airflow: Callable[[Asked], AirflowRecord] | None, found: Asked, *, begun: bool
) -> AirflowRecord | str:
    """Airflow's own record, or why it was not read: what was begun is finished, also while Airflow does not answer."""
    if airflow is None:
        return f"{_NOT_READ}: no connection names its API"
    try:
        return airflow(found)
    except AirflowUnreachableError as error:
        if not begun:
            raise
        return f"{_NOT_READ}: {error}"


def _disagrees(found: Asked, said: AirflowRecord | str, policy: Policy) -> str | None:
    if isinstance(said, str):
        wanted = "the policy wants Airflow's own record to agree (airflow_must_agree)"
        return f"{wanted}, and {said}; see docs/security.md" if policy.airflow_must_agree else None
    problem = disagreement(found, said)
    return f"{problem}; find out who wrote it, and ask again" if problem else None


def _cleared(found: Asked, said: AirflowRecord | str, beginning: Mapping[str, Any] | None) -> bool:
    """Whether the run was cleared since its gate asked: it began anew, or its applying task was cleared while it ran."""
    anew = any(found.question.get(name, value) != value for name, value in (beginning or {}).items())
    return anew or (not isinstance(said, str) and said.ended is not None)


def _by_others(
    found: Asked, said: AirflowRecord | str, policy: Policy, beginning: Mapping[str, Any] | None
) -> str | None:
    """Approved by one, cleared and run by another. Whoever approved may clear the run, where Airflow says that it was he."""
    if policy.others_may_clear:
        return None
    if isinstance(said, str):
        return _CLEARED
    counted = 0 if beginning is None else beginning["clears"] - found.question.get("clears", 0)
    problem = cleared_by_others(found, said, counted)
    return f"{problem}; {_AGAIN}" if problem else None


def _problem(found: Asked, kind: str, policy: Policy, now: datetime, *, begun: bool) -> str | None:
    """What is wrong with the approval; what was begun is finished, whatever the time."""
    question, answers = found.question, found.answers
    if found.withdrawn is not None and not begun:
        return f"{found.withdrawn['by']!r} withdrew the approval at {found.withdrawn['at']}; ask again"
    if not answers[-1]["user"]:
        return "nobody answered within the time of the gate; clear the gate and answer it"
    if not found.approvals:
        return f"expected the answer Approve, found {[list(each['options']) for each in answers]}; ask again"
    if question["kind"] != kind:
        return f"the gate showed a plan of kind {question['kind']!r}; start a run of that DAG"
    answered_at = found.answered_at
    if not begun and (answered_at is None or now - answered_at > policy.approval_valid):
        return f"approved at {answered_at}, which is more than {policy.approval_valid} ago; ask again"
    rule = found.rule
    if rule is not None and dict(rule) not in map(dict, policy.rules.get("approve_by_rule", ())):
        return f"the policy has no rule {rule.get('name')!r} any more; ask a person"
    verdict = Verdict(()) if rule is not None else policy.verdict(kind, question["requester"], found.approvals)
    if verdict.missing:
        return f"{'; '.join(verdict.missing)}; ask again"
    closed = None if verdict.broke_glass or begun else policy.closed(kind, now, rule)
    return f"{closed}; clear the gate and have it answered again when it is over" if closed else None
