"""The store check as tasks: one mapped instance per cluster, its state as metrics."""

import logging
from datetime import UTC, datetime
from typing import Any, Final

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.observability.stats import Stats

from kafka_maintenance import hooks
from kafka_maintenance.tasks.common import CLUSTER_LABEL, label
from kafka_maintenance.tasks.settings import SETTINGS

METRICS: Final = "kafka_maintenance.snapshots"
"""Gauges `<this>.age_s`, `.consistent`, `.verified` (1 or 0) and `.findings`, each with the tag `cluster`."""

log = logging.getLogger(__name__)


@task(
    execution_timeout=SETTINGS.cluster_timeout,
    multiple_outputs=False,
    map_index_template=CLUSTER_LABEL,
    doc_md="Checks places, manifests, objects, notes and pins of one cluster's snapshots, and reads a sample again; fails when "
    "anything is wrong, or when the cluster has no snapshot.",
)
def check_snapshots(cluster: str, sample: int) -> dict[str, Any]:
    """The state of the newest snapshot; the findings are in the log."""
    from kafka_maintenance.operations.snapshots.check import check_store, check_text

    label(cluster)
    found = check_store(hooks.store(), now=datetime.now(UTC), cluster=cluster, sample=sample, progress=print)
    log.info("%s", check_text(found))
    tags = {"cluster": cluster}
    Stats.gauge(f"{METRICS}.findings", len(found.findings), tags=tags)
    for state in found.clusters:
        Stats.gauge(f"{METRICS}.age_s", state.age_s, tags=tags)
        Stats.gauge(f"{METRICS}.consistent", float(state.consistent), tags=tags)
        Stats.gauge(f"{METRICS}.verified", float(state.verified), tags=tags)
    if found.findings or not found.clusters:
        first = found.findings[0] if found.findings else None
        what = f"{first.where}: {first.what}" if first else "expected a snapshot, found none"
        raise AirflowFailException(
            f"cluster {cluster!r}: {len(found.findings)} things are wrong with its snapshots, the first: {what}; see the log, then "
            "`kafka-maintenance snapshots repair`"
        )
    (state,) = found.clusters
    return {"cluster": cluster, "snapshots": state.snapshots, "age_s": state.age_s, "consistent": state.consistent}
