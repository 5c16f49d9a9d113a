"""The page Approvals: every plan that waits for a person, across DAGs and clusters, the oldest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from kafka_maintenance.web.blocks import Cell, Column, Facts, Page, Section, Table, age_text, number

_EXPIRES_SOON_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A question that waits.

    `subject` is what the person is asked, with the size of the plan; `expires` when no answer counts as Reject, None where it
    never does.
    """

    dag_id: str
    run_id: str
    cluster: str
    subject: str
    requester: str
    asked: datetime
    expires: datetime | None
    address: str


def approvals_page(gates: Sequence[Gate], *, now: datetime, cluster: str = "") -> Page:
    """What waits, each with a link to the page of Airflow that asks."""
    rows = []
    for gate in sorted(gates, key=lambda gate: gate.asked):
        age = (now - gate.asked).total_seconds()
        left = None if gate.expires is None else (gate.expires - now).total_seconds()
        query = urlencode({"dag_id": gate.dag_id, "run_id": gate.run_id})
        rows.append(
            (
                Cell(
                    gate.cluster or "-", href=f"cluster?{urlencode({'name': gate.cluster})}" if gate.cluster else None
                ),
                Cell(gate.dag_id),
                Cell(gate.subject),
                Cell(age_text(age), value=age),
                Cell("never", "quiet")
                if left is None
                else Cell(f"in {age_text(left)}", "critical" if left < _EXPIRES_SOON_S else None, left),
                Cell(gate.requester),
                Cell("plan", href=f"plan?{query}"),
                Cell("answer", href=gate.address, leaves=True),
                Cell(gate.run_id, "quiet"),
            )
        )
    columns = (
        Column("Cluster"),
        Column("DAG"),
        Column("Asks for", words="What the plan would do, and how much of it"),
        Column("Age", numeric=True),
        Column("Expires", numeric=True, words="Then no answer counts as Reject"),
        Column("Requested by"),
        Column("Plan"),
        Column("Answer"),
        Column("Run"),
    )
    table = Table(
        id="approvals",
        caption="Plans that wait for a person, the oldest first",
        columns=columns,
        rows=rows,
        empty="Nothing waits for a person.",
        searchable=True,
    )
    clusters = len({gate.cluster for gate in gates})
    oldest = age_text((now - min(gate.asked for gate in gates)).total_seconds()) if gates else "-"
    facts = Facts(
        (
            ("Waiting", number(len(gates), tone="warning" if gates else "good")),
            ("Clusters", number(clusters)),
            ("Oldest", Cell(oldest)),
        )
    )
    return Page(
        title="Approvals",
        subtitle=f"Of {cluster} alone" if cluster else "",
        here="approvals",
        head=(facts,),
        sections=[Section(title="Waiting", anchor="waiting", blocks=[table])],
    )
