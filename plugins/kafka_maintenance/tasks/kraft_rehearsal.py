"""The rehearsal of a migration to KRaft as tasks: one mapped instance per cluster."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.common import CLUSTER_LABEL, brokers_of, label
from kafka_maintenance.tasks.settings import SETTINGS

_TIMEOUT = timedelta(hours=2)

log = logging.getLogger(__name__)


@task(
    doc_md="The clusters to rehearse: those of the param, or all that are listed, are not archived and have not left ZooKeeper."
)
def clusters_to_rehearse(only: list[str] | None) -> list[str]:
    """One without a snapshot is among them: its own rehearsal says so."""
    return list(dict.fromkeys(only or hooks.live_names()))


@task(
    multiple_outputs=False,
    map_index_template=CLUSTER_LABEL,
    max_active_tis_per_dagrun=1,
    execution_timeout=_TIMEOUT,
    doc_md="Migrates a copy of a cluster's newest snapshot with a real KRaft controller on the worker; fails when it does not reach dual write at "
    "the first try, or when a difference has no class. The log has the whole report.",
)
def rehearse(cluster: str, version: str, release_version: str | None, fix: bool, with_brokers: int) -> dict[str, Any]:  # noqa: FBT001 - a param of the DAG
    """How the rehearsal of one cluster went: the document of `kraft rehearse --json`, without its lists of differences."""
    from kafka_maintenance.operations.kraft.rehearsal.kept import keep_rehearsal
    from kafka_maintenance.operations.kraft.rehearsal.of_snapshot import RealBrokers, rehearse_snapshot
    from kafka_maintenance.operations.kraft.rehearsal.report import rehearsal_json, rehearsal_text
    from kafka_maintenance.operations.kraft.rehearsal.run import Quorum
    from kafka_maintenance.operations.snapshots.catalog import find_snapshot

    label(cluster)
    store, known = hooks.store(), hooks.usable_cluster(cluster)
    rehearsal = rehearse_snapshot(
        store,
        find_snapshot(store, "newest", cluster),
        Quorum(version=version, release_version=release_version),
        key_file=hooks.snapshot_key_file(SETTINGS.snapshot_key_file),
        fix=fix,
        brokers=brokers_of(known, None) if known else None,
        real=RealBrokers(with_brokers) if with_brokers else None,
    )
    log.info("%s", rehearsal_text(rehearsal))
    keep_rehearsal(store, rehearsal, datetime.now(UTC))
    if not rehearsal.passed:
        found = [f"{each.rule or 'no rule'} {each.path or each.line}" for each in rehearsal.outcome.obstacles]
        found += [f"{each.rule or 'no rule'} {each.line}" for each in rehearsal.real.refusals] if rehearsal.real else []
        raise AirflowFailException(
            f"cluster {cluster!r}: the rehearsal was expected to reach dual write at the first try with every difference classified, "
            f"found {len(found)} obstacles ({'; '.join(found[:3]) or 'none'}); read the log, mend, and rehearse again"
        )
    document = rehearsal_json(rehearsal)
    return {name: document[name] for name in ("cluster", "snapshot", "digest", "kafka_version", "passed")}
