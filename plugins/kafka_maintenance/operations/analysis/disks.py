"""What the brokers say of their disks, once a day where they may be asked: kept beside the snapshots, read by the analysis.

`v1/disks/cluster=C/date=D/RUN.parquet`, create-only, one row per replica and one per log directory without any. ZooKeeper knows no sizes.
Source: Kafka protocol guide, DescribeLogDirs (version 4, Kafka 3.3, says how large the volume is and how much of it is free); KIP-827.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import ROOT, require_name, run_token
from controller_core.adapters.snapshot.parquet import table_from_parquet, table_to_parquet
from controller_core.adapters.snapshot.tables import TIMESTAMP
from controller_core.model.errors import ObjectDamagedError, ObjectExistsError
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.cluster.brokers_asked import ANSWER_TIMEOUT_S, BrokersAsked
from kafka_maintenance.operations.cluster.log_dirs import SizesUnknownError, answers_of
from kafka_maintenance.operations.errors import listed

PREFIX: Final = f"{ROOT}/disks/"
DISKS: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("taken_at", TIMESTAMP),
        ("broker_id", pa.int32()),
        ("log_dir", pa.string()),
        ("error_code", pa.int32()),  # of the directory; 0: it is online
        ("total_bytes", pa.int64()),  # of the volume; null before Kafka 3.3
        ("usable_bytes", pa.int64()),
        ("topic", pa.string()),  # null: the directory holds no replica
        ("partition", pa.int32()),
        ("size", pa.int64()),
        ("is_future", pa.bool_()),  # a copy under way between two directories of one broker
    ]
)
"""`spark_jobs.schemas.DISKS`, which is imported with Spark only."""
log = logging.getLogger(__name__)


def measure_disks(
    store: ObjectStore,
    cluster: str,
    brokers: BrokersAsked,
    *,
    run_id: str,
    now: datetime,
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> str:
    """Asks every broker for its log directories and keeps what they say; the key. A run asks once.

    Brokers that do not answer are left out, and the log names them.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        brokers: through which all brokers of the cluster are found.
        run_id: names the object.
        now: the time, UTC.
        timeout_s: how long one broker may take.

    Raises:
        SizesUnknownError: no broker answers; one is too old for it, or does not allow it.
        BadInputError: an argument that the client does not have.
        ObjectStoreError: the store failed.
    """
    key = f"{_prefix(cluster, now.astimezone(UTC).date())}{run_token(run_id)}.parquet"
    if key in store.list(key):
        return key
    asked = f"disks of {cluster!r} asked of the brokers at {brokers.bootstrap_servers}"
    answers, silent = answers_of(brokers, asked, timeout_s=timeout_s)
    if silent:
        reasons = listed([f"broker {broker}: {reason}" for broker, reason in sorted(silent.items())])
        if not answers:
            raise SizesUnknownError(
                f"disks of {cluster!r} not measured: an answer of a broker at {brokers.bootstrap_servers} expected, found {reasons}; "
                "start one, or let this user describe the cluster"
            )
        log.warning("disks of %s: no answer of %s", cluster, reasons)
    rows = [row for broker, found in sorted(answers.items()) for each in found for row in _rows(broker, each)]
    table = pa.Table.from_pylist([{"cluster": cluster, "taken_at": now, **row} for row in rows], schema=DISKS)
    try:
        store.put_new(key, table_to_parquet(table))
    except ObjectExistsError:  # the same run, a moment ago
        log.info("disks of %s: %s is there", cluster, key)
    return key


def newest_disks(store: ObjectStore, clusters: Iterable[str], day: date | str) -> dict[str, tuple[str, bytes]]:
    """Cluster → key and content of the newest measurement of that UTC date; clusters without one are absent.

    One that cannot be read is passed over, and the log says so.
    """

    def of_cluster(cluster: str) -> tuple[str, bytes] | None:
        found = [(key, store.get(key)) for key in store.list(_prefix(cluster, day))]
        times = {key: _measured_at(content, store.uri_of(key), cluster) for key, content in found}
        good = [(taken_at, key, content) for key, content in found if (taken_at := times[key]) is not None]
        return max(good)[1:] if good else None

    names = sorted(set(clusters))
    measured = zip(names, at_once(of_cluster, names), strict=True)
    return {cluster: found for cluster, found in measured if found is not None}


def remove_expired_disks(store: ObjectStore, oldest: date) -> list[str]:
    """Removes what was measured before that date; the keys."""
    keys = [key for key in store.list(PREFIX) if key.split("/")[3].removeprefix("date=") < oldest.isoformat()]
    for key in keys:
        store.delete(key)
    return keys


def _prefix(cluster: str, day: date | str) -> str:
    return f"{PREFIX}cluster={require_name(cluster, 'cluster')}/date={day}/"


def _measured_at(content: bytes, uri: str, cluster: str) -> datetime | None:
    """When; None where it cannot be read, or is of another cluster."""
    try:
        table = table_from_parquet(content, uri).cast(DISKS)
    except (ObjectDamagedError, ValueError, pa.ArrowException) as error:
        log.warning("disks of %s passed over: %s", cluster, error)
        return None
    if set(table["cluster"].to_pylist()) != {cluster}:
        log.warning("disks of %s passed over: %s holds other rows", cluster, uri)
        return None
    found: datetime = max(table["taken_at"].to_pylist())
    return found


def _rows(broker: int, log_dir: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    own = {
        "broker_id": broker,
        "log_dir": log_dir["log_dir"],
        "error_code": log_dir["error_code"],
        "total_bytes": _known(log_dir.get("total_bytes")),
        "usable_bytes": _known(log_dir.get("usable_bytes")),
    }
    replicas = [
        {
            "topic": topic["name"],
            "partition": row["partition_index"],
            "size": row["partition_size"],
            "is_future": row["is_future_key"],
        }
        for topic in log_dir["topics"]
        for row in topic["partitions"]
    ]
    yield from ({**own, **each} for each in replicas or [{}])


def _known(size: int | None) -> int | None:
    """Brokers before Kafka 3.3 say nothing, or -1."""
    return None if size is None or size < 0 else size
