"""Leaders moved to chosen in-sync replicas, as tasks: planned from a live read, carried out as active controller after approval."""

import logging
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import task

from kafka_maintenance import hooks
from kafka_maintenance.tasks.approval import approved, closed_window
from kafka_maintenance.tasks.common import brokers_of, cluster_of_run, context_of_run, run_name
from kafka_maintenance.tasks.plans import stored, summed_up
from kafka_maintenance.tasks.pools import APPLY_POOL

log = logging.getLogger(__name__)
KIND = "move_leaders"


@task(multiple_outputs=False)
def plan_leader_moves(
    cluster: str, plan: str | None, drain_brokers: list[int], drain_racks: list[str], spread_bytes: float | None
) -> dict[str, Any]:
    """The fewest moves after which these brokers and racks lead nothing that another in-sync replica can lead, or leaders are spread by bytes.

    Sizes are what the brokers say: `bootstrap_servers` of the cluster's connection.
    """
    from controller_core.model.partitions import BrokerId
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.operations.plans.leaders import ByBytes
    from kafka_maintenance.operations.plans.leaders import plan_leader_moves as planned
    from kafka_maintenance.operations.plans.sizes import sizes_from_log_dirs

    if plan:
        return stored(
            KIND, cluster, plan, drain_brokers=drain_brokers, drain_racks=drain_racks, spread_bytes=spread_bytes
        )
    by_bytes = None
    if spread_bytes is not None:
        brokers = brokers_of(hooks.cluster(cluster), None)
        if brokers is None:
            raise BadInputError(
                f"leaders of {cluster!r} not spread by bytes: brokers that tell the sizes expected, found no bootstrap_servers in its connection; "
                "name them there"
            )
        by_bytes = ByBytes(spread_bytes, sizes_from_log_dirs(brokers))
    made = planned(
        hooks.store(),
        cluster,
        zookeeper=hooks.cluster(cluster).address,
        brokers=[BrokerId(broker) for broker in drain_brokers],
        racks=drain_racks,
        by_bytes=by_bytes,
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
        window=lambda: closed_window(KIND, context, store=store),
    )
    log.info("%s", receipt.text)
    return {"cluster": cluster.name, "plan": receipt.digest, "receipt": receipt.uri, "approver": receipt.approver}
