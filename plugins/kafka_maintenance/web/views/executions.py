"""The page Executions: every plan that was begun, those under way first, then the newest."""

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlencode

from kafka_maintenance.operations.apply.executions import Recorded
from kafka_maintenance.web.blocks import (
    Cell,
    Column,
    Facts,
    Filter,
    Lines,
    Page,
    Section,
    Table,
    age_text,
    moment_text,
    number,
)
from kafka_maintenance.web.views.record import kind_text, state_cell


def executions_page(recorded: Sequence[Recorded], *, now: datetime, cluster: str = "") -> Page:
    """Each with a link to its own page; why a record cannot be read stands above."""
    damaged = [each.damage for each in recorded if each.damage]
    rows = []
    for each in recorded:
        age = (now - datetime.fromisoformat(each.at)).total_seconds() if each.at else None
        query = urlencode({"cluster": each.cluster, "digest": each.digest})
        rows.append(
            (
                Cell(f"{kind_text(each.kind)} on {each.cluster}", href=f"execution?{query}"),
                state_cell(each.last),
                Cell("-", "quiet") if age is None else Cell(age_text(age), value=age),
                Cell(moment_text(each.began)),
                Cell(each.approver or "-"),
                Cell(each.cluster, href=f"cluster?{urlencode({'name': each.cluster})}"),
                Cell(each.digest[:12], "quiet", each.digest),
            )
        )
    ended = {"done", "refused", "over, not as planned"}
    rows.sort(key=lambda row: row[3].text, reverse=True)
    rows.sort(key=lambda row: row[1].text in ended)
    states = sorted({row[1].text for row in rows})
    open_ = sum(row[1].text not in ended for row in rows)
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
        filters=[Filter(label="State", column="State", choices=states)] if len(states) > 1 else [],
        searchable=True,
        empty="No plan was begun yet. What waits for a yes stands under Approvals.",
    )
    facts = Facts(
        (
            ("Not over", number(open_, tone="warning" if open_ else "good")),
            (
                "Stuck",
                number(
                    sum(row[1].text == "stuck" for row in rows),
                    tone="warning" if any(row[1].text == "stuck" for row in rows) else None,
                ),
            ),
            ("Begun", number(len(rows))),
        )
    )
    return Page(
        title="Executions",
        subtitle=f"Of {cluster} alone" if cluster else "",
        here="executions",
        head=(facts, *([Lines("Cannot be read", damaged)] if damaged else [])),
        sections=[Section(title="All", anchor="all", blocks=[table])],
    )
