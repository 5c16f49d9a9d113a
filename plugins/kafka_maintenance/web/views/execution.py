"""How far the application of a plan is: its receipt as a time line, event by event."""

import json
from datetime import datetime
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from kafka_maintenance.operations.record.receipts import receipt_prefix
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Cell, Column, Facts, Note, Table, Tone, number

EVENTS_READ_MAX: Final = 2000
_TONES: Final[dict[str, Tone]] = {"refused": "critical", "unfinished": "warning", "verified": "good", "done": "good"}
_ENDED: Final = {"verified": "--good", "requested": "--series-1", "refused": "--critical", "unfinished": "--warning"}


def receipt_blocks(store: ObjectStore, cluster: str, digest: str, *, step_count: int | None) -> list[Block]:
    """The receipt of a plan.

    Args:
        store: where it is.
        cluster: of the plan.
        digest: of the plan.
        step_count: how many steps the plan has, where that is known.
    """
    keys = store.list(receipt_prefix(cluster, digest))[:EVENTS_READ_MAX]
    if not keys:
        return [Note("Nothing was done yet: no receipt is stored for this plan.")]
    events = [_event(store, key) for key in keys]
    steps = {event["step"] for event in events if event.get("step") is not None}
    verified = {event["step"] for event in events if event.get("event") == "verified"}
    last = events[-1]
    facts = Facts(
        (
            ("State", Cell(_state(last), _TONES.get(str(last.get("event"))))),
            ("Steps verified", Cell(f"{len(verified)} of {max(len(steps), step_count or 0)}")),
            ("Approver", Cell(str(last.get("approver") or "-"))),
            ("Last event", Cell(str(last.get("at") or "-"))),
            ("Events", number(len(events))),
        )
    )
    return [facts, *_spans(events), _table(events)]


def _event(store: ObjectStore, key: str) -> dict[str, Any]:
    """An entry of the receipt; one that is no JSON is shown as it lies in the store."""
    content = store.get(key)
    try:
        document: dict[str, Any] = json.loads(content)
    except ValueError as error:
        return {"event": "damaged", "detail": {"error": str(error), "bytes": content.decode(errors="replace")}}
    return document


def _state(last: dict[str, Any]) -> str:
    match last.get("event"):
        case "done":
            return "done"
        case "refused":
            return "refused"
        case "unfinished":
            return "not finished in time; a second run goes on"
        case _:
            return "in progress"


def _spans(events: list[dict[str, Any]]) -> list[Block]:
    """A bar per step from its first event to its last, in seconds since the first event of the plan."""
    times: dict[int, list[tuple[datetime, str]]] = {}
    for event in events:
        if event.get("step") is not None and event.get("at"):
            times.setdefault(event["step"], []).append((datetime.fromisoformat(event["at"]), event["event"]))
    if not times:
        return []
    start = min(moment for found in times.values() for moment, _ in found)
    spans, rows = [], []
    for step, found in sorted(times.items()):
        begin, end, kind = found[0][0], found[-1][0], found[-1][1]
        length = (end - begin).total_seconds()
        spans.append(
            (
                f"step {step + 1}",
                (begin - start).total_seconds(),
                max(length, 0.01),
                _ENDED.get(kind, "--series-5"),
                kind,
            )
        )
        rows.append(
            (
                Cell(f"step {step + 1}", value=step),
                Cell(kind, _TONES.get(kind)),
                number(length, digits=1),
                Cell(begin.isoformat(timespec="seconds")),
            )
        )
    columns = (Column("Step"), Column("Last event"), Column("Seconds", numeric=True), Column("Began"))
    table = Table(id="execution-line-table", caption="Steps", columns=columns, rows=rows)
    says = f"{len(times)} steps were begun; green ones are verified."
    return [
        figures.time_line(
            "execution-line", "Steps in time", says, spans, axis="seconds since the first request", table=table
        )
    ]


def _table(events: list[dict[str, Any]]) -> Table:
    rows = []
    for at, event in enumerate(events, start=1):
        kind = str(event.get("event"))
        detail = json.dumps(event.get("detail", {}), sort_keys=True, ensure_ascii=False)
        step = event.get("step")
        rows.append(
            (
                Cell(str(at), value=at),
                Cell(kind, _TONES.get(kind)),
                number(None if step is None else step + 1),
                Cell(str(event.get("at") or "-")),
                Cell(str(event.get("run") or "-")),
                Cell(str(event.get("approver") or "-")),
                Cell(detail if detail != "{}" else ""),
            )
        )
    columns = (
        Column("Number", numeric=True),
        Column("Event"),
        Column("Step", numeric=True),
        Column("At"),
        Column("Run"),
        Column("Approver"),
        Column("Detail"),
    )
    return Table(
        id="receipt",
        caption="Receipt, in the order in which it was written",
        columns=columns,
        rows=rows,
        searchable=True,
    )
