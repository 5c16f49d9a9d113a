"""`kafka-maintenance`: the operations of the DAGs without Airflow; each sub-command calls what a DAG's task calls.

Exit status: 0 done, 1 refused or nothing applied, 2 bad input, 3 the outside failed.
"""

import argparse
import getpass
import json
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from controller_core.errors import ControllerCoreError, MalformedZnodeError
from controller_core.model import BrokerId
from controller_core.requests import Target
from controller_core.znodes import decode_reassign_partitions
from kafka_maintenance import __version__, cli_analyse, cli_plan_file, cli_snapshots
from kafka_maintenance.cli_common import (
    ExitStatus,
    add_cluster_argument,
    add_json_argument,
    add_store_arguments,
    add_zookeeper_arguments,
    auth_of,
    cluster_of,
    exit_status,
    show,
    store_of,
    tell,
    tls_of,
    wants_json,
)
from kafka_maintenance.operations.errors import BadInputError

TRACEBACK_VARIABLE: Final = "KAFKA_MAINTENANCE_TRACEBACK"
_INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit status; an error is one line on standard error, never a traceback.

    With `--json` the error is also a document on standard output: `{"error": class, "message": text}`. A traceback is
    printed when the environment variable `KAFKA_MAINTENANCE_TRACEBACK` is set.
    """
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # what it would say is in our own messages
    parsed = parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed) or ExitStatus.DONE)
    except KeyboardInterrupt:
        print("kafka-maintenance: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the outermost place: whatever it is becomes a message and a status
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        status = exit_status(error)
        message = _message(error)
        if wants_json(parsed):
            print(json.dumps({"error": type(error).__name__, "message": message, "exit_status": int(status)}, indent=1))
        print(f"kafka-maintenance: {message}", file=sys.stderr)
        return int(status)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    root = argparse.ArgumentParser(
        prog="kafka-maintenance",
        description="Snapshots, analysis and approved repairs of ZooKeeper-mode Kafka clusters.",
        epilog="Exit status: 0 done, 1 refused or nothing applied, 2 bad input, 3 the outside failed.",
    )
    root.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    add_json_argument(root)
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_snapshot(commands)
    cli_snapshots.add_parsers(commands)
    cli_analyse.add_parsers(commands)
    _add_plan(commands)
    cli_plan_file.add_parsers(commands)
    _add_apply(commands)
    _add_drain(commands)
    _add_stack(commands)
    return root


def _message(error: Exception) -> str:
    if isinstance(error, ControllerCoreError | OSError | ValueError) or type(error).__module__.startswith(
        ("kafka_maintenance", "spark_jobs")
    ):
        return str(error) or type(error).__name__
    return f"internal error, {type(error).__name__}: {error}; set {TRACEBACK_VARIABLE}=1 to see where, and report it"


# ----------------------------------------------------------------------------------------------------- snapshot


def _add_snapshot(commands: Any) -> None:
    command = commands.add_parser(
        "snapshot",
        help="store the cluster's metadata",
        description="Stores the whole tree of a cluster, once per run id.",
    )
    add_zookeeper_arguments(command)
    add_cluster_argument(command)
    add_store_arguments(command)
    command.add_argument("--run-id", metavar="ID", help="names the run: a second call with it makes no second snapshot")
    command.add_argument("--key-file", metavar="FILE", type=Path, help="keep secrets, sealed with this key")
    add_json_argument(command)
    command.set_defaults(run=_snapshot)


def _snapshot(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshot import take_snapshot  # noqa: PLC0415 - the other commands start faster

    now = datetime.now(UTC)
    result = take_snapshot(
        zookeeper=arguments.zookeeper,
        auth=auth_of(arguments),
        tls=tls_of(arguments),
        cluster=arguments.cluster,
        store=store_of(arguments),
        run_id=arguments.run_id or f"command-{now:%Y%m%dT%H%M%S}-{os.getpid()}",
        now=now,
        key_file=arguments.key_file,
        progress=cli_snapshots.progress_teller(),
    )
    sure = "consistent" if result.consistent else "NOT consistent"
    made = "snapshot taken" if result.created else "this run had its snapshot already"
    counts = ", ".join(f"{count} {name}" for name, count in result.counts.items() if count)
    show(
        arguments,
        f"{made}: {sure} at zxid {result.zxid:#x}; {counts}\n{result.manifest_uri}",
        {
            "manifest_uri": result.manifest_uri,
            "digest": result.digest,
            "consistent": result.consistent,
            "zxid": result.zxid,
            "counts": dict(result.counts),
            "created": result.created,
        },
    )
    return ExitStatus.DONE


# --------------------------------------------------------------------------------------------------------- plan


def _add_plan(commands: Any) -> None:
    command = commands.add_parser(
        "plan", help="make a plan for approval", description="Makes a plan; writes nothing to a cluster."
    )
    kinds = command.add_subparsers(title="kinds", metavar="KIND", required=True)
    elections = _plan_parser(kinds, "elections", "give partitions back to their preferred leaders")
    elections.add_argument(
        "--topic", metavar="PATTERN", action="append", default=[], help="only these topics (repeatable)"
    )
    elections.add_argument("--election-count-max", metavar="N", type=_positive, help="at most so many elections")
    elections.set_defaults(run=_plan_elections)
    moves = _plan_parser(kinds, "reassignment", "move replicas: to the targets of a file, or as the planner proposes")
    moves.add_argument(
        "--targets",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="Kafka's reassignment JSON; more than one: one wave each, in this order (default: the planner decides)",
    )
    moves.add_argument("--change-replication-factor", action="store_true", help="targets may be longer or shorter")
    goals = moves.add_argument_group("what the planner is to achieve, without --targets")
    goals.add_argument(
        "--aim", choices=("balance", "repair", "leaders"), default="balance", help="(default: %(default)s)"
    )
    goals.add_argument("--move-count-max", metavar="N", type=_positive, help="at most so many replicas copied")
    goals.add_argument(
        "--drain-broker", metavar="ID", type=int, action="append", default=[], help="empty it (repeatable)"
    )
    goals.add_argument("--replication-factor", metavar="N", type=_positive, help="for all chosen topics")
    goals.add_argument("--include", metavar="PATTERN", action="append", help="only these topics (repeatable)")
    goals.add_argument(
        "--exclude", metavar="PATTERN", action="append", default=[], help="not these topics (repeatable)"
    )
    goals.add_argument("--tolerance", metavar="N", type=_natural, help="widens all bounds alike (default: 0, topics 1)")
    moves.set_defaults(run=_plan_reassignment)
    deletions = _plan_parser(kinds, "deletions", "delete topics that are eligible")
    deletions.add_argument("topics", metavar="TOPIC", nargs="+", help="exact name")
    deletions.set_defaults(run=_plan_deletions)
    drain = _plan_parser(kinds, "drain", "force a re-election where ISR-change notifications linger", live=True)
    _add_age_argument(drain)
    drain.set_defaults(run=_plan_drain)
    shown = kinds.add_parser(
        "show", help="print a stored plan", description="Prints a stored plan as its approver reads it."
    )
    shown.add_argument("plan", metavar="PLAN", help="address of the stored plan")
    add_json_argument(shown)
    shown.set_defaults(run=_show_plan)


def _plan_parser(kinds: Any, name: str, what: str, *, live: bool = False) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = kinds.add_parser(name, help=what, description=f"Makes a plan to {what}.")
    add_cluster_argument(command)
    add_store_arguments(command)
    add_zookeeper_arguments(command, required=live)
    if not live:
        command.add_argument("--manifest", metavar="URI", help="plan from this snapshot (default: the newest, or live)")
    command.add_argument("--kafka-version", metavar="X.Y", help="of the brokers (default: what the metadata shows)")
    add_json_argument(command)
    return command


def _source(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a planning operation that say what it plans from."""
    if arguments.manifest and arguments.zookeeper:
        raise BadInputError("nothing planned: --manifest and --zookeeper exclude each other; give one of them")
    return {"manifest": arguments.manifest, "kafka_version": arguments.kafka_version}


