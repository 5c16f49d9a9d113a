"""`kafka-maintenance plan`: makes plans for approval; nothing is written to a cluster."""

import argparse
import re
from pathlib import Path
from typing import Any

from controller_core.adapters.object_store.open import open_store
from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.plan import PlanKind
from controller_core.plans.request_znodes import LeaderMove, Target
from controller_core.znodes import decode_reassign_partitions
from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_age_argument,
    add_client_settings_argument,
    add_cluster_argument,
    add_json_argument,
    add_store_arguments,
    add_zookeeper_arguments,
    address_of,
    client_settings_of,
    given,
    natural,
    positive,
    replacement,
    show,
    store_of,
    throttle,
)
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError

LOG_DIRS = "log-dirs"


def add_parsers(commands: Any) -> None:
    """Adds the sub-command with its kinds."""
    command = commands.add_parser(
        "plan", help="make a plan for approval", description="Makes a plan; writes nothing to a cluster."
    )
    kinds = command.add_subparsers(title="kinds", metavar="KIND", required=True)
    _add_elections(kinds)
    _add_reassignment(kinds)
    _add_deletions(kinds)
    _add_drain(kinds)
    _add_leaders(kinds)
    shown = kinds.add_parser(
        "show", help="print a stored plan", description="Prints a stored plan as its approver reads it."
    )
    shown.add_argument("plan", metavar="PLAN", help="address of the stored plan")
    add_json_argument(shown)
    shown.set_defaults(run=_show_plan)


def _add_elections(kinds: Any) -> None:
    elections = _plan_parser(kinds, "elections", "give partitions back to their preferred leaders")
    elections.add_argument(
        "--topic", metavar="PATTERN", action="append", default=[], help="only these topics (repeatable)"
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
    goals = moves.add_argument_group("what the planner is to achieve, without --targets")
    goals.add_argument("--aim", choices=("balance", "repair", "leaders"), help="(default: balance)")
    goals.add_argument("--move-count-max", metavar="N", type=positive, help="at most so many replicas copied")
    goals.add_argument("--drain-broker", metavar="ID", type=natural, action="append", help="empty it (repeatable)")
    goals.add_argument(
        "--replace-broker",
        metavar="OLD=NEW",
        type=replacement,
        action="append",
        help="NEW gets all that OLD holds, nobody else moves (repeatable)",
    )
    goals.add_argument("--replication-factor", metavar="N", type=positive, help="for all chosen topics")
    goals.add_argument("--include", metavar="PATTERN", action="append", help="only these topics (repeatable)")
    goals.add_argument("--exclude", metavar="PATTERN", action="append", help="not these topics (repeatable)")
    goals.add_argument(
        "--ignore-racks",
        action="store_true",
        help="plan as if there were no racks, also where only some brokers have one",
    )
    goals.add_argument("--tolerance", metavar="N", type=natural, help="widens all bounds alike (default: 0, topics 1)")
    _add_size_arguments(goals)
    moves.set_defaults(run=_plan_reassignment)


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
        action="append",
        default=[],
        help="it shall lead nothing (repeatable)",
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
        "--topic", metavar="PATTERN", action="append", default=[], help="only these topics (repeatable)"
    )
    leaders.set_defaults(run=_plan_leaders)


def add_rollback(commands: Any) -> None:
    """The command that makes the plan which undoes another one."""
    command = commands.add_parser(
        "rollback",
        help="make the plan that undoes what a reassignment plan has changed so far",
        description="Makes a plan from the record of another one and the live cluster; writes nothing to a cluster.",
    )
    command.add_argument("digest", metavar="DIGEST", help="64 hex digits of the plan to undo")
    add_cluster_argument(command)
    add_store_arguments(command)
    add_zookeeper_arguments(command)
    _add_throttle(command)
    command.add_argument("--kafka-version", metavar="X.Y", help="of the brokers (default: what the metadata shows)")
    add_json_argument(command)
    command.set_defaults(run=_plan_rollback)


def _add_throttle(command: Any) -> None:
    command.add_argument(
        "--throttle-bytes-per-s",
        metavar="N|auto:N-N|none",
        type=throttle,
        help="how fast each broker may send, and receive, what is copied, or between which rates the run chooses (default: none, as fast as it "
        "can; the plan says which)",
    )


