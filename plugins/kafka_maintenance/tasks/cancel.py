"""The cancel of a reassignment that is under way, as a task: what the command `cancel` does, under the policy of the cluster."""

import logging
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import task

from kafka_maintenance import hooks
from kafka_maintenance.tasks.approval import clears_of, requester_of
from kafka_maintenance.tasks.cluster_dags import require_dag_for
from kafka_maintenance.tasks.common import brokers_of, context_of_run

log = logging.getLogger(__name__)


@task(
    multiple_outputs=False,
    doc_md="Shows what Kafka has under way for a plan, and cancels it where `approve` names exactly that. When it fails, nothing or a part is "
    "cancelled, and the plan is not over: its log says what is missing; start a run again.",
)
def cancel_moves(cluster: str, plan: str | None, approve: str | None, reason: str) -> dict[str, Any]:
    """The plan, and the digest of what would be or was cancelled."""
    from kafka_maintenance.operations.apply.cancel import cancel, cancellation
    from kafka_maintenance.operations.apply.executions import plan_under_way
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.operations.gate.cancels import refuse_cancel

    require_dag_for(context_of_run()["dag_run"].dag_id, cluster)
    store, named = hooks.store(), hooks.cluster_to_write(cluster)
    digest = plan or plan_under_way(named.address, cluster)
    if approve is None:
        found = cancellation(store, cluster, digest, named.address, datetime.now(UTC))
        log.info("nothing is cancelled yet; a run with approve %s cancels:\n%s", found.digest, found.text)
        return {"cluster": cluster, "plan": digest, "approve": found.digest, "cancelled": False}
    policy, context = hooks.policy_for(cluster), context_of_run()
    by = policy.requester(requester_of(context), clears_of(context))
    refuse_cancel(policy, cluster, by, reason)
    brokers = brokers_of(named, None)
    if brokers is None:
        raise BadInputError(
            f"plan {digest[:12]} on {cluster!r} not cancelled: its brokers must be asked, and the connection names no bootstrap_servers; "
            "add them"
        )
    told = cancel(
        store=store,
        cluster=cluster,
        digest=digest,
        zookeeper=named.address,
        brokers=brokers,
        approved_digest=approve,
        by=str(by),
        reason=reason,
        now=datetime.now(UTC),
    )
    log.info("%s", told)
    return {"cluster": cluster, "plan": digest, "approve": approve, "cancelled": True}
