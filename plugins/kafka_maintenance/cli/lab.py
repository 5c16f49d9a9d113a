"""`kafka-maintenance lab`: the core as the only controller of brokers on this machine, for development and tests."""

import argparse
from typing import Any

from controller_core.znodes.json_text import INT_MAX
from kafka_maintenance.cli.arguments import ExitStatus, add_json_argument, show, tell, whole_number
from kafka_maintenance.cli.zookeeper_arguments import add_zookeeper_arguments, address_of


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "lab",
        help="for development: command the brokers of a throw-away ZooKeeper on this machine, as their only controller",
        description="Becomes the controller of an empty tree on loopback and commands the brokers that register there, until it is ended. It refuses any other "
        "address, a tree that is somebody's, and brokers that listen elsewhere. It registers as a broker without replicas, where brokers and clients ask it what they "
        "ask a controller, a new topic too (`kafka-topics.sh --zookeeper` would give it replicas). No production cluster is ever run by it: it has no "
        "stand-by.",
    )
    add_zookeeper_arguments(command)
    command.add_argument("--kafka-version", metavar="X.Y", default="3.9", help="of the brokers (default: %(default)s)")
    command.add_argument(
        "--protocol",
        metavar="X.Y",
        help="their inter.broker.protocol.version, where they have one (default: that of --kafka-version)",
    )
    command.add_argument(
        "--controller-id",
        metavar="ID",
        type=whole_number(0, INT_MAX),
        default=1000,
        help="ours, which no broker has (default: %(default)s)",
    )
    add_json_argument(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.apply.stop import Stop, stopping_on_signals
    from kafka_maintenance.operations.laboratory.run import run_laboratory

    with stopping_on_signals(Stop()) as stop:
        changes = run_laboratory(
            address_of(arguments),
            kafka_version=arguments.kafka_version,
            protocol=arguments.protocol,
            controller_id=arguments.controller_id,
            stop=stop,
            tell=tell,
        )
    show(arguments, f"ended: {stop.reason}; {changes} state changes", {"ended": stop.reason, "state_changes": changes})
    return ExitStatus.DONE
