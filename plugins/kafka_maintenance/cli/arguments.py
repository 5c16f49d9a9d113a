"""What the sub-commands share: arguments of cluster and store, output as text or JSON, and the exit status of an error.

A sub-command is a function of its parsed arguments that prints its result and returns its exit status; its parser names
it with `set_defaults(run=…)`.
"""

import argparse
import getpass
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from controller_core.adapters.object_store.dry_run import DryRunStore
from controller_core.adapters.object_store.open import ObjectStore, open_store
from controller_core.model.errors import (
    ControllerCoreError,
    InvalidHostsError,
    InvalidPlanError,
    MigratingClusterError,
    NoNodeError,
    NotKafkaTreeError,
    ObjectMissingError,
    PlanAlteredError,
    SnapshotKeyError,
    StoreAddressError,
    TlsSettingsError,
    UnknownFormatError,
    UnknownVersionError,
    ZooKeeperFileError,
)
from controller_core.plans.headroom import Headroom, throttle_or_headroom
from controller_core.plans.rules import LONG_MAX, Throttle, is_whole_number
from kafka_maintenance.cli.named_files import json_object
from kafka_maintenance.cli.terminal import Table, on_terminal, print_markdown, print_table
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError, RefusedError

STORE_VARIABLE: Final = "KAFKA_MAINTENANCE_STORE"
STARTED_VERSIONS: Final = "0.10.2, 0.11.0, 1.0, 1.1, 2.0, 2.3, 2.4, 2.8, 3.6, 3.7 or 3.9"
"""`servers.kafka_jars.VERSIONS`, for a help text: they are imported where a server is started only."""
_SHOWN_MAX: Final = 40  # characters of an argument that is no number


class ExitStatus(IntEnum):
    """How a command ends; the same words in every help, in docs/cli.md and here.

    `REFUSED`: nothing was applied, because somebody or something says no, or nobody has said yes yet. `FOUND`: the
    command looked, and what it looked for is not well.
    """

    DONE = 0
    REFUSED = 1
    BAD_INPUT = 2
    OUTSIDE_FAILED = 3
    FOUND = 4


_BAD_INPUT: Final = (
    BadInputError,
    InvalidHostsError,
    InvalidPlanError,
    NoNodeError,
    NotKafkaTreeError,
    ObjectMissingError,
    SnapshotKeyError,
    StoreAddressError,
    TlsSettingsError,
    UnknownFormatError,
    UnknownVersionError,
    ZooKeeperFileError,
)
_REFUSED: Final = (RefusedError, MigratingClusterError, PlanAlteredError)
_BAD_INPUT_NAMES: Final = frozenset({"InvalidStateError", "ImpossibleGoalError", "SettingsError"})
"""Errors of the planner and the jobs, known by name so that `kafka-maintenance snapshot` starts without ortools."""


def exit_status(error: Exception) -> ExitStatus:
    """The exit status that `error` stands for."""
    if isinstance(error, _REFUSED):
        return ExitStatus.REFUSED
    if isinstance(error, _BAD_INPUT) or type(error).__name__ in _BAD_INPUT_NAMES:
        return ExitStatus.BAD_INPUT
    if isinstance(error, ValueError) and not isinstance(error, ControllerCoreError):
        return ExitStatus.BAD_INPUT
    return ExitStatus.OUTSIDE_FAILED


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """`--json`, which may stand before or after the name of the sub-command."""
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document instead of text"
    )


