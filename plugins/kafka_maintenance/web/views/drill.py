"""The failure drill of an analysis as a ranked picture, for the pages Cluster and History."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.engine.state_changes import ChangeKind, counts_text
from kafka_maintenance.operations.analysis.overviews import Overview
from kafka_maintenance.operations.analysis.tables import rows_of
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Cell, Column, Note, Table, number

Row = Mapping[str, Any]
_DRILLS_SHOWN: Final = 15


def drill_blocks(store: ObjectStore, chosen: Overview, name: str) -> list[Block]:
    """The failure of which broker, pair of brokers or rack makes most partitions unavailable.

    Args:
        store: where the analysis is.
        chosen: the analysis.
        name: of the cluster.
    """
    drills = sorted(rows_of(store, chosen.manifest, "failure_drill", cluster=name), key=lambda row: row["rank"])
    if not drills:
        return [Note("The analysis has no failure drill.")]
    names = [_failed(row) for row in drills]
    worst = drills[0]
    bars = figures.bars(
        "drill",
        "What fails, the worst first",
        f"The worst: {names[0]} takes {worst['offline_count']} partitions offline and {worst['under_min_isr_count']} below min.insync.replicas.",
        head="fails",
        names=names[:_DRILLS_SHOWN],
        series={
            "offline": [row["offline_count"] for row in drills[:_DRILLS_SHOWN]],
            "below min ISR": [row["under_min_isr_count"] for row in drills[:_DRILLS_SHOWN]],
            "leaders that move": [row["leaders_moved_count"] for row in drills[:_DRILLS_SHOWN]],
        },
        colours={"offline": "--critical", "below min ISR": "--warning", "leaders that move": "--series-1"},
        lying=True,
    )
    columns = (
        Column("Fails"),
        *(
            Column(text, numeric=True)
            for text in ("Partitions offline", "Below min ISR", "Elected uncleanly", "Leaders that move")
        ),
        Column("Gains most"),
        Column("State changes", words="What the controller writes to state-change.log"),
    )
    table = Table(
        id="drill-table",
        caption="Imagined failures, the worst first",
        columns=columns,
        rows=[_drill_row(text, row) for text, row in zip(names, drills, strict=True)],
        searchable=True,
    )
    return [replace(bars, table=table)]


def _drill_row(text: str, row: Row) -> tuple[Cell, ...]:
    gains = f"{row['leaders_gained_max_broker']} (+{row['leaders_gained_max']})" if row["leaders_gained_max"] else "-"
    return (
        Cell(text, value=row["rank"]),
        number(row["offline_count"], tone="critical" if row["offline_count"] else None),
        number(row["under_min_isr_count"], tone="warning" if row["under_min_isr_count"] else None),
        number(row["unclean_count"], tone="critical" if row["unclean_count"] else None),
        number(row["leaders_moved_count"]),
        Cell(gains),
        Cell(_changes(row)),
    )


def _changes(row: Row) -> str:
    """In words; analyses of before 2026-11-25 do not have them."""
    found = row.get("state_changes")
    if found is None:
        return "not in this analysis"
    return (
        counts_text({ChangeKind(each["subject"], each["before"], each["after"]): each["count"] for each in found})
        or "none"
    )


def _failed(row: Row) -> str:
    brokers = row["failed"] or []
    if row["scenario"].startswith("rack:"):
        return f"rack {row['scenario'].removeprefix('rack:')}"
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"
