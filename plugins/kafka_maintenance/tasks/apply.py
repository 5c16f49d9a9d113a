"""Writing tasks: the only ones that change a cluster, each behind a gate whose answer it checks again itself."""

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseOperator, Context, PokeReturnValue, task
from airflow.sdk.exceptions import AirflowFailException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.approval import approved, approved_plan, closed_window
from kafka_maintenance.tasks.common import brokers_of, cluster_of_run, context_of_run, run_name, start_name
from kafka_maintenance.tasks.lineage import tell_lineage
from kafka_maintenance.tasks.links import PLAN_AND_EXECUTION, push_links
from kafka_maintenance.tasks.notifiers import ring
from kafka_maintenance.tasks.pools import APPLY_POOL
from kafka_maintenance.tasks.settings import SETTINGS

if TYPE_CHECKING:
    from kafka_maintenance.tasks.triggers import ExecutionTrigger, TurnTrigger

log = logging.getLogger(__name__)


class ApplyPlanOperator(BaseOperator):
    """Writes what the approved plan says, if it is still that plan and the cluster is still as it expects.

    Takes the approved digest from the store's record of the run's gate, and the plan from the store by that digest; checks
    every version. It asks Kafka and leaves the worker: while Kafka works, the triggerer waits (`ExecutionTrigger`), and any worker
    goes on from plan, record and live cluster. So does one that meets a busy cluster, for `KAFKA_MAINTENANCE_BUSY_WAIT_S` at most and as
    long as its approval counts: the approval is not lost. The receipt names the approver and keeps the comment; a second try goes on
    where the first one stopped, and waits for it where its process is still there. Told to end, it ends at its next safe
    point. One writing task asks at a time on a cluster.
    """

    operator_extra_links = PLAN_AND_EXECUTION

    def __init__(self, *, kind: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.kind = kind

    def execute(
        self, context: Context, event: str | None = None, busy_since: str | None = None, *, begun_before: bool = True
    ) -> dict[str, Any]:
        """Goes on with the plan: names of cluster and plan, address of the receipt, and the approver.

        Args:
            context: of the running task.
            event: why the triggerer woke it; None at the beginning of a try.
            busy_since: since when it meets a busy cluster, ISO 8601; None: at the last look it was not.
            begun_before: whether it had gone on with its plan before it met that.

        Raises:
            AirflowFailException: the cluster is busy for longer than is waited; a further try would wait as long once more.
        """
        from kafka_maintenance.operations.errors import ClusterBusyError, StillUnderWayError

        if event is not None:
            log.info("goes on: %s", event)
        begun, values = datetime.now(UTC), cast("dict[str, Any]", context)
        resumed = event is not None and begun_before
        try:
            return _applied(self.kind, values, resumed=resumed)
        except ClusterBusyError as busy:
            since = busy_since or begun.isoformat()
            until = datetime.fromisoformat(since) + timedelta(seconds=SETTINGS.busy_wait_s)
            if begun >= until:
                raise AirflowFailException(str(busy)) from busy
            log.info("waits for its turn until %s UTC, no worker is held: %s", f"{until:%Y-%m-%d %H:%M}", busy)
            turn = _turn(self.kind, values)
            if busy_since is None:
                push_links(context, PLAN_AND_EXECUTION)
                ring(values, f"waits for its turn until {until:%Y-%m-%d %H:%M} UTC at most: {busy}")
            self.defer(trigger=turn, method_name="execute", kwargs={"busy_since": since, "begun_before": resumed})
        except StillUnderWayError as left:
            log.info("%s; the triggerer waits, no worker is held", left)
            push_links(context, PLAN_AND_EXECUTION)
            trigger = _waiting(self.kind, values, left.step)
            _ring_if_stuck(context, trigger, since=begun)
            self.defer(trigger=trigger, method_name="execute")


def apply_plan(kind: str) -> ApplyPlanOperator:
    """The task that carries out the approved plan of that kind."""
    return ApplyPlanOperator(task_id="apply_plan", kind=kind, pool=APPLY_POOL, doc_md=ApplyPlanOperator.__doc__)


def _waiting(kind: str, context: dict[str, Any], step: int) -> "ExecutionTrigger":
    from kafka_maintenance.tasks.triggers import ExecutionTrigger

    digest = approved(kind, context, store=hooks.store()).shown.plan.digest
    return ExecutionTrigger(cluster=cluster_of_run(context), kind=kind, digest=digest, step=step)


def _turn(kind: str, context: dict[str, Any]) -> "TurnTrigger":
    from kafka_maintenance.tasks.triggers import TurnTrigger

    digest = approved(kind, context, store=hooks.store()).shown.plan.digest
    return TurnTrigger(cluster=cluster_of_run(context), kind=kind, digest=digest)


def _ring_if_stuck(context: Context, waiting: "ExecutionTrigger", *, since: datetime) -> None:
    """Tells of a step that was called stuck since then; the record says so once, until a replica comes nearer."""
    from kafka_maintenance.operations.record.receipts import EventKind, read_events

    for each in read_events(hooks.store(), waiting.cluster, waiting.digest):
        if each.event is EventKind.STUCK and datetime.fromisoformat(each.at) >= since:
            ring(cast("dict[str, Any]", context), f"step {waiting.step + 1} {'; '.join(each.detail['reasons'])}")


def _applied(kind: str, context: dict[str, Any], *, resumed: bool) -> dict[str, Any]:
    from kafka_maintenance.operations.apply import plan as apply
    from kafka_maintenance.operations.apply.stop import Stop, stopping_on_signals

    store, run = hooks.store(), run_name(context)
    approval = approved(kind, context, store=store)
    cluster = hooks.cluster_to_write(cluster_of_run(context))
    with stopping_on_signals(Stop(with_parent=True)) as stop:
        receipt = apply.apply_plan(
            store=store,
            plan_uri=approval.shown.plan.uri,
            approved_digest=approval.shown.plan.digest,
            approver=approval.approver,
            zookeeper=cluster.address,
            now=datetime.now(UTC),
            run_id=run,
            start=start_name(context),
            comment=approval.comment,
            approval=approval.record,
            permit=lambda: approved(kind, context, store=store),
            window=lambda: closed_window(kind, context, store=store),
            stop=stop,
            patience_s=SETTINGS.patience_s,
            resumed=resumed,
            brokers=brokers_of(cluster, None),
        )
    log.info("%s", receipt.text)
    tell_lineage(read=[approval.shown.plan.uri], written=[receipt.uri])
    return {"cluster": cluster.name, "plan": receipt.digest, "receipt": receipt.uri, "approver": receipt.approver}


@task.sensor(mode="reschedule", poke_interval=SETTINGS.poke_interval_s, timeout=SETTINGS.verify_timeout_s)
def verify(kind: str) -> PokeReturnValue:
    """Compares the live tree with what the approved plan predicted, until it is so."""
    from kafka_maintenance.operations.apply import plan as apply
    from kafka_maintenance.operations.apply.executions import timeline
    from kafka_maintenance.operations.record.receipts import EventKind, read_events

    context = context_of_run()
    store, cluster = hooks.store(), hooks.cluster(cluster_of_run(context))
    plan = approved_plan(kind, context, store=store)
    digest = plan.digest
    events = read_events(store, cluster.name, digest)
    if not any(each.event is EventKind.DONE for each in events):
        raise AirflowFailException(
            f"nothing verified: the record of plan {digest} does not say that it was carried out (was apply_plan marked as success "
            "by hand?); clear apply_plan, which goes on from where the record ends"
        )
    found = apply.verify(
        store=store,
        plan_uri=plan.uri,
        zookeeper=cluster.address,
    )
    for line in timeline(events):
        log.debug("%s", line)  # the page Execution, to which this task links, has it
    log.info("%s; its record has %d events", found.text, len(events))
    return PokeReturnValue(is_done=found.done, xcom_value={"verified": found.done})
