"""One run at a time per cluster: an ephemeral znode beside Kafka's request nodes, and a fence in every transaction we write.

The lock has one name for all, so a transaction that checks it cannot tell ours from a successor's. The fence is a second
ephemeral znode of the same session with a name that nobody else ever uses: it is there only as long as the lock is ours.
Source: docs/adr, "The lock is a znode".
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from time import monotonic
from typing import Final, NamedTuple

from controller_core.model.errors import NodeExistsError, NoNodeError, ZooKeeperError
from controller_core.ports.zookeeper import ANY_VERSION, Check, Create, Delete, WatchEvent, ZooKeeper
from kafka_maintenance.operations.errors import BadInputError, ClusterBusyError, NotFinishedError

LOCK_PATH: Final = "/admin/kafka_maintenance_lock"
FENCE_PREFIX: Final = f"{LOCK_PATH}-"
"""A fence is this and 32 hex digits, made up anew each time the lock is taken."""


class Holder(NamedTuple):
    """Who holds the lock: the digest of the plan being applied, the run's id, who approved, since when (ISO 8601)."""

    plan: str
    run: str
    approver: str
    since: str


@contextmanager
def cluster_lock(zookeeper: ZooKeeper, holder: Holder, *, wait_s: float) -> Iterator[Check]:
    """Holds the lock of the cluster for the length of a `with` block.

    Yields the check that belongs into every transaction of the holder: it fails once the session, and with it lock and
    fence, is lost, also when the client has opened another session since and somebody else holds the lock. A killed run's
    lock vanishes with its session; `wait_s` is how long that is waited for, and only when the lock is held for the same
    plan.

    Raises:
        ClusterBusyError: another run holds the lock.
        NotFinishedError: an earlier process of the same run holds it, and has not ended in time.
        BadInputError: there is no Kafka tree here.
    """
    fence = f"{FENCE_PREFIX}{token_hex(16)}"
    try:
        _acquire(zookeeper, holder, fence, wait_s)
        yield Check(path=fence, version=0)
    finally:
        with suppress(ZooKeeperError):  # what was not taken, or is lost, cannot be released
            # One transaction: where our fence stands, the lock is ours, also when the answer to its creation was lost.
            zookeeper.multi([Delete(path=fence, version=0), Delete(path=LOCK_PATH, version=ANY_VERSION)])


def _acquire(zookeeper: ZooKeeper, holder: Holder, fence: str, wait_s: float) -> None:
    data = json.dumps(holder._asdict(), sort_keys=True).encode()
    deadline_s, vanished = monotonic() + wait_s, 0
    while True:
        changed = threading.Event()
        left_over = _fences(zookeeper)
        try:
            zookeeper.multi(
                [
                    Create(path=LOCK_PATH, data=data, ephemeral=True),
                    Create(path=fence, ephemeral=True),
                    *(Delete(path=path, version=ANY_VERSION) for path in left_over),
                ]
            )
        except (NodeExistsError, NoNodeError):  # NoNodeError: a fence that was left over has just vanished
            found = find_holder(zookeeper, changed)
            vanished += found is None
            same_plan = found is not None and found.plan == holder.plan
            if (found is None and vanished == 1) or (same_plan and changed.wait(deadline_s - monotonic())):
                continue
            raise _busy(found, holder) from None
        else:
            return


def _fences(zookeeper: ZooKeeper) -> list[str]:
    """The fences that stand. Beside no lock, one is left over from a run whose lock was removed by hand."""
    admin = FENCE_PREFIX.rpartition("/")[0]
    zookeeper.sync("/")
    try:
        names = zookeeper.children(admin)
    except NoNodeError:
        raise BadInputError(
            f"lock not taken: expected Kafka's tree with {admin} for {LOCK_PATH}, found none; check host and chroot"
        ) from None
    return [path for name in names if (path := f"{admin}/{name}").startswith(FENCE_PREFIX)]


def find_holder(zookeeper: ZooKeeper, changed: threading.Event | None = None) -> Holder | None:
    """Who holds the lock now; None where nobody does. `changed` is set when it vanishes."""

    def wake(_: WatchEvent) -> None:
        if changed is not None:
            changed.set()

    try:
        data, _ = zookeeper.get(LOCK_PATH, watch=None if changed is None else wake)
    except NoNodeError:
        return None
    unreadable = Holder(plan="?", run=repr(data[:80]), approver="?", since="?")
    try:
        found = Holder(**json.loads(data))
    except (ValueError, TypeError, RecursionError):
        return unreadable
    return found if all(isinstance(each, str) for each in found) else unreadable


def _busy(found: Holder | None, holder: Holder) -> ClusterBusyError | NotFinishedError:
    if found is None:
        return ClusterBusyError(
            f"cluster is busy: {LOCK_PATH} comes and goes; another run works there, try again later"
        )
    if (found.plan, found.run) == (holder.plan, holder.run):
        return NotFinishedError(
            f"plan {found.plan[:12]} is being applied by an earlier process of this run, {found.run!r}, since {found.since} "
            f"({LOCK_PATH}); it ends by itself when its supervisor is gone; run again to go on from its receipt"
        )
    return ClusterBusyError(
        f"cluster is busy: run {found.run!r} applies plan {found.plan[:12]}, approved by {found.approver!r}, since "
        f"{found.since} ({LOCK_PATH}); wait until it is done; the lock of a killed run ends with its session"
    )