def _plan_elections(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations import planning  # noqa: PLC0415 - the other commands start faster

    extra = {"election_count_max": arguments.election_count_max, "topics": arguments.topic}
    return _planned(arguments, planning.plan_elections, **_source(arguments), **extra)


def _plan_reassignment(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations import planning  # noqa: PLC0415 - the other commands start faster

    waves = [_targets(path) for path in arguments.targets]
    extra: dict[str, Any] = {"may_change_replication_factor": arguments.change_replication_factor}
    extra |= {"waves": waves} if waves else {"goals": _goals(arguments)}
    return _planned(arguments, planning.plan_reassignment, **_source(arguments), **extra)


def _goals(arguments: argparse.Namespace) -> Any:
    from spark_jobs.planner.goals import Aim, Goals, Tolerance  # noqa: PLC0415 - the other commands start faster

    width = arguments.tolerance
    return Goals(
        aim=Aim(arguments.aim),
        tolerance=Tolerance() if width is None else Tolerance.uniform(width),
        drain=frozenset(arguments.drain_broker),
        replication_factor=arguments.replication_factor,
        include_topics=tuple(arguments.include or ["*"]),
        exclude_topics=tuple(arguments.exclude),
        moves_max=arguments.move_count_max,
        curve_tolerances=(),
    )


def _plan_deletions(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations import planning  # noqa: PLC0415 - the other commands start faster

    return _planned(arguments, planning.plan_deletions, **_source(arguments), topics=arguments.topics)


def _plan_drain(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations import planning  # noqa: PLC0415 - the other commands start faster

    extra = {"age_min_s": arguments.age_min_s, "kafka_version": arguments.kafka_version}
    return _planned(arguments, planning.plan_drain, **extra)


def _planned(arguments: argparse.Namespace, make: Any, **what: Any) -> int:
    plan = make(store_of(arguments), arguments.cluster, **cluster_of(arguments), **what)
    if plan is None:
        show(arguments, "nothing to do, no plan was made", {"plan": None})
    else:
        hint = f"to apply: kafka-maintenance apply {plan.uri} --approve {plan.digest} --zookeeper HOSTS[/CHROOT]"
        show(arguments, f"{plan.markdown}\n{hint}\n{plan.uri}", _plan_document(plan))
    return ExitStatus.DONE


def _show_plan(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.stored_plans import load_plan, opened, split_uri  # noqa: PLC0415 - as above

    plan = load_plan(opened(split_uri(arguments.plan)[0]), arguments.plan)
    show(arguments, plan.markdown, _plan_document(plan))
    return ExitStatus.DONE


def _plan_document(plan: Any) -> dict[str, Any]:
    names = ("uri", "digest", "kind", "cluster", "summary", "count", "rollback_uri")
    return {"plan": {name: getattr(plan, name) for name in names}}


def _targets(path: Path) -> list[Target]:
    try:
        targets = decode_reassign_partitions(path.read_bytes(), path=str(path), bound_to_class=False)
    except (OSError, MalformedZnodeError) as error:
        raise BadInputError(f"targets not read: {error}; expected Kafka's reassignment JSON in {path}") from None
    return [Target(partition, tuple(map(BrokerId, replicas))) for partition, replicas in targets.items()]


# -------------------------------------------------------------------------------------------------------- apply


def _add_apply(commands: Any) -> None:
    command = commands.add_parser(
        "apply",
        help="carry out an approved plan",
        description="Carries out a stored plan, if its digest is the approved one and the cluster is as it assumes. "
        "Without --approve it prints the plan and applies nothing.",
    )
    command.add_argument("plan", metavar="PLAN", help="address of the stored plan")
    command.add_argument("--approve", metavar="DIGEST", help="the 64 hex digits of the plan that you have read")
    command.add_argument("--approver", metavar="NAME", help="for the receipt (default: the user of this process)")
    command.add_argument(
        "--step-timeout-s", metavar="S", type=_positive, help="how long a step's outcome is waited for"
    )
    add_zookeeper_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_apply)


def _apply(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.apply import apply_plan  # noqa: PLC0415 - the other commands start faster
    from kafka_maintenance.operations.stored_plans import load_plan, opened, split_uri  # noqa: PLC0415 - as above

    store = opened(split_uri(arguments.plan)[0])
    if not arguments.approve:
        plan = load_plan(store, arguments.plan)
        show(arguments, plan.markdown, {**_plan_document(plan), "applied": False})
        tell(f"kafka-maintenance: nothing applied; after reading the plan: --approve {plan.digest}")
        return ExitStatus.REFUSED
    receipt = apply_plan(
        store=store,
        plan_uri=arguments.plan,
        approved_digest=arguments.approve,
        approver=arguments.approver or getpass.getuser(),
        **cluster_of(arguments),
        now=datetime.now(UTC),
        step_timeout_s=arguments.step_timeout_s,
    )
    document = {
        name: getattr(receipt, name) for name in ("uri", "digest", "kind", "cluster", "already_applied", "text")
    }
    show(arguments, f"{receipt.text}\n{receipt.uri}", {"applied": True, "receipt": document})
    return ExitStatus.DONE


# -------------------------------------------------------------------------------------------------------- drain


def _add_drain(commands: Any) -> None:
    command = commands.add_parser(
        "drain",
        help="report ISR-change notifications",
        description="Reports the ISR-change notifications that wait. `plan drain` plans to drain those that linger.",
    )
    add_zookeeper_arguments(command)
    _add_age_argument(command)
    add_json_argument(command)
    command.set_defaults(run=_drain)


def _add_age_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--age-min-s",
        metavar="S",
        type=float,
        default=60.0,
        help="from which age on one lingers (default: %(default)s)",
    )


def _drain(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.drain import report  # noqa: PLC0415 - the other commands start faster

    found = report(**cluster_of(arguments), age_min_s=arguments.age_min_s)
    document = {name: getattr(found, name) for name in found.__slots__ if name not in {"text", "partitions"}}
    show(arguments, found.text, {**document, "partitions": [str(partition) for partition in found.partitions]})
    return ExitStatus.DONE


# -------------------------------------------------------------------------------------------------------- stack


def _add_stack(commands: Any) -> None:
    command = commands.add_parser(
        "stack", help="the local stack", description="A whole stack on this machine, on loopback."
    )
    actions = command.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, what in (("up", "start it and leave it running"), ("down", "stop it"), ("status", "what of it runs")):
        action = actions.add_parser(name, help=what, description=f"The local stack: {what}.")
        action.add_argument(
            "--folder", metavar="DIR", type=Path, help="where its data and logs are (default: .local/stack)"
        )
        add_json_argument(action)
        action.set_defaults(run=_stack, action=name)
        if name == "up":
            action.add_argument("--kafka-version", metavar="X.Y", default="3.9", help="(default: %(default)s)")
            action.add_argument("--brokers", metavar="N", type=_positive, default=3, help="(default: %(default)s)")
            action.add_argument("--ibp", metavar="X.Y", help="inter.broker.protocol.version of the brokers")
            action.add_argument("--no-airflow", action="store_true", help="without Airflow and its database")


def _stack(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.local import stack  # noqa: PLC0415 - only for a local stack

    folder = arguments.folder or stack.DEFAULT_FOLDER
    if arguments.action == "up":
        settings = stack.StackSettings(
            kafka_version=arguments.kafka_version,
            brokers=arguments.brokers,
            inter_broker_protocol_version=arguments.ibp,
            airflow=not arguments.no_airflow,
        )
        found: dict[str, Any] = stack.up(folder, settings, say=tell)
    elif arguments.action == "down":
        stopped = stack.down(folder)
        found = {"folder": str(folder), "stopped": stopped}
    else:
        found = stack.status(folder)
    show(arguments, "\n".join(f"{name}: {value}" for name, value in found.items()), found)
    return ExitStatus.DONE


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 on, found {text!r}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, found {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
