"""The record of a plan as a page shows it: its state, its steps in time, and every event in the order in which it was written."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import require_name
from kafka_maintenance.operations.analysis.tables import CACHE
from kafka_maintenance.operations.apply.executions import DAMAGED, detail_text
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.record.entry import UNKNOWN_KIND, entry_of, kind_in
from kafka_maintenance.operations.record.receipts import in_order, receipt_prefix
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Cell, Column, Facts, Note, Table, Tone, age_text, moment_text, number

EVENTS_READ_MAX: Final = 20_000
"""Of a longer record: its first event, and the newest ones."""
TONES: Final[dict[str, Tone]] = {
    "refused": "critical",
    DAMAGED: "critical",
    "unfinished": "warning",
    "stuck": "warning",
    "over": "warning",
    "stopped": "warning",
    "verified": "good",
    "done": "good",
}
_PARSED_PER_BYTE: Final = 6
"""Memory that an event takes, in bytes per byte of its JSON: 6 for a small one, 3.3 for one of 200 partitions (`tracemalloc`)."""
_ENDED: Final = {"verified": "--good", "requested": "--series-1", "refused": "--critical", "unfinished": "--warning"}
_STATES: Final = {
    "done": "done",
    "refused": "refused",
    "over": "over, not as planned",
    "unfinished": "not finished in time",
    "stopped": "stopped",
    "stuck": "stuck",
    "waiting": "waits for the rest of the cluster",
    "interrupted": "ZooKeeper is away",
    "cancelling": "being cancelled",
    DAMAGED: "damaged",
}
RecordedEvent = dict[str, Any]


def state_cell(last: str) -> Cell:
    """What the last event of a record says of its plan."""
    return Cell(_STATES.get(last, "in progress"), TONES.get(last))


class Record(NamedTuple):
    """What is recorded of a plan, but for `unread` events; its kind is `UNKNOWN_KIND` where its first entry does not tell it."""

    cluster: str
    digest: str
    kind: str
    events: Sequence[RecordedEvent]
    unread: int = 0


def read_record(store: ObjectStore, cluster: str, digest: str) -> Record:
    """The record of a plan that was begun.

    Raises:
        BadInputError: there is none.
    """
    events, unread = _events(store, require_name(cluster, "cluster"), digest)
    if not events:
        raise BadInputError(
            f"no record of plan {digest!r} on {cluster!r} in {store.uri}: expected a plan that was begun; the page Executions lists them"
        )
    return Record(cluster, digest, kind_in(started_of(events)), events, unread)


def kind_text(kind: str) -> str:
    """What a plan of that kind is called."""
    return "a plan" if kind == UNKNOWN_KIND else kind.replace("_", " ")


def step_count_of(events: Sequence[RecordedEvent]) -> int | None:
    """How many steps the plan has, as its newest beginning tells; None where it does not."""
    count = started_of(events).get("steps")
    return count if isinstance(count, int) else None


def receipt_blocks(store: ObjectStore, cluster: str, digest: str, *, step_count: int | None) -> list[Block]:
    """The record of a plan, for the page of the plan.

    Args:
        store: where it is.
        cluster: of the plan.
        digest: of the plan.
        step_count: how many steps the plan has, where that is known.
    """
    events, unread = _events(store, cluster, digest)
    if not events:
        return [Note("Nothing was done yet: no receipt is stored for this plan.")]
    return [*unread_of(unread), facts_of(events, step_count, None), *spans_of(events), table_of(events)]


def unread_of(unread: int) -> list[Block]:
    """How many events of a long record are not shown, where that is so."""
    if not unread:
        return []
    return [
        Note(
            f"{unread:,} events after the first one are not read: what follows is of the newest {EVENTS_READ_MAX - 1:,}."
        )
    ]


def _events(store: ObjectStore, cluster: str, digest: str) -> tuple[list[RecordedEvent], int]:
    """The events of a record, and how many of them are not read."""
    keys = in_order(store.list(receipt_prefix(cluster, digest)))
    unread = max(0, len(keys) - EVENTS_READ_MAX)
    return list(at_once(lambda key: _event(store, key), [*keys[:1], *keys[1 + unread :]])), unread


def _event(store: ObjectStore, key: str) -> RecordedEvent:
    """An entry of the record, which never changes and is read once; one that cannot be read is shown as it lies in the store."""

    def read() -> tuple[RecordedEvent, int | None]:
        content = store.get(key)
        try:
            return entry_of(content), _PARSED_PER_BYTE * len(content)
        except (ValueError, RecursionError) as error:
            bytes_ = content.decode(errors="replace")
            damaged = {"event": DAMAGED, "detail": {"error": str(error), "bytes": bytes_}}
            return damaged, None  # it may be brought back

    event: RecordedEvent = CACHE.get((store.uri, key), read)
    return event


def started_of(events: Sequence[RecordedEvent]) -> dict[str, Any]:
    """What the newest beginning tells: kind, steps, comment."""
    found = [event.get("detail", {}) for event in events if event.get("event") == "started"]
    return dict(found[-1]) if found else {}


def facts_of(events: Sequence[RecordedEvent], step_count: int | None, now: datetime | None) -> Facts:
    """State, approver and the last event, with its age where the time is given."""
    steps = {event["step"] for event in events if event.get("step") is not None}
    verified = {event["step"] for event in events if event.get("event") == "verified"}
    last = events[-1]
    facts = [
        ("State", state_cell(str(last.get("event")))),
        ("Steps verified", Cell(f"{len(verified)} of {max(len(steps), step_count or 0)}")),
        ("Approver", Cell(str(last.get("approver") or "-"))),
        ("Last event", Cell(moment_text(last.get("at")))),
        ("Events", number(len(events))),
    ]
    if now is not None and last.get("at"):
        facts.insert(4, ("Age of it", Cell(age_text((now - datetime.fromisoformat(last["at"])).total_seconds()))))
    return Facts(tuple(facts))


def spans_of(events: Sequence[RecordedEvent]) -> list[Block]:
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
        begin, end = found[0][0], found[-1][0]
        kind = "verified" if any(event == "verified" for _, event in found) else found[-1][1]
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
                Cell(kind, TONES.get(kind)),
                number(length, digits=1),
                Cell(moment_text(begin.isoformat())),
            )
        )
    columns = (Column("Step"), Column("Last event"), Column("Seconds", numeric=True), Column("Began"))
    table = Table(id="execution-line-table", caption="Steps", columns=columns, rows=rows)
    says = f"{len(times)} step{'s were' if len(times) > 1 else ' was'} begun; green ones are verified."
    return [
        figures.time_line(
            "execution-line", "Steps in time", says, spans, axis="seconds since the first request", table=table
        )
    ]


def table_of(events: Sequence[RecordedEvent]) -> Table:
    """The record as it was written, a row per event."""
    rows = []
    for at, event in enumerate(events, start=1):
        kind = str(event.get("event"))
        step = event.get("step")
        rows.append(
            (
                Cell(str(at), value=at),
                Cell(kind, TONES.get(kind)),
                number(None if step is None else step + 1),
                Cell(moment_text(event.get("at"))),
                Cell(str(event.get("run") or "-")),
                Cell(str(event.get("approver") or "-")),
                Cell(detail_text(event.get("detail") or {})),
            )
        )
    columns = (
        Column("Number", numeric=True),
        Column("Event"),
        Column("Step", numeric=True),
        Column("At, UTC"),
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
