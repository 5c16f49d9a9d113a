"""The forced re-election that clears what lingers: ISR-change notifications, and requests that are not begun or name only what is gone.

Source: Kafka 3.9 `KafkaController.onControllerFailover`, `processIsrChangeNotification`; docs/operations.md, "ISR-change notifications".
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from controller_core.model.partitions import TopicPartition
from controller_core.model.words import counted
from controller_core.plans.checks import Unmet, unmet
from controller_core.plans.conditions import (
    ControllerIs,
    ElectedAfter,
    NotificationsGone,
    NotificationsLinger,
    RequestAbandoned,
    RequestAbsent,
    RequestIdle,
    StateReadable,
    ZooKeeperControllerRules,
)
from controller_core.plans.kinds.common import KindRecord, Origin, Refused, cluster_conditions
from controller_core.plans.observation import Notification, Observation
from controller_core.plans.plan import LeftOut, Plan, PlanKind, PlanStep, Rollback
from controller_core.plans.request_znodes import DeleteController, render_request
from controller_core.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS

_SHOWN_MAX: Final = 20
LINGER_AGE_MS: Final = 60_000
"""A living controller removes a notification in milliseconds; after a minute it is stuck (docs/operations.md)."""
BROKER_JSON_WITHOUT_NOTIFICATIONS: Final = 5
"""Registrations of this version mean an inter.broker.protocol.version of 2.7: ISR changes go through the controller."""


def drain_plan(
    observed: Observation,
    origin: Origin,
    *,
    now_ms: int,
    linger_age_ms: int = LINGER_AGE_MS,
    failover_deletes_notifications: bool = True,
) -> Plan | Refused:
    """A forced re-election, where notifications or requests linger beside a controller that does not take them.

    Only the new controller's failover drains them safely: it deletes them before it reads every partition's state. A
    tool that deleted them beside a living controller would lose updates (docs/operations.md). A request that names
    only partitions that are gone is removed by the next controller when it starts, of any version; a tool that removed it
    would disarm the watch of the active one. One that the active controller has not begun for that long is taken up by the next one.

    Args:
        observed: active controller, epoch, notifications and requests.
        origin: for which cluster.
        now_ms: milliseconds since 1970-01-01 UTC, by a clock close to ZooKeeper's.
        linger_age_ms: from which age on a notification or a request lingers.
        failover_deletes_notifications: false up to Kafka 1.0, where a re-election drains no notifications by itself.

    Returns:
        A plan without steps when nothing lingers; `Refused` when no controller is active or it would not help.
    """
    lingering = lingering_notifications(observed, now_ms=now_ms, linger_age_ms=linger_age_ms)
    requests = lingering_requests(observed, now_ms=now_ms, linger_age_ms=linger_age_ms)
    reasons = unmet((ZooKeeperControllerRules(),), observed)
    if not failover_deletes_notifications and lingering and not requests:
        advice = "the next ISR change makes the controller take them; if the brokers are newer, name their version"
        reasons = (*reasons, Unmet("/isr_change_notification", "Kafka 1.1 or newer", "an older one", advice))
    if reasons:
        return Refused(reasons)
    fresh = [LeftOut(each.name, f"younger than {linger_age_ms // 1000} s") for each in observed.notifications]
    fresh = [each for each in fresh if each.subject not in {one.name for one in lingering}]
    if not failover_deletes_notifications:
        fresh += [LeftOut(each.name, "a new controller of Kafka 1.0 or older does not take it") for each in lingering]
        lingering = ()
    something = bool(lingering or requests)
    return Plan(
        kind=PlanKind.DRAIN_ISR_NOTIFICATIONS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=cluster_conditions(observed, ()),
        steps=(_drain_step(lingering, requests, observed),) if something else (),
        predicted=tuple(_predicted_drain(lingering, requests, observed)) if something else (),
        left_out=tuple(fresh),
        risks=(
            "The new controller reads the whole tree again: seconds on a small cluster, minutes on a very large one.",
            "No leader is elected in that time. Requests that were pending are taken up again.",
        ),
        rollback=Rollback(text="None needed: brokers elect a controller among themselves, no data is touched."),
    )


def lingering_notifications(
    observed: Observation, *, now_ms: int, linger_age_ms: int = LINGER_AGE_MS
) -> tuple[Notification, ...]:
    """The notifications that are at least `linger_age_ms` old, by name."""
    return tuple(sorted(each for each in observed.notifications if now_ms - each.created_ms >= linger_age_ms))


def lingering_requests(
    observed: Observation, *, now_ms: int, linger_age_ms: int = LINGER_AGE_MS
) -> Mapping[str, tuple[TopicPartition, ...]]:
    """Path of a request znode → the partitions that it names: those that are gone, or those of which none was begun for `linger_age_ms`.

    Whether a reassignment was begun cannot be told of Kafka up to 2.3, nor where no topic that was read is of a newer format.
    """
    idle = {
        path: named
        for path, named in observed.idle_requests.items()
        if (path != REASSIGN_PARTITIONS or observed.shows_moves)
        and now_ms - observed.request_identities[path].created_ms >= linger_age_ms
    }
    return {**observed.abandoned_requests, **idle}


def makes_no_notifications(observed: Observation) -> bool:
    """Whether every broker is registered with an inter.broker.protocol.version that never writes notifications.

    Registrations of version 5 begin with 2.7-IV0, AlterPartition with 2.7-IV2; only development builds lie between.
    """
    versions = observed.broker_json_versions.values()
    return bool(versions) and min(versions) >= BROKER_JSON_WITHOUT_NOTIFICATIONS


def _drain_step(lingering: Sequence[Notification], requests: Collection[str], observed: Observation) -> PlanStep:
    active_controller, epoch, epoch_version = (
        observed.active_controller,
        observed.controller_epoch,
        observed.controller_epoch_version,
    )
    assert active_controller is not None, "refused before"
    epoch, epoch_version = epoch or 0, epoch_version or 0
    names = tuple(each.name for each in lingering)
    named = sorted({partition for each in lingering for partition in each.partitions})
    idle = [path for path in requests if path not in observed.abandoned_requests]
    # a reassignment that is taken up lasts as long as its copies; its request stays until then
    gone = [path for path in requests if path not in idle or path == PREFERRED_REPLICA_ELECTION]
    return PlanStep(
        effects=(
            DeleteController(
                controller_id=active_controller.controller_id,
                version=active_controller.version,
                epoch_version=epoch_version,
            ),
        ),
        expectations=(
            ControllerIs(
                controller_id=active_controller.controller_id,
                czxid=active_controller.czxid,
                epoch=epoch,
                epoch_version=epoch_version,
            ),
            *((NotificationsLinger(names=names),) if names else ()),
            *(RequestAbandoned(path=path) for path in observed.abandoned_requests),
            *(RequestIdle(path=path, czxid=observed.request_identities[path].czxid) for path in idle),
        ),
        outcomes=(
            ElectedAfter(epoch=epoch),
            *((NotificationsGone(names=names),) if names else ()),
            *(RequestAbsent(path=path) for path in gone),
            *(StateReadable(*partition) for partition in named),
        ),
    )


def _predicted_drain(
    lingering: Sequence[Notification], requests: Mapping[str, Sequence[TopicPartition]], observed: Observation
) -> Iterator[str]:
    active_controller, epoch = observed.active_controller, observed.controller_epoch
    assert active_controller is not None, "refused before"
    named = sorted({partition for each in lingering for partition in each.partitions})
    yield f"/controller  broker {active_controller.controller_id} is the active controller no longer, the brokers elect again"
    yield f"/controller_epoch  {epoch} → at least {(epoch or 0) + 1}"
    for path, partitions in requests.items():
        shown = ", ".join(map(str, partitions[:_SHOWN_MAX]))
        gone = path in observed.abandoned_requests
        what = f"names only {shown}, gone" if gone else f"asks for {shown}, not begun"
        yield f"{path}  {what}: {len(partitions)} in all; the new controller {'removes it' if gone else 'takes it up'}"
    if lingering:
        yield f"/isr_change_notification  {len(lingering)} lingering notifications are deleted by the new controller"
        shown = ", ".join(map(str, named[:_SHOWN_MAX]))
        yield f"metadata of {counted(len(named), 'partition')} reaches every broker again: {shown}"


def _changes(step: PlanStep) -> list[Sequence[str]]:
    return [[render_request(effect)] for effect in step.effects]


DRAIN: Final = KindRecord(
    title="Clear what lingers by a forced re-election",
    request=DeleteController,
    requests_per_step=1,
    unit=("forced re-election", "forced re-elections"),
    headings=("step", "what happens"),
    changes=_changes,
    step_timeout_s=180.0,
    destroys_data=False,
    counted_by=(),
    not_undone="a re-election of the controller leaves nothing that could be undone",
)
