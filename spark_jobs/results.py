"""The results of one analysis as frames, each described when it is wanted, and persisted where several share it."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, reduce
from operator import or_

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.model.errors import ControllerCoreError
from spark_jobs import schemas
from spark_jobs.arguments import NOT_ANALYSED, Args
from spark_jobs.io import datasets
from spark_jobs.io import snapshots as stored
from spark_jobs.io.choice import Chosen
from spark_jobs.io.compact import read_compact
from spark_jobs.io.snapshots import Problem, Snapshot
from spark_jobs.on_core import agreement, bridge, drill, readiness
from spark_jobs.on_core.deletion_steps import predict_deletions
from spark_jobs.on_core.proposals import propose
from spark_jobs.settings import RULES, SettingsError, evidence_frame, rules_of
from spark_jobs.transforms import (
    bad_rows,
    cluster_findings,
    deletion,
    disk_findings,
    facts,
    history,
    imbalance,
    partition_findings,
    summary,
)

_NAMED_MAX = 20
"""Up to so many snapshots are told apart by a condition; more by a join, which costs each result a broadcast."""
_ASKED_OFTEN = tuple(table for table in schemas.OF_DATE if table not in ("partitions", "notifications"))
"""The small tables that every run asks, whatever results are wanted."""
HELD_ROWS_MAX = 2_000
"""Up to so many rows such a table is held by the driver: all results together ask them some thirty times, and to read them
each time is a sixth of a small cluster's run (`analyse` of the sample history, six times by turns: 180 CPU s for 214)."""
Output = tuple[str, Callable[[], DataFrame]]
"""A result's name, and what describes its frame when it is wanted: that costs the driver as much as a small cluster's run."""


