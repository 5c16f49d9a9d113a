"""What the commands on snapshots have in common."""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller_core.adapters.snapshot.reader import Progress
from kafka_maintenance.cli.arguments import add_json_argument, add_store_arguments, store_of, tell

_PROGRESS_EVERY_S = 1.0


def add_command(
    commands: Any, name: str, what: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A sub-command on a store, with `--json`.

    Args:
        commands: the command line's sub-commands.
        name: of this one.
        what: it does, as its help says.
        run: does it.
    """
    command: argparse.ArgumentParser = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
    add_store_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=run)
    return command


def add_snapshot_argument(command: argparse.ArgumentParser, name: str = "snapshot") -> None:
    """Which snapshot."""
    command.add_argument(
        name,
        metavar=name.upper(),
        help="address, id or its beginning, or `newest` (with --cluster, where the store has several)",
    )


def add_cluster_filter(command: argparse.ArgumentParser, *, required: bool = False) -> None:
    """`--cluster`, a filter."""
    command.add_argument("--cluster", metavar="NAME", required=required, help="only of this cluster")


def add_files_arguments(command: argparse.ArgumentParser, *names: str) -> None:
    """Where the server's files are, and which tree in them; `names` as of `add_argument`."""
    command.add_argument(*names, metavar="DATA_DIR", type=Path, help="dataDir of a server's zoo.cfg, or a copy of it")
    command.add_argument("--log-dir", metavar="DIR", type=Path, help="its dataLogDir, where zoo.cfg has one")
    command.add_argument(
        "--chroot", metavar="/PATH", type=chroot_path, default="", help="where Kafka's tree is (default: the root)"
    )


def chroot_path(text: str) -> str:
    """A chroot as an argument; empty text is the root."""
    if text and not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"expected a path such as /kafka, found {text!r}")
    return text.rstrip("/")


def chosen_snapshot(arguments: argparse.Namespace, **options: Any) -> Any:
    """The manifest of the snapshot that the arguments name."""
    from kafka_maintenance.operations.snapshots.catalog import find_snapshot  # noqa: PLC0415 - the other commands start faster

    return find_snapshot(store_of(arguments), arguments.snapshot, arguments.cluster, **options)


def progress_teller() -> Callable[[Progress], None]:
    """Tells on standard error, once a second, how many znodes were read, how fast, and how long it may still take."""
    last_s = 0.0

    def say(progress: Progress) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s < _PROGRESS_EVERY_S:
            return
        last_s = now_s
        eta = "" if progress.eta_s is None else f", about {progress.eta_s:.0f} s to go"
        tell(f"{progress.phase}: {progress.read:,} znodes, {progress.rate:,.0f} per second{eta}")

    return say
