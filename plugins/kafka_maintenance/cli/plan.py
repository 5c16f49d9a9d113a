"""`kafka-maintenance plan`: makes plans for approval; nothing is written to a cluster."""

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import Any

from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import BrokerId
from controller_core.plans.plain import plain
from controller_core.plans.plan import PlanKind
from controller_core.plans.request_znodes import LeaderMove, Target
from controller_core.ports.object_store import ObjectStore
from controller_core.znodes import decode_reassign_partitions
from controller_core.znodes.json_text import parse_object
from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_age_argument,
    add_client_settings_argument,
    add_cluster_argument,
    add_dry_run_argument,
    add_json_argument,
    add_plan_argument,
    add_store_arguments,
    client_settings_of,
    given,
    is_dry,
    natural,
    plan_store_of,
    positive,
    show,
    show_markdown,
    store_of,
    throttle,
)
from kafka_maintenance.cli.plan_goals import add_goal_arguments, add_size_arguments, goals_of, limits_of, sizes_of
from kafka_maintenance.cli.progress import Bars
from kafka_maintenance.cli.snapshot_arguments import add_snapshot_option, snapshot_uri
from kafka_maintenance.cli.zookeeper_arguments import add_zookeeper_arguments, address_of
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError, listed


def add_parsers(commands: Any) -> None:
    """Adds the sub-command with its kinds."""
    command = commands.add_parser(
        "plan", help="make a plan for approval", description="Makes a plan; writes nothing to a cluster."
    )
    kinds = command.add_subparsers(title="kinds", metavar="KIND", required=True)
    _add_elections(kinds)
    _add_reassignment(kinds)
    _add_cancel(kinds)
    _add_deletions(kinds)
    _add_drain(kinds)
    _add_leaders(kinds)
    shown = kinds.add_parser(
        "show", help="print a stored plan", description="Prints a stored plan as its approver reads it."
    )
    add_plan_argument(shown)
    add_json_argument(shown)
    shown.set_defaults(run=_show_plan)


def _add_elections(kinds: Any) -> None:
    elections = _plan_parser(kinds, "elections", "give partitions back to their preferred leaders")
    elections.add_argument(
        "--topics", metavar="PATTERN", action="append", default=[], help="only these topics (repeatable)"
    )
    elections.add_argument("--election-count-max", metavar="N", type=positive, help="at most so many elections")
    elections.add_argument(
        "--elections-per-minute",
        metavar="N",
        type=positive,
        help="elections in one step; a minute passes between two steps (default: 1000)",
    )
    elections.set_defaults(run=_plan_elections)


def _add_reassignment(kinds: Any) -> None:
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
    _add_throttle(moves)
    add_goal_arguments(moves)
    moves.set_defaults(run=_plan_reassignment)


def _add_cancel(kinds: Any) -> None:
    cancel = _plan_parser(kinds, "cancel", "take back every reassignment that Kafka works at, whoever asked for it")
    cancel.set_defaults(run=_plan_cancel)


def _add_deletions(kinds: Any) -> None:
    deletions = _plan_parser(kinds, "deletions", "delete topics that are eligible")
    deletions.add_argument("topics", metavar="TOPIC", nargs="+", help="exact name")
    deletions.add_argument("--bootstrap-servers", metavar="HOST:PORT,…", help="brokers to ask who uses the topics")
    add_client_settings_argument(deletions)
    deletions.add_argument(
        "--unused-days", metavar="N", type=positive, help="written to within N days is in use (default: 30)"
    )
    deletions.add_argument(
        "--even-if-used", action="store_true", help="also what is in use, or what a program made for itself"
    )
    deletions.set_defaults(run=_plan_deletions)


def _add_drain(kinds: Any) -> None:
    drain = _plan_parser(kinds, "drain", "force a re-election where ISR-change notifications linger", live=True)
    add_age_argument(drain)
    drain.set_defaults(run=_plan_drain)