def throttle(text: str) -> Throttle | Headroom:
    """An argument that is a throttle."""
    try:
        return throttle_or_headroom(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_client_settings_argument(command: Any) -> None:
    """`--client-settings`, for what asks brokers."""
    command.add_argument(
        "--client-settings", metavar="FILE", type=Path, help="JSON: further arguments of kafka.KafkaAdminClient"
    )


def client_settings_of(path: Path | None) -> Mapping[str, Any] | None:
    """The arguments in that file; errors: see `json_object`."""
    return json_object(path, "client settings")


def brokers_named(arguments: argparse.Namespace) -> BrokersAsked | None:
    """The brokers of `--bootstrap-servers`; None where nobody is to be asked.

    Raises:
        BadInputError: settings of a client without brokers.
    """
    servers, settings = arguments.bootstrap_servers, arguments.client_settings
    if servers is None and settings is not None:
        raise BadInputError(
            f"--client-settings {settings} is for --bootstrap-servers, which is missing; give them together"
        )
    return None if servers is None else BrokersAsked(servers, client_settings_of(settings))


def add_store_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """`--store`; credentials come from boto3's usual places."""
    default = os.environ.get(STORE_VARIABLE)
    parser.add_argument(
        "--store",
        metavar="URI",
        default=default,
        required=required and not default,
        help=f"a folder, or s3://bucket/prefix (default: ${STORE_VARIABLE}); S3 endpoint and credentials as boto3 finds them",
    )


def add_cluster_argument(parser: argparse.ArgumentParser) -> None:
    """`--cluster`."""
    parser.add_argument("--cluster", metavar="NAME", required=True, help="name of the cluster in the store")


def add_age_argument(command: argparse.ArgumentParser) -> None:
    """`--age-min-s`."""
    command.add_argument(
        "--age-min-s",
        metavar="S",
        type=natural,
        default=60,
        help="from which age on one lingers (default: %(default)s)",
    )


def replacement(text: str) -> tuple[int, int]:
    """`OLD=NEW`, two broker ids, as an argument."""
    old, _, new = text.partition("=")
    if not (old.isdecimal() and new.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected OLD=NEW, two broker ids, found {text!r}")
    return int(old), int(new)


def store_of(arguments: argparse.Namespace) -> ObjectStore:
    """The store that `add_store_arguments` names; in a dry run one that tells what would be written, and writes nothing."""
    return _dry(arguments, open_store(arguments.store))


def plan_store_of(arguments: argparse.Namespace) -> ObjectStore:
    """The store in which the plan lies whose address is the argument `plan`; likewise in a dry run."""
    from kafka_maintenance.operations.plans.store import split_uri

    return _dry(arguments, open_store(split_uri(arguments.plan)[0]))


def second_store_of(arguments: argparse.Namespace) -> ObjectStore:
    """The store that the argument `to` names; likewise in a dry run."""
    return _dry(arguments, open_store(arguments.to))


def _dry(arguments: argparse.Namespace, store: ObjectStore) -> ObjectStore:
    return DryRunStore(store, lambda line: tell(f"kafka-maintenance: dry run: {line}")) if is_dry(arguments) else store


def is_dry(arguments: argparse.Namespace) -> bool:
    """Whether `--dry-run` was given."""
    return bool(getattr(arguments, "dry_run", False))


def done(arguments: argparse.Namespace, text: str) -> str:
    """What was done, in words; of a dry run they say that it was not."""
    return f"dry run, nothing was written; without it: {text}" if is_dry(arguments) else text


def add_dry_run_argument(command: Any) -> None:
    """`--dry-run`, for what writes without being asked twice."""
    command.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")


def add_approve_arguments(command: argparse.ArgumentParser, what: str) -> None:
    """`--approve`, without which the command shows what it would write; `--dry-run` asks for just that.

    Args:
        command: the parser.
        what: which digest, or what is written then.
    """
    one = command.add_mutually_exclusive_group()
    one.add_argument("--approve", metavar="DIGEST", help=what)
    add_dry_run_argument(one)


def not_yet_approved(arguments: argparse.Namespace, hint: str) -> ExitStatus:
    """How a command ends that has only shown what it would write: `REFUSED` with a hint, `DONE` where nothing more was asked for."""
    if is_dry(arguments):
        return ExitStatus.DONE
    tell(f"kafka-maintenance: {hint}")
    return ExitStatus.REFUSED


def add_approver_argument(command: argparse.ArgumentParser) -> None:
    """`--approver`, which `approver_of` reads."""
    command.add_argument("--approver", metavar="NAME", help="for the receipt (default: the user of this process)")


def approver_of(arguments: argparse.Namespace) -> str:
    """Who approves; raises BadInputError where nobody is named and the process has no user with a name."""
    if arguments.approver:
        return str(arguments.approver)
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise BadInputError(
            f"nothing applied: a name for the receipt expected, found none of this process ({error}); give --approver"
        ) from error


def run_id_of(arguments: argparse.Namespace, now: datetime) -> str:
    """The name that the command line gives its run, or one that no other run of this machine has."""
    return str(arguments.run_id or f"command-{now:%Y%m%dT%H%M%S}-{os.getpid()}")


def day(text: str) -> date:
    """A date, YYYY-MM-DD, as an argument."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a date as YYYY-MM-DD, found {text!r}") from None


def month(text: str) -> str:
    """A month, YYYY-MM, as an argument."""
    try:
        return f"{date.fromisoformat(f'{text}-01'):%Y-%m}"
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a month as YYYY-MM, found {text!r}") from None


def stored_address(text: str) -> str:
    """The address of an object in a store, as an argument: of a folder the path may be relative, of a snapshot the id will do."""
    return text if "/" not in text or "://" in text or text.startswith("v1/") else str(Path(text).absolute())


def add_plan_argument(command: argparse.ArgumentParser) -> None:
    """Which stored plan."""
    command.add_argument("plan", metavar="PLAN", type=stored_address, help="address of the stored plan")


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that were on the command line: the others are None or empty."""
    return {name: value for name, value in options.items() if value is not None and value not in ([], {})}


def whole_number(least: int, most: int = LONG_MAX) -> Callable[[str], int]:
    """An argument that is a whole number from `least` to `most`."""

    def read(text: str) -> int:
        if not is_whole_number(text, least, most):
            wanted = f"from {least} on" if most == LONG_MAX else f"from {least} to {most}"
            found = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
            raise argparse.ArgumentTypeError(f"expected a whole number {wanted}, found {found!r}")
        return int(text)

    return read


natural: Final = whole_number(0)
positive: Final = whole_number(1)


def wants_json(arguments: argparse.Namespace) -> bool:
    """Whether `--json` was given."""
    return bool(getattr(arguments, "json", False))


def show(arguments: argparse.Namespace, text: str, document: Mapping[str, Any], *, table: Table | None = None) -> None:
    """Prints the result: `document` as JSON when it is wanted, else `text`; at a terminal the table, if there is one.

    Args:
        arguments: with `json`.
        text: plain lines, for a pipe.
        document: the same for a program.
        table: the same for a person at a terminal.
    """
    if wants_json(arguments):
        print(json.dumps(document, indent=1, sort_keys=True, default=str))
    elif table is not None and on_terminal():
        print_table(table)
    else:
        print(text)


def show_markdown(
    arguments: argparse.Namespace, markdown: str, below: Sequence[str], document: Mapping[str, Any]
) -> None:
    """Prints a plan or a report, at a terminal rendered, and the lines below it as they are.

    Args:
        arguments: with `json`.
        markdown: what a person reads.
        below: lines that can be copied, each printed whole.
        document: the same for a program.
    """
    if wants_json(arguments) or not on_terminal():
        show(arguments, "\n".join((markdown, *below)), document)
        return
    print_markdown(markdown)
    for line in below:
        print(line)


def tell(line: str) -> None:
    """Prints progress where it does not mix with the result."""
    print(line, file=sys.stderr, flush=True)
