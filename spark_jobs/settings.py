"""What an operator says about the clusters, and what follows from the Kafka version of each.

The settings file is JSON: `{"default": {…}, "clusters": {"alpha": {…}}}` with the fields of `ClusterSettings`; a
cluster's own value wins over the default. What nobody said is taken from the snapshot (the version) or from Kafka's
defaults of that version.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from controller_core.model.dialect import Detected, Dialect, Evidence, detect_version, dialect_for
from spark_jobs import json_values
from spark_jobs.json_values import Reader, one, one_or_null
from spark_jobs.schemas import SNAPSHOT_KEY

_KEY = list(SNAPSHOT_KEY)
RULES = StructType(
    [
        StructField("cluster", StringType()),
        StructField("snapshot_id", StringType()),
        StructField("kafka_version", StringType()),
        StructField("version_reason", StringType()),
        StructField("inter_broker_protocol_version", StringType()),
        StructField("imbalance_ratio_max", DoubleType()),
        StructField("deletion_enabled", BooleanType()),
        StructField("unclean_election_default", BooleanType()),
        StructField("election_needs_isr", BooleanType()),
        StructField("election_blocked_by_reassignment", BooleanType()),
        StructField("deletion_blocked_by_election", BooleanType()),
        StructField("deletion_needs_leader", BooleanType()),
        StructField("min_isr_default", IntegerType()),
        StructField("min_isr_capped", BooleanType()),
    ]
)
"""One row per snapshot: the switches of its Kafka version and of its operator."""


class SettingsError(Exception):
    """The settings file cannot be used."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Broker configs that no snapshot shows. None: as the version's default, or as the snapshot lets us assume."""

    kafka_version: str | None = None
    inter_broker_protocol_version: str | None = None
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic_enable: bool | None = None
    unclean_leader_election_enable: bool | None = None
    min_insync_replicas: int = 1


_READERS: dict[str, Reader] = {
    "kafka_version": one_or_null(str),
    "inter_broker_protocol_version": one_or_null(str),
    "leader_imbalance_per_broker_percentage": one(int, 0),
    "delete_topic_enable": one_or_null(bool),
    "unclean_leader_election_enable": one_or_null(bool),
    "min_insync_replicas": one(int, 1),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of every cluster; of some they cannot be used, which holds up no other."""

    default: ClusterSettings
    clusters: Mapping[str, ClusterSettings | SettingsError]

    def of(self, cluster: str) -> ClusterSettings:
        """What holds for `cluster`; raises the SettingsError of one whose settings cannot be used."""
        found = self.clusters.get(cluster, self.default)
        if isinstance(found, SettingsError):
            raise found
        return found


def parse_settings(text: str) -> Settings:
    """Reads a settings file; empty text is `{}`. What is wrong with one cluster's settings is raised where they are asked for.

    Raises:
        SettingsError: not JSON, or a default with a field that `ClusterSettings` does not have, or a value of another kind.
    """
    try:
        found = json_values.fields(json.loads(text or "{}"), {"default": one(dict), "clusters": one(dict)})
    except ValueError as error:
        raise SettingsError(
            f"settings not read: expected JSON with the objects 'default' and 'clusters', found {text[:80]!r} ({error})"
        ) from error
    default = _cluster_settings(ClusterSettings(), found.get("default", {}), "default")
    own: dict[str, ClusterSettings | SettingsError] = {}
    for name, told in sorted(found.get("clusters", {}).items()):
        try:
            own[name] = _cluster_settings(default, told, name)
        except SettingsError as error:
            own[name] = error
    return Settings(default, own)


def dialect_of(settings: ClusterSettings, evidence: Evidence) -> tuple[Dialect, Detected]:
    """The dialect that the operator named, else the one the snapshot shows; with the reasons.

    Raises:
        UnknownVersionError: the operator named a version that is not known.
    """
    detected = detect_version(evidence)
    if settings.kafka_version is not None:
        detected = Detected(settings.kafka_version, ("named in the settings",))
    return dialect_for(detected.version, settings.inter_broker_protocol_version), detected


def evidence_frame(cluster: DataFrame, brokers: DataFrame, topics: DataFrame, partitions: DataFrame) -> DataFrame:
    """What each snapshot shows of its Kafka version: one row per (cluster, snapshot_id), small enough to collect.

    Args:
        cluster: schemas.CLUSTER.
        brokers: schemas.BROKERS.
        topics: schemas.TOPICS.
        partitions: schemas.PARTITIONS.
    """
    by_broker = brokers.groupBy(*_KEY).agg(F.max("json_version").alias("broker_json"))
    by_topic = topics.groupBy(*_KEY).agg(F.max("json_version").alias("topic_json"))
    recovery = partitions.where(F.col("recovery") > 0).select(*_KEY).distinct().withColumn("recovery", F.lit(True))
    return (
        cluster.select(
            *_KEY, "controller_json_version", "controller_epoch", "controller_epoch_version", "version_znodes"
        )
        .join(by_broker, _KEY, how="left")  # one row per snapshot on each side
        .join(by_topic, _KEY, how="left")
        .join(recovery, _KEY, how="left")
    )


def rules_of(settings: Settings, row: Row) -> dict[str, Any]:
    """One row of `RULES` from one row of `evidence_frame`.

    Raises:
        SettingsError: what was said about the cluster cannot be used.
        UnknownVersionError: the operator named a version that is not known.
    """
    own = settings.of(row["cluster"])
    epoch, version = row["controller_epoch"], row["controller_epoch_version"]
    evidence = Evidence(
        broker_json_versions=() if row["broker_json"] is None else (row["broker_json"],),
        topic_json_versions=() if row["topic_json"] is None else (row["topic_json"],),
        controller_json_version=row["controller_json_version"],
        controller_epoch_version=None if epoch is None or version is None else version - epoch + 1,
        has_recovery_state=bool(row["recovery"]),
        version_znodes=row["version_znodes"] or (),  # null in an old snapshot
    )
    dialect, detected = dialect_of(own, evidence)
    return {
        "cluster": row["cluster"],
        "snapshot_id": row["snapshot_id"],
        "kafka_version": dialect.version,
        "version_reason": "; ".join(detected.reasons),
        "inter_broker_protocol_version": dialect.ibp_name,
        "imbalance_ratio_max": own.leader_imbalance_per_broker_percentage / 100,
        "deletion_enabled": _said(own.delete_topic_enable, dialect.delete_topic_default),
        "unclean_election_default": _said(own.unclean_leader_election_enable, dialect.unclean_leader_election_default),
        "election_needs_isr": dialect.rebalance_requires_preferred_in_isr,
        "election_blocked_by_reassignment": dialect.rebalance_blocked_by_any_reassignment,
        "deletion_blocked_by_election": dialect.preferred_election_blocks_deletion,
        "deletion_needs_leader": not dialect.offline_without_leader_ok,
        "min_isr_default": own.min_insync_replicas,
        "min_isr_capped": dialect.min_isr_capped_by_replicas,
    }


def _cluster_settings(base: ClusterSettings, found: Any, name: str) -> ClusterSettings:
    try:
        return replace(base, **json_values.fields(found, _READERS))
    except ValueError as error:
        raise SettingsError(f"settings of {name!r} not read: {error}; correct them") from error


def _said(value: bool | None, default: bool) -> bool:  # noqa: FBT001 - two answers to one question
    return default if value is None else value
