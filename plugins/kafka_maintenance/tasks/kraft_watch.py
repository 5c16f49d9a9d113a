"""The watch on the day of a migration to KRaft as a task that waits without a worker."""

import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import PokeReturnValue, task
from airflow.sdk.exceptions import AirflowFailException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.common import context_of_run, run_name
from kafka_maintenance.tasks.snapshots import named_snapshot, snapshot_of_run

_EVERY = timedelta(minutes=5)
_AT_MOST = timedelta(days=14)
_PAUSE_S = 6
_TOOLS_OF = "3.9"

log = logging.getLogger(__name__)


@task(multiple_outputs=False)
def snapshot_of_phase(cluster: str, moment: str) -> dict[str, Any]:
    """The cluster's snapshot before or after a phase of its migration; a second try finds that of the first."""
    found = snapshot_of_run(cluster, f"{run_name(context_of_run())}.{moment}")
    return {name: found[name] for name in ("cluster", "date", "snapshot")}


@task.sensor(mode="reschedule", poke_interval=_EVERY.total_seconds(), timeout=_AT_MOST.total_seconds())
def watch_migration(cluster: str, metadata_log: str | None, before: dict[str, Any]) -> PokeReturnValue:
    """Looks twice at the cluster's tree; waits on *wait*, succeeds on *go*, fails on *go back*. Nothing is written.

    Nothing that the snapshot `before` holds may be lost.

    Raises:
        AirflowFailException: go back; the message says what to do, and why.
    """
    from kafka_maintenance.operations.kraft.drift import read_log
    from kafka_maintenance.operations.kraft.tree import tree_of
    from kafka_maintenance.operations.kraft.watch import Advice, judgement_json, judgement_text, look, settled, watch
    from kafka_maintenance.operations.snapshots.catalog import read_raw

    address = hooks.cluster(cluster).address
    says = read_log(Path(metadata_log), _TOOLS_OF) if metadata_log else None
    store = hooks.store()
    manifest = named_snapshot(store, cluster=cluster, date=before["date"], snapshot=before["snapshot"])
    since = tree_of(read_raw(store, manifest))
    judgement = settled(watch(lambda: look(address, datetime.now(UTC)), lambda: time.sleep(_PAUSE_S), says, since))
    log.info("%s", judgement_text(judgement))
    if judgement.advice is Advice.GO_BACK:
        raise AirflowFailException(f"cluster {cluster!r}: {judgement_text(judgement)}")
    found: dict[str, Any] = judgement_json(judgement)
    return PokeReturnValue(is_done=judgement.advice is Advice.GO, xcom_value=found)
