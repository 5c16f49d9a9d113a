"""Snapshots as tasks: one mapped instance per live cluster, one snapshot per run, never one of a past date."""

import logging
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowSkipException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.common import (
    CLUSTER_LABEL,
    SNAPSHOTS,
    WHATEVER_SUCCEEDED,
    beginning_name,
    brokers_of,
    context_of_run,
    day_of,
    is_beginning_of,
    label,
    run_name,
)
from kafka_maintenance.tasks.lineage import tell_lineage
from kafka_maintenance.tasks.notifiers import ring
from kafka_maintenance.tasks.settings import SETTINGS

if TYPE_CHECKING:
    from controller_core.adapters.object_store.open import ObjectStore
    from controller_core.adapters.snapshot.manifest import Manifest


log = logging.getLogger(__name__)


@task
def live_clusters(only: list[str] | None = None) -> list[str]:
    """Names of the clusters to take a snapshot of: of all that the Variable lists, or of `only`, those that are not archived and have not left ZooKeeper."""
    return list(hooks.live_names(only))


@task(
    multiple_outputs=False,
    map_index_template=CLUSTER_LABEL,
    execution_timeout=SETTINGS.cluster_timeout,
    doc_md="Stores the whole tree of one cluster; a cleared and rerun task finds the snapshot of its run and takes no "
    "second. Skipped when the run's date is over: a snapshot of today is not one of a past date.",
)
def take_snapshot(cluster: str, *, new_cluster_id: bool = False) -> dict[str, Any]:
    """The snapshot of this run."""
    from kafka_maintenance.operations.record.departures import departure_of
    from kafka_maintenance.operations.snapshots.catalog import UNUSABLE

    label(cluster)
    context = context_of_run()
    day, today = day_of(context), datetime.now(UTC).date()
    departure_of(hooks.store(), cluster)  # of one whose record is damaged nobody knows whether it has left: it raises
    # a run that was never cleared has none but its own: what lies there under its id is of one that was deleted since
    again = day != today or context["dag_run"].clear_number > 0
    try:
        found = stored_snapshot(cluster, day, run_name(context)) if again else None
    except UNUSABLE:  # whose it is nobody knows: today another one can be taken, of a past date none
        if day != today:
            raise
        found = None
    if found is None and day == today:
        found = snapshot_of_run(cluster, beginning_name(context), new_cluster_id=new_cluster_id)
    if found is None:
        raise AirflowSkipException(
            f"cluster {cluster!r}: no snapshot taken, the date {day} is over (today is {today} UTC); "
            f"analyse a stored one, or start a run without a date"
        )
    sure = "consistent" if found["consistent"] else "NOT consistent"
    log.info("cluster %s: snapshot %s of %s, %s: %s", cluster, found["snapshot"], day, sure, found["manifest"])
    return found


@task(
    outlets=[SNAPSHOTS],
    trigger_rule=WHATEVER_SUCCEEDED,
    doc_md="Announces the snapshots of the run as one event of the asset `kafka_metadata_snapshots`, with their names and the clusters that are missing. "
    "Tells the notifiers where the folder of the store is nearly full.",
)
def announce_snapshots(names: list[str], taken: list[dict[str, Any]]) -> list[str]:
    """The clusters without a snapshot of this run."""
    from kafka_maintenance.operations.snapshots.room import nearly_full

    if (full := nearly_full(hooks.store(), SETTINGS.store_free_percent)) is not None:
        log.warning("%s", full)
        ring(context_of_run(), full)
    found = {each["cluster"]: each["snapshot"] for each in taken}
    if not found:
        raise AirflowSkipException(f"nothing announced: no snapshot was taken of {', '.join(names) or 'any cluster'}")
    missing = [name for name in names if name not in found]
    day = max(each["date"] for each in taken)
    log.info("date %s: %d snapshots announced; without one: %s", day, len(found), ", ".join(missing) or "no cluster")
    context_of_run()["outlet_events"][SNAPSHOTS].extra = {"date": day, "snapshots": found, "missing": missing}
    return missing


