"""`kafka-maintenance diff`, `blame` and `query`: what changed, when, and what the tables say."""

import argparse
import hashlib
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kafka_maintenance.cli.arguments import (
    STORE_VARIABLE,
    ExitStatus,
    add_json_argument,
    add_store_arguments,
    show,
    store_of,
    stored_address,
    whole_number,
)
from kafka_maintenance.cli.named_files import writable_folder
from kafka_maintenance.cli.progress import Bars, show_read
from kafka_maintenance.cli.snapshot_arguments import (
    add_cluster_filter,
    add_command,
    add_files_arguments,
    add_snapshot_argument,
)
from kafka_maintenance.cli.terminal import Table
from kafka_maintenance.cli.zookeeper_arguments import add_zookeeper_arguments, address_of, require_zookeeper

_ROWS_MAX: Final = 2**31 - 2  # both engines take one more as an int


def add_parsers(commands: Any) -> None:
    """Adds the sub-commands to the command line."""
    _add_diff(commands)
    _add_blame(commands)
    _add_query(commands)


def _add_diff(commands: Any) -> None:
    command = add_command(commands, "diff", "tell what changed between two snapshots, or since one", _diff)
    add_snapshot_argument(command, "before")
    command.add_argument(
        "after",
        metavar="AFTER",
        type=stored_address,
        nargs="?",
        help="the later snapshot; without it the living cluster",
    )
    add_cluster_filter(command)
    command.add_argument("--noise", action="store_true", help="also epochs and versions alone")
    add_zookeeper_arguments(command, required=False)


def _diff(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.operations.snapshots import diff as operation
    from kafka_maintenance.operations.snapshots.catalog import find_snapshot
    from kafka_maintenance.operations.snapshots.diff_text import diff_json, diff_text

    store = store_of(arguments)
    if bool(arguments.after) == bool(arguments.zookeeper):
        raise BadInputError(
            "nothing compared: give a second snapshot, or --zookeeper for the living cluster; one of both"
        )
    require_zookeeper(arguments)
    first = find_snapshot(store, arguments.before, arguments.cluster)
    with Bars("diff") as bars:
        if arguments.after:
            second = find_snapshot(store, arguments.after, arguments.cluster)
            before, after = operation.sides_of_snapshots(store, first, second)
        else:
            before = operation.side_of_snapshot(store, first)
            after = operation.side_of_cluster(
                address_of(arguments),
                now=datetime.now(UTC),
                progress=show_read(bars),
                before=before,
            )
        found = operation.diff(before, after, noise=arguments.noise)
    show(arguments, diff_text(found), diff_json(found))
    return ExitStatus.DONE


def _add_blame(commands: Any) -> None:
    command = commands.add_parser(
        "blame",
        help="tell since when each value of a topic, partition or znode stands",
        description="Tells since when each value of a topic, partition or znode stands: from the snapshots of a cluster, or, "
        "with --zookeeper-data, every transaction with time and session from the logs of a ZooKeeper server.",
    )
    command.add_argument(
        "subject", metavar="TOPIC[-PARTITION]|/PATH", help="a topic, a partition as orders-3, or the path of a znode"
    )
    add_store_arguments(command, required=False)
    add_cluster_filter(command)
    add_files_arguments(command, "--zookeeper-data")
    add_json_argument(command)
    command.set_defaults(run=_blame)


def _blame(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.errors import BadInputError

    if bool(arguments.cluster) == bool(arguments.zookeeper_data):
        raise BadInputError(
            "history not looked for: expected --cluster for its snapshots, or --zookeeper-data for the logs of a server; one of both"
        )
    if arguments.zookeeper_data:
        return _blame_files(arguments)
    if arguments.log_dir or arguments.chroot:
        raise BadInputError(
            "history not looked for: --log-dir and --chroot are for --zookeeper-data, and would have no effect; leave them out"
        )
    from kafka_maintenance.operations.snapshots import blame as operation

    if not arguments.store:
        raise BadInputError(f"history not looked for: expected --store, or ${STORE_VARIABLE}, for snapshots; give it")
    with Bars("blame"):
        report = operation.blame(store_of(arguments), arguments.cluster, arguments.subject)
    show(arguments, operation.blame_text(report), operation.blame_json(report))
    return ExitStatus.DONE


def _blame_files(arguments: argparse.Namespace) -> int:
    from controller_core.adapters.zookeeper_files.data_directory import DataDirectory
    from kafka_maintenance.operations.snapshots import blame_files as operation

    directory = DataDirectory(arguments.zookeeper_data, arguments.log_dir)
    with Bars("blame"):
        report = operation.blame_files(directory, arguments.subject, arguments.chroot)
    show(arguments, operation.files_blame_text(report), operation.files_blame_json(report))
    return ExitStatus.DONE


def _add_query(commands: Any) -> None:
    command = add_command(commands, "query", "run SQL over the decoded tables of all snapshots", _query)
    command.add_argument(
        "sql", metavar="SQL", help="one SELECT; docs/snapshots.md lists the tables, docs/history.md has examples"
    )
    add_cluster_filter(command)
    command.add_argument(
        "--engine",
        choices=("auto", "duckdb", "spark"),
        default="auto",
        help="auto: DuckDB for what it is known to compute as Spark does, else Spark (default: %(default)s)",
    )
    command.add_argument(
        "--rows-max",
        metavar="N",
        type=whole_number(1, _ROWS_MAX),
        default=1000,
        help="rows that are printed at most (default: %(default)s)",
    )
    command.add_argument("--folder", metavar="DIR", type=Path, help="keeps the fetched tables (default: in the cache)")


def _query(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.analysis.published import fetch_results
    from kafka_maintenance.operations.snapshots import query as operation
    from kafka_maintenance.servers.cache import cache_folder

    store = store_of(arguments)
    own = hashlib.sha256(store.uri.encode()).hexdigest()[:16]
    folder = writable_folder(arguments.folder or cache_folder() / "history" / own)
    with Bars("query"):
        result = operation.query_history(
            store,
            arguments.sql,
            folder=folder,
            results=lambda: fetch_results(store, folder / "analyses"),
            engine=arguments.engine,
            cluster=arguments.cluster,
            rows_max=arguments.rows_max,
        )
    table = Table(result.columns, operation.query_cells(result), below=operation.query_remarks(result))
    show(arguments, operation.query_text(result), asdict(result), table=table)
    return ExitStatus.DONE
