"""What `apply` and `act-as-controller` do alike: without a yes the stored plan is shown, with one it is carried out, and the receipt printed."""

import argparse
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kafka_maintenance.cli.arguments import (
    ExitStatus,
    approver_of,
    not_yet_approved,
    plan_store_of,
    show,
    show_markdown,
)
from kafka_maintenance.cli.permission import permission_of
from kafka_maintenance.cli.plan import plan_document
from kafka_maintenance.operations.errors import BadInputError

_OF_A_RECEIPT = ("uri", "digest", "kind", "cluster", "already_applied", "exceptions", "text")


def carry_out(
    arguments: argparse.Namespace, apply: Callable[[argparse.Namespace, Any, Mapping[str, Any]], Any]
) -> ExitStatus:
    """Shows the plan that `arguments.plan` names or, with `--approve`, has it applied and prints its receipt.

    Args:
        arguments: with `plan`, `approve`, `zookeeper`, and those of `permission.add_permission_arguments`.
        apply: called with the arguments, the stored plan, and what every operation that applies a plan is told of the yes
            (`store`, `plan_uri`, `approved_digest`, `approver`, `comment`, `approval`, `now`); gives the receipt.

    Raises:
        BadInputError: no cluster is named.
        RefusedError: the policy lets no command apply the plan, or somebody rejected it.
    """
    from kafka_maintenance.operations.plans.store import load_plan

    store = plan_store_of(arguments)
    plan = load_plan(store, arguments.plan)
    if not arguments.approve:
        show_markdown(arguments, plan.markdown, (), {**plan_document(plan), "applied": False})
        return not_yet_approved(arguments, f"nothing applied; after reading the plan: --approve {plan.digest}")
    if arguments.zookeeper is None:
        raise BadInputError(f"plan {arguments.plan} not applied: no cluster named; give --zookeeper HOSTS[/CHROOT]")
    permitted = permission_of(arguments, store, kind=plan.kind, cluster=plan.cluster)
    approved = {
        "store": store,
        "plan_uri": arguments.plan,
        "approved_digest": arguments.approve,
        "approver": approver_of(arguments) if permitted is None else permitted.approver,
        "comment": arguments.comment,
        "approval": None if permitted is None else permitted.record,
        "now": datetime.now(UTC),
    }
    receipt = apply(arguments, plan, approved)
    document = {name: getattr(receipt, name) for name in _OF_A_RECEIPT}
    show(arguments, f"{receipt.text}\n{receipt.uri}", {"applied": True, "receipt": document})
    return ExitStatus.DONE
