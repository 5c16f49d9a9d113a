"""How far the application of a plan is: its steps and the replicas that lag, what a person may do, and its record event by event.

All of it is read from the record, which the run extends while it waits; no cluster is contacted. What a person does is a request to
Airflow's own API, which his browser makes: this module only says which.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final
from urllib.parse import quote, urlencode

from controller_core.model.words import counted
from controller_core.plans.plan import PlanKind
from kafka_maintenance.hooks import CLUSTER_DAG_MARK
from kafka_maintenance.operations.apply.copying import in_bytes
from kafka_maintenance.operations.record.entry import UNKNOWN_KIND
from kafka_maintenance.operations.record.receipts import EventKind
from kafka_maintenance.operations.record.state_changes import changes
from kafka_maintenance.web.blocks import (
    Blank,
    Block,
    Cell,
    Column,
    Launch,
    Launches,
    Note,
    Page,
    Section,
    Table,
    age_text,
    moment_text,
    number,
)
from kafka_maintenance.web.views.record import (
    TONES,
    Record,
    RecordedEvent,
    facts_of,
    kind_text,
    spans_of,
    state_cell,
    step_count_of,
    table_of,
    unread_of,
)

REFRESH_S: Final = 30
"""A page of what is under way is read again this often."""
CHANGES_SHOWN_MAX: Final = 5_000
STEPS_SHOWN_MAX: Final = 5_000
_API: Final = "../api/v2"
"""Airflow's public API, seen from a page."""
_APPLYING: Final = "apply_plan"
_RESTS: Final = frozenset({"done", "refused", "over", "unfinished", "stopped"})
"""Last events after which no run is at work."""
_ASKED: Final = frozenset({"requested", "observed", "stuck", "verified", "throttled", "intended"})


class Act(Enum):
    """What somebody asks of a DAG."""

    START = "start a run"
    CLEAR = "clear a task"


Withheld = Callable[[str, Act], str]
"""Id of a DAG, and what is to be asked of it → why the reader cannot; empty: he can."""


def execution_page(record: Record, *, dag_of: Callable[[str], str], withheld: Withheld, now: datetime) -> Page:
    """The execution of a plan.

    Args:
        record: what is recorded of it.
        dag_of: kind of a plan, or name of a common DAG → the DAG for this cluster.
        withheld: why the reader may not do what could be done.
        now: the time, UTC.
    """
    cluster, digest, kind, events, unread = record
    last = events[-1]
    rests = last.get("event") in _RESTS
    current = max((event["step"] for event in events if event.get("step") is not None), default=None)
    plan = urlencode({"cluster": cluster, "kind": kind, "digest": digest})
    sections = [
        Section(title="Steps", anchor="steps", blocks=[_steps(events, step_count_of(events))]),
        Section(title="What a person may do", anchor="actions", blocks=[_actions(record, dag_of, withheld)]),
        Section(title="State changes", anchor="state-changes", blocks=[_changes(events)]),
        Section(title="Record", anchor="record", blocks=[*spans_of(events), table_of(events)]),
    ]
    if current is not None and not rests:
        sections.insert(
            1, Section(title="Replicas that are not in sync", anchor="replicas", blocks=[_replicas(events, current)])
        )
    return Page(
        title=f"{kind_text(kind).capitalize()} on {cluster}",
        subtitle=f"Plan {digest}",
        here="executions",
        trail=(
            ("Executions", "executions"),
            (cluster, f"cluster?{urlencode({'name': cluster})}"),
            *([] if kind == UNKNOWN_KIND else [(f"plan {digest[:12]}", f"stored-plan?{plan}")]),
        ),
        head=[*_why(last), *unread_of(unread), facts_of(events, step_count_of(events), now)],
        sections=sections,
        refresh_s=None if rests else REFRESH_S,
    )


