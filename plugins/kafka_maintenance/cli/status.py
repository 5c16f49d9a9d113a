"""`kafka-maintenance status`: every cluster in one line, the worst first, from the newest published analysis."""

import argparse
from typing import Any, Final

from controller_core.model.words import counted
from kafka_maintenance.cli.arguments import ExitStatus, add_json_argument, add_store_arguments, show, store_of
from kafka_maintenance.cli.terminal import Table
from spark_jobs.severities import SEVERITIES

_NEVER: Final = "never"
_COLUMNS: Final = (
    "severity",
    "cluster",
    "critical",
    "warnings",
    "offline",
    "under-replicated",
    "partitions",
    "mode",
)


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "status",
        help="all clusters in one line each, the worst first",
        description="The counts of the newest published analysis, a line per cluster, with the change since the date before. "
        "Nothing is computed and no cluster is contacted.",
    )
    command.add_argument(
        "--fail-on",
        choices=(*SEVERITIES, _NEVER),
        default="critical",
        help="the mildest severity that ends with status 4 (default: critical)",
    )
    add_store_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> ExitStatus:
    from kafka_maintenance.operations.analysis.overviews import (
        newest_overviews,
        require_overview,
    )
    from kafka_maintenance.operations.record.departures import readable_departures

    store = store_of(arguments)
    newest, gone = require_overview(store), readable_departures(store)
    before = next(iter(newest_overviews(store, 2)), newest)
    rows = [
        {
            "cluster": name,
            "severity": _severity(counts),
            "left_zookeeper": gone.departures[name].at if name in gone.departures else None,
            **counts,
            "critical_change": _change(counts, before.clusters.get(name), "critical_count"),
            "warning_change": _change(counts, before.clusters.get(name), "warning_count"),
        }
        for name, counts in newest.clusters.items()
    ]
    rows.sort(
        key=lambda row: (
            _rank(row["severity"]),
            -(row["critical_count"] or 0),
            -(row["warning_count"] or 0),
            row["cluster"],
        )
    )
    document = {"date": newest.date, "run_id": newest.run_id, "clusters": rows, "cannot_be_read": gone.damaged}
    unread = (f"{cluster}: whether it has left ZooKeeper is not known: {why}" for cluster, why in gone.damaged.items())
    below = (f"{counted(len(rows), 'cluster')}, analysis of {newest.date}", *unread)
    table = Table(_COLUMNS, [_cells(row) for row in rows], below=below)
    show(arguments, "\n".join([*map(_line, rows), *below]), document, table=table)
    failing = SEVERITIES[: SEVERITIES.index(arguments.fail_on) + 1] if arguments.fail_on != _NEVER else ()
    return ExitStatus.FOUND if any(row["severity"] in failing for row in rows) else ExitStatus.DONE


def _severity(counts: Any) -> str:
    if counts["critical_count"] is None:
        return "not analysed"
    return next((severity for severity in SEVERITIES if counts[f"{severity}_count"]), "healthy")


def _rank(severity: str) -> int:
    return (*SEVERITIES, "not analysed", "healthy").index(severity)


def _change(now: Any, before: Any, field: str) -> int | None:
    if before is None or now[field] is None or before[field] is None:
        return None
    return int(now[field] - before[field])


def _mode(row: dict[str, Any]) -> str:
    from kafka_maintenance.operations.analysis.overviews import mode_text

    if row["left_zookeeper"]:
        return f"KRaft since {row['left_zookeeper'][:10]}"
    return mode_text(row)


def _counted(row: dict[str, Any], name: str) -> str:
    count, change = row[f"{name}_count"], row[f"{name}_change"]
    return f"{'-' if count is None else count}" + (f" ({change:+d})" if change else "")


def _line(row: dict[str, Any]) -> str:
    severity, cluster, critical, warnings, offline, under_replicated, partitions, mode = _cells(row)
    return (
        f"{severity:<12}  {cluster:<24}  critical {critical:<10}  warnings {warnings:<10}  "
        f"offline {offline}  under-replicated {under_replicated}  partitions {partitions}"
        + (f"  {mode}" if mode else "")
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    counts = ("offline_count", "under_replicated_count", "partition_count")
    return (
        row["severity"],
        row["cluster"],
        _counted(row, "critical"),
        _counted(row, "warning"),
        *("-" if row[name] is None else str(row[name]) for name in counts),
        _mode(row),
    )
