"""What the commands on snapshots have in common."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller_core.adapters.object_store.open import FolderStore, ObjectStore
from kafka_maintenance.cli.arguments import add_json_argument, add_store_arguments, store_of, stored_address
from kafka_maintenance.operations.errors import BadInputError


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
        type=stored_address,
        help="address, id or its beginning, or `newest` (with --cluster, where the store has several)",
    )


def add_snapshot_option(command: Any, what: str) -> None:
    """`--snapshot`, for what takes the newest where none is named; `snapshot_uri` reads it."""
    command.add_argument(
        "--snapshot",
        "--manifest",
        metavar="SNAPSHOT",
        type=stored_address,
        help=f"address, id or its beginning, or `newest`, {what}",
    )


def snapshot_uri(arguments: argparse.Namespace) -> str | None:
    """The address that `--snapshot` means; None where it was not given."""
    return None if arguments.snapshot is None else str(chosen_snapshot(arguments).uri)


def existing_store_of(arguments: argparse.Namespace) -> ObjectStore:
    """The store of what only lists it: it may be empty, but a folder has to be there.

    Raises:
        BadInputError: there is no such folder.
    """
    store = store_of(arguments)
    if isinstance(store, FolderStore) and not Path(store.uri).is_dir():
        raise BadInputError(f"store {store.uri!r} not read: expected a folder, found none; correct the address")
    return store


def add_cluster_filter(command: argparse.ArgumentParser, *, required: bool = False) -> None:
    """`--cluster`, a filter."""
    command.add_argument("--cluster", metavar="NAME", required=required, help="only of this cluster")


def add_files_arguments(command: argparse.ArgumentParser, *names: str) -> None:
    """Where the server's files are, and which tree in them; `names`: see `add_argument`."""
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
    from kafka_maintenance.operations.snapshots.catalog import find_snapshot

    return find_snapshot(store_of(arguments), arguments.snapshot, arguments.cluster, **options)
