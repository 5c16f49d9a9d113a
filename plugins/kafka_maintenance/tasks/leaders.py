"""Leaders moved to chosen in-sync replicas, as tasks: planned from a live read, carried out as active controller after approval."""

import logging
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import task

from kafka_maintenance import hooks
from kafka_maintenance.tasks.approval import approved
from kafka_maintenance.tasks.common import cluster_of_run, context_of_run, run_name
from kafka_maintenance.tasks.plans import stored, summed_up
from kafka_maintenance.tasks.pools import APPLY_POOL

log = logging.getLogger(__name__)
KIND = "move_leaders"


@task(multiple_outputs=False)
def plan_leader_moves(
    cluster: str, plan: str | None, drain_brokers: list[int], drain_racks: list[str]
) -> dict[str, Any]:
    """The fewest moves after which these brokers and racks lead nothing that another in-sync replica can lead."""
    from controller_core.model.partitions import BrokerId
    from kafka_maintenance.operations.plans.leaders import plan_leader_moves as planned

    if plan:
        return stored(KIND, cluster, plan, drain_brokers=drain_brokers, drain_racks=drain_racks)
    made = planned(
        hooks.store(),
        cluster,
        zookeeper=hooks.cluster(cluster).address,
        brokers=[BrokerId(broker) for broker in drain_brokers],
        racks=drain_racks,
    )
    return summed_up(made, cluster)


@task(multiple_outputs=False, pool=APPLY_POOL)
def act_as_controller(confirm_unfenced_controller: bool) -> dict[str, Any]:  # noqa: FBT001 - a DAG param
    """Takes the place of the active controller for at most 4 s, moves the approved leaders, resigns, and verifies.

    Refuses where the cluster's connection does not say `may_act_as_controller`, or the cluster is not fit for it; then nothing was
    written. A second try of the task verifies what a first one moved.
    """
    from controller_core.adapters.brokers.access import access_from
    from kafka_maintenance.operations.act_as_controller import act

    context = context_of_run()
    store = hooks.store()
    approval = approved(KIND, context, store=store)
    cluster = hooks.cluster_to_write(cluster_of_run(context))
    receipt = act.act_as_controller(
        store=store,
        plan_uri=approval.shown.plan.uri,
        approved_digest=approval.shown.plan.digest,
        approver=approval.approver,
        address=cluster.address,
        permission=act.Permission(
            may_act=cluster.may_act_as_controller,
            confirmed_unfenced=confirm_unfenced_controller,
            access=access_from(cluster.broker_access),
        ),
        now=datetime.now(UTC),
        run_id=run_name(context),
        comment=approval.comment,
        approval=approval.record,
        permit=lambda: approved(KIND, context, store=store),
    )
    log.info("%s", receipt.text)
    return {"cluster": cluster.name, "plan": receipt.digest, "receipt": receipt.uri, "approver": receipt.approver}
