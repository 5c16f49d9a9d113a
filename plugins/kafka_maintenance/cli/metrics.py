"""`kafka-maintenance metrics`: what monitoring reads of each cluster, as OpenMetrics text."""

import argparse
from pathlib import Path
from typing import Any

from kafka_maintenance.cli.arguments import ExitStatus, add_json_argument, add_store_arguments, show, store_of
from kafka_maintenance.cli.named_files import writing


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "metrics",
        help="the newest analysis and snapshots of all clusters as OpenMetrics text",
        description="Gauges of each cluster from the newest published analysis and the newest snapshots, for Prometheus or any reader "
        "of OpenMetrics. Nothing is computed and no cluster is contacted.",
    )
    command.add_argument(
        "--output",
        metavar="PATH",
        type=Path,
        help="replace this file as a whole, for the textfile collector of node_exporter",
    )
    add_store_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> ExitStatus:
    from kafka_maintenance.operations.analysis import metrics

    found = metrics.samples(store_of(arguments))
    document = {"samples": [{"metric": each.metric, **each.labels, "value": each.value} for each in found]}
    if arguments.output is None:
        show(arguments, metrics.openmetrics(found).rstrip("\n"), document)
        return ExitStatus.DONE
    with writing(arguments.output):
        metrics.write_openmetrics(found, arguments.output)
    show(arguments, f"{len(found)} samples in {arguments.output}", {**document, "output": str(arguments.output)})
    return ExitStatus.DONE
