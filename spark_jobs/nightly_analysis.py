"""One date's analysis of every cluster in one Spark session: tables, proposals, report and a small summary.

    spark-submit --py-files JOBS.zip spark_jobs/nightly_analysis.py \
        --input FOLDER… --output FOLDER --run RUN --date YYYY-MM-DD [--settings FILE] [--goals FILE]

`--input` names snapshot folders or folders that hold some, local or `s3a://`; `@FILE` reads arguments from a file, one a
line. Of each cluster the newest snapshot of the date is analysed; earlier ones give the comparison and the history.
What is read is compared with its manifest, by size and SHA-256, unless `--verified` says that somebody did so already.
`--only imbalance findings` makes these results and `not_analysed`; `failure_drill.py` and `history.py` are such jobs with
a name. An `--output` may be used again: its results are replaced, those that this job does not make stay.
Exit status 0: done; 2: bad input; 4: done, but not for every cluster (only with `--fail-if-incomplete`).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache, partial, reduce
from operator import or_
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.model.errors import ControllerCoreError
from spark_jobs import schemas
from spark_jobs.io import datasets, folders
from spark_jobs.io import snapshots as stored
from spark_jobs.io.errors import DatasetError
from spark_jobs.io.snapshots import HISTORY, Problem, Snapshot
from spark_jobs.on_core import bridge, drill
from spark_jobs.on_core.deletion_steps import predict_deletions
from spark_jobs.on_core.proposals import propose
from spark_jobs.planner.errors import ImpossibleGoalError
from spark_jobs.planner.goals import Goals
from spark_jobs.report import build as report
from spark_jobs.settings import (
    RULES,
    Settings,
    SettingsError,
    evidence_frame,
    parse_settings,
    rules_of,
)
from spark_jobs.transforms import bad_rows, deletion, facts, health, history, imbalance

DONE, BAD_INPUT, INCOMPLETE = 0, 2, 4
NOT_ANALYSED = "not_analysed"
"""The result that every job makes: without it nobody could tell a healthy cluster from one that was not looked at."""
_PLANS = "plans"
_PLAN_FILES = ("plan", "rollback", "certificate")
_WRITERS = 2
_NAMED_MAX = 20
"""Up to so many snapshots are told apart by a condition; more by a join, which costs each result a broadcast."""
_Output = tuple[str, Callable[[], DataFrame]]
"""A result's name, and what describes its frame when it is wanted: that costs the driver as much as a small cluster's run."""


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

    def wants(self, name: str) -> bool:
        """Whether the result of that name is to be made."""
        return not self.only or name in self.only or name == NOT_ANALYSED


@dataclass(frozen=True, slots=True)
class Chosen:
    """The snapshots of a run, at most one per cluster and date."""

    current: tuple[Snapshot, ...]
    before: tuple[Snapshot, ...]  # the newest earlier one of each cluster
    window: tuple[Snapshot, ...]  # the current and the earlier ones of the history


def choose(snapshots: Sequence[Snapshot], day: date, history_days: int) -> Chosen:
    """The newest snapshot of each cluster and date, up to `day`; clusters without one of that date are left out."""
    newest = {(snapshot.cluster, snapshot.date): snapshot for snapshot in snapshots}  # sorted: the last one stays
    current = {cluster: found for (cluster, of), found in newest.items() if of == day.isoformat()}
    first = (day - timedelta(days=history_days - 1)).isoformat()
    earlier = [
        found for (cluster, of), found in sorted(newest.items()) if cluster in current and first <= of < day.isoformat()
    ]
    before = {found.cluster: found for found in earlier}
    return Chosen(
        tuple(current[cluster] for cluster in sorted(current)),
        tuple(before[cluster] for cluster in sorted(before)),
        (*earlier, *(current[cluster] for cluster in sorted(current))),
    )


def run(spark: SparkSession, args: Args, say: Callable[[str], None]) -> int:
    """Analyses one date; returns the exit status.

    Raises:
        DatasetError: there is nothing to analyse.
    """
    snapshots, unreadable = stored.find_snapshots(spark, args.inputs)
    chosen, damaged = _intact(spark, snapshots, args)
    problems = [_placed(problem, chosen, args.date) for problem in (*unreadable, *args.problems, *damaged)]
    if not chosen.current and all(problem.stage == HISTORY for problem in problems):
        dates = sorted({snapshot.date for snapshot in snapshots})
        raise DatasetError(
            f"date {args.date} not analysed: expected a snapshot of it in {list(args.inputs)!r}, found {len(snapshots)} "
            f"of the dates {dates!r} and {len(problems)} of other dates that cannot be read; name one of them, or the "
            "folder that holds the snapshots"
        )
    day = _Day(spark, chosen, args, problems)
    say(f"{len(chosen.current)} clusters, {len(chosen.window)} snapshots in the history, {len(problems)} unreadable")
    place = folders.folder(spark, args.output)
    if args.wants("proposals"):
        _remove_plans(place)
    made = []
    for name, seconds in _write(day.outputs(), args):
        say(f"{name}: {seconds:.1f} s")
        made.append(name)
    if "proposals" in made:
        _write_plans(place)
    page = report.read(place, made, run=args.run, day=args.date, snapshots=day.analysed, goals=args.goals)
    summary = report.summary(page)
    place.write("report.md", report.markdown(page).encode())
    place.write("report.html", report.html(page).encode())
    place.write("summary.json", json.dumps(summary, indent=1, sort_keys=True).encode())
    day.release()
    say(f"report: {args.output}/report.html; not analysed: {len(page.of('not_analysed'))}")
    incomplete = any(row["stage"] != HISTORY for row in page.of("not_analysed"))
    return INCOMPLETE if args.fail_if_incomplete and incomplete else DONE


def _intact(spark: SparkSession, snapshots: Sequence[Snapshot], args: Args) -> tuple[Chosen, list[Problem]]:
    """The snapshots of the run, and those that were not taken because their bytes are not what their manifest says.

    Where one is damaged, an earlier one of its cluster and date takes its place.
    """
    left, checked = list(snapshots), set[str]()
    damaged: list[Problem] = []
    while True:
        chosen = choose(left, args.date, args.history_days)
        fresh = [] if args.verified else [found for found in chosen.window if found.uri not in checked]
        found = stored.damaged(spark, fresh)
        if not found:
            return chosen, damaged
        damaged += found
        checked |= {snapshot.uri for snapshot in fresh}
        lost = {(problem.cluster, problem.snapshot_id) for problem in found}
        left = [snapshot for snapshot in left if (snapshot.cluster, snapshot.snapshot_id) not in lost]


def _remove_plans(place: folders.Folder) -> None:
    """What an earlier job wrote into this folder; other files there are somebody else's."""
    for path in place.files(_PLANS):
        if path.endswith(tuple(f".{kind}.json" for kind in _PLAN_FILES)):
            place.remove(path.removeprefix(f"{place.path}/"))


