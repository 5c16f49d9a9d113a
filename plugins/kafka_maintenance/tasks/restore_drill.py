"""The restore drill as tasks: one mapped instance per cluster, one of them with real brokers."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.common import label


@task
def clusters_to_drill(only: list[str] | None, brokers: str | None) -> list[dict[str, Any]]:
    """The clusters that have a snapshot (of `only`, or of all), and the version of the brokers to start for one of them."""
    from kafka_maintenance.operations.snapshots import manifest_keys

    store = hooks.store()
    names = [name for name in only or hooks.cluster_names() if manifest_keys(store, name)]
    versions = {name: found.kafka_version for name in names if (found := hooks.usable_cluster(name))}
    chosen = brokers or next((name for name in names if versions.get(name)), None)
    return [{"cluster": name, "kafka_version": versions.get(name) if name == chosen else None} for name in names]


@task(
    map_index_template="{{ cluster_name }}",
    max_active_tis_per_dagrun=1,
    doc_md="Restores a cluster's newest snapshot into a throw-away ZooKeeper and compares znode by znode; fails when "
    "anything differs. With a Kafka version, real brokers must come up on the restored tree with the same topics.",
)
def drill(chosen: dict[str, Any]) -> dict[str, Any]:
    """How the drill of one cluster went; the differences are in the log."""
    from kafka_maintenance.operations.restore_drill import restore_drill

    label(chosen["cluster"])
    report = restore_drill(
        store=hooks.store(),
        cluster=chosen["cluster"],
        now=datetime.now(UTC),
        kafka_version=chosen["kafka_version"],
    )
    for difference in report.differences:
        print(difference)  # noqa: T201 - the task's log
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
    }