def _why(last: RecordedEvent) -> list[Block]:
    """Why it stands still, where the last event says so."""
    detail, tone = last.get("detail") or {}, TONES.get(str(last.get("event")))
    said = detail.get("reasons") or ([detail["reason"]] if detail.get("reason") else [])
    if not said:
        return []
    more = f"\n… and {len(said) - 10} more in the record" if len(said) > 10 else ""  # noqa: PLR2004 - as below
    return [Note("\n".join(map(str, said[:10])) + more, tone or "info")]


# ---------------------------------------------------------------------------------------------------------- steps


def _steps(events: Sequence[RecordedEvent], step_count: int | None) -> Table:
    told: dict[int, list[RecordedEvent]] = {}
    for event in events:
        if event.get("step") is not None:
            told.setdefault(event["step"], []).append(event)
    newest = max(told, default=-1)
    count = max(step_count or 0, newest + 1)
    columns = (
        Column("Step"),
        Column("State"),
        Column("Done", numeric=True, words="Partitions or topics that are as the plan wants them"),
        Column("In sync", numeric=True, words="New replicas in the ISR"),
        Column("Copied", numeric=True, words="Bytes that the new replicas have"),
        Column("Of", numeric=True, words="Bytes that they will have"),
        Column("Share", numeric=True),
        Column("Rate", numeric=True, words="Bytes per second between the last two observations"),
        Column("To go", numeric=True, words="At that rate"),
        Column("Throttle", numeric=True, words="What each broker may send, and receive, per second"),
        Column("Estimate", numeric=True, words="How long the copies take under the throttle, said before it was asked"),
        Column("Began"),
        Column("Took", numeric=True),
    )
    return Table(
        id="steps-table",
        caption=counted(count, "step"),
        columns=columns,
        rows=[_step(step, told.get(step, []), is_past=step < newest) for step in range(min(count, STEPS_SHOWN_MAX))],
        more=max(0, count - STEPS_SHOWN_MAX),
        empty="No step was begun.",
        note=""
        if any("bytes" in _figures(found) for found in told.values())
        else "Bytes are not known: the cluster's connection names no bootstrap_servers, or nothing is copied.",
    )


def _step(step: int, told: Sequence[RecordedEvent], *, is_past: bool) -> tuple[Cell, ...]:
    figures_ = _figures(told)
    last = str(told[-1].get("event")) if told else ""
    ended = last in {"verified", "unthrottled"} and any(event.get("event") == "verified" for event in told)
    copied, total = figures_.get("bytes_copied"), figures_.get("bytes")
    if ended and total is not None:
        copied = total
    share = None if not total or copied is None else 100 * copied / total
    asked = [event["at"] for event in told if event.get("event") in _ASKED and event.get("at")]
    took = None
    if asked and ended:
        took = (datetime.fromisoformat(told[-1]["at"]) - datetime.fromisoformat(asked[0])).total_seconds()
    state = Cell("not read" if is_past else "not asked for yet", "quiet")
    if told:
        state = Cell("verified", "good") if ended else state_cell(last)
    return (
        Cell(f"step {step + 1}", value=step),
        state,
        _of(figures_, "outcomes_done", "outcomes", ended=ended),
        _of(figures_, "replicas_in_sync", "replicas", ended=ended),
        _bytes(copied),
        _bytes(total),
        number(share, unit=" %"),
        _bytes(None if ended else figures_.get("bytes_per_s"), "/s"),
        _seconds(None if ended else figures_.get("to_go_s")),
        _bytes(figures_.get("throttle"), "/s"),
        _seconds(figures_.get("estimate_s")),
        Cell(moment_text(asked[0] if asked else None)),
        _seconds(took),
    )


def _figures(told: Sequence[RecordedEvent]) -> dict[str, Any]:
    """The newest figures of a step: of its intention, its throttle and its last observation."""
    found: dict[str, Any] = {}
    for event in told:
        detail = event.get("detail") or {}
        match event.get("event"):
            case "intended":
                found |= {name: detail[name] for name in ("bytes", "estimate_s") if name in detail}
            case "throttled":
                found["throttle"] = detail.get("bytes_per_s")
            case "observed":
                found = {name: value for name, value in found.items() if name not in {"bytes_per_s", "to_go_s"}}
                found |= {name: value for name, value in detail.items() if isinstance(value, int)}
            case _:
                continue
    return found


