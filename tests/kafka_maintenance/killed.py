"""Processes that kill themselves (SIGKILL) at the N-th step of publishing, restoring or removing a snapshot."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from controller_core.adapters.object_store import folder as folder_store
from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.snapshot import tree_writer
from controller_core.adapters.snapshot.tree_writer import WriteOptions
from controller_core.adapters.zookeeper.address import ClusterAddress
from kafka_maintenance.operations.record.receipts import ReceiptLog
from kafka_maintenance.operations.restore import apply_steps, apply_whole
from kafka_maintenance.operations.restore.apply import apply_restore
from kafka_maintenance.operations.retention import plan as snapshot_retention
from kafka_maintenance.operations.retention import store as retention_plan
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.kafka_maintenance.killed"])


class Fuse:
    """Kills this process when it has been asked for the `step`-th time (from 1 on)."""

    def __init__(self, step: int) -> None:
        self._left = step

    def burn(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: object, name: str) -> None:
        """Makes a function of a module or class burn the fuse before it works."""
        real = getattr(owner, name)

        def fused(*args, **kwargs):
            self.burn()
            return real(*args, **kwargs)

        setattr(owner, name, fused)

    def after(self, owner: object, name: str) -> None:
        """Likewise after it has worked."""
        real = getattr(owner, name)

        def fused(*args, **kwargs):
            result = real(*args, **kwargs)
            self.burn()
            return result

        setattr(owner, name, fused)


def in_child(function: Callable[..., None], *arguments: object) -> int:
    """Runs it in a process of its own; its exit status, -9 when it was killed."""
    child = _CONTEXT.Process(target=function, args=arguments)
    child.start()
    child.join(timeout=120)
    if child.exitcode is None:
        child.kill()
        raise TimeoutError("the child neither died nor ended in 120 s")
    return child.exitcode


def publish(step: int, zookeeper: str, folder: str) -> None:
    os.fsync = lambda _: None  # a killed process loses nothing that it has written
    fuse = Fuse(step)
    fuse.around(folder_store, "_write_synced")
    fuse.around(Path, "hardlink_to")
    fuse.around(Path, "unlink")
    take_snapshot(
        address=ClusterAddress(zookeeper),
        cluster="alpha",
        store=FolderStore(Path(folder)),
        run_id="run",
        now=world.NOON,
    )


def restore_whole(step: int, zookeeper: str, folder: str, plan_uri: str, digest: str) -> None:
    fuse = Fuse(step)
    fuse.around(tree_writer, "_submit")
    fuse.after(tree_writer, "_submit")
    for name in ("_make_chroot", "raise_version"):
        fuse.around(apply_whole, name)
    fuse.after(apply_whole, "_make_chroot")
    fuse.around(ReceiptLog, "append")
    _apply(zookeeper, folder, plan_uri, digest)


def restore_part(step: int, zookeeper: str, folder: str, plan_uri: str, digest: str) -> None:
    fuse = Fuse(step)
    apply_steps.TRANSACTION_STEPS_MAX = 1
    fuse.around(apply_steps, "_commit")
    fuse.after(apply_steps, "_commit")
    fuse.around(ReceiptLog, "append")
    _apply(zookeeper, folder, plan_uri, digest)


def _apply(zookeeper: str, folder: str, plan_uri: str, digest: str) -> None:
    apply_restore(
        store=FolderStore(Path(folder)),
        plan_uri=plan_uri,
        approved_digest=digest,
        approver="ada",
        target=ClusterAddress(zookeeper),
        now=world.NOON,
        write_options=WriteOptions(count_max=5, window=2),
    )


def retain(step: int, folder: str, digest: str) -> None:
    fuse = Fuse(step)
    fuse.around(FolderStore, "delete")
    policy = snapshot_retention.RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
    snapshot_retention.apply_retention(
        FolderStore(Path(folder)), policy, digest, now=world.NOON + timedelta(days=40), approver="ada"
    )


def retain_approved(step: int, folder: str, plan_uri: str, digest: str) -> None:
    fuse = Fuse(step)
    fuse.around(FolderStore, "delete")
    fuse.around(FolderStore, "put_new")
    apply_approved(folder, plan_uri, digest)


def apply_approved(folder: str, plan_uri: str, digest: str) -> None:
    retention_plan.apply_stored_retention(
        store=FolderStore(Path(folder)),
        plan_uri=plan_uri,
        cluster="alpha",
        approved_digest=digest,
        approver="ada",
        now=world.NOON + timedelta(days=40),
        run_id="run",
    )
