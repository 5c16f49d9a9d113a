"""The page Executions: every plan that was begun, those under way first, then the newest."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from controller_core.adapters.object_store.open import ObjectStore
from kafka_maintenance.operations.analysis.tables import CACHE
from kafka_maintenance.operations.apply.executions import OVER, Recorded, newest_executions
from kafka_maintenance.web.blocks import (
    ROWS_SHOWN_MAX,
    Cell,
    Column,
    Facts,
    Filter,
    Lines,
    Note,
    Page,
    Section,
    Table,
    age_text,
    moment_text,
    number,
)
from kafka_maintenance.web.views.record import kind_text, state_cell

_RECORDED_BYTES: Final = 1200
"""What a plan that was begun takes in memory, with the keys under which it is kept, about."""

_UNREAD: Final = (
    "{:,} more plans are not read: this page has those that are not over, then those whose record this store was given last, {:,} in all. Look "
    "at one cluster (executions?cluster=NAME), or let `kafka-maintenance executions list` read all."
)
_WITHHELD: Final = "Plans of DAGs that you may not read are left out."


def newest_recorded(store: ObjectStore, cluster: str) -> tuple[tuple[Recorded, ...], int]:
    """The plans that the page shows, of all clusters where the name is empty, and how many more there are.

    Each is read once, and again when its record went on.
    """

    def kept(keys: tuple[str, str], read: Callable[[], Recorded]) -> Recorded:
        def sized() -> tuple[Recorded, int | None]:
            found = read()
            return found, None if found.damage else _RECORDED_BYTES  # what is damaged may be brought back

        found: Recorded = CACHE.get((store.uri, "recorded", *keys), sized)
        return found

    return newest_executions(store, cluster or None, ROWS_SHOWN_MAX, kept)


def executions_page(
    recorded: Sequence[Recorded], *, now: datetime, cluster: str = "", unread: int = 0, withheld: int = 0
) -> Page:
    """Each with a link to its own page; why a record cannot be read stands above.

    Args:
        recorded: the plans.
        now: the time, UTC.
        cluster: of which they are; empty: of all.
        unread: how many more were begun.
        withheld: how many were read and are none of the reader's: he may not read their DAGs.
    """
    damaged = [each.damage for each in recorded if each.damage]
    newest = sorted(recorded, key=lambda each: moment_text(each.began), reverse=True)
    rows = [_row(each, now) for each in sorted(newest, key=lambda each: each.last in OVER)]
    states = sorted({row[1].text for row in rows})
    columns = (
        Column("Execution"),
        Column("State"),
        Column("Last event", numeric=True, words="Its age"),
        Column("Began, UTC"),
        Column("Approver"),
        Column("Cluster"),
        Column("Plan", words="The beginning of its digest"),
    )
    table = Table(
        id="executions",
        caption="Plans that were begun: those that are not over first, then the newest",
        columns=columns,
        rows=rows,
        more=unread,
        filters=[Filter(label="State", column="State", choices=states)] if len(states) > 1 else [],
        searchable=True,
        empty="None of the plans that this page reads is of a DAG that you may read."
        if withheld
        else "No plan was begun yet. What waits for a yes stands under Approvals.",
    )
    notes: list[Note | Lines] = [Note(_UNREAD.format(unread, len(recorded) + withheld))] if unread else []
    notes += [Note(_WITHHELD)] if withheld else []
    notes += [Lines("Cannot be read", damaged)] if damaged else []
    return Page(
        title="Executions",
        subtitle=f"Of {cluster} alone" if cluster else "",
        here="executions",
        head=(_facts(recorded, unread), *notes),
        sections=[Section(title="All", anchor="all", blocks=[table])],
    )


def _row(each: Recorded, now: datetime) -> tuple[Cell, ...]:
    age = (now - datetime.fromisoformat(each.at)).total_seconds() if each.at else None
    query = urlencode({"cluster": each.cluster, "digest": each.digest})
    return (
        Cell(f"{kind_text(each.kind)} on {each.cluster}", href=f"execution?{query}"),
        state_cell(each.last),
        Cell("-", "quiet") if age is None else Cell(age_text(age), value=age),
        Cell(moment_text(each.began)),
        Cell(each.approver or "-"),
        Cell(each.cluster, href=f"cluster?{urlencode({'name': each.cluster})}"),
        Cell(each.digest[:12], "quiet", each.digest),
    )


def _facts(recorded: Sequence[Recorded], unread: int) -> Facts:
    open_ = sum(each.last not in OVER for each in recorded)
    stuck = sum(each.last == "stuck" for each in recorded)
    return Facts(
        (
            ("Not over", number(open_, tone="warning" if open_ else "good")),
            ("Stuck", number(stuck, tone="warning" if stuck else None)),
            ("Begun, of those read" if unread else "Begun", number(len(recorded))),
        )
    )
