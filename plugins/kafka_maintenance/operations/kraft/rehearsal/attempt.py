"""One migration of one copy: ZooKeeper, controller and imitated brokers are started, awaited and ended. Nothing stays.

Source: docs/kraft.md, "Rehearsal"; Kafka 3.9 `KRaftMigrationDriver` for the states and the pause between its tries.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import psutil

from controller_core.adapters.snapshot.reader import ReadOptions, read_cut
from controller_core.adapters.snapshot.tree_writer import write_tree
from controller_core.adapters.zookeeper.session import KazooZooKeeper, connect
from kafka_maintenance.operations.kraft.rehearsal.copy import Copy
from kafka_maintenance.operations.kraft.rehearsal.records import Migrated, migrated
from kafka_maintenance.servers.imitated_brokers import ImitatedBrokers
from kafka_maintenance.servers.kraft_controller import KRaftController, Storage
from kafka_maintenance.servers.zookeeper import ZooKeeperServer

DUAL_WRITE: Final = "DUAL_WRITE"
_ROUND_S: Final = 0.1
_QUIET_S: Final = 9.0
_PARTITIONS_PER_QUIET_S: Final = 1000
_MIGRATION_RISES_S: Final = 15.0
_ERRORS: Final = ("ERROR", "Still waiting for ZK brokers", "Will retry")


class End(Enum):
    """How an attempt ended."""

    DUAL_WRITE = "dual write"
    HANGS = "hangs"
    DIED = "the controller process ended"
    NOT_STARTED = "not started"


@dataclass(frozen=True, slots=True)
class Cost:
    """What an attempt took: seconds, and bytes of resident memory at its end."""

    written_s: float
    migrated_s: float
    controller_bytes: int
    zookeeper_bytes: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one migration of a copy brought. `after` is path → data of the tree afterwards; `log` the controller's whole log. Records are read
    back where dual write was reached: what died or hangs has copied nothing that counts.
    """

    end: End
    state: str
    log: str
    records: Migrated
    after: Mapping[str, bytes | None]
    refused: Mapping[int, int]
    cost: Cost


def attempt(
    copy: Copy, storage: Storage, zookeeper: ZooKeeperServer, name: str, config: Mapping[str, str], heap_mb: int = 256
) -> Attempt:
    """Migrates a copy below a chroot of its own.

    Args:
        copy: what is migrated.
        storage: formatted for the copy's cluster.
        zookeeper: a throw-away server.
        name: names the chroot and the log; unique in the workspace.
        config: further settings of the controller.
        heap_mb: Java heap of the controller in MiB.

    Raises:
        LocalStackError: a process does not start.
    """
    begun_s = time.monotonic()
    with connect(f"{zookeeper.hosts}/{name}", create_chroot=True) as session:
        write_tree(session.client, copy.znodes)
        written_s = time.monotonic() - begun_s
        controller = KRaftController(
            storage, zookeeper_connect=f"{zookeeper.hosts}/{name}", name=name, config=config, heap_mb=heap_mb
        )
        with controller, ImitatedBrokers(
            sorted(copy.tree.registered),
            cluster_id=copy.cluster_id,
            controller_port=controller.port,
            with_directories=storage.version != "3.6",
        ) as brokers:  # fmt: skip
            end = await_end(controller, brokers, quiet_s=_QUIET_S + copy.partition_count / _PARTITIONS_PER_QUIET_S)
            if end is End.DUAL_WRITE and not _migration_rises(session):
                end = End.HANGS
            cost = Cost(
                written_s,
                time.monotonic() - begun_s - written_s,
                psutil.Process(controller.child.pid).memory_info().rss if controller.child.is_alive else 0,
                psutil.Process(zookeeper.child.pid).memory_info().rss,
            )
            after = _read(session)
            return Attempt(
                end,
                controller.migration_state,
                controller.log_text,
                migrated(controller.dump_lines() if end is End.DUAL_WRITE else ()),
                after,
                brokers.refused,
                cost,
            )


def await_end(controller: KRaftController, brokers: ImitatedBrokers, quiet_s: float) -> End:
    """Until dual write, the end of the process, or nothing new for `quiet_s` after the controller is active and all brokers have registered or were refused.

    A third of that time where the state complains.

    Args:
        controller: that migrates.
        brokers: that register.
        quiet_s: after which nothing more is expected.
    """
    seen: tuple[object, ...] = ()
    changed_s = time.monotonic()
    while controller.child.is_alive:
        state = controller.migration_state
        if state == DUAL_WRITE:
            return End.DUAL_WRITE
        now = (state, controller.is_active, brokers.all_registered, len(brokers.refused))
        if now != seen:
            seen, changed_s = now, time.monotonic()
        settled = controller.is_active and (brokers.all_registered or bool(brokers.refused))
        if settled and time.monotonic() - changed_s > (quiet_s / 3 if complains(controller) else quiet_s):
            return End.HANGS
        time.sleep(_ROUND_S)
    return End.DIED


def complains(controller: KRaftController) -> bool:
    """Whether it has told an error since it came into its state of the migration."""
    return any(word in controller.log_text.rpartition("transitioning from")[2] for word in _ERRORS)


def _migration_rises(session: KazooZooKeeper) -> bool:
    """Whether the version of `/migration` rises: an active controller writes it even when nothing happens."""
    _, first = session.get("/migration")
    deadline_s = time.monotonic() + _MIGRATION_RISES_S
    while time.monotonic() < deadline_s:
        if session.get("/migration")[1].version > first.version:
            return True
        time.sleep(_ROUND_S)
    return False


def _read(session: KazooZooKeeper) -> Mapping[str, bytes | None]:
    cut = read_cut(session.client, ReadOptions(method="plain", acls=False))
    return {path: znode.data for path, znode in cut.znodes.items()}
