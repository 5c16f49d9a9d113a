"""What the page Cluster shows over the dates: findings, growth, changes of leaders, and controllers."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.words import counted
from kafka_maintenance.operations.analysis.overviews import Overview
from kafka_maintenance.operations.analysis.tables import rows_of
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Cell, Column, Table, number
from spark_jobs.severities import SEVERITIES

Row = Mapping[str, Any]
_date: Final = itemgetter("date")


def findings_by_date(overviews: Sequence[Overview], name: str) -> list[Block]:
    """How many findings of each severity the dates have; nothing of one date."""
    by_date = [(one.date, one.clusters[name]) for one in overviews]
    if len(by_date) < 2:  # noqa: PLR2004 - a line has two points
        return []
    return [
        figures.lines(
            "findings-history",
            "Findings by date",
            f"From {by_date[0][0]} to {by_date[-1][0]}.",
            [day for day, _ in by_date],
            {severity: [counts.get(f"{severity}_count") for _, counts in by_date] for severity in SEVERITIES},
        )
    ]


def growth_by_date(store: ObjectStore, chosen: Overview, name: str) -> list[Block]:
    """Topics, partitions and replicas over the dates, where the analysis looked for them."""
    growth = sorted(rows_of(store, chosen.manifest, "growth", cluster=name), key=_date)
    says = f"Topics, partitions and replicas on {counted(len(growth), 'date')}."
    counts = {"topics": "topic_count", "partitions": "partition_count", "replicas": "replica_count"}
    return [_over_dates("growth", "Growth", says, growth, counts)] if growth else []


def churn_by_date(store: ObjectStore, chosen: Overview, name: str) -> list[Block]:
    """How many partitions changed from date to date, where the analysis looked for that."""
    churn = sorted(rows_of(store, chosen.manifest, "leader_churn", cluster=name), key=_date)
    changes = {
        "leaders changed": "leader_changes",
        "ISR changed": "isr_changes",
        "assignments changed": "assignment_changes",
    }
    says = "Partitions that differ from the date before."
    return [_over_dates("churn", "Changes from date to date", says, churn, changes)] if churn else []


def controllers_by_date(store: ObjectStore, chosen: Overview, name: str) -> list[Block]:
    """Who was controller at which date, where the analysis looked for that."""
    controllers = sorted(rows_of(store, chosen.manifest, "controller_churn", cluster=name), key=_date, reverse=True)
    if not controllers:
        return []
    table = Table(
        id="controllers",
        caption="Controller and its epoch",
        columns=(
            Column("Date"),
            Column("Controller", numeric=True),
            Column("Controller epoch", numeric=True),
            Column("Elections since the date before", numeric=True),
        ),
        rows=[
            (
                Cell(row["date"].isoformat()),
                Cell(str(row["controller_id"])),
                number(row["controller_epoch"]),
                number(row["elections"]),
            )
            for row in controllers
        ],
    )
    return [table]


def _over_dates(figure_id: str, title: str, says: str, rows: Sequence[Row], fields: Mapping[str, str]) -> Block:
    """Lines over the dates of rows; `fields`: name of a line → field of a row."""
    series = {text: [row[field] for row in rows] for text, field in fields.items()}
    return figures.lines(figure_id, title, says, [row["date"].isoformat() for row in rows], series)