def _add_leaders(kinds: Any) -> None:
    leaders = _plan_parser(
        kinds, "leaders", "move leaders to chosen in-sync replicas, as active controller", live=True, versioned=False
    )
    leaders.add_argument(
        "--drain-broker",
        metavar="ID",
        type=natural,
        nargs="+",
        action="extend",
        default=[],
        help="they shall lead nothing",
    )
    leaders.add_argument(
        "--drain-rack", metavar="RACK", action="append", default=[], help="its brokers shall lead nothing (repeatable)"
    )
    leaders.add_argument(
        "--move",
        metavar="TOPIC-PARTITION=ID",
        type=_leader_move,
        action="append",
        default=[],
        help="a new leader (repeatable)",
    )
    leaders.add_argument(
        "--spread-bytes",
        metavar="X",
        type=float,
        help="each broker shall lead at most this much more than the mean, in bytes: 0.1 is a tenth; needs --sizes",
    )
    add_size_arguments(leaders)
    leaders.add_argument(
        "--topics", metavar="PATTERN", action="append", default=[], help="only these topics (repeatable)"
    )
    leaders.set_defaults(run=_plan_leaders)


def add_rollback(commands: Any) -> None:
    """The command that makes the plan which undoes another one."""
    command = commands.add_parser(
        "rollback",
        help="make the plan that undoes what a reassignment plan has changed so far",
        description="Makes a plan from the record of another one and the live cluster; writes nothing to a cluster.",
    )
    command.add_argument("digest", metavar="DIGEST", help="of the plan to undo, or its beginning")
    add_cluster_argument(command)
    add_store_arguments(command)
    add_zookeeper_arguments(command)
    _add_throttle(command)
    command.add_argument("--kafka-version", metavar="X.Y", help="of the brokers (default: what the metadata shows)")
    add_dry_run_argument(command)
    add_json_argument(command)
    command.set_defaults(run=_plan_rollback)


def _add_throttle(command: Any) -> None:
    command.add_argument(
        "--throttle-bytes-per-s",
        metavar="N|auto:…|none",
        type=throttle,
        help="how fast each broker may send, and receive, what is copied: N bytes; auto:LEAST-MOST, between which the run chooses; "
        "auto:BROKER=NETWORK/DISK,… , what each broker (* for the others) can spare of network and disks, from which the band is made "
        "(default: none, as fast as it can; the plan says which)",
    )


