"""What lingers beside the controller of a live cluster: ISR-change notifications, and requests that are not begun or name only what is gone.

Reads only. What clears them is the forced re-election that `plan_drain` plans and `apply.apply_plan` carries
out after approval: deleting them beside a living controller would lose updates.
Source: docs/operations.md, "ISR-change notifications".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import TopicPartition
from controller_core.model.words import first_names
from controller_core.plans.kinds import (
    LINGER_AGE_MS,
    lingering_notifications,
    lingering_requests,
    makes_no_notifications,
)
from controller_core.plans.observation import Observation
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.cluster.observe import observe, session

_PARTITIONS_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationReport:
    """What `/isr_change_notification` holds.

    Attributes:
        count: children of the directory.
        lingering: whether some are so old that a living controller would have taken them long ago.
        lingering_count: how many.
        oldest: name of the oldest one; None when there is none.
        oldest_age_s: its age in seconds.
        partitions: which partitions they name, sorted.
        controller_id: who holds `/controller`; None when nobody does.
        requests: paths of request znodes that name only partitions that are gone, which the controller never finishes, or of which it began none.
        never_written: every broker speaks an inter.broker.protocol.version of 2.7 or newer, which writes none.
        made_count: how many there have been since the directory was created; None when there is no directory.
        text: all of this for people.
    """

    count: int
    lingering: bool
    lingering_count: int
    oldest: str | None
    oldest_age_s: float | None
    partitions: tuple[TopicPartition, ...]
    controller_id: int | None
    requests: tuple[str, ...]
    never_written: bool
    made_count: int | None
    text: str


def report(
    *,
    zookeeper: ClusterAddress | ZooKeeper,
    age_min_s: float = LINGER_AGE_MS / 1000,
    now: datetime | None = None,
) -> NotificationReport:
    """What waits in `/isr_change_notification` of a live cluster.

    Args:
        zookeeper: the cluster's address, or a session.
        age_min_s: from which age on a notification or a request lingers; a living controller takes both up in milliseconds.
        now: the time, with zone; None: the clock's, which should agree with ZooKeeper's.

    Raises:
        BadInputError: no Kafka tree here.
        ZooKeeperError: as its subclasses say.
    """
    with session(zookeeper) as opened_session:
        observed = observe(opened_session, partitions=())
    now_ms = int((now or datetime.now(UTC)).timestamp() * 1000)
    return _report(observed, now_ms, age_min_s)


def _report(observed: Observation, now_ms: int, age_min_s: float) -> NotificationReport:
    notifications = observed.notifications
    lingering = lingering_notifications(observed, now_ms=now_ms, linger_age_ms=int(age_min_s * 1000))
    requests = lingering_requests(observed, now_ms=now_ms, linger_age_ms=int(age_min_s * 1000))
    oldest = min(notifications, key=lambda each: (each.created_ms, each.name), default=None)
    oldest_age_s = None if oldest is None else max(0.0, (now_ms - oldest.created_ms) / 1000)
    cversion = observed.notifications_cversion
    return NotificationReport(
        count=len(notifications),
        lingering=bool(lingering),
        lingering_count=len(lingering),
        oldest=None if oldest is None else oldest.name,
        oldest_age_s=oldest_age_s,
        partitions=tuple(sorted({partition for each in notifications for partition in each.partitions})),
        controller_id=None if observed.active_controller is None else observed.active_controller.controller_id,
        requests=tuple(requests),
        never_written=makes_no_notifications(observed),
        # ZooKeeper counts every birth and every death of a child in the cversion.
        made_count=None if cversion is None else (cversion + len(notifications)) // 2,
        text="\n".join(_lines(observed, len(lingering), requests, oldest_age_s, age_min_s)),
    )


def _lines(
    observed: Observation,
    lingering_count: int,
    requests: Mapping[str, Sequence[TopicPartition]],
    oldest_age_s: float | None,
    age_min_s: float,
) -> Iterator[str]:
    notifications = observed.notifications
    if observed.kraft_sign is not None:
        yield f"KRaft: {observed.kraft_sign}; nothing of this is read any more"
    active_controller = observed.active_controller
    yield (
        "controller: nobody holds /controller"
        if active_controller is None
        else f"controller: broker {active_controller.controller_id}"
    )
    for path, partitions in requests.items():
        shown = f"{', '.join(map(str, partitions[:_PARTITIONS_SHOWN_MAX]))}; {len(partitions)} in all"
        if path in observed.abandoned_requests:
            what = f"names only partitions that are gone ({shown}): the active controller never finishes it"
        else:
            what = f"is older than {age_min_s:g} s, and the active controller began nothing of it ({shown})"
        yield f"request: {path} {what}, and every later request waits; a forced re-election helps, after approval"
    if makes_no_notifications(observed):
        yield "protocol: every broker speaks 2.7 or newer and writes no notifications; an empty directory is normal"
    if oldest_age_s is None:
        yield "notifications: none wait"
        return
    named = sorted({partition for each in notifications for partition in each.partitions})
    shown = first_names(named, _PARTITIONS_SHOWN_MAX) or "nothing"
    yield f"notifications: {len(notifications)} wait, the oldest for {oldest_age_s:.1f} s, naming {shown}"
    yield from (f"unreadable: {each.name}: {each.problem}" for each in notifications if each.problem)
    if not lingering_count:
        yield f"none is as old as {age_min_s:g} s: a living controller takes them in milliseconds, look again"
    elif active_controller is None:
        yield f"{lingering_count} linger and no controller is active: the next controller deletes them when it takes over"
    else:
        yield (
            f"{lingering_count} linger (older than {age_min_s:g} s) beside broker {active_controller.controller_id}: it is stuck; "
            "a forced re-election drains them, after approval"
        )
