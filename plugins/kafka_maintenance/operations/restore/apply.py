"""Carries out an approved plan of a restore: a whole tree into an empty ZooKeeper whose brokers are stopped, or steps into a tree in use.

Every assumption is checked again, all is written in transactions, and a call can be repeated after a kill: what is there already is not
written twice.
Source: docs/restoring.md, "A part, or the whole tree".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.tree_writer import WriteOptions
from controller_core.adapters.zookeeper.address import ClusterAddress
from kafka_maintenance.operations.apply.cluster_lock import Holder
from kafka_maintenance.operations.errors import PlanChangedError, RefusedError
from kafka_maintenance.operations.record.departures import refuse_departed
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, is_begun
from kafka_maintenance.operations.restore.apply_steps import apply_steps
from kafka_maintenance.operations.restore.apply_whole import apply_whole
from kafka_maintenance.operations.restore.approved import ApprovedRestore
from kafka_maintenance.operations.restore.content import scope_of
from kafka_maintenance.operations.restore.document import iso_time, load_restore
from kafka_maintenance.operations.restore.plan import content_for
from kafka_maintenance.operations.snapshots.catalog import read_manifest, read_raw


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReceipt:
    """What an application did: znodes written now, znodes that were right already, what was left out, the record's URI."""

    written: int
    already_there: int
    left_out: Mapping[str, str]
    uri: str


def apply_restore(
    *,
    store: ObjectStore,
    plan_uri: str,
    approved_digest: str,
    approver: str,
    target: ClusterAddress,
    now: datetime,
    run_id: str = "command",
    comment: str | None = None,
    approval: Mapping[str, Any] | None = None,
    permit: Callable[[], object] = lambda: None,
    key_file: Path | None = None,
    write_options: WriteOptions | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> RestoreReceipt:
    """Carries out a stored plan whose digest was approved; safe to repeat until it says that it is done.

    Args:
        store: of snapshots, plans and records.
        plan_uri: address of the stored plan.
        approved_digest: what the approver saw, SHA-256 in hex.
        approver: who approved it.
        target: where the restore writes.
        now: the time for the record, UTC.
        run_id: for the record.
        comment: of that person.
        approval: what the gate recorded; None: a command.
        permit: raises where the approval does not count any more; called right before the first write.
        key_file: opens sealed secrets; None: they stay out.
        write_options: how fast; None: the defaults.
        progress: told how many steps are done.

    Raises:
        PlanChangedError: the stored plan is not the approved one.
        RefusedError: the target is not as planned, also when somebody else wrote meanwhile.
        ClusterBusyError: another run, or another plan of ours that waits, is at work; nothing was written.
        NotFinishedError: the lock was lost.
        ZooKeeperError, ObjectStoreError: the outside failed; a second call goes on.
    """
    plan = load_restore(store, plan_uri)
    if plan.digest != approved_digest:
        raise PlanChangedError(
            f"plan {plan_uri} not applied: approved digest {approved_digest}, stored digest {plan.digest}; look at "
            "the plan again, approve again"
        )
    document = plan.document
    if document["zookeeper"] != target.zookeeper:
        raise RefusedError(
            f"plan {plan_uri} not applied: it was made for {document['zookeeper']}, not for {target.zookeeper}; plan again"
        )
    manifest = read_manifest(store, document["snapshot"]["manifest"])
    if manifest.digest != document["snapshot"]["digest"]:
        raise PlanChangedError(f"plan {plan_uri} not applied: its snapshot {manifest.uri} was changed; plan again")
    scope = scope_of(document["scope"])
    if not scope.whole or scope.over:  # a whole tree goes where nothing is
        refuse_departed(store, manifest.cluster)
    raw = read_raw(store, manifest)
    content = content_for(target, raw, manifest, scope, key_file)
    store.probe()
    who = {"cluster": manifest.cluster, "digest": plan.digest, "run": run_id, "approver": approver}
    record = partial(ReceiptLog, store, now=now, now_at_s=monotonic(), **who)  # another call may have begun since
    before = {path: data.decode("utf-8", "backslashreplace") for path, data in content.corrected.items()}
    said: dict[str, Any] = {"before": before} if before else {}
    record().append(
        EventKind.STARTED, plan=plan_uri, comment=comment, approval=approval, principal=target.principal, **said
    )

    def begin() -> None:
        permit()
        if not is_begun((told := record()).events):
            told.append(EventKind.INTENDED)

    restore = ApprovedRestore(target, document, manifest, scope, content, begin, progress)
    if scope.whole and not scope.over:
        written, there = apply_whole(restore, write_options)
    else:
        holder = Holder(plan=plan.digest, run=run_id, approver=approver, since=iso_time(now))
        written, there = apply_steps(restore, store, raw, holder)
    receipt = record()
    receipt.append(EventKind.DONE, written=written, already_there=there, left_out=len(content.left_out))
    return RestoreReceipt(written=written, already_there=there, left_out=content.left_out, uri=receipt.uri)
