"""The note of a gated run that a person starts: what will wait, and for whom. Runs that schedules open bring theirs (`common.gated_run`).

A task cannot write the note of its run; a listener of the scheduler can, in the transaction in which the run starts.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from airflow.listeners import hookimpl

KINDS: Final = {
    "delete_topics": "delete_topics",
    "drain_isr_notifications": "drain_isr_notifications",
    "elect_preferred_leaders": "elect_preferred_leaders",
    "move_leaders": "move_leaders",
    "reassign_partitions": "reassign_partitions",
    "restore_metadata": "restore",
    "retain_snapshots": "retain_snapshots",
}
"""Common DAG → kind of the plans that its gate asks about."""
_WITHOUT_ACT_ONLY_REPORTS: Final = {"drain_isr_notifications", "retain_snapshots"}

log = logging.getLogger(__name__)


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Writes the note as the run starts; one that is there stays.

    The policy is read in a thread of its own: the scheduler, which calls this in the middle of its work, forbids others to end its session.
    """
    if dag_run.run_type != "manual" or dag_run.note:
        return
    try:
        with ThreadPoolExecutor(max_workers=1) as other:
            run = dag_run.dag_id, dag_run.conf or {}, dag_run.triggering_user_name
            dag_run.note = other.submit(note_of, *run).result()
    except Exception:  # the listeners of others must still be called
        log.exception("run %s of %s has no note", dag_run.run_id, dag_run.dag_id)


def note_of(dag_id: str, conf: Mapping[str, Any], requester: str | None) -> str | None:
    """What a run waits for that `requester` started with this `conf`; None where it asks nobody."""
    from kafka_maintenance.hooks import CLUSTER_DAG_MARK, cluster_of_dag
    from kafka_maintenance.tasks.common import waits_for

    common = dag_id.partition(CLUSTER_DAG_MARK)[0]
    cluster = conf.get("cluster") or cluster_of_dag(dag_id)
    if common not in KINDS or not cluster or (common in _WITHOUT_ACT_ONLY_REPORTS and not conf.get("act")):
        return None
    return f"{common} on {cluster}, started by {requester or 'nobody that Airflow names'}: {waits_for(KINDS[common], cluster, requester)}"