def _of(found: dict[str, Any], done: str, total: str, *, ended: bool) -> Cell:
    if not {done, total} <= found.keys():
        return Cell("-", "quiet")
    reached = found[total] if ended else found[done]
    return Cell(f"{reached:,} of {found[total]:,}", value=reached)


def _bytes(count: float | None, per: str = "") -> Cell:
    return Cell("-", "quiet") if count is None else Cell(f"{in_bytes(count)}{per}", value=count)


def _seconds(seconds: float | None) -> Cell:
    return Cell("-", "quiet") if seconds is None else Cell(age_text(seconds), value=round(seconds))


# ------------------------------------------------------------------------------------------------------- replicas


def _replicas(events: Sequence[RecordedEvent], step: int) -> Table:
    """The replicas of the step that lag, as the last observation names them, with the rate since the observation before."""
    observed = [event["detail"] for event in events if event.get("event") == "observed" and event.get("step") == step]
    now = observed[-1] if observed else {}
    before = observed[-2] if len(observed) > 1 else {}
    passed_s = now.get("seconds", 0) - before.get("seconds", 0)
    earlier = {_replica(row): row.get("bytes_copied") for row in before.get("lagging", ())}
    rows = []
    for row in now.get("lagging", ()):
        copied, total, was = row.get("bytes_copied"), row.get("bytes"), earlier.get(_replica(row))
        rate = (copied - was) / passed_s if copied is not None and was is not None and passed_s > 0 else None
        to_go = (total - copied) / rate if rate is not None and rate > 0 else None
        rows.append(
            (
                Cell(f"{row['topic']}-{row['partition']}"),
                Cell(str(row["broker"]), value=row["broker"]),
                _bytes(copied),
                _bytes(total),
                number(100 * copied / total if total else None, unit=" %"),
                _bytes(rate, "/s"),
                _seconds(to_go),
                _reason(row, rate),
            )
        )
    missing = now.get("replicas", 0) - now.get("replicas_in_sync", 0)
    columns = (
        Column("Partition"),
        *(Column(name, numeric=True) for name in ("Broker", "Copied", "Of", "Share", "Rate", "To go")),
        Column("Why"),
    )
    return Table(
        id="replicas-table",
        caption="As observed last, those first that lack most",
        columns=columns,
        rows=rows,
        more=max(0, missing - len(rows)),
        searchable=True,
        empty="None is named: nothing is copied, or the first observation comes within a minute.",
    )


