"""`kafka-maintenance act-as-controller`: moves leaders by a few seconds as active controller; off unless switched on."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_maintenance.cli.approved_plan import carry_out
from kafka_maintenance.cli.arguments import add_approve_arguments, add_json_argument, add_plan_argument
from kafka_maintenance.cli.named_files import json_object
from kafka_maintenance.cli.permission import add_permission_arguments, window_closed_now
from kafka_maintenance.cli.zookeeper_arguments import add_zookeeper_arguments, address_of


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "act-as-controller",
        help="move leaders to chosen in-sync replicas, by a few seconds as active controller",
        description="Carries out an approved plan of `plan leaders`: takes the place of the active controller for at most 4 s, moves the "
        "leaders, resigns, and verifies. What stalls meanwhile is in the plan and in docs/operations.md. Without --approve it prints the "
        "plan and does nothing.",
    )
    add_plan_argument(command)
    add_approve_arguments(command, "the 64 hex digits of the plan that you have read")
    command.add_argument(
        "--may-act-as-controller",
        action="store_true",
        help="the switch of this cluster; without it the command refuses",
    )
    command.add_argument(
        "--confirm-unfenced-controller",
        action="store_true",
        help="the second confirmation that brokers of Kafka 2.0 or older need: their former controller is not fenced",
    )
    command.add_argument(
        "--broker-access",
        metavar="FILE",
        type=Path,
        help="JSON: listener, tls and sasl as brokers use among themselves (default: a PLAINTEXT listener)",
    )
    add_permission_arguments(command)
    add_zookeeper_arguments(command, required=False)
    add_json_argument(command)
    command.set_defaults(run=_act)


def _act(arguments: argparse.Namespace) -> int:
    return carry_out(arguments, _controllership)


def _controllership(arguments: argparse.Namespace, plan: Any, approved: Mapping[str, Any]) -> Any:
    from kafka_maintenance.operations.act_as_controller.act import (
        Permission,
        act_as_controller,
    )

    permission = Permission(
        may_act=arguments.may_act_as_controller,
        confirmed_unfenced=arguments.confirm_unfenced_controller,
        access=_access(arguments.broker_access),
    )
    of = {"kind": plan.kind, "cluster": plan.cluster}
    return act_as_controller(
        **approved,
        address=address_of(arguments),
        permission=permission,
        window=lambda: window_closed_now(arguments, approved["store"], **of),
    )


def _access(path: Path | None) -> Any:
    from controller_core.adapters.brokers.access import PLAIN_ACCESS, access_from

    found = json_object(path, "access to brokers")
    return PLAIN_ACCESS if found is None else access_from(found)
