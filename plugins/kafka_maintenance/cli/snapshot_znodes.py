"""`kafka-maintenance snapshots ls`, `cat` and `find`: znodes of a snapshot as they are stored."""

import argparse
from typing import Any

from controller_core.model.words import counted
from kafka_maintenance.cli.arguments import ExitStatus, show, store_of
from kafka_maintenance.cli.snapshot_arguments import (
    add_cluster_filter,
    add_command,
    add_snapshot_argument,
    chosen_snapshot,
)
from kafka_maintenance.cli.terminal import Table


def add_parsers(actions: Any) -> None:
    """Adds the actions to those on snapshots."""
    listing = add_command(
        actions, "ls", "list the znodes below a path: version, children, bytes, last write, path", _ls
    )
    add_snapshot_argument(listing)
    listing.add_argument(
        "path", metavar="PATH", nargs="?", default="/", help="of the znode above them (default: %(default)s)"
    )
    add_cluster_filter(listing)
    printing = add_command(actions, "cat", "print the data of a znode", _cat)
    add_snapshot_argument(printing)
    printing.add_argument("path", metavar="PATH", help="of the znode, such as /controller")
    add_cluster_filter(printing)
    finding = add_command(actions, "find", "list the znodes whose path matches a pattern, such as '*/orders*'", _find)
    add_snapshot_argument(finding)
    finding.add_argument(
        "pattern", metavar="PATTERN", help="of *, ? and […], for the whole path; * matches slashes, too"
    )
    finding.add_argument("--containing", metavar="TEXT", help="only where the data have this text")
    add_cluster_filter(finding)


def _raw(arguments: argparse.Namespace) -> Any:
    from kafka_maintenance.operations.snapshots.catalog import read_raw

    return read_raw(store_of(arguments), chosen_snapshot(arguments))


def _ls(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots import znodes as operation

    return _list(arguments, operation.children(_raw(arguments), arguments.path))


def _find(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots import znodes as operation

    return _list(arguments, operation.find(_raw(arguments), arguments.pattern, arguments.containing))


def _list(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> int:
    from kafka_maintenance.operations.snapshots import znodes as operation

    found, last = list(operation.listing(rows)), counted(len(rows), "znode")
    lines = [f"{one:>7} {two:>7} {three:>8} {four:>20}  {path}" for one, two, three, four, path in found]
    document = {"znodes": [operation.znode_json(row) for row in rows]}
    show(arguments, "\n".join([*lines, last]), document, table=Table(operation.LISTED, found, below=(last,)))
    return ExitStatus.DONE


def _cat(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots import znodes as operation

    row = operation.znode(_raw(arguments), arguments.path)
    show(arguments, operation.data_text(row), operation.znode_json(row))
    return ExitStatus.DONE
