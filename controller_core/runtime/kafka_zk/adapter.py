"""Kafka's operations on ZooKeeper, on top of the port: what `KafkaZkClient` does, in the formats of one Kafka version.

Source: Kafka 3.9 `KafkaZkClient`; Kafka 1.0 `KafkaController`, `ZkUtils`.
"""

from typing import NamedTuple

from controller_core.model.errors import (
    BadVersionError,
    ControllerMovedError,
    NodeExistsError,
    NoNodeError,
    ZooKeeperError,
)
from controller_core.model.partitions import BrokerId
from controller_core.ports.zookeeper import ANY_VERSION, Create, Set, ZnodeStat
from controller_core.runtime.kafka_zk.base import code_of
from controller_core.runtime.kafka_zk.partitions import PartitionZnodes
from controller_core.runtime.kafka_zk.requests import RequestZnodes
from controller_core.znodes import (
    BROKER_IDS,
    BROKER_SEQUENCE_ID,
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    BrokerZnode,
    ControllerZnode,
    broker_path,
    decode_broker,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    encode_broker,
    encode_cluster_id,
    encode_controller,
    encode_controller_epoch,
    registration_read,
)

FIRST_EPOCH = 1


class ControllerEpoch(NamedTuple):
    """Content and version of `/controller_epoch`."""

    epoch: int
    version: int


