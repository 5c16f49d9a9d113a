"""`executions`, `verify`, `stop`, `cancel` and `unlock`: what is carried out; ending a run, what Kafka moves for it, and what a dead one left."""

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_approve_arguments,
    add_approver_argument,
    add_client_settings_argument,
    add_cluster_argument,
    add_dry_run_argument,
    add_json_argument,
    add_plan_argument,
    add_store_arguments,
    approver_of,
    client_settings_of,
    done,
    not_yet_approved,
    plan_store_of,
    show,
    store_of,
    tell,
)
from kafka_maintenance.cli.snapshot_arguments import existing_store_of
from kafka_maintenance.cli.terminal import Table
from kafka_maintenance.cli.zookeeper_arguments import add_zookeeper_arguments, address_of
from kafka_maintenance.operations.errors import RefusedError

CHANGES_SHOWN_MAX: Final = 200
_WHICH: Final = "of the plan, or its beginning"


def add_parsers(commands: Any) -> None:
    """The five commands."""
    command = commands.add_parser(
        "executions",
        help="plans that were begun, and their records",
        description="Plans that were begun; `show` prints the record of one as a time line.",
    )
    actions = command.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="all of them", description="The plans that were begun, the latest last.")
    listing.add_argument("--cluster", metavar="NAME", help="of this cluster only")
    add_store_arguments(listing)
    add_json_argument(listing)
    listing.set_defaults(run=_list)
    record = actions.add_parser("show", help="one as a time line", description="The record of a plan as a time line.")
    record.add_argument("digest", metavar="DIGEST", help=_WHICH)
    add_cluster_argument(record)
    add_store_arguments(record)
    add_json_argument(record)
    record.set_defaults(run=_show)
    _add_verify(commands)
    _add_stop(commands)
    _add_cancel(commands)
    _add_unlock(commands)


def _add_verify(commands: Any) -> None:
    command = commands.add_parser(
        "verify",
        help="compare a cluster with what a plan predicted, beside the plan's record",
        description="Prints the record of a plan as a time line, and whether what it predicted holds on the cluster now. Writes nothing.",
    )
    add_plan_argument(command)
    add_zookeeper_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_verify)


def _add_stop(commands: Any) -> None:
    command = commands.add_parser(
        "stop",
        help="end the run of a plan at its next safe point",
        description="Asks the run of a plan that is at work to end at its next safe point. What Kafka was asked for goes on.",
    )
    command.add_argument("digest", metavar="DIGEST", help=_WHICH)
    command.add_argument("--reason", metavar="TEXT", required=True, help="for the record")
    add_cluster_argument(command)
    add_store_arguments(command)
    add_approver_argument(command)
    add_dry_run_argument(command)
    add_json_argument(command)
    command.set_defaults(run=_stop)


def _add_cancel(commands: Any) -> None:
    command = commands.add_parser(
        "cancel",
        help="cancel what a reassignment has under way (Kafka 2.4 or newer)",
        description="Shows what Kafka moves for the step of a plan that is under way; with --approve, asks the brokers to cancel exactly that. "
        "The partitions go back to their former replicas, and the plan ends.",
    )
    command.add_argument("digest", metavar="DIGEST", help=_WHICH)
    command.add_argument("--reason", metavar="TEXT", required=True, help="for the record")
    command.add_argument("--bootstrap-servers", metavar="HOST:PORT,…", required=True, help="brokers to ask")
    add_client_settings_argument(command)
    add_approve_arguments(command, "the 64 hex digits that were printed without it")
    command.add_argument(
        "--policy", metavar="FILE", type=Path, help="who may cancel (default: $KAFKA_MAINTENANCE_POLICY)"
    )
    add_approver_argument(command)
    add_cluster_argument(command)
    add_store_arguments(command)
    add_zookeeper_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_cancel)


def _add_unlock(commands: Any) -> None:
    command = commands.add_parser(
        "unlock",
        help="remove lock, execution and throttles that a dead run left",
        description="Shows what of ours stands on a cluster; with --approve, removes exactly that. A run that lives loses its lock.",
    )
    add_approve_arguments(command, "the 64 hex digits that were printed without it")
    add_approver_argument(command)
    add_cluster_argument(command)
    add_store_arguments(command)
    add_zookeeper_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_unlock)