def _plan_parser(
    kinds: Any, name: str, what: str, *, live: bool = False, versioned: bool = True
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = kinds.add_parser(name, help=what, description=f"Makes a plan to {what}.")
    add_cluster_argument(command)
    add_store_arguments(command)
    add_zookeeper_arguments(command, required=live)
    if not live:
        command.add_argument("--manifest", metavar="URI", help="plan from this snapshot (default: the newest, or live)")
    if versioned:
        command.add_argument("--kafka-version", metavar="X.Y", help="of the brokers (default: what the metadata shows)")
    add_json_argument(command)
    return command


def _source(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a planning operation that say what it plans from."""
    if arguments.manifest and arguments.zookeeper:
        raise BadInputError("nothing planned: --manifest and --zookeeper exclude each other; give one of them")
    return {"manifest": arguments.manifest, "kafka_version": arguments.kafka_version}


def _plan_elections(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans import make as planning  # noqa: PLC0415 - the other commands start faster

    extra = {"election_count_max": arguments.election_count_max, "topics": arguments.topic}
    pace = given({"elections_per_minute": arguments.elections_per_minute})
    return _planned(arguments, planning.plan_elections, **_source(arguments), **extra, **pace)


def _plan_reassignment(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans import make as planning  # noqa: PLC0415 - the other commands start faster

    return _planned(
        arguments,
        planning.plan_reassignment,
        **_source(arguments),
        waves=[targets_of(path) for path in arguments.targets] or None,
        may_change_replication_factor=arguments.change_replication_factor,
        throttle_bytes_per_s=arguments.throttle_bytes_per_s,
        goals=_goals(arguments),
        limits=_limits(arguments),
        sizes=_sizes(arguments),
    )


def _goals(arguments: argparse.Namespace) -> Any:
    """The goals, None where no option names one."""
    from spark_jobs.planner.goals import Goals, replacements  # noqa: PLC0415 - the other commands start faster

    wanted = given(
        {
            "aim": arguments.aim,
            "tolerance": arguments.tolerance,
            "ignore_racks": arguments.ignore_racks or None,
            "drain": arguments.drain_broker,
            "replace": replacements(arguments.replace_broker or ()),
            "replication_factor": arguments.replication_factor,
            "include_topics": arguments.include,
            "exclude_topics": arguments.exclude,
            "moves_max": arguments.move_count_max,
            "bytes_max": arguments.bytes_max,
            "bytes_tolerance": arguments.bytes_tolerance,
        }
    )
    return Goals.from_json(wanted) if wanted else None


def _add_size_arguments(goals: Any) -> None:
    goals.add_argument(
        "--sizes",
        metavar=f"FILE|{LOG_DIRS}",
        help=f"bytes of the partitions: from a file as plan-file reads it, or `{LOG_DIRS}`: as the brokers say",
    )
    goals.add_argument("--bootstrap-servers", metavar="HOST:PORT,…", help=f"brokers to ask, for --sizes {LOG_DIRS}")
    add_client_settings_argument(goals)
    goals.add_argument("--bytes-max", metavar="N", type=natural, help="bytes copied at most; widens the tolerance")
    goals.add_argument(
        "--bytes-tolerance", metavar="X", type=float, help="wanted excess of bytes per broker over the mean, e.g. 0.1"
    )
    goals.add_argument("--wave-bytes", metavar="N", type=positive, help="bytes a broker receives, or sends, in a wave")
    goals.add_argument(
        "--bandwidth", metavar="BYTES", type=positive, help="per second and broker, for the estimated duration"
    )
    goals.add_argument("--window-s", metavar="S", type=positive, help="how long a wave may take, for its throttle")


def _limits(arguments: argparse.Namespace) -> Any:
    """The limits of waves, None where no option names one."""
    from spark_jobs.planner.waves import Limits  # noqa: PLC0415 - loads numpy

    wanted = given(
        {
            "broker_bytes_max": arguments.wave_bytes,
            "bandwidth": arguments.bandwidth,
            "window_s": arguments.window_s,
        }
    )
    return Limits(**wanted) if wanted else None


def _sizes(arguments: argparse.Namespace) -> Any:
    """The sizes of the partitions, None where they are not asked for."""
    from kafka_maintenance.operations.plans import sizes as partition_sizes  # noqa: PLC0415 - the other commands start faster

    if (arguments.sizes == LOG_DIRS) != bool(arguments.bootstrap_servers):
        raise BadInputError(
            f"nothing planned: --sizes {LOG_DIRS} and --bootstrap-servers belong together; give both or none"
        )
    if arguments.client_settings is not None and arguments.sizes != LOG_DIRS:
        raise BadInputError(
            f"nothing planned: --client-settings {arguments.client_settings} is for --sizes {LOG_DIRS}, which is missing; "
            "give both or none"
        )
    if arguments.sizes is None:
        return None
    if arguments.sizes == LOG_DIRS:
        client = client_settings_of(arguments.client_settings)
        return partition_sizes.sizes_from_log_dirs(BrokersAsked(arguments.bootstrap_servers, client))
    return partition_sizes.sizes_from_file(Path(arguments.sizes))


def _plan_deletions(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans import make as planning  # noqa: PLC0415 - the other commands start faster

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
        planning.plan_deletions,
        **_source(arguments),
        topics=arguments.topics,
        even_if_used=arguments.even_if_used,
        **extra,
    )


def _plan_drain(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans import make as planning  # noqa: PLC0415 - the other commands start faster

    extra = {"age_min_s": arguments.age_min_s, "kafka_version": arguments.kafka_version}
    return _planned(arguments, planning.plan_drain, **extra)


def _plan_rollback(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.rollback import plan_rollback  # noqa: PLC0415 - the other commands start faster

    return _planned(
        arguments,
        plan_rollback,
        digest=arguments.digest,
        throttle_bytes_per_s=arguments.throttle_bytes_per_s,
        kafka_version=arguments.kafka_version,
    )


def _plan_leaders(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.leaders import plan_leader_moves  # noqa: PLC0415 - the other commands start faster

    return _planned(
        arguments,
        plan_leader_moves,
        brokers=arguments.drain_broker,
        racks=arguments.drain_rack,
        moves=arguments.move,
        topics=arguments.topic,
    )


def _leader_move(text: str) -> LeaderMove:
    """`orders-0=3` → the move of that leader."""
    found = re.fullmatch(r"(.+)-(\d+)=(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected TOPIC-PARTITION=BROKER, found {text!r}")
    return LeaderMove(TopicPartition(found[1], int(found[2])), BrokerId(int(found[3])))


def _planned(arguments: argparse.Namespace, make: Any, **what: Any) -> int:
    live = address_of(arguments) if arguments.zookeeper else None
    plan = make(store_of(arguments), arguments.cluster, zookeeper=live, **what)
    if plan is None:
        show(arguments, "nothing to do, no plan was made", {"plan": None})
    else:
        command = "act-as-controller" if plan.kind == PlanKind.MOVE_LEADERS else "apply"
        hint = f"to apply: kafka-maintenance {command} {plan.uri} --approve {plan.digest} --zookeeper HOSTS[/CHROOT]"
        show(arguments, f"{plan.markdown}\n{hint}\n{plan.uri}", plan_document(plan))
    return ExitStatus.DONE


def _show_plan(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.store import load_plan, split_uri  # noqa: PLC0415 - as above

    plan = load_plan(open_store(split_uri(arguments.plan)[0]), arguments.plan)
    show(arguments, plan.markdown, plan_document(plan))
    return ExitStatus.DONE


def plan_document(plan: Any) -> dict[str, Any]:
    """What `--json` prints of a stored plan."""
    names = ("uri", "digest", "kind", "cluster", "summary", "count", "rollback_uri")
    return {"plan": {name: getattr(plan, name) for name in names}}


def targets_of(path: Path) -> list[Target]:
    """The targets in a file of Kafka's reassignment JSON.

    Raises:
        BadInputError: it is not readable, or something else.
    """
    try:
        targets = decode_reassign_partitions(path.read_bytes(), path=str(path), bound_to_class=False)
    except (OSError, MalformedZnodeError) as error:
        raise BadInputError(f"targets not read: {error}; expected Kafka's reassignment JSON in {path}") from None
    return [Target(partition, tuple(map(BrokerId, replicas))) for partition, replicas in targets.items()]