class Results:
    """The frames of one run, each described once and persisted where several outputs share it."""

    def __init__(self, spark: SparkSession, chosen: Chosen, args: Args, problems: Sequence[Problem]) -> None:
        self._spark, self._chosen, self._args = spark, chosen, args
        self._kept: list[DataFrame] = []
        both = [*chosen.current, *chosen.before]
        self._tables = {name: self._of_date(both, name) for name in schemas.OF_DATE}
        self._judged = self._keep(bad_rows.with_reason(self._tables["partitions"]))
        good = bad_rows.good_partitions(self._judged)
        self._tables["partitions"] = good
        rules, refused = self._rules(good)
        self._problems = [*problems, *refused]
        lost = {(problem.cluster, problem.snapshot_id) for problem in refused}
        self.analysed = tuple(found for found in chosen.current if (found.cluster, found.snapshot_id) not in lost)
        unused = bad_rows.refused_rows(self._judged, self._tables["bad_rows"])
        self._describe = partial(facts.snapshot_facts, rules=rules, refused=unused)
        self._facts = datasets.through_driver(self._describe(self._tables), schemas.FACTS)
        self._current = {name: self._only(self.analysed, frame) for name, frame in self._tables.items()}
        self._facts_current = self._only(self.analysed, self._facts)
        self._past = {name: self._of_window(name) for name in schemas.OF_HISTORY}
        self._past["partitions"] = bad_rows.plausible(self._past["partitions"])
        self._load = cache(lambda: self._keep(summary.broker_load(self._current["partitions"], self._facts_current)))

    def outputs(self) -> Iterable[Output]:
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
        yield "cluster_summary", lambda: summary.cluster_summary(self._tables["partitions"], self._facts)
        yield "broker_load", self._load
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

    def _by_core(self) -> Iterable[Output]:
        """What the core answers on executors, and whatever could not be analysed."""
        partitions = self._current["partitions"]
        failures = [datasets.driver_rows(self._spark, self._problem_rows(), schemas.NOT_ANALYSED)]
        core = cache(lambda: self._keep(facts.core_facts(self._facts_current, self._current)))
        for name, analysis, rows, told in self._analyses(partitions, core):
            schema, tasks = schemas.OUTPUTS[name], _tasks(len(self.analysed))
            analysed = self._keep(bridge.per_snapshot(rows, told, analysis, schema, tasks=tasks))
            yield name, partial(bridge.results, analysed, schema)
            failures.append(bridge.failures(analysed, name))
        if self._args.with_drill and self._args.wants("failure_drill"):
            slices = sum(drill.slices_of(found.row_counts["partitions"]) for found in self.analysed)
            pairs_max, tasks = self._args.drill_pairs_max, _tasks(slices)
            drilled = self._keep(drill.failure_drill(partitions, core(), pairs_max=pairs_max, tasks=tasks))
            yield "failure_drill", lambda: drill.ranked(bridge.results(drilled, drill.PARTIAL))
            failures.append(bridge.failures(drilled, "failure_drill").distinct())
        if self._args.wants("kraft_readiness"):
            public = readiness.public_configs(self._current["configs"], self.analysed)
            judged = self._keep(readiness.kraft_readiness(self._spark, self.analysed, public))
            yield "kraft_readiness", partial(bridge.results, judged, schemas.KRAFT_READINESS)
            failures.append(bridge.failures(judged, "kraft_readiness"))
        yield NOT_ANALYSED, lambda: reduce(DataFrame.unionByName, failures)

    def _analyses(
        self, partitions: DataFrame, core: Callable[[], DataFrame]
    ) -> Iterable[tuple[str, bridge.Analysis, DataFrame, DataFrame]]:
        """Name, analysis, and the partitions and CORE_FACTS of the snapshots that it is run for."""
        if self._args.wants("deletion_prediction"):
            queued = core().where(F.size("queued_topics") > 0)
            of_queued = partitions.join(F.broadcast(queued.select(*facts.KEY)), facts.KEY, how="left_semi")
            yield "deletion_prediction", predict_deletions, of_queued, queued
        if self._args.with_plans and self._args.wants("proposals"):
            yield "proposals", propose(self._args.goals), partitions, core()

    def _findings(self) -> DataFrame:
        now, told = self._current, self._facts_current
        cluster_before = self._only(self._chosen.before, self._tables["cluster"])
        partitions_before = self._only(self._chosen.before, self._tables["partitions"])
        registered = cluster_findings.registrations(self._load(), now["brokers"])
        return (
            partition_findings.partition_findings(now["partitions"], told, now["configs"])
            .unionByName(partition_findings.unmoved_findings(now["partitions"], partitions_before))
            .unionByName(partition_findings.min_isr_findings(now["partitions"], told, now["configs"]))
            .unionByName(cluster_findings.broker_findings(self._load(), told, self._past["brokers"]))
            .unionByName(cluster_findings.registration_findings(told, now["brokers"], now["cluster"]))
            .unionByName(cluster_findings.unclean_findings(now["configs"], now["topics"], told))
            .unionByName(self._disk_findings())
            .unionByName(self._disagreements())
            .unionByName(cluster_findings.request_findings(now["requests"], now["notifications"]))
            .unionByName(cluster_findings.config_findings(now["configs"], told))
            .unionByName(cluster_findings.cluster_findings(now["cluster"], cluster_before, now["bad_rows"], registered))
        )

    def _disk_findings(self) -> DataFrame:
        if not self._args.disks:
            return datasets.driver_rows(self._spark, [], schemas.FINDINGS)
        disks = datasets.parquet_rows(self._spark, self._args.disks, schemas.DISKS)
        return disk_findings.disk_findings(disks, self._current["partitions"], self._facts_current)

    def _disagreements(self) -> DataFrame:
        """What the core says otherwise of the date's sample: each slice is judged as if it were a cluster."""
        sizes = [(found.cluster, found.row_counts["partitions"]) for found in self.analysed]
        sample = agreement.sample_of(sizes, self._args.date)
        if not sample:
            return datasets.driver_rows(self._spark, [], schemas.FINDINGS)
        clusters = {each.cluster for each in sample}
        chosen = [found for found in self.analysed if found.cluster in clusters]
        now = {name: self._only(chosen, frame) for name, frame in self._tables.items()}
        told = self._only(chosen, self._facts)
        if any(each.slices > 1 for each in sample):
            of_sample = {name: agreement.in_sample(now[name], sample) for name in ("partitions", "topics", "requests")}
            now |= {name: self._keep(frame) for name, frame in of_sample.items()}  # each is read nine times
            told = datasets.through_driver(self._describe(now), schemas.FACTS)
        return agreement.disagreements(
            now["partitions"], now["topics"], now["requests"], told, facts.core_facts(told, now)
        )

    def _history(self) -> Iterable[Output]:
        past = self._past
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

    def _of_date(self, snapshots: Sequence[Snapshot], table: str) -> DataFrame:
        """A table of the date's snapshots and of those before; held by the driver where it is asked often and has few rows."""
        rows = stored.read_table(self._spark, snapshots, table)
        if table in _ASKED_OFTEN and sum(found.row_counts.get(table, 0) for found in snapshots) <= HELD_ROWS_MAX:
            return datasets.through_driver(rows, schemas.INPUTS[table])
        return rows

    def _of_window(self, table: str) -> DataFrame:
        """A table of all snapshots of the history, of those with a compact history from there."""
        rows = stored.read_table(self._spark, self._chosen.window, table)
        if not self._args.compact.snapshots:
            return rows
        clusters = {found.cluster for found in self._chosen.current}
        return rows.unionByName(read_compact(self._spark, self._args.compact, table, clusters))

    def _rules(self, good: DataFrame) -> tuple[DataFrame, list[Problem]]:
        """settings.RULES of every snapshot, and the clusters whose settings cannot be used, or name a version nobody knows.

        Those hold for the snapshot before, too: a cluster is named once.
        """
        tables = self._tables
        current = {(each.cluster, each.snapshot_id) for each in self._chosen.current}
        found, refused = [], []
        for row in evidence_frame(tables["cluster"], tables["brokers"], tables["topics"], good).collect():
            try:
                found.append(rules_of(self._args.settings, row))
            except (ControllerCoreError, SettingsError) as error:
                if (row["cluster"], row["snapshot_id"]) in current:
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


def _tasks(groups: int) -> int | None:
    """In how many tasks the core looks at so many groups of rows; None: as many as deal them out evenly."""
    return 1 if groups <= 1 else None
