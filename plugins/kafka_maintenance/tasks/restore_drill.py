"""The restore drill as tasks: one mapped instance per cluster, one of them with real brokers."""

import logging
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException

from kafka_maintenance import hooks
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.tasks.common import CLUSTER_LABEL, label
from kafka_maintenance.tasks.settings import SETTINGS

log = logging.getLogger(__name__)


@task
def clusters_to_drill(only: list[str] | None, brokers: str | None) -> list[dict[str, Any]]:
    """The clusters of `only`, or all that are listed, and the version of the brokers to start for one of them.

    One without a snapshot or a usable connection is among them: its own drill says so.

    Raises:
        BadInputError: no brokers can be started for `brokers`; names the clusters that would do.
    """
    from kafka_maintenance.servers.kafka_jars import VERSIONS

    names = tuple(dict.fromkeys(only or hooks.cluster_names()))
    versions = {
        name: found.kafka_version
        for name in names
        if (found := hooks.usable_cluster(name)) and found.kafka_version in VERSIONS
    }
    chosen = brokers or next(iter(versions), None)
    if brokers and brokers not in versions:
        raise BadInputError(
            f"brokers of {brokers!r} not started: expected a cluster of this drill whose connection names its kafka_version, and one of {', '.join(VERSIONS)}, "
            f"those are {', '.join(versions) or 'none'}; name one of them, or leave it empty"
        )
    return [{"cluster": name, "kafka_version": versions.get(name) if name == chosen else None} for name in names]


@task(
    map_index_template=CLUSTER_LABEL,
    multiple_outputs=False,
    max_active_tis_per_dagrun=SETTINGS.drills_at_a_time,
    execution_timeout=SETTINGS.cluster_timeout,
    doc_md="Starts a throw-away ZooKeeper from a cluster's newest snapshot and compares znode by znode; fails when "
    "anything differs. With a Kafka version, real brokers must come up on the restored tree with the same topics.",
)
def drill(chosen: dict[str, Any], *, by_transactions: bool = False) -> dict[str, Any]:
    """How the drill of one cluster went; the notes and the differences are in the log."""
    from kafka_maintenance.operations.restore.drill import restore_drill

    label(chosen["cluster"])
    report = restore_drill(
        store=hooks.store(),
        cluster=chosen["cluster"],
        now=datetime.now(UTC),
        kafka_version=chosen["kafka_version"],
        key_file=hooks.snapshot_key_file(SETTINGS.snapshot_key_file),
        by_transactions=by_transactions,
    )
    for line in (*report.notes, *report.differences):
        log.info("%s", line)
    if not report.passed:
        raise AirflowFailException(
            f"cluster {report.cluster!r}: snapshot {report.snapshot} was restored, but {len(report.differences)} things "
            f"differ, the first: {report.differences[0]}; verify the snapshot, and take another one"
        )
    return {
        "cluster": report.cluster,
        "snapshot": report.snapshot,
        "restored": report.restored,
        "left_out": dict(report.left_out),
        "brokers": report.brokers,
        "consistent": report.consistent,
        "notes": list(report.notes),
    }
