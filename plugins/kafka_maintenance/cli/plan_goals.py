"""What the planner of a reassignment is to achieve, and within which limits: the options of `plan reassignment`."""

import argparse
from pathlib import Path
from typing import Any, Final

from kafka_maintenance.cli.arguments import (
    add_client_settings_argument,
    client_settings_of,
    given,
    natural,
    positive,
    replacement,
)
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError

LOG_DIRS: Final = "log-dirs"


def add_goal_arguments(moves: argparse.ArgumentParser) -> None:
    """Adds goals, sizes and limits, which count without `--targets`."""
    goals = moves.add_argument_group("what the planner is to achieve, without --targets")
    add_planner_arguments(goals, tolerance=None)
    add_size_arguments(goals)
    goals.add_argument("--wave-bytes", metavar="N", type=positive, help="bytes a broker receives, or sends, in a wave")
    goals.add_argument(
        "--bandwidth", metavar="BYTES", type=positive, help="per second and broker, for the estimated duration"
    )
    goals.add_argument("--window-s", metavar="S", type=positive, help="how long a wave may take, for its throttle")


def add_planner_arguments(goals: Any, *, tolerance: int | None) -> None:
    """Adds what the planner is to achieve, of a snapshot as of a file; `tolerance` is the default of the option."""
    goals.add_argument(
        "--aim",
        choices=("balance", "repair", "leaders"),
        help="repair: only what racks, replication factor and leaving brokers force; leaders: no replica moves (default: balance, which does all of it)",
    )
    goals.add_argument("--drain-broker", metavar="ID", type=natural, nargs="+", action="extend", help="empty them")
    goals.add_argument(
        "--replace-broker",
        metavar="OLD=NEW",
        type=replacement,
        nargs="+",
        action="extend",
        help="NEW gets all that OLD holds, nobody else moves",
    )
    goals.add_argument("--replication-factor", metavar="N", type=positive, help="for all chosen topics")
    goals.add_argument("--include", metavar="PATTERN", nargs="+", action="extend", help="only these topics")
    goals.add_argument("--exclude", metavar="PATTERN", nargs="+", action="extend", help="not these topics")
    goals.add_argument(
        "--ignore-racks",
        action="store_true",
        help="plan as if there were no racks, also where only some brokers have one",
    )
    goals.add_argument(
        "--tolerance",
        metavar="N",
        type=natural,
        default=tolerance,
        help="widens the bounds of replicas, leaders and topics alike (default: 0, topics "
        f"{1 if tolerance is None else tolerance})",
    )
    goals.add_argument(
        "--move-count-max", "--moves-max", metavar="N", type=natural, help="at most so many replicas copied"
    )
    goals.add_argument("--bytes-max", metavar="N", type=natural, help="bytes copied at most; widens the tolerance")
    goals.add_argument(
        "--bytes-tolerance", metavar="X", type=float, help="wanted excess of bytes per broker over the mean, e.g. 0.1"
    )


def add_size_arguments(goals: Any) -> None:
    """Adds where the sizes of partitions come from, for `sizes_of`."""
    goals.add_argument(
        "--sizes",
        metavar=f"FILE|{LOG_DIRS}",
        help=f"bytes of the partitions: from a file as plan-file reads it, or `{LOG_DIRS}`: as the brokers say",
    )
    goals.add_argument("--bootstrap-servers", metavar="HOST:PORT,…", help=f"brokers to ask, for --sizes {LOG_DIRS}")
    add_client_settings_argument(goals)


def goals_of(arguments: argparse.Namespace) -> Any:
    """The goals, None where no option names one."""
    from spark_jobs.planner.goals import Goals

    wanted = planner_goals(arguments)
    return Goals.from_json(wanted) if wanted else None


def planner_goals(arguments: argparse.Namespace) -> dict[str, Any]:
    """Field of `Goals` → value, of the options of `add_planner_arguments` that were given."""
    from spark_jobs.planner.goals import replacements

    return given(
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


def limits_of(arguments: argparse.Namespace) -> Any:
    """The limits of waves, None where no option names one."""
    from spark_jobs.planner.waves import Limits

    wanted = given(
        {
            "broker_bytes_max": arguments.wave_bytes,
            "bandwidth": arguments.bandwidth,
            "window_s": arguments.window_s,
        }
    )
    return Limits(**wanted) if wanted else None


def sizes_of(arguments: argparse.Namespace) -> Any:
    """The sizes of the partitions, None where they are not asked for."""
    from kafka_maintenance.operations.plans import sizes as partition_sizes

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
