"""Airflow's own record of a run beside ours: the answers to its gate, and who cleared the run since.

A task may not read it by itself: it comes from Airflow's REST API, with the rights of a reader.
Source: Airflow 3.2 and 3.3 `/api/v2`: `hitlDetails` of the gate, `tries` of the applying task, `eventLogs` (Airflow's audit log).

Whether a run was cleared say its tries and its beginning, never the audit log: that has a request before Airflow looks whether the user
may make it, under the run that its query names, and a clear with `"dry_run": "false"` not at all. It says who, and no more.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controller_core.plans.plan import PlanKind
from kafka_maintenance.operations.gate.approvals import APPROVE, Asked

GATE_TASK: Final = "approve"
GATED: Final[Mapping[str, str]] = {
    **{kind.value: kind.value for kind in PlanKind},
    "restore": "restore_metadata",
    "retain_snapshots": "retain_snapshots",
}
"""Kind of a plan → the common DAG whose gate asks about it, and which carries it out."""
ANSWERED: Final = "update_hitl_detail"
CHANGING: Final = (
    "clear_dag_run",
    "clear_dag_runs",
    "clear_dag_run_partitions",
    "post_clear_task_instances",
    "patch_task_instance",
    "patch_task_group_instances",
    "patch_dag_run",
    "bulk_dag_runs",
)
"""What the audit log calls the requests that clear a run or its tasks, or set their state."""
_CLEARING: Final = tuple(event for event in CHANGING if "clear" in event)
_ANY_DAG: Final = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a user asked of Airflow: `event` in the words of its audit log, `at` in ISO 8601, `task` None for a whole run."""

    user: str
    event: str
    task: str | None
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowRecord:
    """What Airflow says of a run: the last answer to its gate, and who answered it at all with Approve.

    `changes` are the requests since then to clear or to change it, in the order of time, also those that were refused; `ended` is the end of the
    last try of the applying task after which that was cleared, None where it was not.
    """

    user: str | None
    options: tuple[str, ...]
    comment: str | None
    responded_at: str | None
    approved_by: frozenset[str]
    changes: tuple[Action, ...]
    ended: datetime | None


def record_from(
    detail: Mapping[str, Any] | None,
    events: Iterable[Mapping[str, Any]],
    tries: Iterable[Mapping[str, Any]],
    *,
    dag: str,
    run: str,
    since: datetime,
) -> AirflowRecord:
    """The record of a run in what the API returned.

    Args:
        detail: `hitlDetails` of the gate; None where Airflow has none.
        events: of the audit log, those of the run and those that name no run.
        tries: of the applying task, with the running one.
        dag: id of the DAG.
        run: id of the run.
        since: time of the last answer; what was done before it is no change to what was approved.
    """
    answer = detail or {}
    user = answer.get("responded_by_user") or {}
    own = [event for event in events if _concerns(event, dag, run)]
    changes = [event for event in own if event["event"] in CHANGING and datetime.fromisoformat(event["when"]) > since]
    return AirflowRecord(
        user=user.get("name") or user.get("id") or None,
        options=tuple(answer.get("chosen_options") or ()),
        comment=(answer.get("params_input") or {}).get("comment"),
        responded_at=answer.get("responded_at"),
        approved_by=frozenset(str(event["owner"]) for event in own if _approves(event)),
        changes=tuple(
            Action(user=str(event["owner"]), event=event["event"], task=event["task_id"], at=event["when"])
            for event in sorted(changes, key=lambda each: datetime.fromisoformat(each["when"]))
        ),
        ended=_ended(list(tries), since),
    )


def disagreement(found: Asked, said: AirflowRecord) -> str | None:
    """Where Airflow's record of the answers is another than ours; None where they agree, or where a rule approved and nobody was asked."""
    if found.rule is not None:
        return None
    last = found.answers[-1]
    ours = (last["user"], tuple(last["options"]), last["comment"], _moment(last.get("responded_at")))
    theirs = (said.user, said.options, said.comment, _moment(said.responded_at))
    names = ("user", "options", "comment", "time")
    differing = [name for name, one, other in zip(names, ours, theirs, strict=True) if one != other]
    if differing:
        return f"Airflow's own record of the answer has another {', '.join(differing)}: expected {ours}, found {theirs}"
    unknown = sorted({each.user for each in found.approvals} - said.approved_by)
    return f"Airflow's audit log has no answer Approve of {', '.join(unknown)} in this run" if unknown else None


def cleared_by_others(found: Asked, said: AirflowRecord, clears: int) -> str | None:
    """Who may have cleared a run that was cleared after its approval; None where one of its approvers did.

    The last clear decides, as it is what the running try follows from: a request of an approver is to stand after the end of the try before.

    Args:
        found: the approval.
        said: of the run.
        clears: how often Airflow counted the run as cleared since its gate asked; each is to be an approver's.
    """
    approvers = {each.user for each in found.approvals}
    own = [each for each in said.changes if each.user in approvers and each.event in _CLEARING]
    if len(own) >= max(clears, 1) and (said.ended is None or datetime.fromisoformat(own[-1].at) > said.ended):
        return None
    others = [each for each in said.changes if each.user not in approvers]
    names, who = ", ".join(sorted(approvers)), " or ".join(dict.fromkeys(repr(each.user) for each in others))
    requests = ", ".join(f"{each.event} at {each.at}" for each in others)
    return (
        f"{names} approved it, and {who or 'somebody'} cleared or changed the run afterwards ({requests or 'no request of another user'} "
        "in Airflow's audit log, which also has requests that were refused, and lacks some that were not)"
    )


def _ended(tries: Sequence[Mapping[str, Any]], since: datetime) -> datetime | None:
    """End of the last try since then after which the task was cleared: a clear raises `max_tries`, a retry and a deferral leave it."""
    running = max(tries, key=lambda each: int(each["try_number"]))
    before = [_moment(each["end_date"]) for each in tries if each["max_tries"] != running["max_tries"]]
    return max((end for end in before if end is not None and end > since), default=None)


def _concerns(event: Mapping[str, Any], dag: str, run: str) -> bool:
    """Whether an event is about the run. One that names no run chose several: by their ids, or by dates and partitions."""
    if event["run_id"] is not None:
        return (event["run_id"], event["dag_id"]) == (run, dag)
    if event["dag_id"] not in {dag, _ANY_DAG, None}:
        return False
    body = _body(event)
    chosen = body.get("dag_runs") or body.get("actions")
    return body.get("dry_run") is not True and (not chosen or json.dumps(run) in json.dumps(chosen))


def _approves(event: Mapping[str, Any]) -> bool:
    return event["event"] == ANSWERED and _body(event).get("chosen_options") == [APPROVE]


def _body(event: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found = json.loads(event["extra"] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
