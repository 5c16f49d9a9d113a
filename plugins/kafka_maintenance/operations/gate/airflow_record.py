"""Airflow's own record of a run beside ours: the answers to its gate, and who cleared or changed the run since.

A task may read neither by itself: both come from Airflow's REST API, with the rights of a reader.
Source: Airflow 3.2 and 3.3 `/api/v2`: `hitlDetails` of the gate, `eventLogs` (Airflow's audit log).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kafka_maintenance.operations.gate.approvals import APPROVE, Asked

GATE_TASK: Final = "approve"
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
    """What Airflow says of a run: the last answer to its gate, who answered it at all with Approve, and who changed the run since."""

    user: str | None
    options: tuple[str, ...]
    comment: str | None
    responded_at: str | None
    approved_by: frozenset[str]
    changes: tuple[Action, ...]


def record_from(
    detail: Mapping[str, Any] | None, events: Iterable[Mapping[str, Any]], *, dag: str, run: str, since: datetime
) -> AirflowRecord:
    """The record of a run in what the API returned.

    Args:
        detail: `hitlDetails` of the gate; None where Airflow has none.
        events: of the audit log, those of the run and those that name no run.
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
            for event in changes
        ),
    )


def disagreement(found: Asked, said: AirflowRecord) -> str | None:
    """Where Airflow's record of the answers is another than ours; None where they agree, or where a rule approved and nobody was asked."""
    last = found.answers[-1]
    if last.get("rule") is not None:
        return None
    ours = (last["user"], tuple(last["options"]), last["comment"], _moment(last.get("responded_at")))
    theirs = (said.user, said.options, said.comment, _moment(said.responded_at))
    names = ("user", "options", "comment", "time")
    differing = [name for name, one, other in zip(names, ours, theirs, strict=True) if one != other]
    if differing:
        return f"Airflow's own record of the answer has another {', '.join(differing)}: expected {ours}, found {theirs}"
    unknown = sorted({each.user for each in found.approvals} - said.approved_by)
    return f"Airflow's audit log has no answer Approve of {', '.join(unknown)} in this run" if unknown else None


def changed_by_others(found: Asked, said: AirflowRecord) -> str | None:
    """Who cleared or changed the run after its approval and is none of its approvers; None where nobody did."""
    approvers = {each.user for each in found.approvals}
    others = [each for each in said.changes if each.user not in approvers]
    if not others:
        return None
    first = others[0]
    what = "the run" if first.task is None else f"task {first.task}"
    names = ", ".join(sorted(approvers))
    return f"{names} approved it, and {first.user!r} cleared or changed {what} afterwards ({first.event} at {first.at})"


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