def _write_plans(place: folders.Folder) -> None:
    """The files of each proposed plan, for Kafka's own tool; one cluster's at a time are in memory."""
    for row in place.each("proposals", ("cluster", *_PLAN_FILES), at_once=1):
        for kind in _PLAN_FILES if row["plan"] else ():
            place.write(f"{_PLANS}/{row['cluster']}.{kind}.json", row[kind].encode())


def _write(outputs: Iterable[_Output], args: Args) -> Iterator[tuple[str, float]]:
    """Writes the results that are wanted; yields each one's name and seconds, in order.

    The next one is described while the ones before are run. What several of them persist is still computed once.
    """

    def write(name: str, frame: DataFrame) -> float:
        started = time.monotonic()
        datasets.write_result(frame, args.output, name, files=args.files)
        return time.monotonic() - started

    with ThreadPoolExecutor(_WRITERS) as writers:
        running = [(name, writers.submit(write, name, described())) for name, described in outputs if args.wants(name)]
        for name, seconds in running:
            yield name, seconds.result()


def _placed(problem: Problem, chosen: Chosen, day: date) -> Problem:
    """A snapshot that cannot be read is missing from the history only, if it is of another date or another took its place."""
    is_replaced = problem.cluster in {snapshot.cluster for snapshot in chosen.current}
    of_another_day = problem.date not in {"", day.isoformat()}
    return replace(problem, stage=HISTORY) if of_another_day or is_replaced else problem