def _replica(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["broker"]


def _reason(row: dict[str, Any], rate: float | None) -> Cell:
    """Why a replica is not in sync, as far as the observations tell."""
    copied, total = row.get("bytes_copied"), row.get("bytes")
    if not row.get("is_live", True):
        return Cell(f"broker {row['broker']} is not registered: start it, or cancel", "critical")
    if copied is None or total is None:
        return Cell("its bytes are not known", "quiet")
    if copied >= total:
        return Cell("all bytes are there: it joins the ISR when it has caught up", "good")
    if rate == 0:
        return Cell(
            "nothing came since the observation before: look at throttle, log directory and ReplicaFetcherThread",
            "warning",
        )
    return Cell("is being copied")


# -------------------------------------------------------------------------------------------------- state changes


def _changes(events: Sequence[RecordedEvent]) -> Table:
    found = changes(events)
    rows = [
        (
            Cell(f"step {each.step + 1}", value=each.step),
            Cell(str(each.partition)),
            Cell(each.before),
            Cell(each.after),
            Cell(each.asked),
        )
        for each in found[:CHANGES_SHOWN_MAX]
    ]
    return Table(
        id="state-changes-table",
        caption="Partitions, as read right before a step was asked for and when it was over",
        columns=(Column("Step"), Column("Partition"), Column("From"), Column("To"), Column("Asked for by")),
        rows=rows,
        more=len(found) - len(rows),
        searchable=True,
        empty="None yet: the states of a step are recorded when it is over.",
    )


# -------------------------------------------------------------------------------------------------------- actions


def _actions(record: Record, dag_of: Callable[[str], str], withheld: Withheld) -> Launches:
    """What stops, cancels, goes on or goes back, each as a request to Airflow, in the states in which it is possible."""
    cluster, digest, kind, events, _ = record
    last = str(events[-1].get("event"))
    moves = kind == PlanKind.REASSIGN_PARTITIONS
    reason, plan = Blank("reason", "Reason"), {"cluster": cluster, "plan": digest}
    found = list[Launch]()

    if last not in _RESTS:
        says = "asks for no further step; what Kafka was asked for goes on. To go on later, come back to this page."
        dag = dag_of("stop_execution")
        found.append(_started("Stop, or pause", says, dag, plan, reason, withheld=withheld))
    run = _run_of(events)
    if last in {EventKind.STOPPED, EventKind.UNFINISHED} and run is not None:
        found.append(_cleared(*run, withheld))
    if moves and last not in {EventKind.DONE, EventKind.OVER}:
        says = (
            "Kafka puts what it moves back; the plan ends. Without a digest the run only says what it would cancel, and prints the digest "
            "of that: with it, another run cancels exactly that."
        )
        digest_of_it = Blank("approve", "Digest that the log of the first run printed", required=False)
        dag = dag_of("cancel_execution")
        found.append(_started("Cancel the step", says, dag, plan, reason, digest_of_it, withheld=withheld))
    if moves and any(event.get("event") == "requested" for event in events):
        says = "plans the way back to the replica lists of before, and asks a person for it."
        dag, conf = dag_of(PlanKind.REASSIGN_PARTITIONS), {"cluster": cluster, "rollback_of": digest}
        found.append(_started("Roll back", says, dag, conf, withheld=withheld))
    return Launches(
        "Each is asked of Airflow as you: it checks your right, and its audit log has your name. A gate still asks for every approval.",
        tuple(found),
        "Nothing is left to do: it is done, or it ended before anything was asked for.",
    )


def _started(text: str, says: str, dag: str, conf: Mapping[str, str], *blanks: Blank, withheld: Withheld) -> Launch:
    """The start of a run.

    Args:
        text: what its button says.
        says: what it does.
        dag: id of the DAG.
        conf: of the run, without what the reader fills in.
        blanks: what he fills in.
        withheld: why he may not.
    """
    request, body = f"{_API}/dags/{quote(dag, safe='')}/dagRuns", {"logical_date": None, "conf": conf}
    return Launch(text, says, f"/dags/{quote(dag)}", request, body, blanks, withheld(dag, Act.START))


def _cleared(dag: str, run: str, withheld: Withheld) -> Launch:
    return Launch(
        "Go on",
        "clears the task apply_plan of the run: it goes on where the record ends. It may have to be you who approved the plan: see the policy.",
        f"/dags/{quote(dag)}/runs/{quote(run)}/tasks/{_APPLYING}",
        f"{_API}/dags/{quote(dag, safe='')}/clearTaskInstances",
        {
            "dry_run": False,
            "dag_run_id": run,
            "task_ids": [_APPLYING],
            "include_downstream": True,
            "only_failed": False,
            "reset_dag_runs": True,
        },
        withheld=withheld(dag, Act.CLEAR),
    )


def _run_of(events: Sequence[RecordedEvent]) -> tuple[str, str] | None:
    """DAG and id of the run that wrote the record last; None where that was no run of Airflow."""
    dag, _, run = str(events[-1].get("run") or "").partition(".")
    return (dag, run) if run and dag.partition(CLUSTER_DAG_MARK)[0] in set(PlanKind) else None


# --------------------------------------------------------------------------------------------------------- record
