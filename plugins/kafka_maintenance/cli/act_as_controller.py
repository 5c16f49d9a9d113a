"""`kafka-maintenance act-as-controller`: moves leaders by a few seconds as active controller; off unless switched on."""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_approve_arguments,
    add_json_argument,
    add_zookeeper_arguments,
    address_of,
    approver_of,
    not_yet_approved,
    plan_store_of,
    show,
    show_markdown,
)
from kafka_maintenance.cli.permission import add_permission_arguments, permission_of
from kafka_maintenance.cli.plan import plan_document
from kafka_maintenance.operations.errors import BadInputError


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "act-as-controller",
        help="move leaders to chosen in-sync replicas, by a few seconds as active controller",
        description="Carries out an approved plan of `plan leaders`: takes the place of the active controller for at most 4 s, moves the "
        "leaders, resigns, and verifies. What stalls meanwhile is in the plan and in docs/operations.md. Without --approve it prints the "
        "plan and does nothing.",
    )
    command.add_argument("plan", metavar="PLAN", help="address of the stored plan")
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
    from kafka_maintenance.operations.act_as_controller.act import (  # noqa: PLC0415 - the other commands start faster
        Permission,
        act_as_controller,
    )
    from kafka_maintenance.operations.plans.store import load_plan  # noqa: PLC0415 - as above

    store = plan_store_of(arguments)
    if not arguments.approve:
        plan = load_plan(store, arguments.plan)
        show_markdown(arguments, plan.markdown, (), {**plan_document(plan), "applied": False})
        return not_yet_approved(arguments, f"nothing applied; after reading the plan: --approve {plan.digest}")
    if arguments.zookeeper is None:
        raise BadInputError(f"plan {arguments.plan} not applied: no cluster named; give --zookeeper HOSTS[/CHROOT]")
    stored = load_plan(store, arguments.plan)
    permitted = permission_of(arguments, store, kind=stored.kind, cluster=stored.cluster)
    receipt = act_as_controller(
        store=store,
        plan_uri=arguments.plan,
        approved_digest=arguments.approve,
        approver=approver_of(arguments) if permitted is None else permitted.approver,
        comment=arguments.comment,
        approval=None if permitted is None else permitted.record,
        address=address_of(arguments),
        permission=Permission(
            may_act=arguments.may_act_as_controller,
            confirmed_unfenced=arguments.confirm_unfenced_controller,
            access=_access(arguments.broker_access),
        ),
        now=datetime.now(UTC),
    )
    names = ("uri", "digest", "kind", "cluster", "already_applied", "exceptions", "text")
    document = {name: getattr(receipt, name) for name in names}
    show(arguments, f"{receipt.text}\n{receipt.uri}", {"applied": True, "receipt": document})
    return ExitStatus.DONE


def _access(path: Path | None) -> Any:
    from controller_core.adapters.brokers.access import PLAIN_ACCESS, access_from  # noqa: PLC0415 - as above

    if path is None:
        return PLAIN_ACCESS
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInputError(f"access to brokers not read: a JSON object expected in {path}, found: {error}") from error
    return access_from(found)
