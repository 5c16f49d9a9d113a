"""Reads of a cluster as an `Observation`: fresh ones through a ZooKeeper session, or those of a snapshot's tables.

Source: docs/znodes.md; docs/operations.md, "The plan".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.dialect import VERSION_ZNODES
from controller_core.model.errors import MalformedZnodeError, NoNodeError
from controller_core.model.partitions import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.plans.observation import (
    ActiveController,
    Notification,
    Observation,
    RequestIdentity,
    TopicIdentity,
)
from controller_core.ports.zookeeper import ZnodeStat, ZooKeeper
from controller_core.znodes import (
    decode_broker,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    decode_isr_change_notification,
    decode_preferred_replica_election,
    decode_reassign_partitions,
    decode_state,
    decode_topic,
)
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.errors import BadInputError

ZOOKEEPER_TIMEOUT_S = 15.0
SESSION_TIMEOUT_S = 10.0
"""How long the lock of a killed run stays; a run whose connection breaks for longer has lost its lock."""
_REQUEST_PATHS = (znode.REASSIGN_PARTITIONS, znode.PREFERRED_REPLICA_ELECTION)
_SHOWN_BYTES = 300
_Content = TypeVar("_Content")


@contextmanager
def session(zookeeper: ClusterAddress | ZooKeeper) -> Iterator[ZooKeeper]:
    """A ZooKeeper session: a new one to the address, or the one that is given, which stays open.

    Raises:
        ZooKeeperUnreachableError: nobody answered.
        NoAuthError: the credentials were refused.
        NoNodeError: the chroot does not exist.
    """
    if isinstance(zookeeper, ClusterAddress):
        with zookeeper.session(timeout_s=ZOOKEEPER_TIMEOUT_S, session_timeout_s=SESSION_TIMEOUT_S) as opened:
            yield opened
    else:
        yield zookeeper


def observe(
    zookeeper: ZooKeeper, *, partitions: Iterable[TopicPartition] | None = None, topics: Iterable[str] = ()
) -> Observation:
    """What the cluster looks like now.

    Args:
        zookeeper: a session on the cluster's chroot; the read is not older than this call.
        partitions: those whose assignment and state are read; None: of the whole cluster.
        topics: further topics, read with all their partitions' assignments; so are those that requests name.

    Raises:
        BadInputError: there is no Kafka tree here.
        MalformedZnodeError: a znode of the controller or a broker cannot be read; Kafka's own controller stops there, too.
    """
    zookeeper.sync("/")
    brokers, json_versions = _brokers(zookeeper)
    wanted = None if partitions is None else frozenset(partitions)
    unreadable: dict[str, str] = {}
    requests = {path: entry for path in _REQUEST_PATHS if (entry := _get(zookeeper, path)) is not None}
    pending = {path: data for path, (data, _) in requests.items()}
    moves = _asked(pending, znode.REASSIGN_PARTITIONS, _targets, unreadable) or {}
    asked_elections = _asked(pending, znode.PREFERRED_REPLICA_ELECTION, decode_preferred_replica_election, unreadable)
    elections = frozenset(asked_elections or ())
    names = (
        _children(zookeeper, znode.TOPICS)
        if wanted is None
        else sorted(filter(_may_be_znode, {each.topic for each in {*wanted, *moves, *elections}} | set(topics)))
    )
    found = _topics(zookeeper, names, unreadable)
    asked = found.assignments if wanted is None else {each for each in wanted if each in found.assignments}
    states = _states(zookeeper, sorted(asked), unreadable)
    epoch = _get(zookeeper, znode.CONTROLLER_EPOCH)
    migration = _get(zookeeper, znode.MIGRATION)
    cluster_id = _get(zookeeper, znode.CLUSTER_ID)
    notifications = zookeeper.exists(znode.ISR_CHANGE_NOTIFICATION)
    active_controller, controller_version = _active_controller(zookeeper)
    return Observation(
        kafka_cluster_id=None if cluster_id is None else decode_cluster_id(cluster_id[0]),
        active_controller=active_controller,
        controller_epoch=None if epoch is None else decode_controller_epoch(epoch[0]),
        controller_epoch_version=None if epoch is None else epoch[1].version,
        migration=None if migration is None else _text(migration[0]),
        brokers=brokers,
        broker_json_versions=json_versions,
        controller_json_version=controller_version,
        topic_json_versions=frozenset(found.json_versions),
        version_znodes=_version_znodes(zookeeper) if wanted is None else frozenset(),
        topics=found.identities,
        assignments=found.assignments,
        states=states,
        queued_topics=frozenset(_children(zookeeper, znode.DELETE_TOPICS)),
        pending={path: _text(data) for path, data in pending.items()},
        request_identities={path: RequestIdentity(stat.czxid, stat.ctime) for path, (_, stat) in requests.items()},
        reassign_requests=moves,
        election_requests=elections,
        notifications=_notifications(zookeeper),
        notifications_cversion=None if notifications is None else notifications.cversion,
        unreadable=unreadable,
    )


def observe_tables(tables: Mapping[str, pa.Table]) -> Observation:
    """What a snapshot holds; `tables` are its decoded tables by name (`adapters.tables`)."""
    cluster = _rows(tables["cluster"])[0]
    controller = cluster["controller_id"]
    partitions = _columns(tables["partitions"])
    keys = [TopicPartition(*key) for key in zip(partitions["topic"], partitions["partition"], strict=True)]
    requests = _rows(tables["requests"])
    return Observation(
        kafka_cluster_id=cluster["kafka_cluster_id"],
        active_controller=None
        if controller is None
        else ActiveController(BrokerId(controller), -1, 0, kraft_epoch=_or(cluster["kraft_controller_epoch"], -1)),
        controller_epoch=cluster["controller_epoch"],
        controller_epoch_version=cluster["controller_epoch_version"],
        migration=cluster["migration"],
        brokers={
            BrokerId(row["broker_id"]): Broker(BrokerId(row["broker_id"]), row["broker_epoch"], (), row["rack"])
            for row in _rows(tables["brokers"])
        },
        broker_json_versions={BrokerId(row["broker_id"]): row["json_version"] for row in _rows(tables["brokers"])},
        controller_json_version=cluster["controller_json_version"],
        topic_json_versions=frozenset(tables["topics"].column("json_version").drop_null().to_pylist()),
        version_znodes=frozenset(cluster.get("version_znodes") or ()),  # an old snapshot has no such column
        topics={
            row["topic"]: TopicIdentity(row["czxid"], row["partition_count"], row["topic_id"], row["znode_version"])
            for row in _rows(tables["topics"])
        },
        assignments={
            key: ReplicaAssignment(tuple(replicas), tuple(adding), tuple(removing))
            for key, replicas, adding, removing in zip(
                keys, partitions["replicas"], partitions["adding"], partitions["removing"], strict=True
            )
        },
        states=_table_states(keys, partitions),
        queued_topics=frozenset(row["topic"] for row in requests if row["kind"] == "delete_topics"),
        pending=_pending(requests),
        reassign_requests={
            TopicPartition(row["topic"], row["partition"]): tuple(map(BrokerId, row["replicas"] or ()))
            for row in requests
            if row["kind"] == "reassign_partitions"
        },
        election_requests=frozenset(
            TopicPartition(row["topic"], row["partition"])
            for row in requests
            if row["kind"] == "preferred_replica_election"
        ),
        notifications=_table_notifications(_rows(tables["notifications"])),
        notifications_cversion=cluster["isr_change_cversion"],
        unreadable={row["path"]: row["reason"] for row in _rows(tables["bad_rows"])},
    )


class _Stated(NamedTuple):
    leader: int
    leader_epoch: int
    isr: Sequence[int]
    recovery: int | None
    state_version: int
    controller_epoch: int


def _table_states(
    keys: Sequence[TopicPartition], columns: Mapping[str, list[Any]]
) -> dict[TopicPartition, LeaderAndIsr]:
    rows = zip(*(columns[name] for name in _Stated._fields), strict=True)
    return {
        key: LeaderAndIsr(
            leader=BrokerId(row.leader),
            leader_epoch=row.leader_epoch,
            isr=tuple(map(BrokerId, row.isr)),
            recovery=LeaderRecoveryState(row.recovery or 0),
            partition_epoch=row.state_version,
            controller_epoch=row.controller_epoch,
        )
        for key, row in zip(keys, map(_Stated._make, rows), strict=True)
        if row.leader is not None and row.isr is not None
    }


def _table_notifications(rows: Iterable[Mapping[str, Any]]) -> tuple[Notification, ...]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["kind"] == "isr_change":
            found.setdefault(row["name"], []).append(row)
    return tuple(
        Notification(
            name,
            tuple(TopicPartition(row["topic"], row["partition"]) for row in members if row["topic"] is not None),
            int(members[0]["ctime"].timestamp() * 1000),
        )
        for name, members in sorted(found.items())
    )


def _pending(requests: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    paths = {"reassign_partitions": znode.REASSIGN_PARTITIONS, "preferred_replica_election": _REQUEST_PATHS[1]}
    found: dict[str, list[str]] = {}
    for row in requests:
        if row["kind"] in paths:
            replicas = "" if row["replicas"] is None else f" → {list(row['replicas'])}"
            found.setdefault(paths[row["kind"]], []).append(f"{row['topic']}-{row['partition']}{replicas}")
    return {path: ", ".join(entries)[:_SHOWN_BYTES] for path, entries in found.items()}


def _asked(
    pending: Mapping[str, bytes], path: str, decode: Callable[[bytes], _Content], unreadable: dict[str, str]
) -> _Content | None:
    """What the request znode at `path` asks for; None where there is none, or it goes to `unreadable`."""
    if path not in pending:
        return None
    try:
        return decode(pending[path])
    except MalformedZnodeError as error:
        unreadable[path] = error.what
        return None


def _targets(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """As Kafka of either age reads them: what one of them refuses the other may carry out."""
    try:
        return decode_reassign_partitions(data)
    except MalformedZnodeError:
        return decode_reassign_partitions(data, bound_to_class=False)


def _brokers(zookeeper: ZooKeeper) -> tuple[dict[BrokerId, Broker], dict[BrokerId, int]]:
    try:
        names = zookeeper.children(znode.BROKER_IDS)
    except NoNodeError:
        raise BadInputError(
            f"cluster not read: expected Kafka's tree, found no {znode.BROKER_IDS} here; check host and chroot "
            "(zookeeper.connect of the brokers)"
        ) from None
    paths = sorted({znode.registration_read(f"{znode.BROKER_IDS}/{name}") for name in names})
    brokers, versions = {}, {}
    for path, found in zip(paths, zookeeper.get_many(paths), strict=True):
        if found is not None:
            registration = decode_broker(found[0], path=path, epoch=found[1].czxid)
            brokers[registration.broker.id] = registration.broker
            versions[registration.broker.id] = registration.version
    return brokers, versions


def _may_be_znode(name: str) -> bool:
    """Whether a topic of that name can exist: a request may name any, and one that cannot be is as one that is gone."""
    return name not in {"", ".", ".."} and not {"/", "\0"} & set(name)


class _Topics(NamedTuple):
    identities: dict[str, TopicIdentity]
    assignments: dict[TopicPartition, ReplicaAssignment]
    json_versions: set[int]


def _topics(zookeeper: ZooKeeper, names: Sequence[str], unreadable: dict[str, str]) -> _Topics:
    """The topics that can be read; the others go to `unreadable`, and a check of them fails."""
    topics = _Topics({}, {}, set())
    paths = [znode.topic_path(name) for name in names]
    for name, path, found in zip(names, paths, zookeeper.get_many(paths), strict=True):
        if found is None:
            continue
        try:
            topic = decode_topic(found[0], path=path)
        except MalformedZnodeError as error:
            unreadable[path] = error.what
            continue
        topics.json_versions.add(topic.version)
        topics.identities[name] = TopicIdentity(
            found[1].czxid, len(topic.assignments), topic.topic_id, found[1].version
        )
        for number, assignment in topic.assignments.items():
            topics.assignments[TopicPartition(name, number)] = assignment
    return topics


def _states(
    zookeeper: ZooKeeper, partitions: Sequence[TopicPartition], unreadable: dict[str, str]
) -> dict[TopicPartition, LeaderAndIsr]:
    """The states that can be read; the others go to `unreadable`, and a check of them fails."""
    states = {}
    paths = [znode.state_path(partition) for partition in partitions]
    for partition, path, found in zip(partitions, paths, zookeeper.get_many(paths), strict=True):
        if found is None:
            continue
        try:
            states[partition] = decode_state(found[0], path=path, version=found[1].version)
        except MalformedZnodeError as error:
            unreadable[path] = error.what
    return states


def _active_controller(zookeeper: ZooKeeper) -> tuple[ActiveController | None, int | None]:
    found = _get(zookeeper, znode.CONTROLLER)
    if found is None:
        return None, None
    controller, stat = decode_controller(found[0]), found[1]
    epoch = controller.kraft_controller_epoch
    active_controller = ActiveController(
        controller_id=controller.broker_id,
        czxid=stat.czxid,
        version=stat.version,
        is_ephemeral=stat.ephemeral_owner != 0,
        kraft_epoch=-1 if epoch is None else epoch,
    )
    return active_controller, controller.version


def _notifications(zookeeper: ZooKeeper) -> tuple[Notification, ...]:
    names = _children(zookeeper, znode.ISR_CHANGE_NOTIFICATION)
    paths = [f"{znode.ISR_CHANGE_NOTIFICATION}/{name}" for name in names]
    found = []
    for name, path, entry in zip(names, paths, zookeeper.get_many(paths), strict=True):
        if entry is None:
            continue  # the controller took it meanwhile
        try:
            found.append(Notification(name, decode_isr_change_notification(entry[0], path=path), entry[1].ctime))
        except MalformedZnodeError as error:
            found.append(Notification(name, (), entry[1].ctime, str(error)))
    return tuple(found)


def _get(zookeeper: ZooKeeper, path: str) -> tuple[bytes, ZnodeStat] | None:
    try:
        return zookeeper.get(path)
    except NoNodeError:
        return None


def _children(zookeeper: ZooKeeper, path: str) -> list[str]:
    try:
        return zookeeper.children(path)
    except NoNodeError:
        return []


def _version_znodes(zookeeper: ZooKeeper) -> frozenset[str]:
    return frozenset(path for path in VERSION_ZNODES if zookeeper.exists(path) is not None)


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN_BYTES else f"{text[:_SHOWN_BYTES]}… ({len(data)} bytes)"


def _columns(table: pa.Table) -> dict[str, list[Any]]:
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.to_pylist())


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
