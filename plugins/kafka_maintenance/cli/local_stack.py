"""`kafka-maintenance stack`: the local stack is started, looked at and stopped.

Source: docs/local-stack.md.
"""

import argparse
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_maintenance.cli.arguments import (
    STARTED_VERSIONS,
    STORE_VARIABLE,
    ExitStatus,
    add_json_argument,
    show,
    tell,
    whole_number,
)


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "stack", help="the local stack", description="A whole stack on this machine, on loopback."
    )
    actions = command.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, what in (("up", "start it and leave it running"), ("down", "stop it"), ("status", "what of it runs")):
        action = actions.add_parser(name, help=what, description=f"The local stack: {what}.")
        action.add_argument(
            "--folder",
            metavar="DIR",
            type=Path,
            help="where its data and logs are, and nothing else (default: .local/stack of the checkout)",
        )
        add_json_argument(action)
        action.set_defaults(run=_stack, action=name)
        if name == "up":
            action.add_argument(
                "--kafka-version",
                metavar="X.Y",
                default="3.9",
                help=f"of the brokers: {STARTED_VERSIONS} (default: %(default)s)",
            )
            action.add_argument(
                "--brokers",
                metavar="N",
                type=whole_number(1, 100),
                default=3,
                help="how many, in three racks (default: %(default)s)",
            )
            action.add_argument("--protocol", "--ibp", metavar="X.Y", help="their inter.broker.protocol.version")
            action.add_argument("--no-airflow", action="store_true", help="without Airflow and its database")


def _stack(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.demo import stack

    folder = arguments.folder or stack.DEFAULT_FOLDER
    if arguments.action == "up":
        settings = stack.StackSettings(
            kafka_version=arguments.kafka_version,
            brokers=arguments.brokers,
            inter_broker_protocol_version=arguments.protocol,
            airflow=not arguments.no_airflow,
        )
        found: dict[str, Any] = stack.up(folder, settings, say=tell)
    elif arguments.action == "down":
        stopped = stack.down(folder)
        found = {"folder": str(folder), "stopped": stopped}
    else:
        found = stack.status(folder)
    show(arguments, "\n".join((*_facts(found), *_exports(found.get("addresses", found)))), found)
    return ExitStatus.DONE


def _exports(addresses: Mapping[str, Any]) -> Iterator[str]:
    """The lines after which a shell's commands use the store of the stack."""
    if environment := addresses.get("environment"):
        for name, value in {STORE_VARIABLE: addresses["store"], **environment}.items():
            yield f"export {name}={shlex.quote(value)}"


def _facts(found: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """A line for each fact, its value last, so that it can be copied; `above` are the names of what it is a part of."""
    for name, value in found.items():
        if name == "environment":
            continue  # `_exports`
        if isinstance(value, Mapping):
            yield from _facts(value, "" if name == "addresses" else f"{above}{name} ")
        elif isinstance(value, list | tuple):
            yield f"{above}{name}: {', '.join(map(str, value)) or 'none'}"
        else:
            yield f"{above}{name}: {'-' if value is None else value}"