class _Day:
    """The frames of one run, each described once and persisted where several outputs share it."""

    def __init__(self, spark: SparkSession, chosen: Chosen, args: Args, problems: list[Problem]) -> None:
        self._spark, self._chosen, self._args = spark, chosen, args
        self._kept: list[DataFrame] = []
        both = [*chosen.current, *chosen.before]
        self._tables = {name: stored.read_table(spark, both, name) for name in schemas.INPUTS}
        self._judged = self._keep(bad_rows.with_reason(self._tables["partitions"]))
        good = bad_rows.good_partitions(self._judged)
        self._tables["partitions"] = good
        rules, refused = self._rules(good)
        self._problems = [*problems, *refused]
        lost = {(problem.cluster, problem.snapshot_id) for problem in refused}
        self.analysed = tuple(found for found in chosen.current if (found.cluster, found.snapshot_id) not in lost)
        unused = bad_rows.refused_rows(self._judged, self._tables["bad_rows"])
        self._facts = datasets.through_driver(facts.snapshot_facts(self._tables, rules, unused), schemas.FACTS)
        self._current = {name: self._only(self.analysed, frame) for name, frame in self._tables.items()}
        self._facts_current = self._only(self.analysed, self._facts)

    def outputs(self) -> Iterable[_Output]:
        """Every output by name, in an order that fills shared frames first."""
        now, told = self._current, self._facts_current
        partitions = now["partitions"]
        yield "imbalance", lambda: imbalance.imbalance(partitions, told)
        yield "imbalanced_partitions", lambda: imbalance.imbalanced_partitions(partitions, told)
        yield (
            "deletion_eligibility",
            lambda: deletion.deletion_eligibility(partitions, now["topics"], now["requests"], told),
        )
        yield "findings", self._findings
        yield "cluster_summary", lambda: health.cluster_summary(self._tables["partitions"], self._facts)
        yield "broker_load", lambda: health.broker_load(partitions, told)
        yield (
            "refused_rows",
            lambda: bad_rows.refused_rows(self._only(self.analysed, self._judged), now["bad_rows"]),
        )
        yield from self._history()
        yield from self._by_core()

    def release(self) -> None:
        """Frees what was persisted."""
        for frame in self._kept:
            frame.unpersist()

    def _by_core(self) -> Iterable[_Output]:
        """What the core answers on executors, and whatever could not be analysed."""
        partitions = self._current["partitions"]
        failures = [datasets.driver_rows(self._spark, self._problem_rows(), schemas.NOT_ANALYSED)]
        core = cache(lambda: self._keep(facts.core_facts(self._facts_current, self._current)))
        for name, analysis in self._analyses():
            schema, groups = schemas.OUTPUTS[name], len(self.analysed)
            analysed = self._keep(bridge.per_snapshot(partitions, core(), analysis, schema, groups=groups))
            yield name, partial(bridge.results, analysed, schema)
            failures.append(bridge.failures(analysed, name))
        if self._args.with_drill and self._args.wants("failure_drill"):
            pairs_max = self._args.drill_pairs_max
            drilled = self._keep(drill.failure_drill(partitions, core(), pairs_max=pairs_max, slices=self._slices()))
            yield "failure_drill", lambda: drill.ranked(bridge.results(drilled, drill.PARTIAL))
            failures.append(bridge.failures(drilled, "failure_drill").distinct())
        yield NOT_ANALYSED, lambda: reduce(DataFrame.unionByName, failures)

    def _analyses(self) -> Iterable[tuple[str, bridge.Analysis]]:
        if self._args.wants("deletion_prediction"):
            yield "deletion_prediction", predict_deletions
        if self._args.with_plans and self._args.wants("proposals"):
            yield "proposals", propose(self._args.goals)

    def _slices(self) -> int | None:
        """Slices of all clusters in the failure drill; None where a manifest does not count its partitions."""
        counts = [found.row_counts.get("partitions") for found in self.analysed]
        return None if None in counts else sum(map(drill.slices_of, filter(None, counts)))

    def _findings(self) -> DataFrame:
        now, told = self._current, self._facts_current
        cluster_before = self._only(self._chosen.before, self._tables["cluster"])
        partitions_before = self._only(self._chosen.before, self._tables["partitions"])
        return (
            health.partition_findings(now["partitions"], told, now["configs"])
            .unionByName(health.request_findings(now["requests"], now["notifications"]))
            .unionByName(health.unmoved_findings(now["partitions"], partitions_before))
            .unionByName(health.config_findings(now["configs"], told))
            .unionByName(health.cluster_findings(now["cluster"], cluster_before, now["bad_rows"]))
        )

    def _history(self) -> Iterable[_Output]:
        names = ("partitions", "brokers", "cluster")
        past = {name: stored.read_table(self._spark, self._chosen.window, name) for name in names}
        changes = cache(lambda: self._keep(history.partition_changes(past["partitions"])))
        grown = cache(lambda: self._keep(history.growth(past["partitions"], past["brokers"], past["cluster"])))
        yield "growth", grown
        yield "leader_churn", lambda: history.leader_churn(changes(), grown())
        yield "unstable_partitions", lambda: history.unstable_partitions(changes())
        yield (
            "broker_history",
            lambda: history.broker_history(
                past["brokers"], past["cluster"], history.replicas_by_day(past["partitions"])
            ),
        )
        yield "controller_churn", lambda: history.controller_churn(past["cluster"])

    def _rules(self, good: DataFrame) -> tuple[DataFrame, list[Problem]]:
        """settings.RULES of every snapshot, and the clusters whose settings cannot be used, or name a version nobody knows."""
        tables = self._tables
        found, refused = [], []
        for row in evidence_frame(tables["cluster"], tables["brokers"], tables["topics"], good).collect():
            try:
                found.append(rules_of(self._args.settings, row))
            except (ControllerCoreError, SettingsError) as error:
                refused.append(Problem(row["cluster"], row["snapshot_id"], "settings", str(error)))
        return datasets.driver_rows(self._spark, found, RULES), refused

    def _problem_rows(self) -> list[dict[str, str]]:
        return [{name: getattr(problem, name) for name in schemas.NOT_ANALYSED.names} for problem in self._problems]

    def _only(self, snapshots: Sequence[Snapshot], frame: DataFrame) -> DataFrame:
        """Rows of `frame` that belong to `snapshots`."""
        keys = [(snapshot.cluster, snapshot.snapshot_id) for snapshot in snapshots]
        if len(keys) <= _NAMED_MAX:
            tests = [(F.col("cluster") == name) & (F.col("snapshot_id") == snapshot_id) for name, snapshot_id in keys]
            return frame.where(reduce(or_, tests, F.lit(False)))
        rows = [dict(zip(facts.KEY, key, strict=True)) for key in keys]
        wanted = datasets.driver_rows(self._spark, rows, schemas.SNAPSHOTS)
        return frame.join(wanted.hint("broadcast"), facts.KEY, how="left_semi")

    def _keep(self, frame: DataFrame) -> DataFrame:
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        return kept