@task
def clusters_to_ask(clusters: list[str]) -> list[str]:
    """Those whose connection names brokers that may be asked."""
    found = {name: hooks.usable_cluster(name) for name in clusters}
    return [name for name, one in found.items() if one is not None and one.bootstrap_servers]


@task(
    map_index_template=CLUSTER_LABEL,
    execution_timeout=SETTINGS.cluster_timeout,
    doc_md="Asks the brokers of one cluster how full their disks are and keeps the answer for the analysis of the date. Writes nothing to a "
    "cluster. Skipped when the run's date is over, and where brokers are older than Kafka 2.0.",
)
def measure_disks(cluster: str) -> str:
    """The key of what was measured."""
    from kafka_maintenance.operations.analysis import disks
    from kafka_maintenance.operations.cluster.log_dirs import BrokerTooOldError

    label(cluster)
    context = context_of_run()
    if day_of(context) != datetime.now(UTC).date():
        raise AirflowSkipException(f"cluster {cluster!r}: disks not measured, the date {day_of(context)} is over")
    brokers = brokers_of(hooks.cluster(cluster), None)
    if brokers is None:
        raise AirflowSkipException(f"cluster {cluster!r}: its connection names no brokers that may be asked any more")
    try:
        return disks.measure_disks(hooks.store(), cluster, brokers, run_id=run_name(context), now=datetime.now(UTC))
    except BrokerTooOldError as error:
        raise AirflowSkipException(str(error)) from error


def snapshot_of_run(cluster: str, run: str, *, new_cluster_id: bool = False) -> dict[str, Any]:
    """The snapshot of `cluster` that the run of that name has made, or makes now under today's date."""
    from kafka_maintenance.operations.snapshots.take import take_snapshot as take

    settings = hooks.cluster(cluster)
    result = take(
        address=settings.address,
        cluster=cluster,
        store=hooks.store(),
        run_id=run,
        now=datetime.now(UTC),
        key_file=hooks.snapshot_key_file(SETTINGS.snapshot_key_file),
        new_cluster_id=new_cluster_id,
    )
    return _told(result.manifest)


def stored_snapshot(cluster: str, day: date, run: str) -> dict[str, Any] | None:
    """What the run stored last of `cluster` in its date, or None; of one that cannot be read nobody knows whose it is: it raises."""
    from kafka_maintenance.operations.snapshots.catalog import manifest_keys, readable_snapshots

    store = hooks.store()
    found, unusable = readable_snapshots(store, manifest_keys(store, cluster, day))
    own = [manifest for manifest in found if is_beginning_of(run, manifest.run_id)]
    if unusable and not own:
        raise unusable[0]
    return _told(own[-1]) if own else None


def named_snapshot(store: "ObjectStore", *, cluster: str, date: str, snapshot: str) -> "Manifest":
    """The snapshot with that name in the store; names are all that tasks hand each other.

    Args:
        store: of snapshots.
        cluster: its name.
        date: on which it was taken, UTC, in ISO form.
        snapshot: its id.

    Raises:
        ObjectMissingError: there is none; ObjectDamagedError: it cannot be read.
        ValueError: a name that cannot be part of a key.
    """
    from kafka_maintenance.operations.snapshots.catalog import read_manifest

    return read_manifest(store, manifest_key(cluster=cluster, date=date, snapshot=snapshot))


def manifest_key(*, cluster: str, date: str, snapshot: str) -> str:
    """Where the manifest of the snapshot with that name lies; `ValueError` for a name that cannot be part of a key."""
    from controller_core.adapters.snapshot.manifest import MANIFEST, date_prefix, require_name

    day = datetime.fromisoformat(date).date()
    return f"{date_prefix(cluster, day)}snap={require_name(snapshot, 'snapshot')}/{MANIFEST}"


def _told(manifest: Any) -> dict[str, Any]:
    tell_lineage(read=[], written=[manifest.uri])
    return {
        "cluster": manifest.cluster,
        "date": manifest.date,
        "snapshot": manifest.snapshot_id,
        "manifest": manifest.uri,
        "digest": manifest.digest,
        "consistent": manifest.consistent,
    }
