"""Who approved what a command carries out: the arguments that say it, and what the policy wants."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka_maintenance.cli.arguments import add_approver_argument
from kafka_maintenance.operations.errors import RefusedError


def add_permission_arguments(command: argparse.ArgumentParser) -> None:
    """Adds approver, comment, policy and the runs of gates."""
    add_approver_argument(command)
    command.add_argument("--comment", metavar="TEXT", help="for the receipt")
    command.add_argument(
        "--policy", metavar="FILE", type=Path, help="who may approve what (default: $KAFKA_MAINTENANCE_POLICY)"
    )
    command.add_argument(
        "--approved-run", metavar="RUN", help="DAG.RUN_ID whose gate approved it, where the policy wants one"
    )
    command.add_argument(
        "--after-rejection", metavar="RUN", help="DAG.RUN_ID of each run that rejected it, with commas"
    )


def window_closed_now(arguments: argparse.Namespace, store: Any, *, kind: str, cluster: str) -> str | None:
    """Why the policy lets no step be asked for now; None where it does.

    Args:
        arguments: those of `add_permission_arguments`.
        store: where answers lie.
        kind: of the plan.
        cluster: of the plan.
    """
    from kafka_maintenance.operations.gate.permission import window_closed
    from kafka_maintenance.operations.gate.policy import policy_of

    policy = policy_of(cluster, arguments.policy)
    named = {"kind": kind, "cluster": cluster, "run": arguments.approved_run}
    return window_closed(store, **named, policy=policy, now=datetime.now(UTC))


def permission_of(arguments: argparse.Namespace, store: Any, *, kind: str, cluster: str) -> Any:
    """The approval of a gate where the policy wants one, None where the command's own is enough.

    Args:
        arguments: with `approve`, the digest of the plan, and those of `add_permission_arguments`.
        store: where plans and answers lie.
        kind: of the plan.
        cluster: of the plan.

    Raises:
        RefusedError: the policy lets no command apply plans, or somebody rejected this one.
        NotApprovedError: no gate approved it.
    """
    from kafka_maintenance.operations.gate.approvals import refuse_rejected
    from kafka_maintenance.operations.gate.permission import NotApprovedError, permission, refuse_unsigned
    from kafka_maintenance.operations.gate.policy import policy_of

    digest, policy = arguments.approve, policy_of(cluster, arguments.policy)
    what = f"plan {digest} of kind {kind} not applied"
    if policy.command_may_apply == "never":
        raise RefusedError(f"{what}: the policy of {cluster!r} says command_may_apply: never; use Airflow's gate")
    if policy.command_may_apply == "yes":
        refuse_unsigned(policy, what)
        refuse_rejected(store, cluster, digest, arguments.after_rejection)
        return None
    if not arguments.approved_run:
        raise RefusedError(f"{what}: the policy of {cluster!r} wants the approval of a gate; give --approved-run")
    now = datetime.now(UTC)
    found = permission(store, kind=kind, cluster=cluster, run=arguments.approved_run, policy=policy, now=now)
    if found.shown.plan.digest != digest:
        raise NotApprovedError(
            f"{what}: run {arguments.approved_run!r} approved {found.shown.plan.digest}; name the run that approved "
            "this one"
        )
    return found