def _plan_parser(
    kinds: Any, name: str, what: str, *, live: bool = False, versioned: bool = True
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = kinds.add_parser(name, help=what, description=f"Makes a plan to {what}.")
    add_cluster_argument(command)
    add_store_arguments(command)
    add_zookeeper_arguments(command, required=live)
    if not live:
        add_snapshot_option(command, "from which it is planned (default: the newest, or live)")
    if versioned:
        command.add_argument("--kafka-version", metavar="X.Y", help="of the brokers (default: what the metadata shows)")
    add_dry_run_argument(command)
    add_json_argument(command)
    return command


def _source(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a planning operation that say what it plans from."""
    if arguments.snapshot and arguments.zookeeper:
        raise BadInputError("nothing planned: --snapshot and --zookeeper exclude each other; give one of them")
    return {"manifest": snapshot_uri(arguments), "kafka_version": arguments.kafka_version}


def _plan_elections(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.elections import plan_elections

    extra = {"election_count_max": arguments.election_count_max, "topics": arguments.topics}
    pace = given({"elections_per_minute": arguments.elections_per_minute})
    return _planned(arguments, plan_elections, **_source(arguments), **extra, **pace)


def _plan_reassignment(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.reassignment import plan_reassignment

    return _planned(
        arguments,
        plan_reassignment,
        **_source(arguments),
        waves=[targets_of(path) for path in arguments.targets] or None,
        may_change_replication_factor=arguments.change_replication_factor,
        throttle_bytes_per_s=arguments.throttle_bytes_per_s,
        goals=goals_of(arguments),
        limits=limits_of(arguments),
        sizes=sizes_of(arguments),
    )


def _plan_cancel(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.reassignment import plan_cancel

    return _planned(arguments, plan_cancel, **_source(arguments))


def _plan_deletions(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.deletions import plan_deletions

    servers, settings = arguments.bootstrap_servers, arguments.client_settings
    if servers is None and (settings is not None or arguments.unused_days is not None):
        raise BadInputError(
            "nothing planned: --client-settings and --unused-days are for --bootstrap-servers, which is missing; give them together"
        )
    extra = given({"unused_days": arguments.unused_days})
    if servers is not None:
        extra["brokers"] = BrokersAsked(servers, client_settings_of(settings))
    return _planned(
        arguments,
        plan_deletions,
        **_source(arguments),
        topics=arguments.topics,
        even_if_used=arguments.even_if_used,
        **extra,
    )


def _plan_drain(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.drain import plan_drain

    extra = {"age_min_s": arguments.age_min_s, "kafka_version": arguments.kafka_version}
    return _planned(arguments, plan_drain, **extra)


def _plan_rollback(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.apply.executions import begun_plan
    from kafka_maintenance.operations.plans.rollback import plan_rollback

    def make(store: ObjectStore, cluster: str, **what: Any) -> Any:
        return plan_rollback(store, cluster, digest=begun_plan(store, cluster, arguments.digest), **what)

    what = {"throttle_bytes_per_s": arguments.throttle_bytes_per_s, "kafka_version": arguments.kafka_version}
    return _planned(arguments, make, **what)


def _plan_leaders(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.leaders import ByBytes, plan_leader_moves

    if (arguments.spread_bytes is None) != (arguments.sizes is None):
        raise BadInputError("nothing planned: --spread-bytes and --sizes belong together; give both or none")
    sizes = sizes_of(arguments)
    return _planned(
        arguments,
        plan_leader_moves,
        brokers=arguments.drain_broker,
        racks=arguments.drain_rack,
        moves=arguments.move,
        by_bytes=None if arguments.spread_bytes is None else ByBytes(arguments.spread_bytes, sizes),
        topics=arguments.topics,
    )


def _leader_move(text: str) -> LeaderMove:
    """`orders-0=3` → the move of that leader."""
    found = re.fullmatch(r"(.+)-(\d+)=(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected TOPIC-PARTITION=BROKER, found {text!r}")
    return LeaderMove(found[1], int(found[2]), BrokerId(int(found[3])))


def _planned(arguments: argparse.Namespace, make: Any, **what: Any) -> int:
    live = address_of(arguments) if arguments.zookeeper else None
    with Bars("plan"):
        plan = make(store_of(arguments), arguments.cluster, zookeeper=live, **what)
    if plan is None:
        show(arguments, "nothing to do, no plan was made", {"plan": None})
    else:
        command = "act-as-controller" if plan.kind == PlanKind.MOVE_LEADERS else "apply"
        where = arguments.zookeeper or "HOSTS[/CHROOT]"
        hint = f"to apply: kafka-maintenance {command} {plan.uri} --approve {plan.digest} --zookeeper {where}"
        below = () if is_dry(arguments) else (hint, plan.uri)
        show_markdown(arguments, plan.markdown, below, plan_document(plan))
    return ExitStatus.DONE


def _show_plan(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.store import load_plan

    plan = load_plan(plan_store_of(arguments), arguments.plan)
    show_markdown(arguments, plan.markdown, (), plan_document(plan))
    return ExitStatus.DONE


def plan_document(plan: Any) -> dict[str, Any]:
    """What `--json` prints of a stored plan."""
    names = ("uri", "digest", "kind", "cluster", "summary", "count", "rollback_uri")
    return {"plan": {name: getattr(plan, name) for name in names}}


def targets_of(path: Path) -> list[Target]:
    """The targets in a file of Kafka's reassignment JSON.

    Raises:
        BadInputError: it is not readable, something else, or names a partition twice, of which Kafka would take the last one.
    """
    try:
        data = path.read_bytes()
        targets = decode_reassign_partitions(data, path=str(path), bound_to_class=False)
    except (OSError, MalformedZnodeError) as error:
        raise BadInputError(
            f"targets not read: {plain(str(error))}; expected Kafka's reassignment JSON in {path}"
        ) from None
    entries = parse_object(data, str(path)).objects("partitions") if targets else ()
    named = Counter(f"{entry.text('topic')}-{entry.integer('partition')}" for entry in entries)
    twice = sorted(name for name, count in named.items() if count > 1)
    if twice:
        raise BadInputError(
            f"targets not read: expected each partition once in {path}, found {listed(twice)} more than once; leave one entry of each"
        )
    return [Target(*partition, tuple(map(BrokerId, replicas))) for partition, replicas in targets.items()]