class KafkaZk(PartitionZnodes, RequestZnodes):
    """All of Kafka's znodes; those of the controller, of brokers and of the cluster's id are here."""

    # ---- controller ----

    def get_controller(self) -> ControllerZnode | None:
        """The active controller, or None.

        Raises:
            MalformedZnodeError: `/controller` cannot be read; Kafka throws.
        """
        found = self.data_or_none(CONTROLLER)
        return None if found is None else decode_controller(found[0])

    def get_controller_epoch(self) -> ControllerEpoch | None:
        """The epoch, or None if no controller was ever elected."""
        found = self.data_or_none(CONTROLLER_EPOCH)
        return None if found is None else ControllerEpoch(decode_controller_epoch(found[0]), found[1].version)

    def create_controller_epoch(self, epoch: int) -> str:
        """Create `/controller_epoch`; a result code."""
        (result,) = self.zookeeper.multi_all([[Create(path=CONTROLLER_EPOCH, data=encode_controller_epoch(epoch))]])
        return code_of(result)

    def set_controller_epoch(self, epoch: int, expected_version: int) -> tuple[str, int | None]:
        """Compare-and-set of `/controller_epoch`; a result code, and the new version."""
        write = Set(path=CONTROLLER_EPOCH, data=encode_controller_epoch(epoch), version=expected_version)
        (result,) = self.zookeeper.multi_all([[write]])
        code = code_of(result)
        version = None if isinstance(result, ZooKeeperError) else _version(result[0])
        return code, version

    def register_controller(self, controller_id: BrokerId, timestamp_ms: int) -> ControllerEpoch:
        """Become controller: create the ephemeral `/controller` and raise the epoch by one.

        Since Kafka 2.1 in one transaction, before in two steps. The lost answer to a success is recognised.

        Raises:
            NodeExistsError: another one is active (and before 2.1, nothing was changed).
            ControllerMovedError: another one raised the epoch meanwhile.
        """
        controller = encode_controller(
            ControllerZnode(
                broker_id=controller_id, timestamp=str(timestamp_ms), version=self.formats.controller_version
            )
        )
        create = Create(path=CONTROLLER, data=controller, ephemeral=True)
        return self._register_at_once(create, controller_id) if self.formats.atomic_election else self._register(create)

    def delete_controller(self, epoch_version: int | None) -> None:
        """Delete `/controller`; absent is fine."""
        self.delete_if_there(CONTROLLER, epoch_version)

    def _register_at_once(self, create: Create, controller_id: BrokerId) -> ControllerEpoch:
        current = self.get_controller_epoch() or self._first_epoch()
        wanted = current.epoch + 1
        bump = Set(path=CONTROLLER_EPOCH, data=encode_controller_epoch(wanted), version=current.version)
        try:
            results = self.zookeeper.multi([create, bump])
        except (NodeExistsError, BadVersionError):
            holder, now = self.get_controller(), self.get_controller_epoch()
            if holder is None or now is None:
                raise ControllerMovedError(
                    f"broker {controller_id} not elected: another controller came and went; try again"
                ) from None
            if holder.broker_id == controller_id and now.epoch == wanted:
                return now
            raise NodeExistsError(
                f"broker {controller_id} not elected: expected no {CONTROLLER}, found broker {holder.broker_id}"
            ) from None
        return ControllerEpoch(wanted, _version(results[1]))

    def _first_epoch(self) -> ControllerEpoch:
        if self.create_controller_epoch(FIRST_EPOCH - 1) == "OK":
            return ControllerEpoch(FIRST_EPOCH - 1, 0)
        found = self.get_controller_epoch()
        assert found is not None  # it is never deleted
        return found

    def _register(self, create: Create) -> ControllerEpoch:
        """Up to 2.0: the new epoch node starts with 1, and its version is then taken for 1 although it is 0.

        A node of this very session is ours: its creation was answered, and the answer lost (Kafka's `CheckedEphemeral`).
        """
        try:
            self.zookeeper.multi([create])
        except NodeExistsError:
            found = self.zookeeper.exists(CONTROLLER)
            if found is None or found.ephemeral_owner != self.zookeeper.session_id:
                raise
        current = self.get_controller_epoch()
        if current is None:
            if self.create_controller_epoch(FIRST_EPOCH) == "OK":
                return ControllerEpoch(FIRST_EPOCH, FIRST_EPOCH)
            raise ControllerMovedError(f"{CONTROLLER_EPOCH} was created by somebody else; try again")
        code, version = self.set_controller_epoch(current.epoch + 1, current.version)
        if version is None:
            raise ControllerMovedError(
                f"{CONTROLLER_EPOCH} not raised: expected version {current.version}, found another ({code}); a newer "
                "controller is active"
            )
        return ControllerEpoch(current.epoch + 1, version)

    # ---- brokers ----

    def register_broker(self, broker: BrokerZnode) -> int:
        """Create the ephemeral registration; its czxid, which is the broker epoch.

        Raises:
            NodeExistsError: a broker of this id is registered, or its old session has not expired yet.
        """
        path = broker_path(broker.broker.id)
        self.zookeeper.create(path, self._encoded_broker(broker), ephemeral=True, make_parents=True)
        stat = self.zookeeper.exists(path)
        if stat is None:
            raise NoNodeError(f"{path} vanished right after its creation; the session ended")
        return stat.czxid

    def update_broker(self, broker: BrokerZnode) -> None:
        """Write changed listeners into the registration.

        Raises:
            NoNodeError: the broker is not registered.
        """
        self.zookeeper.set(broker_path(broker.broker.id), self._encoded_broker(broker), ANY_VERSION)

    def get_broker(self, broker_id: BrokerId) -> BrokerZnode | None:
        """A broker's registration with its epoch, or None.

        Raises:
            MalformedZnodeError: it cannot be read; Kafka throws.
        """
        path = broker_path(broker_id)
        found = self.data_or_none(path)
        return None if found is None else decode_broker(found[0], path=path, epoch=found[1].czxid)

    def get_brokers(self) -> list[BrokerZnode]:
        """All registrations, by id.

        Raises:
            MalformedZnodeError: one cannot be read, or its name is no number; Kafka throws.
        """
        listed = [f"{BROKER_IDS}/{name}" for name in self.children_or_none(BROKER_IDS)]
        paths = sorted({registration_read(path) for path in listed})
        found = zip(paths, self.zookeeper.get_many(paths), strict=True)
        brokers = [decode_broker(each[0], path=path, epoch=each[1].czxid) for path, each in found if each is not None]
        return sorted(brokers, key=lambda znode: znode.broker.id)

    def next_broker_sequence_id(self) -> int:
        """The next generated broker id, without the reserved ones: the new version of `/brokers/seqid`."""
        try:
            return self.zookeeper.set(BROKER_SEQUENCE_ID, b"", ANY_VERSION).version
        except NoNodeError:
            self._create_unless_there(BROKER_SEQUENCE_ID, b"")
            return self.zookeeper.set(BROKER_SEQUENCE_ID, b"", ANY_VERSION).version

    # ---- cluster ----

    def get_cluster_id(self) -> str | None:
        """The cluster's id, or None before its first broker started.

        Raises:
            MalformedZnodeError: it cannot be read; brokers refuse to start.
        """
        found = self.data_or_none(CLUSTER_ID)
        return None if found is None else decode_cluster_id(found[0])

    def create_or_get_cluster_id(self, proposed: str) -> str:
        """The cluster's id: `proposed` if it had none."""
        self._create_unless_there(CLUSTER_ID, encode_cluster_id(proposed))
        return self.get_cluster_id() or proposed

    def _create_unless_there(self, path: str, data: bytes) -> None:
        try:
            self.create_recursive(path, data)
        except NodeExistsError:
            return

    def _encoded_broker(self, broker: BrokerZnode) -> bytes:
        return encode_broker(broker, scala=self.formats.scala)


def _version(result: str | ZnodeStat | None) -> int:
    assert isinstance(result, ZnodeStat)
    return result.version
