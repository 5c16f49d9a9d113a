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


def permission_of(arguments: argparse.Namespace, store: Any) -> Any:
    """The approval of a gate where the policy wants one, None where the command's own is enough.

    Raises:
        RefusedError: the policy lets no command apply plans, or somebody rejected this one.
        NotApprovedError: no gate approved it.
    """
    from kafka_maintenance.operations.gate.approvals import refuse_rejected  # noqa: PLC0415 - the other commands start faster
    from kafka_maintenance.operations.gate.permission import NotApprovedError, permission  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.gate.policy import policy_of  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.plans.store import load_plan  # noqa: PLC0415 - as above

    plan, now = load_plan(store, arguments.plan), datetime.now(UTC)
    policy = policy_of(plan.cluster, arguments.policy)
    if policy.command_may_apply == "never":
        raise RefusedError(
            f"plan {arguments.plan} not applied: the policy of {plan.cluster!r} says command_may_apply: never; use Airflow's gate"
        )
    if policy.command_may_apply == "yes":
        refuse_rejected(store, plan.cluster, plan.digest, arguments.after_rejection)
        return None
    if not arguments.approved_run:
        raise RefusedError(
            f"plan {arguments.plan} not applied: the policy of {plan.cluster!r} wants the approval of a gate; give --approved-run"
        )
    found = permission(store, kind=plan.kind, cluster=plan.cluster, run=arguments.approved_run, policy=policy, now=now)
    if found.shown.plan.digest != arguments.approve:
        raise NotApprovedError(
            f"plan {arguments.plan} not applied: run {arguments.approved_run!r} approved {found.shown.plan.digest[:12]}, not "
            f"{arguments.approve[:12]}; name the run that approved it"
        )
    return found
