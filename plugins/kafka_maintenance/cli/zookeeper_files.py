"""`kafka-maintenance import` and `export`: our snapshots from the files of a ZooKeeper server, and such a file from one."""

import argparse
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from controller_core.model.words import counted
from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_cluster_argument,
    add_dry_run_argument,
    done,
    natural,
    positive,
    show,
    store_of,
)
from kafka_maintenance.cli.named_files import writing
from kafka_maintenance.cli.progress import Bars, show_lines
from kafka_maintenance.cli.snapshot_arguments import (
    add_cluster_filter,
    add_command,
    add_files_arguments,
    add_snapshot_argument,
    chosen_snapshot,
    chroot_path,
)

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def add_parsers(commands: Any) -> None:
    """Adds the sub-commands to the command line."""
    _add_import(commands)
    _add_export(commands)


def _add_import(commands: Any) -> None:
    command = add_command(
        commands, "import", "make snapshots of moments that a ZooKeeper server's own files hold", _import
    )
    add_files_arguments(command, "data_dir")
    add_cluster_argument(command)
    command.add_argument(
        "--every", metavar="1h", type=_period, help="a snapshot of every full period: minutes, hours or days"
    )
    command.add_argument(
        "--at",
        metavar="TIME",
        type=moment,
        action="append",
        default=[],
        help="a snapshot of this minute, such as 2026-11-20T02:00 (UTC, unless it names another zone); more than once",
    )
    command.add_argument(
        "--zxid", metavar="HEX", type=zxid, action="append", default=[], help="a snapshot after this transaction"
    )
    command.add_argument("--key-file", metavar="FILE", type=Path, help="keep secrets, sealed with this key")
    add_dry_run_argument(command)
    command.add_argument(
        "--new-cluster-id",
        action="store_true",
        help="the cluster was made anew: its name may have snapshots of another Kafka cluster id",
    )


def _import(arguments: argparse.Namespace) -> int:
    from controller_core.adapters.zookeeper_files.data_directory import DataDirectory
    from kafka_maintenance.operations.snapshots import import_files as operation

    with Bars("import") as bars:
        found = operation.import_files(
            DataDirectory(arguments.data_dir, arguments.log_dir),
            operation.Wanted(arguments.every, tuple(arguments.at), tuple(arguments.zxid)),
            store=store_of(arguments),
            cluster=arguments.cluster,
            chroot=arguments.chroot,
            key_file=arguments.key_file,
            new_cluster_id=arguments.new_cluster_id,
            progress=show_lines(bars, "snapshots"),
        )
    lines = [f"note: {note}" for note in found.notes]
    lines += [f"no snapshot of {reason}" for reason in found.passed_over]
    for each in found.snapshots:
        sure = "consistent" if each.consistent else f"NOT consistent ({each.manifest.reason})"
        lines.append(
            f"{each.manifest.taken_at.isoformat(sep=' ', timespec='seconds')}  zxid {each.zxid:#x}  {sure}"
            f"{'' if each.created else ', imported before'}  {each.manifest_uri}"
        )
    made = sum(each.created for each in found.snapshots)
    unchanged = f"; in {found.unchanged} periods nothing changed" if found.unchanged else ""
    imported = f"{counted(made, 'snapshot')} imported, {len(found.snapshots) - made} were there{unchanged}"
    lines.append(done(arguments, imported))
    document = {
        "snapshots": [
            {
                "manifest_uri": each.manifest_uri,
                "digest": each.digest,
                "taken_at": each.manifest.taken_at.isoformat(),
                "zxid": each.zxid,
                "consistent": each.consistent,
                "created": each.created,
            }
            for each in found.snapshots
        ],
        "passed_over": found.passed_over,
        "notes": found.notes,
        "unchanged": found.unchanged,
    }
    show(arguments, "\n".join(lines), document)
    return ExitStatus.DONE


def _add_export(commands: Any) -> None:
    command = add_command(
        commands, "export", "write a snapshot as a file from which a ZooKeeper server starts", _export
    )
    add_snapshot_argument(command)
    add_cluster_filter(command)
    command.add_argument(
        "--zookeeper-snapshot",
        metavar="FILE",
        type=Path,
        required=True,
        help="the file, snapshot.ZXID, or the empty folder version-2 of a server's dataDir",
    )
    command.add_argument(
        "--chroot", metavar="/PATH", type=chroot_path, help="where the tree goes (default: where it was)"
    )
    command.add_argument("--key-file", metavar="FILE", type=Path, help="opens the secrets of the snapshot")
    command.add_argument(
        "--without-ephemerals", action="store_true", help="without ephemeral znodes and their sessions"
    )
    command.add_argument(
        "--session-timeout-ms",
        metavar="N",
        type=positive,
        help="of the sessions whose ephemeral znodes are in it (default: 18000, as Kafka's)",
    )
    command.add_argument(
        "--next-epoch",
        action="store_true",
        help="under a later zxid, for clients that have seen what came after the snapshot",
    )
    command.add_argument(
        "--epoch-bump",
        metavar="N",
        type=natural,
        default=0,
        help="raise leader epochs, controller epoch and producer ids",
    )
    command.add_argument(
        "--incomplete",
        action="store_true",
        help="although secrets, ACLs or unreadable znodes are missing from the snapshot",
    )


def _export(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.restore import zookeeper_snapshot as operation

    with Bars("export"), writing(arguments.zookeeper_snapshot):
        exported = operation.export_snapshot(
            store_of(arguments),
            chosen_snapshot(arguments),
            arguments.zookeeper_snapshot,
            operation.ExportOptions(
                chroot=arguments.chroot,
                ephemerals=not arguments.without_ephemerals,
                session_timeout_ms=arguments.session_timeout_ms or operation.SESSION_TIMEOUT_MS,
                next_epoch=arguments.next_epoch,
                epoch_bump=arguments.epoch_bump,
                incomplete=arguments.incomplete,
            ),
            arguments.key_file,
        )
    lines = [f"MISSING: {each}" for each in exported.missing]
    lines.append(
        f"{counted(exported.znodes, 'znode')} and {counted(exported.sessions, 'session')} at zxid {exported.zxid:#x}, digest {exported.digest:#x}"
    )
    lines.append(str(exported.path))
    show(arguments, "\n".join(lines), asdict(exported))
    return ExitStatus.DONE


# ------------------------------------------------------------------------------------------------- kinds of arguments


def moment(text: str) -> datetime:
    """A time, of UTC where it names no zone."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"expected a time such as 2026-11-20T02:00, found {text!r}") from None


def zxid(text: str) -> int:
    """A zxid in hexadecimal, as ZooKeeper writes it."""
    try:
        found = int(text, 16)
    except ValueError:
        found = -1
    if found < 0:
        raise argparse.ArgumentTypeError(f"expected a zxid in hexadecimal, such as 0x1a2b, found {text!r}")
    return found


def _period(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a period such as 15m, 1h or 1d, found {text!r}")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
