"""The command line of the analyses."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from controller_core.plans.rules import is_whole_number
from spark_jobs import schemas
from spark_jobs.io.compact import Compact, compact_of
from spark_jobs.io.snapshots import Problem
from spark_jobs.on_core import drill
from spark_jobs.planner.errors import ImpossibleGoalError
from spark_jobs.planner.goals import Goals
from spark_jobs.report.content import Changed
from spark_jobs.settings import Settings, SettingsError, parse_settings

NOT_ANALYSED = "not_analysed"
"""The result that every job makes: without it nobody could tell a healthy cluster from one that was not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """The command line."""

    inputs: tuple[str, ...]
    output: str
    run: str
    date: date
    settings: Settings
    goals: Goals = field(default_factory=Goals)
    history_days: int = 30
    files: int = 1
    with_plans: bool = True
    with_drill: bool = True
    drill_pairs_max: int = drill.PAIRS_MAX
    verified: bool = False  # the snapshots' bytes were compared with their manifests already
    fail_if_incomplete: bool = False
    only: frozenset[str] = frozenset()  # names of outputs; empty for all
    problems: tuple[Problem, ...] = ()  # what was found before the job, e.g. while the snapshots were fetched
    disks: tuple[str, ...] = ()  # files with what brokers said of their log directories
    compact: Compact = field(default_factory=Compact)
    changed: Mapping[str, Changed] = field(
        default_factory=dict
    )  # cluster → what no result tells, since the date before

    def wants(self, name: str) -> bool:
        """Whether the result of that name is to be made."""
        return not self.only or name in self.only or name == NOT_ANALYSED


def parse(argv: Sequence[str], description: str | None = None) -> Args:
    """The command line as `Args`.

    Raises:
        SettingsError: the settings or goals file cannot be used.
    """
    parser = argparse.ArgumentParser(prog="nightly_analysis.py", description=description, fromfile_prefix_chars="@",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--input", nargs="+", required=True, help="snapshot folders, or folders that hold some")
    parser.add_argument("--output", required=True, help="folder for the results")
    parser.add_argument("--run", required=True, help="name of this run, shown in the report")
    parser.add_argument("--date", required=True, type=date.fromisoformat, help="the date, YYYY-MM-DD")
    parser.add_argument("--settings", type=Path, help="JSON: Kafka versions and broker configs by cluster")
    parser.add_argument("--goals", type=Path, help="JSON: the planner's parameters")
    parser.add_argument("--problems", type=Path, help="JSON: snapshots that could not be fetched, with reasons")
    parser.add_argument("--disks", type=Path, help="JSON: files with what brokers said of their log directories")
    parser.add_argument("--compact", type=Path, help="JSON: files with the rows of many earlier snapshots each")
    parser.add_argument("--changed", type=Path, help="JSON: what changed since the date before that no result tells")
    parser.add_argument(
        "--history-days",
        "--history-nights",
        dest="history_days",
        type=_whole(1),
        default=30,
        help="dates of the history, this one included",
    )
    parser.add_argument("--files", type=_whole(1), default=1, help="files per result table")
    parser.add_argument("--no-plans", action="store_true", help="propose no reassignments")
    parser.add_argument("--no-drill", action="store_true", help="imagine no failures")
    parser.add_argument(
        "--drill-pairs-max",
        type=_whole(0),
        default=drill.PAIRS_MAX,
        help="pairs of brokers that fail together, at most",
    )
    parser.add_argument(
        "--verified", action="store_true", help="the snapshots' bytes were compared with their manifests already"
    )
    parser.add_argument("--fail-if-incomplete", action="store_true", help="exit 4 when a cluster was not analysed")
    parser.add_argument("--only", nargs="+", choices=sorted(schemas.OUTPUTS), default=[], help="only these results")
    found = parser.parse_args(argv)
    return Args(
        inputs=tuple(found.input),
        output=found.output.rstrip("/"),
        run=found.run,
        date=found.date,
        settings=parse_settings(_text(found.settings)),
        goals=_goals(found.goals),
        history_days=found.history_days,
        files=found.files,
        with_plans=not found.no_plans,
        with_drill=not found.no_drill,
        drill_pairs_max=found.drill_pairs_max,
        verified=found.verified,
        fail_if_incomplete=found.fail_if_incomplete,
        only=frozenset(found.only),
        problems=tuple(Problem(stage="fetch", **problem) for problem in json.loads(_text(found.problems) or "[]")),
        disks=tuple(json.loads(_text(found.disks) or "[]")),
        compact=compact_of(json.loads(_text(found.compact) or "{}")),
        changed={
            cluster: Changed(told["counts"], tuple(told["lines"]))
            for cluster, told in json.loads(_text(found.changed) or "{}").items()
        },
    )


def _whole(least: int) -> Callable[[str], int]:
    """Reads a whole number, at least `least`; another one would end the job in the middle, or analyse another history."""

    def read(text: str) -> int:
        if not is_whole_number(text, least):
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, found {text!r}")
        return int(text)

    return read


def _goals(path: Path | None) -> Goals:
    try:
        return Goals.from_json(json.loads(_text(path) or "{}"))
    except (ValueError, ImpossibleGoalError) as error:
        raise SettingsError(f"{path} not read: expected the planner's goals as JSON, found: {error}") from error


def _text(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path} not read: {error}; name a file that exists") from error
