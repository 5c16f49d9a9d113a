"""Makes our snapshots of moments that the files of a ZooKeeper server hold: years from before this program was installed.

Source: docs/zookeeper-files.md.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.acls import OPEN_ACL
from controller_core.adapters.snapshot.cut import Cut, Znode
from controller_core.adapters.snapshot.format import raw_layer
from controller_core.adapters.snapshot.manifest import Manifest, require_name
from controller_core.adapters.snapshot.secrets import Sealer
from controller_core.adapters.zookeeper_files.data_directory import DataDirectory, Moment
from controller_core.adapters.zookeeper_files.jute import UNKNOWN_ACL, Acl
from controller_core.adapters.zookeeper_files.tree import OWN_TREE, DataTree
from controller_core.model.errors import MalformedZnodeError, NotKafkaTreeError
from controller_core.model.words import counted
from kafka_maintenance.operations.errors import BadInputError, listed
from kafka_maintenance.operations.snapshots.publish import (
    SnapshotResult,
    cluster_id_of,
    made_before,
    new_identity,
    publish_snapshot,
    require_same_id,
    result_of,
)

METHOD: Final = "zookeeper_files"
"""The `method` of their manifests."""
_PERIOD_MIN: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which moments: every full period, some times, some zxids; the newest one when nothing is named. Times are UTC."""

    every: timedelta | None = None
    times: tuple[datetime, ...] = ()
    zxids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import made; why a moment has no snapshot; what of the files could not be used; periods in which nothing changed."""

    snapshots: tuple[SnapshotResult, ...]
    passed_over: tuple[str, ...]
    notes: tuple[str, ...]
    unchanged: int


@dataclass(frozen=True, slots=True)
class _Chosen:
    zxid: int
    taken_at: datetime | None


def import_files(
    directory: DataDirectory,
    wanted: Wanted,
    *,
    store: ObjectStore,
    cluster: str,
    chroot: str = "",
    key_file: Path | None = None,
    new_cluster_id: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Imported:
    """Stores a snapshot of each wanted moment, once: a second import of a moment finds the first one's snapshot.

    Args:
        directory: the server's files.
        wanted: which moments.
        store: where the snapshots go.
        cluster: our name of the Kafka cluster.
        chroot: where its tree is, such as `/kafka`; empty for the root.
        key_file: keeps secrets, sealed with this key; None leaves them out.
        new_cluster_id: the name may have snapshots of another Kafka cluster.
        progress: told of each snapshot.

    A moment in which no Kafka cluster in ZooKeeper mode was there is passed over, and named.

    Raises:
        BadInputError: the files do not reach to a named time, or a moment was imported with another chroot.
        ZooKeeperFileError: they do not hold a moment, or are damaged.
        NotKafkaTreeError: no moment has a Kafka cluster; names the chroots where there is one.
        OtherClusterError: the name has snapshots of another cluster.
        ObjectStoreError: the store failed; what was imported before stays.
    """
    require_name(cluster, "cluster")
    sealer = Sealer.from_file(key_file) if key_file else None
    store.probe()
    chosen, unchanged = _chosen(directory, wanted)
    done: list[SnapshotResult] = []
    passed_over: list[str] = []
    known_id: str | None = None
    for each in sorted(chosen, key=lambda moment: moment.zxid):
        moment = directory.moment(each.zxid)
        taken_at = each.taken_at or _time_of(directory, moment)
        run_id = f"import-{taken_at:%Y%m%dT%H%M%S}-{each.zxid:x}"
        made = made_before(store, cluster, run_id)
        if made is not None:
            _require_chroot(made, chroot)
            done.append(result_of(made, created=False))
            continue
        cut = cut_of(moment, chroot)
        reason = _unfit(cut)
        if reason is not None:
            passed_over.append(f"{_day(taken_at)}, zxid {each.zxid:#x}: {reason}")
            continue
        found_id = cluster_id_of(_data(cut, znodes.CLUSTER_ID))
        if found_id not in (None, known_id) and not new_cluster_id:
            require_same_id(store, cluster, found_id, f"{directory.folder}{chroot} at zxid {each.zxid:#x}")
        known_id = found_id or known_id
        identity = new_identity(cut, cluster, run_id, taken_at)
        raw = raw_layer(cut, sealer.of(cluster, identity.snapshot_id) if sealer else None)
        done.append(
            publish_snapshot(
                store,
                replace(cut, znodes={}, acls={}),
                raw,
                identity=identity,
                run_id=run_id,
                chroot=chroot,
                key_id=sealer.key_id if sealer else None,
            )
        )
        progress(f"{_day(taken_at)}, zxid {each.zxid:#x}: {counted(raw.table.num_rows, 'znode')}")
    if not done:
        raise NotKafkaTreeError(
            f"nothing imported from {str(directory.folder)!r}: expected Kafka's /brokers/topics and /brokers/ids below "
            f"{chroot or '/'!r}, found none in {len(passed_over)} moments ({listed(passed_over)}); "
            f"{_homes(directory, chosen)}"
        )
    return Imported(tuple(done), tuple(passed_over), tuple(directory.notes), unchanged)


def cut_of(moment: Moment, chroot: str) -> Cut:
    """The tree below a chroot, as a read of the living server would have shown it then."""
    tree, texts = moment.tree, dict[Acl, str]()
    found: dict[str, Znode] = {}
    acls: dict[str, str] = {}
    below = f"{chroot}/"
    neighbours: set[str] = set()
    for path, node in tree.nodes.items():
        if not (path == chroot or path.startswith(below)):
            continue
        root = "/" + path[1:].partition("/")[0]
        if not chroot and path not in {"", "/"} and root not in znodes.ROOTS:
            neighbours.add(root)
            continue
        shown = path[len(chroot) :] or "/"
        found[shown] = Znode(node.data, node.stat())
        if node.acl != UNKNOWN_ACL:
            acls[shown] = texts.get(node.acl) or texts.setdefault(node.acl, json.dumps(node.acl))
    return Cut(
        znodes=found,
        unreadable={},
        zxid=moment.zxid,
        consistent=moment.doubt is None,
        reason=moment.doubt,
        unresolved=0,
        rounds=0,
        attempts=1,
        method=METHOD,
        acls=acls,
        secured=any(text != OPEN_ACL for text in texts.values()),
        server_version="unknown",
        scan_zxids=(moment.zxid, moment.zxid),
        seconds=(0.0, 0.0),
        neighbours=tuple(sorted(neighbours - {OWN_TREE})),
    )


# ------------------------------------------------------------------------------------------------- which moments


def _chosen(directory: DataDirectory, wanted: Wanted) -> tuple[list[_Chosen], int]:
    """The moments, and how many periods ended without a transaction in them."""
    unchanged = 0
    chosen = [_Chosen(zxid, None) for zxid in wanted.zxids]
    chosen += [_at(directory, moment) for moment in wanted.times]
    if wanted.every is not None:
        last: int | None = None
        for moment in _full_periods(directory, wanted.every):
            zxid = directory.zxid_at(_ms(moment))
            if zxid is not None and zxid != last:
                chosen.append(_Chosen(zxid, moment))
            unchanged += zxid is not None and zxid == last
            last = zxid
        if not chosen:
            raise BadInputError(
                f"nothing imported from {str(directory.folder)!r}: expected a full period of {wanted.every} between the first "
                f"and the last transaction, {_reach(directory)}; give a shorter one, or --at"
            )
    if not (wanted.zxids or wanted.times or wanted.every):
        chosen.append(_Chosen(directory.newest, None))
    return chosen, unchanged


def _at(directory: DataDirectory, moment: datetime) -> _Chosen:
    zxid = directory.zxid_at(_ms(moment))
    if zxid is None:
        raise BadInputError(
            f"tree of {_day(moment)} not found in {str(directory.folder)!r}: the files do not reach back so far, {_reach(directory)}; "
            "choose a later time, or the zxid of a snapshot file (--zxid)"
        )
    return _Chosen(zxid, min(moment, _moment(directory.clocks_ms[-1])))


def _full_periods(directory: DataDirectory, every: timedelta) -> Iterator[datetime]:
    """The ends of full periods, counted from 1970, between the first transaction and the last one."""
    if every < _PERIOD_MIN:
        raise BadInputError(f"nothing imported: expected a period of a minute or more, found {every}; correct it")
    if not directory.clocks_ms:
        return
    step = int(every.total_seconds() * 1000)
    first = -(-directory.clocks_ms[0] // step) * step
    yield from map(_moment, range(first, directory.clocks_ms[-1] + 1, step))


def _reach(directory: DataDirectory) -> str:
    if not directory.clocks_ms:
        return "found no transactions in them"
    first, last = _moment(directory.clocks_ms[0]), _moment(directory.clocks_ms[-1])
    return f"found transactions from {_day(first)} to {_day(last)}"


def _time_of(directory: DataDirectory, moment: Moment) -> datetime:
    """When the last transaction was made; without a log, when the newest znode was written."""
    time_ms = directory.time_of(moment.zxid)
    if time_ms is None:
        time_ms = max((max(node.mtime, node.ctime) for node in moment.tree.nodes.values()), default=0)
    return _moment(time_ms)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC)


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="seconds")


# ------------------------------------------------------------------------------------------------- what is no cluster


def _require_chroot(made: Manifest, chroot: str) -> None:
    """A moment is imported once: of a tree elsewhere in it there would be no snapshot, and the caller would hear that there is one."""
    if made.chroot != chroot:
        raise BadInputError(
            f"nothing more imported for {made.cluster!r}: expected chroot {made.chroot or '/'}, with which its snapshot {made.snapshot_id} was imported, "
            f"found {chroot or '/'}; give that chroot, or import the other tree for a cluster of another name"
        )


def _unfit(cut: Cut) -> str | None:
    """Why the tree is not that of a cluster in ZooKeeper mode."""
    if znodes.TOPICS not in cut.znodes or znodes.BROKER_IDS not in cut.znodes:
        return "no Kafka cluster"
    if znodes.MIGRATION in cut.znodes:
        return "the cluster moved to KRaft"
    controller = cut.znodes.get(znodes.CONTROLLER)
    try:
        if controller is not None and znodes.decode_controller(controller.data).is_kraft:
            return "a KRaft controller was active"
    except MalformedZnodeError:
        return None
    return None


def _data(cut: Cut, path: str) -> bytes | None:
    found = cut.znodes.get(path)
    return found.data if found else None


def _homes(directory: DataDirectory, chosen: Sequence[_Chosen]) -> str:
    """What to do: the chroots that have Kafka's tree in the last of the moments."""
    tree: DataTree = directory.moment(max(each.zxid for each in chosen)).tree
    homes = sorted(
        path.removesuffix(znodes.BROKER_IDS) or "/" for path in tree.nodes if path.endswith(znodes.BROKER_IDS)
    )
    return (
        f"did you mean --chroot {', '.join(homes)}?"
        if homes
        else "correct the data directory, or choose a later moment"
    )