def _list(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.apply.executions import executions
    from kafka_maintenance.operations.snapshots.catalog import require_cluster

    store = existing_store_of(arguments)
    found = executions(store, arguments.cluster)
    if arguments.cluster is not None and not found:
        require_cluster(store, arguments.cluster)
    lines = [f"{each.began}  {each.cluster}  {each.kind}  {each.digest}  {each.last} at {each.at}" for each in found]
    rows = [
        (_minute(each.began), each.cluster, each.kind, each.digest[:12], each.last, _minute(each.at), each.approver)
        for each in found
    ]
    columns = ("began (UTC)", "cluster", "kind", "digest", "last event", "at", "approver")
    table = Table(columns, rows, below=() if found else ("no plan was begun",))
    document = {"executions": [each._asdict() for each in found]}
    show(arguments, "\n".join(lines) or "no plan was begun", document, table=table)
    damaged = [each.damage for each in found if each.damage]
    for why in damaged:
        tell(f"kafka-maintenance: {why}")
    return ExitStatus.OUTSIDE_FAILED if damaged else ExitStatus.DONE


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


def _show(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.apply.executions import begun_plan, record_of, timeline
    from kafka_maintenance.operations.record.state_changes import changes

    store, cluster = store_of(arguments), arguments.cluster
    found = record_of(store, cluster, begun_plan(store, cluster, arguments.digest))
    events = [asdict(each) for each in found]
    lines, changed = timeline(found), [str(each) for each in changes(events)]
    more = [f"{len(changed) - CHANGES_SHOWN_MAX:,} more with --json"] if len(changed) > CHANGES_SHOWN_MAX else []
    text = "\n".join((*lines, *([""] if changed else []), *changed[:CHANGES_SHOWN_MAX], *more))
    show(arguments, text, {"timeline": list(lines), "state_changes": changed, "events": events})
    return ExitStatus.DONE


def _verify(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.apply.executions import timeline
    from kafka_maintenance.operations.apply.plan import verify
    from kafka_maintenance.operations.plans.store import load_plan
    from kafka_maintenance.operations.record.receipts import read_events

    store = plan_store_of(arguments)
    plan = load_plan(store, arguments.plan)
    events = read_events(store, plan.cluster, plan.digest)
    found = verify(store=store, plan_uri=arguments.plan, zookeeper=address_of(arguments))
    lines = timeline(events) or ("never begun",)
    document = {
        "plan": plan.digest,
        "holds": found.done,
        "text": found.text,
        "events": [asdict(each) for each in events],
    }
    show(arguments, "\n".join((*lines, found.text)), document)
    return ExitStatus.DONE if found.done else ExitStatus.FOUND


def _stop(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.apply.executions import (
        begun_plan,
        record_of,
        refuse_to_stop,
        request_stop,
        timeline,
    )

    store = store_of(arguments)
    digest = begun_plan(store, arguments.cluster, arguments.digest)
    events = record_of(store, arguments.cluster, digest)
    refuse_to_stop(arguments.cluster, digest, events)
    lines = timeline(events)
    uri = request_stop(
        store,
        arguments.cluster,
        digest,
        by=approver_of(arguments),
        reason=arguments.reason,
        now=datetime.now(UTC),
    )
    asked = done(arguments, f"asked for; the last of the record is:\n{lines[-1]}\n{uri}")
    show(arguments, asked, {"request": uri, "last": lines[-1]})
    return ExitStatus.DONE


def _cancel(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.apply.cancel import cancel, cancellation
    from kafka_maintenance.operations.apply.executions import begun_plan
    from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
    from kafka_maintenance.operations.gate.cancels import refuse_cancel
    from kafka_maintenance.operations.gate.policy import policy_of

    store, cluster = store_of(arguments), arguments.cluster
    digest = begun_plan(store, cluster, arguments.digest)
    if not arguments.approve:
        found = cancellation(store, cluster, digest, address_of(arguments), datetime.now(UTC))
        show(arguments, found.text, {"found": found._asdict()})
        return not_yet_approved(arguments, f"nothing cancelled; to do it: --approve {found.digest}")
    policy, by = policy_of(cluster, arguments.policy), approver_of(arguments)
    if policy.command_may_apply != "yes":
        raise RefusedError(
            f"plan {digest} not cancelled: the policy of {cluster!r} says command_may_apply: {policy.command_may_apply}; start the DAG "
            "cancel_execution"
        )
    refuse_cancel(policy, cluster, by, arguments.reason)
    told = cancel(
        store=store,
        cluster=cluster,
        digest=digest,
        zookeeper=address_of(arguments),
        brokers=BrokersAsked(arguments.bootstrap_servers, client_settings_of(arguments.client_settings)),
        approved_digest=arguments.approve,
        by=by,
        reason=arguments.reason,
        now=datetime.now(UTC),
    )
    show(arguments, told, {"cancelled": digest, "text": told})
    return ExitStatus.DONE


def _unlock(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.apply.executions import left_behind, unlock
    from kafka_maintenance.operations.cluster.observe import session

    store = store_of(arguments)
    if arguments.approve:
        found = unlock(
            store=store,
            cluster=arguments.cluster,
            zookeeper=address_of(arguments),
            approved_digest=arguments.approve,
            approver=approver_of(arguments),
            now=datetime.now(UTC),
        )
        show(arguments, f"removed:\n{found.text}", {"removed": found._asdict()})
        return ExitStatus.DONE
    with session(address_of(arguments)) as opened:
        found = left_behind(store, arguments.cluster, opened)
    show(arguments, found.text, {"found": found._asdict()})
    if not (found.znodes or found.throttled):
        return ExitStatus.DONE
    return not_yet_approved(arguments, f"nothing removed; when no run of ours is at work: --approve {found.digest}")
