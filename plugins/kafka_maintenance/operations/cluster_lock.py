"""One run at a time per cluster: an ephemeral znode beside Kafka's request nodes, checked in every transaction we write.

Source: docs/adr, "The lock is a znode".
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from controller_core.errors import NodeExistsError, NoNodeError, ZooKeeperError
from controller_core.ports import ANY_VERSION, Check, WatchEvent, ZooKeeper
from kafka_maintenance.operations.errors import BadInputError, ClusterBusyError

LOCK_PATH: Final = "/admin/kafka_maintenance_lock"


class Holder(NamedTuple):
    """Who holds the lock: the digest of the plan being applied, the run's id, who approved, since when (ISO 8601)."""

    plan: str
    run: str
    approver: str
    since: str


@contextmanager
def cluster_lock(zookeeper: ZooKeeper, holder: Holder, *, wait_s: float) -> Iterator[Check]:
    """Holds the lock of the cluster for the length of a `with` block.

    Yields the check that belongs into every transaction of the holder: it fails once the session, and with it the lock,
    is lost. A killed run's lock vanishes with its session; `wait_s` is how long that is waited for, and only when the
    lock is held for the same plan.

    Raises:
        ClusterBusyError: another run holds the lock.
        BadInputError: there is no Kafka tree here.
    """
    _acquire(zookeeper, holder, wait_s)
    try:
        yield Check(path=LOCK_PATH, version=0)
    finally:
        with suppress(ZooKeeperError):  # a lost session has released it already
            _release(zookeeper)


def _acquire(zookeeper: ZooKeeper, holder: Holder, wait_s: float) -> None:
    data = json.dumps(holder._asdict(), sort_keys=True).encode()
    for attempt in range(2):
        changed = threading.Event()
        try:
            zookeeper.create(LOCK_PATH, data, ephemeral=True)
        except NodeExistsError:
            found = _holder(zookeeper, changed)
            ours = found is not None and found.plan == holder.plan
            if attempt == 0 and (found is None or (ours and changed.wait(wait_s))):
                continue
            raise _busy(found) from None
        except NoNodeError:
            raise BadInputError(
                f"lock not taken: expected Kafka's tree with /admin, found none at {LOCK_PATH}; check host and chroot"
            ) from None
        else:
            return


def _holder(zookeeper: ZooKeeper, changed: threading.Event) -> Holder | None:
    """Who holds the lock now; None when it has just vanished. `changed` is set when it vanishes."""

    def wake(_: WatchEvent) -> None:
        changed.set()

    try:
        data, _ = zookeeper.get(LOCK_PATH, watch=wake)
    except NoNodeError:
        return None
    try:
        return Holder(**json.loads(data))
    except (ValueError, TypeError):
        return Holder(plan="?", run=repr(data[:80]), approver="?", since="?")


def _busy(found: Holder | None) -> ClusterBusyError:
    if found is None:
        return ClusterBusyError(
            f"cluster is busy: {LOCK_PATH} comes and goes; another run works there, try again later"
        )
    return ClusterBusyError(
        f"cluster is busy: run {found.run!r} applies plan {found.plan[:12]}, approved by {found.approver!r}, since "
        f"{found.since} ({LOCK_PATH}); wait until it is done; the lock of a killed run ends with its session"
    )


def _release(zookeeper: ZooKeeper) -> None:
    found = zookeeper.exists(LOCK_PATH)
    if found is not None and found.ephemeral_owner == zookeeper.session_id:
        zookeeper.delete(LOCK_PATH, ANY_VERSION)
