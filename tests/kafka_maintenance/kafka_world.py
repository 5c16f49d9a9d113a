"""A Kafka cluster in memory for the operations: its tree, and a controller that obeys the request znodes, or hangs."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from controller_core.adapters.zookeeper.session import connect
from controller_core.model.partitions import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.ports.zookeeper import ANY_VERSION, WatchEventKind
from controller_core.runtime.simulated.zookeeper import Applied, MemoryServer, MemoryZooKeeper
from controller_core.znodes import (
    BrokerZnode,
    ControllerZnode,
    TopicZnode,
    decode_preferred_replica_election,
    decode_reassign_partitions,
    decode_state,
    decode_topic,
    encode_broker,
    encode_cluster_id,
    encode_controller,
    encode_controller_epoch,
    encode_isr_change_notification,
    encode_reassign_partitions,
    encode_state,
    encode_topic,
)
from controller_core.znodes import paths as znode

CLUSTER_ID = "vPeOCWypqUOSepEvx0cbog"


class RealServer:
    """A real ZooKeeper in the place of a `MemoryServer`; nobody obeys a request here before `KafkaWorld.wake`."""

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self._open = ExitStack()

    def session(self) -> Any:
        return self._open.enter_context(connect(self.hosts, create_chroot=True))

    def listen(self, listener: Callable[[Applied], None]) -> None:
        """Nothing is heard of what others write."""

    def close(self) -> None:
        self._open.close()


@dataclass
class KafkaWorld:
    """`server` holds the tree; `zookeeper()` opens a session; a request is obeyed at once unless `hangs`.

    A reassignment that is `slow` begins, as Kafka 2.4 and newer begin it, and ends by `finish` or `cancel`.
    `refuses` names partitions whose election is attempted in vain; without `deletes` the brokers run with
    `delete.topic.enable=false`; `wrote` lists the request znodes created.
    """

    server: Any = field(default_factory=MemoryServer)
    hangs: bool = False
    slow: bool = False
    refuses: set[TopicPartition] = field(default_factory=set)
    deletes: bool = True
    wrote: list[str] = field(default_factory=list)
    broker_version: int = 4

    def __post_init__(self) -> None:
        self.own = self.server.session()
        self.sessions: dict[int, Any] = {}
        for path in (znode.BROKER_IDS, znode.TOPICS, znode.DELETE_TOPICS, znode.ISR_CHANGE_NOTIFICATION):
            self.own.create(path, make_parents=True)
        self.own.create(znode.CLUSTER_ID, encode_cluster_id(CLUSTER_ID), make_parents=True)
        self.own.create(znode.CONTROLLER_EPOCH, encode_controller_epoch(0))
        self.server.listen(self._hear)

    def zookeeper(self) -> MemoryZooKeeper:
        return self.server.session()

    def broker(self, broker_id: int, rack: str | None = None) -> None:
        session = self.sessions.setdefault(broker_id, self.server.session())
        endpoint = Endpoint(f"b{broker_id}", 9092, "PLAINTEXT", "PLAINTEXT")
        broker = Broker(BrokerId(broker_id), endpoints=(endpoint,), rack=rack)
        data = encode_broker(BrokerZnode(broker=broker, version=self.broker_version, host=f"b{broker_id}", port=9092))
        session.create(znode.broker_path(broker_id), data, ephemeral=True)

    def kill(self, broker_id: int) -> None:
        self.sessions.pop(broker_id).close()

    def elect(self, broker_id: int) -> None:
        data, stat = self.own.get(znode.CONTROLLER_EPOCH)
        self.own.set(znode.CONTROLLER_EPOCH, encode_controller_epoch(int(data) + 1), stat.version)
        controller = ControllerZnode(broker_id=BrokerId(broker_id), timestamp="1700000000000")
        self.sessions[broker_id].create(znode.CONTROLLER, encode_controller(controller), ephemeral=True)

    def topic(self, name: str, *partitions: tuple[tuple[int, ...], int, tuple[int, ...]]) -> None:
        """A topic; each partition is (replicas, leader, isr)."""
        assignments = {number: ReplicaAssignment(_ids(row[0])) for number, row in enumerate(partitions)}
        self.own.create(znode.topic_path(name), encode_topic(TopicZnode(assignments, None, 2)))
        for number, (_, leader, isr) in enumerate(partitions):
            state = LeaderAndIsr(BrokerId(leader), 0, _ids(isr), controller_epoch=1)
            self.own.create(znode.state_path(TopicPartition(name, number)), encode_state(state), make_parents=True)

    def state(self, name: str, number: int = 0) -> LeaderAndIsr:
        data, stat = self.own.get(znode.state_path(TopicPartition(name, number)))
        return decode_state(data, path="", version=stat.version)

    def set_state(self, name: str, number: int, *, leader: int, isr: tuple[int, ...]) -> None:
        now = self.state(name, number)
        new = now._replace(leader=BrokerId(leader), leader_epoch=now.leader_epoch + 1, isr=_ids(isr))
        self.own.set(znode.state_path(TopicPartition(name, number)), encode_state(new), ANY_VERSION)

    def replicas(self, name: str, number: int = 0) -> tuple[int, ...]:
        return decode_topic(self.own.get(znode.topic_path(name))[0], path="").assignments[number].replicas

    def reassigning(self, name: str, number: int, *, adding: tuple[int, ...]) -> None:
        """The partition is on its way: `adding` are those of its replicas that are new."""
        partition = TopicPartition(name, number)
        self._assign(partition, self._assignment(partition)._replace(adding=_ids(adding)))

    def finish(self, partition: TopicPartition) -> None:
        """The new replicas are in sync: the reassignment ends at its target."""
        target = self._assignment(partition).target
        self._assign(partition, ReplicaAssignment(target))
        leader = self.state(*partition).leader
        self.set_state(*partition, leader=leader if leader in target else target[0], isr=target)
        self._drop_entry(partition)

    def cancel(self, partition: TopicPartition) -> None:
        """As Kafka's own tool cancels: the replicas that are left stand in the order of the target ([1,2,3] → [2,3,1])."""
        self.hold(partition)
        self._drop_entry(partition)

    def begin(self, partition: TopicPartition, replicas: tuple[BrokerId, ...]) -> None:
        """The controller begins a reassignment: the partition has old and new replicas."""
        self._assign(partition, self._assignment(partition).reassign_to(replicas))

    def hold(self, partition: TopicPartition) -> None:
        """The controller has not come to the partition yet: it stands in the request alone."""
        self._assign(partition, ReplicaAssignment(self._assignment(partition).origin))

    def _assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        path = znode.topic_path(partition.topic)
        return decode_topic(self.own.get(path)[0], path=path).assignments[partition.partition]

    def _assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        path = znode.topic_path(partition.topic)
        topic = decode_topic(self.own.get(path)[0], path=path)
        assignments = {**topic.assignments, partition.partition: assignment}
        self.own.set(path, encode_topic(TopicZnode(assignments, topic.topic_id, topic.version)), ANY_VERSION)

    def _drop_entry(self, partition: TopicPartition) -> None:
        if self.own.exists(znode.REASSIGN_PARTITIONS) is None:
            return  # brokers were asked for it
        rest = decode_reassign_partitions(self.own.get(znode.REASSIGN_PARTITIONS)[0])
        rest.pop(partition, None)
        if rest:
            self.own.set(znode.REASSIGN_PARTITIONS, encode_reassign_partitions(rest), ANY_VERSION)
        else:
            self.own.delete(znode.REASSIGN_PARTITIONS, ANY_VERSION)

    def notify(self, *partitions: TopicPartition) -> str:
        path = f"{znode.ISR_CHANGE_NOTIFICATION}/{znode.ISR_CHANGE_PREFIX}"
        return self.own.create(path, encode_isr_change_notification(partitions), sequential=True).rpartition("/")[2]

    def wake(self) -> None:
        """The controller that hung goes on."""
        self.hangs = False
        for path in (znode.REASSIGN_PARTITIONS, znode.PREFERRED_REPLICA_ELECTION):
            if self.own.exists(path):
                self._obey(path)
        for name in self.own.children(znode.DELETE_TOPICS):
            self._obey(znode.delete_topic_path(name))

    def _hear(self, applied: Applied) -> None:
        for change in applied.changes:
            if change.kind is WatchEventKind.CREATED and self._is_request(change.path):
                self.wrote.append(change.path)
                if not self.hangs:
                    self._obey(change.path)
            if change == (WatchEventKind.DELETED, znode.CONTROLLER) and self.own.children(znode.BROKER_IDS):
                self._fail_over()

    def _is_request(self, path: str) -> bool:
        admin = {znode.REASSIGN_PARTITIONS, znode.PREFERRED_REPLICA_ELECTION}
        return path in admin or path.startswith(f"{znode.DELETE_TOPICS}/")

    def _fail_over(self) -> None:
        self.hangs = False
        names = self.own.children(znode.ISR_CHANGE_NOTIFICATION)
        self.elect(max(self.sessions))
        self.wake()
        for name in names:
            self.own.delete(f"{znode.ISR_CHANGE_NOTIFICATION}/{name}", ANY_VERSION)

    def _obey(self, path: str) -> None:
        if path == znode.PREFERRED_REPLICA_ELECTION:
            for partition in decode_preferred_replica_election(self.own.get(path)[0]):
                self._elect(partition)
            self.own.delete(path, ANY_VERSION)
        elif path == znode.REASSIGN_PARTITIONS:
            for partition, replicas in decode_reassign_partitions(self.own.get(path)[0]).items():
                if self.own.exists(znode.topic_path(partition.topic)) is None:
                    continue
                if self.slow:
                    self.begin(partition, replicas)
                else:
                    self._reassign(partition, replicas)
            if not self.slow:
                self.own.delete(path, ANY_VERSION)
        else:
            self._delete_topic(path.rpartition("/")[2])

    def _elect(self, partition: TopicPartition) -> None:
        preferred = self.replicas(*partition)[0]
        state = self.state(*partition)
        if partition not in self.refuses and preferred in state.isr:
            self.set_state(*partition, leader=preferred, isr=state.isr)

    def _reassign(self, partition: TopicPartition, replicas: tuple[BrokerId, ...]) -> None:
        self._assign(partition, ReplicaAssignment(replicas))
        leader = self.state(*partition).leader
        self.set_state(*partition, leader=leader if leader in replicas else replicas[0], isr=replicas)

    def _delete_topic(self, name: str) -> None:
        if not self.deletes:
            self.own.delete(znode.delete_topic_path(name), ANY_VERSION)
            return
        root = znode.topic_path(name)
        gone = [path for path in self.server.snapshot() if path == root or path.startswith(f"{root}/")]
        for path in sorted(gone, reverse=True):
            self.own.delete(path, ANY_VERSION)
        self.own.delete(znode.delete_topic_path(name), ANY_VERSION)


def three_brokers(**settings: object) -> KafkaWorld:
    """Brokers 1, 2, 3, of which 1 is the controller."""
    world = KafkaWorld(**settings)  # type: ignore[arg-type]  # fields by name
    for broker in (1, 2, 3):
        world.broker(broker)
    world.elect(1)
    return world


def _ids(brokers: tuple[int, ...]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))
