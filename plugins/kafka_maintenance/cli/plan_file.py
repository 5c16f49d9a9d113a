"""`kafka-maintenance plan-file`: plans one cluster from a file."""

import argparse
import json
from pathlib import Path
from typing import Any

from controller_core.model.words import counted
from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_json_argument,
    given,
    positive,
    tell,
    wants_json,
)
from kafka_maintenance.cli.plan_goals import add_planner_arguments, planner_goals
from kafka_maintenance.cli.progress import Bars
from kafka_maintenance.operations.errors import BadInputError, listed


def add_parsers(commands: Any) -> None:
    """Adds the sub-command; the solver is loaded when it runs, not before."""
    command = commands.add_parser(
        "plan-file",
        help="plan the reassignment of one cluster from a file, with a proof",
        description="Plans the fewest moves for a cluster state in JSON. Formats: docs/planning.md.",
    )
    command.add_argument("state", metavar="STATE.json", type=Path, help="brokers and partitions")
    command.add_argument("--output", metavar="PATH", type=Path, required=True, help="Kafka's reassignment JSON")
    command.add_argument("--certificate", metavar="FILE", type=Path, help="prices that prove the lower bound")
    command.add_argument("--rollback", metavar="FILE", type=Path, help="reassignment JSON back to the lists of now")
    command.add_argument("--waves", metavar="DIR", type=Path, help="the plan cut into waves, one file each")
    command.add_argument("--topic-spread", action="store_true", help="spread each topic evenly over the brokers")
    add_planner_arguments(command, tolerance=0)
    command.add_argument("--curve", action="store_true", help="print the fewest moves for tolerances 0, 1, 2 and 5")
    _add_wave_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_run)


def _add_wave_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--wave-in", metavar="N", type=positive, help="replicas a broker receives in a wave (default: 20)"
    )
    command.add_argument(
        "--wave-out", metavar="N", type=positive, help="replicas a broker sends in a wave (default: 20)"
    )
    command.add_argument(
        "--wave-bytes", metavar="N", type=positive, help="bytes a broker receives, or sends, in a wave"
    )
    command.add_argument("--wave-partitions", metavar="N", type=positive, help="partitions in a wave (default: 5000)")
    command.add_argument("--bandwidth", metavar="BYTES", type=positive, help="per second and broker, for the estimates")
    command.add_argument("--window-s", metavar="S", type=positive, help="how long a wave may take, for its throttle")


def _run(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.plans.file import plan_file

    with Bars("plan"):
        done = plan_file(
            arguments.state,
            out=arguments.output,
            certificate=arguments.certificate,
            rollback=arguments.rollback,
            waves=arguments.waves,
            goals=_goals(arguments),
            limits=_limits(arguments),
        )
    figures = done.plan.summary()
    if done.schedule is not None:
        figures["waves"] = done.schedule.summary()
        if done.schedule.oversized:
            tell(
                f"kafka-maintenance: larger than --wave-bytes, copied in waves of their own: {listed(done.schedule.oversized)}"
            )
    for remark in done.plan.remarks:
        tell(f"kafka-maintenance: {remark}")
    if wants_json(arguments):
        print(json.dumps(figures, indent=1))
        return int(ExitStatus.DONE)
    proof = "proven minimal" if not done.plan.gap else f"at most {done.plan.gap} above the minimum"
    print(f"{figures['partitions_changed']} of {figures['partitions']} partitions change")
    print(f"{done.plan.moves} replicas move: {proof} (certified lower bound {done.plan.moves_bound})")
    print(f"{done.plan.leader_changes} preferred leaders change")
    if done.plan.bytes_moved is not None:
        print(f"{done.plan.bytes_moved} bytes are copied")
    for point in done.plan.curve:
        print(f"tolerance {point.tolerance}: {counted(point.moves, 'move')}{'' if point.proven else ' or more'}")
    for reason, count in figures["reasons"].items():
        print(f"{counted(count, 'partition')}: {reason}")
    if done.schedule is not None:
        waves = figures["waves"]
        print(f"{waves['waves']} waves, at least {waves['lower_bound']} ({waves['bound_reason']})")
    print(arguments.output)
    return int(ExitStatus.DONE)


def _goals(arguments: argparse.Namespace) -> Any:
    from spark_jobs.planner.goals import Goals

    _require_effect(arguments)
    own = {
        "topic_spread": arguments.topic_spread,
        "curve_tolerances": [0, 1, 2, 5] if arguments.curve else [],
    }
    return Goals.from_json(planner_goals(arguments) | own)


def _require_effect(arguments: argparse.Namespace) -> None:
    """Flags whose absence is a goal, too: only the command line knows that one was given and would be dropped."""
    spreads = not arguments.replace_broker and arguments.aim != "leaders"
    balances = spreads and arguments.aim != "repair"
    for option, wanted, works in (
        ("--topic-spread", arguments.topic_spread, spreads),
        ("--curve", arguments.curve, balances),
    ):
        if wanted and not works:
            other = "--replace-broker" if arguments.replace_broker else f"--aim {arguments.aim}"
            raise BadInputError(
                f"cluster state {arguments.state} not planned: {option} has no effect beside {other}; leave one of them out"
            )


def _limits(arguments: argparse.Namespace) -> Any:
    from spark_jobs.planner.waves import Limits

    wanted = given(
        {
            "in_max": arguments.wave_in,
            "out_max": arguments.wave_out,
            "broker_bytes_max": arguments.wave_bytes,
            "partitions_max": arguments.wave_partitions,
            "bandwidth": arguments.bandwidth,
            "window_s": arguments.window_s,
        }
    )
    return Limits(**wanted) if wanted else None
