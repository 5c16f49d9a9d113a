"""Every dataset's columns: the decoded tables of a snapshot, and what the analyses make of them.

One `StructType` per dataset. Reading and writing go through `spark_jobs.io`, which checks the columns and names the one that
differs. Inputs follow from `controller_core.adapters.snapshot.tables`; every input row carries the three columns of `SNAPSHOT_KEY`.
"""

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from controller_core.adapters.snapshot import tables

_STRING, _INT, _LONG, _BOOL = StringType(), IntegerType(), LongType(), BooleanType()
_DOUBLE, _TIME, _DATE = DoubleType(), TimestampType(), DateType()
_BROKERS = ArrayType(_INT)

SNAPSHOT_KEY = ("cluster", "snapshot_id")
"""What names one snapshot of one cluster; the grain of every per-cluster result."""


def _columns(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


_SPARK_TYPES = {
    pa.string(): _STRING,
    pa.int32(): _INT,
    pa.int64(): _LONG,
    pa.bool_(): _BOOL,
    pa.binary(): BinaryType(),
    tables.TIMESTAMP: _TIME,
    pa.list_(pa.string()): ArrayType(_STRING),
    pa.list_(pa.int32()): _BROKERS,
}


def _input(table: str) -> StructType:
    """Spark's schema of a snapshot's table; every column is nullable, as Parquet's readers give it."""
    return _columns(*((field.name, _SPARK_TYPES[field.type]) for field in tables.TABLES[table]))


def _result(*columns: tuple[str, DataType]) -> StructType:
    return _columns(("cluster", _STRING), ("snapshot_id", _STRING), *columns)


SNAPSHOTS = _result()
"""Nothing but the names of snapshots."""

PATHS = _result(("path", _STRING))
"""Nothing but paths: of znodes in snapshots, or of their files."""

RAW = _columns(*((field.name, _SPARK_TYPES[field.type]) for field in tables.RAW))
"""The raw layer of a snapshot, a row per znode; which snapshot, only the file says."""

PARTITIONS = _input("partitions")
"""One row per (cluster, snapshot, topic, partition); a null leader means that there is no `state` znode."""

TOPICS = _input("topics")

BROKERS = _input("brokers")
"""Registered brokers: a broker without a row is not live."""

CONFIGS = _input("configs")

ACLS = _input("acls")
"""The rules of Kafka's authorizer, one row each."""

REQUESTS = _input("requests")
"""Pending request znodes: kind is delete_topics, reassign_partitions or preferred_replica_election."""

NOTIFICATIONS = _input("notifications")

CLUSTER = _input("cluster")
"""One row per snapshot."""

BAD_ROWS = _input("bad_rows")
"""Znodes that the snapshot could not decode, and rows that the analysis refused."""

INPUTS: Mapping[str, StructType] = MappingProxyType({name: _input(name) for name in tables.TABLES})

OF_DATE = tuple(table for table in INPUTS if table != "acls")
"""The tables that an analysis reads of the snapshots of its date and of the ones before."""

OF_HISTORY = ("partitions", "brokers", "cluster")
"""The tables that are read of a snapshot of the window before the newest earlier one."""

DISKS = _columns(
    ("cluster", _STRING),
    ("taken_at", _TIME),
    ("broker_id", _INT),
    ("log_dir", _STRING),
    ("error_code", _INT),
    ("total_bytes", _LONG),
    ("usable_bytes", _LONG),
    ("topic", _STRING),
    ("partition", _INT),
    ("size", _LONG),
    ("is_future", _BOOL),
)
"""What brokers said of their log directories: one row per replica, and one per directory without any (`topic` is null)."""

FACTS = _result(
    ("taken_at", _TIME),
    ("live", _BROKERS),
    ("rack_of", ArrayType(_columns(("broker_id", _INT), ("rack", _STRING)))),
    ("rack_count", _INT),
    ("queued_topics", ArrayType(_STRING)),
    ("any_reassignment", _BOOL),
    ("any_election", _BOOL),
    ("kafka_version", _STRING),
    ("version_reason", _STRING),
    ("inter_broker_protocol_version", _STRING),
    ("imbalance_ratio_max", _DOUBLE),
    ("deletion_enabled", _BOOL),
    ("unclean_election_default", _BOOL),
    ("election_needs_isr", _BOOL),
    ("election_blocked_by_reassignment", _BOOL),
    ("deletion_blocked_by_election", _BOOL),
    ("deletion_needs_leader", _BOOL),
    ("min_isr_default", _INT),
    ("min_isr_capped", _BOOL),
    ("unreadable", ArrayType(_columns(("topic", _STRING), ("path", _STRING), ("reason", _STRING)))),
    ("unreadable_states", ArrayType(_columns(("topic", _STRING), ("partition", _INT)))),
    ("kraft_begun", _BOOL),
)
"""One row per snapshot: everything a rule must know about the cluster as a whole."""

_NAMED_PARTITION = _columns(("topic", _STRING), ("partition", _INT), ("replicas", _BROKERS))
CORE_FACTS = StructType(
    [
        *FACTS.fields,
        StructField("controller_epoch", _INT),
        StructField("controller_epoch_version", _INT),
        StructField("reassign_requests", ArrayType(_NAMED_PARTITION)),
        StructField("election_requests", ArrayType(_NAMED_PARTITION)),
        StructField("topic_unclean", ArrayType(_columns(("topic", _STRING), ("value", _STRING)))),
        StructField("topic_min_isr", ArrayType(_columns(("topic", _STRING), ("min_isr", _INT)))),
    ]
)
"""One row per snapshot: what `controller_core` gets beside the partitions."""

IMBALANCE = _result(
    ("broker_id", _INT),
    ("live", _BOOL),
    ("preferred_count", _LONG),
    ("imbalanced_count", _LONG),
    ("ratio", _DOUBLE),
    ("triggers", _BOOL),
    ("candidate_count", _LONG),
    ("electable_count", _LONG),
    ("ratio_after_election", _DOUBLE),
)
"""One row per broker that is somebody's preferred leader; ratios are fractions, 0 to 1."""

IMBALANCED_PARTITIONS = _result(
    ("topic", _STRING),
    ("partition", _INT),
    ("preferred_leader", _INT),
    ("leader", _INT),
    ("candidate", _BOOL),
    ("electable", _BOOL),
    ("reason", _STRING),
)
"""One row per partition led by another than its preferred leader; `reason` says why it cannot be elected."""

INELIGIBILITY_REASON = _columns(("kind", _STRING), ("partition", _INT), ("brokers", _BROKERS), ("text", _STRING))

DELETION_ELIGIBILITY = _result(
    ("topic", _STRING),
    ("requested_at", _TIME),
    ("partition_count", _LONG),
    ("eligible", _BOOL),
    ("reasons", ArrayType(INELIGIBILITY_REASON)),
    ("remedy", _STRING),
)
"""One row per topic queued for deletion, with every reason why it cannot be deleted now."""

DELETION_PREDICTION = _result(("topic", _STRING), ("step", _INT), ("effect", _STRING))
"""What the controller will do with a queued topic, in order; as text of `controller_core.runtime.render`."""

FINDINGS = _result(
    ("kind", _STRING),
    ("severity", _STRING),
    ("topic", _STRING),
    ("partition", _INT),
    ("brokers", _BROKERS),
    ("age_s", _LONG),
    ("detail", _STRING),
    ("cause", _STRING),
)
"""One row per thing that is wrong; severity is critical, warning or info. `cause` is the finding it follows from, null where
it stands alone: one broker that is down is one finding, whatever it takes with it."""


CLUSTER_SUMMARY = _result(
    ("taken_at", _TIME),
    ("topic_count", _LONG),
    ("partition_count", _LONG),
    ("replica_count", _LONG),
    ("broker_count", _LONG),
    ("offline_count", _LONG),
    ("imbalanced_count", _LONG),
    ("under_replicated_count", _LONG),
    ("kafka_version", _STRING),
    ("version_reason", _STRING),
)
"""One row per snapshot; `version_reason` says what lets us assume that `kafka_version`, or that somebody named it."""

BROKER_LOAD = _result(
    ("broker_id", _INT),
    ("rack", _STRING),
    ("live", _BOOL),
    ("replica_count", _LONG),
    ("leader_count", _LONG),
    ("preferred_count", _LONG),
)
"""One row per broker that is registered or holds a replica."""

LEADER_CHURN = _columns(
    ("cluster", _STRING),
    ("date", _DATE),
    ("partition_count", _LONG),
    ("leader_changes", _LONG),
    ("leader_epoch_steps", _LONG),
    ("isr_changes", _LONG),
    ("assignment_changes", _LONG),
)
"""One row per cluster and date: how many partitions differ from the day before."""

UNSTABLE_PARTITIONS = _columns(
    ("cluster", _STRING),
    ("topic", _STRING),
    ("partition", _INT),
    ("nights", _LONG),
    ("leader_changes", _LONG),
    ("leader_epoch_steps", _LONG),
    ("isr_changes", _LONG),
    ("nights_under_replicated", _LONG),
)

BROKER_HISTORY = _columns(
    ("cluster", _STRING),
    ("broker_id", _INT),
    ("nights_seen", _LONG),
    ("nights_missing", _LONG),
    ("registrations", _LONG),
    ("flapping", _BOOL),
    ("replica_count_first", _LONG),
    ("replica_count_last", _LONG),
    ("replica_trend_per_night", _DOUBLE),
)
"""One row per broker over the window; the trend is the slope of a least-squares line."""

CONTROLLER_CHURN = _columns(
    ("cluster", _STRING),
    ("date", _DATE),
    ("controller_id", _INT),
    ("controller_epoch", _INT),
    ("elections", _INT),
)

GROWTH = _columns(
    ("cluster", _STRING),
    ("date", _DATE),
    ("topic_count", _LONG),
    ("partition_count", _LONG),
    ("replica_count", _LONG),
    ("broker_count", _LONG),
    ("replicas_per_broker", _DOUBLE),
)

PROPOSALS = _result(
    ("status", _STRING),
    ("reason", _STRING),
    ("moves", _LONG),
    ("moves_lower_bound", _LONG),
    ("leader_changes", _LONG),
    ("leader_changes_lower_bound", _LONG),
    ("solver_seconds", _DOUBLE),
    ("explanation", _STRING),
    ("plan", _STRING),
    ("rollback", _STRING),
    ("certificate", _STRING),
)
"""One row per cluster: a proposed reassignment (Kafka's JSON), or why there is none.

Status: planned; balanced, nothing has to move; postponed, nothing can be moved now; impossible, no plan meets the goals.
"""

STATE_CHANGES = ArrayType(_columns(("subject", _STRING), ("before", _STRING), ("after", _STRING), ("count", _LONG)))
FAILURE_DRILL = _result(
    ("scenario", _STRING),
    ("failed", _BROKERS),
    ("affected_count", _LONG),
    ("unreadable_count", _LONG),
    ("offline_count", _LONG),
    ("under_min_isr_count", _LONG),
    ("unclean_count", _LONG),
    ("leaders_moved_count", _LONG),
    ("leaders_gained_max", _LONG),
    ("leaders_gained_max_broker", _INT),
    ("rank", _INT),
    ("state_changes", STATE_CHANGES),
)
"""One row per imagined failure. `unreadable_count`: partitions with a replica there whose state cannot be read, which no
other number counts. `state_changes`: transitions in the words of `state-change.log`, `subject` partition or replica (since 2026-11-25). `scenario` is broker, rack:<name> or pair; rank 1 is the worst of its cluster."""

KRAFT_READINESS = _result(
    ("phase", _STRING),
    ("phase_text", _STRING),
    ("rule", _STRING),
    ("verdict", _STRING),
    ("evidence", ArrayType(_STRING)),
)
"""One row per rule of docs/kraft.md; phase and verdict in the words of `spark_jobs.kraft`. A snapshot whose raw layer was not at hand has none."""

REFUSED_ROWS = _result(("dataset", _STRING), ("path", _STRING), ("reason", _STRING))
"""Input rows that no analysis used, and why."""

NOT_ANALYSED = _result(("stage", _STRING), ("reason", _STRING))
"""Clusters, or parts of their analysis, that failed; the others went on."""

OUTPUTS: Mapping[str, StructType] = MappingProxyType(
    {
        "imbalance": IMBALANCE,
        "imbalanced_partitions": IMBALANCED_PARTITIONS,
        "deletion_eligibility": DELETION_ELIGIBILITY,
        "deletion_prediction": DELETION_PREDICTION,
        "findings": FINDINGS,
        "cluster_summary": CLUSTER_SUMMARY,
        "broker_load": BROKER_LOAD,
        "leader_churn": LEADER_CHURN,
        "unstable_partitions": UNSTABLE_PARTITIONS,
        "broker_history": BROKER_HISTORY,
        "controller_churn": CONTROLLER_CHURN,
        "growth": GROWTH,
        "proposals": PROPOSALS,
        "failure_drill": FAILURE_DRILL,
        "kraft_readiness": KRAFT_READINESS,
        "refused_rows": REFUSED_ROWS,
        "not_analysed": NOT_ANALYSED,
    }
)
