"""`controller_core` on executors: rows of one snapshot in, dataclasses for the core, rows out; no decisions in between.

A snapshot is one group: its partitions and its one row of CORE_FACTS. What fails for one snapshot becomes one row with
`error`, so that the others go on. Executors need the libraries that the core and the planner import; the packages
themselves come with `--py-files`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import StringType, StructField, StructType

from controller_core.context.builder import Built, build_leniently
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import Dialect, dialect_for
from controller_core.model.gc_pause import collector_paused
from controller_core.model.partitions import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)
from spark_jobs.io.arrow import arrow_schema
from spark_jobs.schemas import NOT_ANALYSED, SNAPSHOT_KEY

_KEY = list(SNAPSHOT_KEY)
_TASKS_A_CORE = 8
"""Few groups fall into few tasks by chance; more tasks than cores deal them out evenly."""


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """One snapshot on an executor: its CORE_FACTS as a mapping, its PARTITIONS as an Arrow table by topic and number."""

    facts: Mapping[str, Any]
    partitions: pa.Table

    @property
    def dialect(self) -> Dialect:
        """The dialect that the driver chose."""
        return dialect_for(self.facts["kafka_version"], self.facts["inter_broker_protocol_version"])

    @property
    def brokers(self) -> list[Broker]:
        """Registered brokers, ascending."""
        return [Broker(BrokerId(entry["broker_id"]), rack=entry["rack"]) for entry in self.facts["rack_of"]]

    @property
    def topics_to_be_deleted(self) -> frozenset[str]:
        """The queue of deletions, whatever can be read of its topics.

        A controller that may not delete drops the requests when it starts (Kafka 3.9 `TopicDeletionManager.init`).
        """
        return frozenset(self.facts["queued_topics"] if self.facts["deletion_enabled"] else ())

    def names(self) -> list[TopicPartition]:
        """The partitions, in the order of the table."""
        return list(map(TopicPartition, self.column("topic"), self.column("partition")))

    def column(self, name: str) -> list[Any]:
        """A plain column as Python values."""
        return list(self.partitions.column(name).to_pylist())

    def broker_lists(self, name: str) -> list[tuple[BrokerId, ...]]:
        """A column of broker lists as tuples; null is an empty one."""
        return tuples(self.partitions.column(name))

    def unreadable(self) -> dict[str, str]:
        """Queued topic → what of it cannot be read, and why."""
        return {entry["topic"]: f"{entry['path']}: {entry['reason']}" for entry in self.facts["unreadable"]}

    def split_by_state(self) -> "tuple[SnapshotRows, SnapshotRows]":
        """The partitions whose `state` znode can be read or is not there, and the others."""
        unreadable = {TopicPartition(each["topic"], each["partition"]) for each in self.facts["unreadable_states"]}
        is_readable = pa.array([name not in unreadable for name in self.names()], pa.bool_())
        both = (self.partitions.filter(is_readable), self.partitions.filter(pc.invert(is_readable)))
        return SnapshotRows(self.facts, both[0]), SnapshotRows(self.facts, both[1])


Analysis = Callable[[SnapshotRows], Iterable[Mapping[str, Any]]]
"""What is computed of one snapshot: rows without the two columns of the key."""


def per_snapshot(
    partitions: DataFrame,
    facts: DataFrame,
    analysis: Analysis,
    schema: StructType,
    *,
    also_by: Sequence[str] = (),
    tasks: int | None = None,
) -> DataFrame:
    """Runs `analysis` once for every snapshot, or once for every value of the columns `also_by`.

    Args:
        partitions: schemas.PARTITIONS, with the columns `also_by`.
        facts: schemas.CORE_FACTS, likewise.
        analysis: what is computed of one snapshot.
        schema: of the rows that it makes.
        also_by: columns of both frames by which a snapshot is dealt out further.
        tasks: how many do it; None: as many as deal the snapshots out evenly.

    Out: `schema` and a column `error`: null, or the only thing that a row of a failed snapshot says beside its key.
    """
    wanted = with_error(schema)
    columns = arrow_schema(wanted)

    def run(left: pa.Table, right: pa.Table) -> pa.Table:
        key, rows = _run_safely(left, right, analysis)
        return pa.Table.from_pylist([{**key, **row} for row in rows], schema=columns)

    key = [*_KEY, *also_by]
    several = _TASKS_A_CORE * partitions.sparkSession.sparkContext.defaultParallelism
    dealt, told = (
        frame.repartition(tasks or several, *key) for frame in (partitions, facts)
    )  # Spark merges none that it is told of
    return dealt.groupBy(*key).cogroup(told.groupBy(*key)).applyInArrow(run, wanted)


def with_error(schema: StructType) -> StructType:
    """`schema` and the column in which a failed snapshot says why."""
    return StructType([*schema.fields, StructField("error", StringType())])


def results(analysed: DataFrame, schema: StructType) -> DataFrame:
    """Rows of the snapshots that `per_snapshot` could analyse."""
    return analysed.where(F.col("error").isNull()).select(*schema.names)


def failures(analysed: DataFrame, stage: str) -> DataFrame:
    """schemas.NOT_ANALYSED: the snapshots that `per_snapshot` could not analyse."""
    failed = analysed.where(F.col("error").isNotNull())
    return failed.select(*_KEY, F.lit(stage).alias("stage"), F.col("error").alias("reason")).select(*NOT_ANALYSED.names)


def context_of(rows: SnapshotRows, *, with_queue: bool = True) -> Built:
    """The controller's context of one snapshot, and the rows that contradict others.

    `with_queue` false leaves the queue of deletions out, for who wants to see what happens when a topic enters it.
    """
    facts, names = rows.facts, rows.names()
    assignments = map(
        ReplicaAssignment, rows.broker_lists("replicas"), rows.broker_lists("adding"), rows.broker_lists("removing")
    )
    return build_leniently(
        dialect=rows.dialect,
        brokers=rows.brokers,
        assignments=zip(names, assignments, strict=True),
        states=_states(rows, names),
        topics_to_be_deleted=rows.topics_to_be_deleted if with_queue else (),
        reassignment_targets={
            _named(request): tuple(request["replicas"] or ()) for request in facts["reassign_requests"]
        },
        preferred_elections=map(_named, facts["election_requests"]),
        config=ControllerConfig(
            controller_id=BrokerId(min(facts["live"], default=0)),
            unclean_leader_election=facts["unclean_election_default"],
            delete_topic=facts["deletion_enabled"],
            imbalance_percentage=round(facts["imbalance_ratio_max"] * 100),
        ),
        epoch=facts["controller_epoch"] or max(filter(None, rows.column("controller_epoch")), default=0),
        epoch_zk_version=facts["controller_epoch_version"] or 0,
    )


def tuples(column: pa.ChunkedArray) -> list[tuple[BrokerId, ...]]:
    """A column of integer lists as tuples; null and empty are the empty tuple."""
    lists = column.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], column.type)
    flat = lists.flatten().to_pylist()
    ends = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).cumsum().tolist()
    start, found = 0, []
    for end in ends:
        found.append(tuple(flat[start:end]))
        start = end
    return found


def _run_safely(left: pa.Table, right: pa.Table, analysis: Analysis) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    holder = right if right.num_rows else left
    key = {name: holder.column(name)[0].as_py() for name in _KEY}
    try:
        (facts,) = right.to_pylist()
        ordered = left.sort_by([("topic", "ascending"), ("partition", "ascending")])
        with collector_paused():
            return key, list(analysis(SnapshotRows(facts, ordered)))
    except Exception as error:  # noqa: BLE001 - one cluster's failure is a row, whatever it is
        return key, [{"error": f"{type(error).__name__}: {error}"}]


def _states(rows: SnapshotRows, names: list[TopicPartition]) -> Iterator[tuple[TopicPartition, LeaderAndIsr]]:
    columns = ("leader", "leader_epoch", "recovery", "state_version", "controller_epoch")
    values = zip(names, rows.broker_lists("isr"), *map(rows.column, columns), strict=True)
    for name, isr, leader, leader_epoch, recovery, version, controller_epoch in values:
        if leader is not None:
            recovering = LeaderRecoveryState(recovery or 0)
            yield name, LeaderAndIsr(leader, leader_epoch, isr, recovering, version, controller_epoch)


def _named(request: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(request["topic"], request["partition"])
