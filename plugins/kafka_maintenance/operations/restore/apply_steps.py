"""Carries out the plan of a restore into a tree that is in use: its steps, in transactions that a foreign change fails.

Source: docs/restoring.md, "A part, or the whole tree".
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.live_acls import live_acls, set_live_acl
from controller_core.adapters.snapshot.tree_writer import NewZnode, raise_version
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.errors import (
    BadVersionError,
    ConnectionLostError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    TooLargeZnodeError,
)
from controller_core.model.words import counted
from controller_core.ports.zookeeper import Check, Create, Delete, Operation, Set, ZnodeStat, ZooKeeper
from kafka_maintenance.operations.apply.checks import refuse_beside
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH, Holder, cluster_lock
from kafka_maintenance.operations.errors import NotFinishedError, PlanChangedError, RefusedError, listed
from kafka_maintenance.operations.restore.acl_steps import acl_of
from kafka_maintenance.operations.restore.approved import ApprovedRestore
from kafka_maintenance.operations.restore.content import (
    RestoreScope,
    is_alterable,
    is_anew,
    notice_of,
    parent_of_notice,
    recreated_topic,
    same_assignment,
)
from kafka_maintenance.operations.restore.document import RestoreStep, content_sum, differs, plan_steps, shown_data
from kafka_maintenance.operations.restore.identity import require_same_cluster
from kafka_maintenance.operations.restore.over import read_target
from kafka_maintenance.operations.restore.part import brokers_of
from kafka_maintenance.operations.restore.plan import LARGE_BYTES, assumed_acls, require_login_for
from kafka_maintenance.operations.restore.whole import require_no_brokers
from kafka_maintenance.operations.snapshots.take import require_zookeeper_mode

TRANSACTION_BYTES_MAX: Final = 400_000
TRANSACTION_STEPS_MAX: Final = 50
_READ_AHEAD: Final = 1000
_LOCK_WAIT_S: Final = 30.0
_LOCK_HOME: Final = LOCK_PATH.rpartition("/")[0]


def apply_steps(restore: ApprovedRestore, store: ObjectStore, raw: pa.Table, holder: Holder) -> tuple[int, int]:
    """Writes the data, then the ACLs, under the lock of the cluster; how many steps it did, and how many were done already.

    Args:
        restore: the plan and what it needs.
        store: where records lie of what waits on the cluster.
        raw: of the snapshot.
        holder: of the lock.

    Raises:
        PlanChangedError: the plan told its approver something else than stands there.
        RefusedError: the target is not as planned, also when somebody else wrote meanwhile.
        ClusterBusyError: another run, or another plan of ours that waits, is at work; nothing was written.
        NotFinishedError: the lock was lost.
        TooLargeZnodeError: a znode is likely more than the server takes.
    """
    target, document, manifest, scope, content, begin, progress = restore
    originals = {znode.path: znode for znode in content.znodes}
    steps = plan_steps(document)
    require_login_for(assumed_acls(content, steps, scope), target)
    with target.session(create_chroot=False) as session:
        require_zookeeper_mode(session, target)
        require_same_cluster(session, raw, manifest, target, scope)
        if scope.whole:
            require_no_brokers(read_target(session), target)
        if _lacks_home_of_lock(session, steps):
            begin()
            home = originals[_LOCK_HOME]
            session.create(_LOCK_HOME, home.data or b"", acl=acl_of(home.acl))
        with cluster_lock(session, holder, wait_s=_LOCK_WAIT_S) as fence:
            refuse_beside(session, fence, manifest.cluster, holder.plan, store)
            guards = [fence, *_cluster_guard(session, steps)]
            listening = _require_alterable(session, steps, scope)
            begin()
            written = 0
            undone = _undone(session, steps, originals, scope, listening)
            for step_count, operations in _transactions(undone):
                _commit(session, guards, operations)
                written += step_count
                progress(written)
            for step in steps:
                if step.acl is not None:  # after the data: no transaction can contain it
                    _commit(session, guards, ())
                    written += _set_acl(session, step, step.acl)
            version = document.get("sequence_id_version")
            if version and session.exists(znodes.BROKER_SEQUENCE_ID) is not None:
                raise_version(session.client, znodes.BROKER_SEQUENCE_ID, version)
    return written, len(steps) - written


def _undone(
    session: ZooKeeper,
    steps: Sequence[RestoreStep],
    originals: Mapping[str, NewZnode],
    scope: RestoreScope,
    listening: Collection[str],
) -> Iterator[tuple[RestoreStep, list[Operation]]]:
    """The steps whose data is still to be written; what stands there is read ahead, and a transaction fails where it changed since."""
    writing = [step for step in steps if step.acl is None]
    for first in range(0, len(writing), _READ_AHEAD):
        some = writing[first : first + _READ_AHEAD]
        for step, there in zip(some, session.get_many([step.path for step in some]), strict=True):
            operations = _operations(step, there, originals, scope, listening)
            if operations:
                yield step, operations


def _transactions(steps: Iterable[tuple[RestoreStep, list[Operation]]]) -> Iterator[tuple[int, list[Operation]]]:
    """The operations of whole steps, as many as one transaction takes, with the number of the steps."""
    batch: list[Operation] = []
    size = count = 0
    for step, operations in steps:
        if batch and (size + step.size > TRANSACTION_BYTES_MAX or count >= TRANSACTION_STEPS_MAX):
            yield count, batch
            batch, size, count = [], 0, 0
        batch += operations
        size, count = size + step.size, count + 1
    if batch:
        yield count, batch


def _lacks_home_of_lock(session: ZooKeeper, steps: Sequence[RestoreStep]) -> bool:
    """Whether the parent of the lock is gone and the plan brings it back; no lock can be held without it."""
    return any(step.path == _LOCK_HOME for step in steps) and session.exists(_LOCK_HOME) is None


def _set_acl(session: KazooZooKeeper, step: RestoreStep, acl: str) -> bool:
    """Sets the ACL of a step; False when it stands there already."""
    found, aversion = live_acls(session.client, [step.path]).get(step.path, ("", None))
    if found == acl:
        return False
    if aversion != step.expected_aversion:
        raise RefusedError(
            f"restore not applied at {step.path!r}: expected its ACL at aversion {step.expected_aversion}, found "
            f"{aversion}; somebody changed it since the plan: plan again"
        )
    if step.before != found:
        raise PlanChangedError(
            f"restore not applied at {step.path!r}: the plan said that its ACL is {step.before!r}, found {found!r}; somebody wrote that plan by "
            "hand: plan again"
        )
    set_live_acl(session.client, step.path, acl, aversion or 0)
    return True


def _require_alterable(session: ZooKeeper, steps: Sequence[RestoreStep], scope: RestoreScope) -> Collection[str]:
    """Where the brokers that run now look for notices; refuses what may not change under them and is still to be written.

    The plan does not know: brokers that were stopped then may have started since.
    """
    brokers = brokers_of(session)
    if not brokers:
        return ()
    held = [
        step
        for step in steps
        if (step.size or step.delete)
        and not is_alterable(step.path)
        and not (is_anew(step.path, scope) and step.expected_mzxid is None)
    ]
    found = session.get_many([step.path for step in held])
    undone = [
        step.path
        for step, there in zip(held, found, strict=True)
        if (there is not None if step.delete else there is None or content_sum(there[0])["sha256"] != step.sha256)
    ]
    if undone:
        raise RefusedError(
            f"restore not applied: expected no running brokers, as when it was planned, found {listed(brokers)}; "
            f"{counted(len(undone), 'znode')}, such as {undone[0]!r}, may not change under them, which hold them in memory; nothing was "
            "written now: stop all brokers and apply again, or plan configs and ACLs only"
        )
    made = {step.path for step in steps if not step.delete}
    parents = {parent for step in steps if (parent := parent_of_notice(step.path)) is not None}
    return {parent for parent in parents if parent in made or session.exists(parent) is not None}


def _operations(
    step: RestoreStep,
    there: tuple[bytes, ZnodeStat] | None,
    originals: Mapping[str, NewZnode],
    scope: RestoreScope,
    listening: Collection[str],
) -> list[Operation]:
    """What carries out a step; nothing when it is done already. The znode and its notice are one transaction."""
    operations = _removal(step, there) if step.delete else _writing(step, there, originals, scope)
    notice = notice_of(step.path)
    if operations and notice is not None and parent_of_notice(step.path) in listening:
        operations.append(Create(path=notice[0], data=notice[1], sequential=True))
    return operations


def _writing(
    step: RestoreStep, there: tuple[bytes, ZnodeStat] | None, originals: Mapping[str, NewZnode], scope: RestoreScope
) -> list[Operation]:
    original = originals.get(step.path)
    anew = original is not None and is_anew(step.path, scope)
    data = (recreated_topic(original.data, step.path) if anew else original.data or b"") if original else b""
    if original is None or content_sum(data)["sha256"] != step.sha256:
        raise RefusedError(
            f"restore not applied: {step.path!r} is not in the snapshot with the planned content; apply with the same key "
            "file as planned, or plan again"
        )
    found, stat = there or (None, None)
    if found is not None and (not differs(found, data) or (anew and same_assignment(found, data, step.path))):
        return []
    if (stat.mzxid if stat else None) != step.expected_mzxid:
        raise RefusedError(
            f"restore not applied at {step.path!r}: expected {_written(step.expected_mzxid)}, found "
            f"{_written(stat.mzxid if stat else None)}; the cluster changed since the plan: plan again"
        )
    _require_read(step, found, data)
    if stat is None:
        return [Create(path=step.path, data=data, acl=acl_of(original.acl))]
    return [Set(path=step.path, data=data, version=stat.version)]


def _require_read(step: RestoreStep, found: bytes | None, data: bytes | None) -> None:
    """Refuses a step of which the approver read something else than stands there, or than would be written."""
    there, wanted = shown_data(step.path, found), shown_data(step.path, data or None)
    if (step.before, step.after) != (there, wanted):
        raise PlanChangedError(
            f"restore not applied at {step.path!r}: the plan said that {step.before!r} becomes {step.after!r}, found that {there!r} would "
            f"become {wanted!r}; somebody wrote that plan by hand: plan again"
        )


def _removal(step: RestoreStep, there: tuple[bytes, ZnodeStat] | None) -> list[Operation]:
    if there is None:
        return []
    found, stat = there
    if stat.mzxid != step.expected_mzxid:
        raise RefusedError(
            f"restore not applied at {step.path!r}: expected {_written(step.expected_mzxid)}, found {_written(stat.mzxid)}; the "
            "cluster changed since the plan: plan again"
        )
    _require_read(step, found, None)
    return [Delete(path=step.path, version=stat.version)]


def _written(mzxid: int | None) -> str:
    return "no znode" if mzxid is None else f"one last written in transaction {mzxid:#x}"


def _commit(session: ZooKeeper, guards: Sequence[Check], batch: Sequence[Operation]) -> None:
    try:
        session.multi([*guards, *batch])
    except (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError) as error:
        if error.failed_operation == 0:  # the fence, which is the first guard
            raise NotFinishedError(
                f"restore stopped: the session and with it the lock {LOCK_PATH} was lost; what was written stays and is right; "
                "apply again for the rest"
            ) from error
        raise RefusedError(
            f"restore stopped: {error}; the cluster changed while it was applied. What was written stays and is right; plan "
            "again for the rest"
        ) from error
    except ConnectionLostError as error:
        for each in batch:
            if isinstance(each, Create | Set) and len(each.data) > LARGE_BYTES:
                raise TooLargeZnodeError(
                    f"znode {each.path!r} not written: expected an answer, but the connection broke; its {len(each.data)} bytes and what a "
                    "transaction has around them are likely more than the server's jute.maxbuffer (1,048,575 by default): raise that on "
                    "every server, then apply again"
                ) from error
        raise


def _cluster_guard(session: ZooKeeper, steps: Sequence[RestoreStep]) -> list[Check]:
    """Every transaction fails if the tree below us becomes another cluster's; unless the plan brings the id itself back."""
    if any(step.path == znodes.CLUSTER_ID for step in steps):
        return []
    stat = session.exists(znodes.CLUSTER_ID)
    return [] if stat is None else [Check(path=znodes.CLUSTER_ID, version=stat.version)]
