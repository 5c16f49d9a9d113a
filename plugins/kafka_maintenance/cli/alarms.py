"""`alarms`: findings that call for a person, and acknowledging those that may stand."""

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_approver_argument,
    add_cluster_argument,
    add_dry_run_argument,
    add_json_argument,
    add_store_arguments,
    approver_of,
    done,
    show,
    store_of,
    tell,
    whole_number,
)
from kafka_maintenance.cli.terminal import Table
from spark_jobs.severities import SEVERITIES

_COLUMNS: Final = ("severity", "", "cluster", "kind", "subject", "detail", "acknowledged")
_DAYS_MAX: Final = 3650


def add_parsers(commands: Any) -> None:
    """Adds the sub-command with its actions."""
    command = commands.add_parser(
        "alarms",
        help="findings that call for a person",
        description="Findings that call for a person, and who knows of them.",
    )
    actions = command.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list",
        help="those of the newest analysis",
        description="The findings of the newest published analysis, new ones first.",
    )
    listing.add_argument("--mildest", choices=SEVERITIES, default="critical", help="severity (default: %(default)s)")
    add_store_arguments(listing)
    add_json_argument(listing)
    listing.set_defaults(run=_list)
    known = actions.add_parser(
        "acknowledge",
        help="let findings of a kind stand for a while",
        description="Says who knows, why, and until when.",
    )
    known.add_argument("kind", metavar="KIND", help="of the findings, e.g. broker_down")
    known.add_argument("--topic", metavar="NAME", help="of this topic only")
    known.add_argument("--reason", metavar="TEXT", required=True, help="why they may stand")
    known.add_argument(
        "--days", metavar="N", type=whole_number(1, _DAYS_MAX), default=7, help="for how long (default: %(default)s)"
    )
    add_cluster_argument(known)
    add_store_arguments(known)
    add_approver_argument(known)
    add_dry_run_argument(known)
    add_json_argument(known)
    known.set_defaults(run=_acknowledge)


def _list(arguments: argparse.Namespace) -> ExitStatus:
    from kafka_maintenance.operations.analysis.alarms import alarms_of_date
    from kafka_maintenance.operations.analysis.overviews import require_overview

    store = store_of(arguments)
    newest = require_overview(store)
    found = alarms_of_date(store, newest, mildest=arguments.mildest)
    lines = [each.text for each in found] or [f"no finding of that severity on {newest.date}"]
    rows = [
        (
            each.severity,
            "new" if each.is_new else "",
            each.cluster,
            each.kind,
            each.subject,
            each.detail,
            each.acknowledged or "",
        )
        for each in found
    ]
    table = Table(_COLUMNS, rows, below=() if found else lines)
    show(arguments, "\n".join(lines), {"date": newest.date, "alarms": [each._asdict() for each in found]}, table=table)
    return ExitStatus.FOUND if any(each.acknowledged is None for each in found) else ExitStatus.DONE


def _acknowledge(arguments: argparse.Namespace) -> ExitStatus:
    from kafka_maintenance.operations.analysis.alarms import acknowledge, covered
    from kafka_maintenance.operations.snapshots.catalog import require_cluster

    store, now = store_of(arguments), datetime.now(UTC)
    require_cluster(store, arguments.cluster)
    made = acknowledge(
        store,
        arguments.cluster,
        arguments.kind,
        topic=arguments.topic,
        reason=arguments.reason,
        by=approver_of(arguments),
        until=now.date() + timedelta(days=arguments.days),
        now=now,
    )
    count = covered(store, made, now.date())
    if count == 0:
        tell(f"kafka-maintenance: the newest analysis has no finding {made.kind!r} there; `alarms list` has the names")
    document = {"acknowledged": made._asdict(), "finding_count": count}
    show(arguments, done(arguments, f"{made.kind} on {made.cluster} rings no more until {made.until}"), document)
    return ExitStatus.DONE
