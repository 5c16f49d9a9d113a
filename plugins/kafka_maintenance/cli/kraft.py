"""`kafka-maintenance kraft readiness`: what stands against the migration of a cluster to KRaft."""

import argparse
from datetime import UTC, datetime
from typing import Any

from kafka_maintenance.cli.arguments import ExitStatus, add_json_argument, add_store_arguments, show, store_of


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    kraft = commands.add_parser("kraft", help="judge a cluster's way from ZooKeeper to KRaft").add_subparsers(
        title="actions", metavar="ACTION", required=True
    )
    command = kraft.add_parser(
        "readiness",
        help="judge every precondition of the migration from a snapshot",
        description="Judges the rules R1 to R25 of docs/kraft.md. Reads the store, and contacts no cluster.",
        epilog="Exit status: 0 no obstacle, 1 obstacles, 2 bad input, 3 the outside failed.",
    )
    command.add_argument("snapshot", metavar="SNAPSHOT", nargs="?", default="newest", help="(default: %(default)s)")
    command.add_argument("--cluster", metavar="NAME", help="where the store holds several clusters")
    add_store_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_readiness)


def _readiness(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.kraft.certificate import (  # noqa: PLC0415 - the other commands start faster
        certificate_json,
        certificate_text,
        certify,
        is_ready,
    )
    from kafka_maintenance.operations.kraft.tree import tree_of  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.snapshots.catalog import (  # noqa: PLC0415 - as above
        find_snapshot,
        public_configs,
        read_raw,
    )

    store = store_of(arguments)
    manifest = find_snapshot(store, arguments.snapshot, arguments.cluster)
    certificate = certify(tree_of(read_raw(store, manifest), public_configs(store, manifest)), manifest)
    show(arguments, certificate_text(certificate, datetime.now(UTC)), certificate_json(certificate))
    return ExitStatus.DONE if is_ready(certificate) else ExitStatus.REFUSED