def parse(argv: Sequence[str]) -> Args:
    """The command line as `Args`.

    Raises:
        SettingsError: the settings or goals file cannot be used.
    """
    parser = argparse.ArgumentParser(prog="nightly_analysis.py", description=__doc__, fromfile_prefix_chars="@",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--input", nargs="+", required=True, help="snapshot folders, or folders that hold some")
    parser.add_argument("--output", required=True, help="folder for the results")
    parser.add_argument("--run", required=True, help="name of this run, shown in the report")
    parser.add_argument("--date", required=True, type=date.fromisoformat, help="the date, YYYY-MM-DD")
    parser.add_argument("--settings", type=Path, help="JSON: Kafka versions and broker configs by cluster")
    parser.add_argument("--goals", type=Path, help="JSON: the planner's parameters")
    parser.add_argument("--problems", type=Path, help="JSON: snapshots that could not be fetched, with reasons")
    parser.add_argument(
        "--history-days",
        "--history-nights",
        dest="history_days",
        type=int,
        default=30,
        help="dates of the history, this one included",
    )
    parser.add_argument("--files", type=int, default=1, help="files per result table")
    parser.add_argument("--no-plans", action="store_true", help="propose no reassignments")
    parser.add_argument("--no-drill", action="store_true", help="imagine no failures")
    parser.add_argument(
        "--drill-pairs-max", type=int, default=drill.PAIRS_MAX, help="pairs of brokers that fail together, at most"
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
    )


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


def main(argv: Sequence[str], only: Sequence[str] = ()) -> int:
    """The job as a program; `only` names the results of a job that makes some of them."""

    def say(line: str) -> None:
        sys.stdout.write(f"nightly_analysis: {line}\n")
        sys.stdout.flush()

    try:
        args = parse([*argv, *(["--only", *only] if only else [])])
        spark = datasets.session("nightly_analysis")
        try:
            return run(spark, args, say)
        finally:
            spark.stop()
    except (DatasetError, SettingsError, ValueError) as error:
        sys.stderr.write(f"nightly_analysis: {error}\n")
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
