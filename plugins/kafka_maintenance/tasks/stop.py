"""The brake as a task: asks the run of a plan to end; nothing is written to a cluster."""

import logging
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import task

from kafka_maintenance import hooks
from kafka_maintenance.tasks.approval import requester_of
from kafka_maintenance.tasks.common import context_of_run, run_name

log = logging.getLogger(__name__)


@task(
    multiple_outputs=False,
    doc_md="Leaves the wish in the store, where the run or its trigger finds it. When it fails, nobody was asked: correct the digest, "
    "or use `kafka-maintenance stop` where Airflow does not reach the store.",
)
def ask_to_stop(cluster: str, plan: str | None, reason: str) -> dict[str, Any]:
    """The plan that was asked to stop, and the last line of its record."""
    from kafka_maintenance.operations.apply.executions import (
        plan_under_way,
        record_of,
        refuse_to_stop,
        request_stop,
        timeline,
    )

    context, store = context_of_run(), hooks.store()
    digest = plan or plan_under_way(hooks.cluster(cluster).address, cluster)
    events = record_of(store, cluster, digest)
    refuse_to_stop(cluster, digest, events)
    lines = timeline(events)
    asked = f"{requester_of(context) or 'nobody by name'} in run {run_name(context)}"
    request_stop(store, cluster, digest, by=asked, reason=reason, now=datetime.now(UTC))
    log.info(
        "the run of plan %s on %r is asked to end; what Kafka was asked for goes on. Its record:\n%s",
        *(digest, cluster, "\n".join(lines[-10:])),
    )
    return {"cluster": cluster, "plan": digest, "last": lines[-1]}
