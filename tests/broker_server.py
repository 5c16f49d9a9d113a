"""A simulated broker behind a real socket: it speaks Kafka's protocol, so that channels need not know what it is.

The contract tests hold it to what real brokers do (tests/contracts/test_broker_channels.py).
"""

import socket
import struct
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Self

from controller_core.messages.effects import (
    BrokerRequest,
    LeaderAndIsrPartition,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaPartition,
    UpdateMetadataPartition,
)
from controller_core.messages.events import UpdateMetadataAnswered
from controller_core.model.partitions import (
    ZERO_TOPIC_ID,
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.runtime.simulated.brokers import Disk, SimulatedBroker
from controller_core.wire import messages as m
from controller_core.wire.codec import decode, encode
from controller_core.wire.frame import framed
from controller_core.wire.schema import Message

APIS = {
    each.api_key: (each, answer)
    for each, answer in (
        (m.LEADER_AND_ISR, m.LEADER_AND_ISR_ANSWER),
        (m.UPDATE_METADATA, m.UPDATE_METADATA_ANSWER),
        (m.STOP_REPLICA, m.STOP_REPLICA_ANSWER),
        (m.METADATA, m.METADATA_ANSWER),
        (m.API_VERSIONS, m.API_VERSIONS_ANSWER),
        (m.SASL_HANDSHAKE, m.SASL_HANDSHAKE_ANSWER),
        (m.SASL_AUTHENTICATE, m.SASL_AUTHENTICATE_ANSWER),
    )
}
CODES = {name: code for code, name in m.ERROR_NAMES.items()}


class BrokerServer:
    """One run of a simulated broker.

    Attributes:
        broker: what obeys.
        seen: api and version of each request of a controller, in order.
        controller: as the last UpdateMetadata said.
        silent: it takes requests and answers nothing.
        in_flight_max: requests that were ever at work at the same time.
    """

    def __init__(
        self,
        broker_id: int,
        epoch: int,
        *,
        newest: dict[int, int] | None = None,
        port: int = 0,
        password: str | None = None,
    ) -> None:
        self.broker = SimulatedBroker(BrokerId(broker_id), epoch, Disk())
        self.newest = newest or {each.api_key: each.newest for each, _ in APIS.values()}
        self.seen: list[tuple[str, int]] = []
        self.controller = -1
        self.silent = False
        self.in_flight_max = 0
        self._password = password
        self._at_work = 0
        self._lock = Lock()
        self._listening = socket.create_server(("127.0.0.1", port))
        self.port = self._listening.getsockname()[1]
        self._open: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    @property
    def registered(self) -> Broker:
        protocol = "PLAINTEXT" if self._password is None else "SASL_PLAINTEXT"
        return Broker(self.broker.id, self.broker.epoch, (Endpoint("127.0.0.1", self.port, "INTERNAL", protocol),))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        for each in [self._listening, *self._open]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._open.append(connection)
                Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, struct.error):
            stream = connection.makefile("rb")
            while True:
                (length,) = struct.unpack("!i", stream.read(4))
                payload = stream.read(length)
                with self._lock:
                    self._at_work += 1
                    self.in_flight_max = max(self.in_flight_max, self._at_work)
                response = self._answer(payload)
                with self._lock:
                    self._at_work -= 1
                if not self.silent:
                    connection.sendall(framed(response))

    def _answer(self, payload: bytes) -> bytes:
        api_key, version, correlation_id, client_length = struct.unpack_from("!hhih", payload)
        request, answer = APIS[api_key]
        start = 10 + client_length + request.is_flexible(version)
        values = self._obey(request, version, decode(request, version, payload, start))
        tags = b"\0" * answer.is_flexible(version)
        return struct.pack("!i", correlation_id) + tags + encode(answer, version, values)

    def _obey(self, request: Message, version: int, values: dict[str, Any]) -> dict[str, Any]:
        if request is m.API_VERSIONS:
            keys = [{"api_key": k, "min_version": 0, "max_version": newest} for k, newest in self.newest.items()]
            return {"error_code": 0, "api_keys": keys}
        if request is m.SASL_HANDSHAKE:
            return {"error_code": 0 if values["mechanism"] == "PLAIN" else 33, "mechanisms": ["PLAIN"]}
        if request is m.SASL_AUTHENTICATE:
            good = values["auth_bytes"].decode().split("\0")[2] == self._password
            return {"error_code": 0 if good else 58, "error_message": None if good else "wrong", "auth_bytes": b""}
        if request is m.METADATA:
            return self._metadata()
        self.seen.append((request.name, version))
        effect = effect_of(request, version, values, self.broker.id)
        with self._lock:
            answered = self.broker.handle(effect)
        error = getattr(answered, "error", "NONE")
        if error == "NONE" and isinstance(effect, SendUpdateMetadata):
            self.controller = effect.controller_id
        errors = {} if isinstance(answered, UpdateMetadataAnswered) else getattr(answered, "partition_errors", {})
        rows = [
            {"topic_name": each.topic, "partition_index": each.partition, "error_code": CODES[code]}
            for each, code in errors.items()
        ]
        ids = dict(getattr(effect, "topic_ids", ()))
        topics = [
            {"topic_id": topic_id, "partition_errors": [row for row in rows if row["topic_name"] == topic]}
            for topic, topic_id in ids.items()
        ]
        return {"error_code": CODES[error], "partition_errors": rows, "topics": topics}

    def _metadata(self) -> dict[str, Any]:
        topics: dict[str, list[dict[str, Any]]] = {}
        for partition, cached in sorted(self.broker.cached.items()):
            row = {"error_code": 0, "partition_index": partition.partition, "leader_id": cached.leader}
            row |= {"replica_nodes": list(cached.replicas), "isr_nodes": list(cached.isr)}
            topics.setdefault(partition.topic, []).append(row)
        return {
            "brokers": [{"node_id": each, "host": "", "port": 0, "rack": None} for each in self.broker.cached_brokers],
            "controller_id": self.controller,
            "topics": [
                {"error_code": 0, "name": topic, "is_internal": False, "partitions": rows}
                for topic, rows in topics.items()
            ],
        }


def effect_of(request: Message, version: int, values: dict[str, Any], broker: BrokerId) -> BrokerRequest:
    """The request as the core describes it."""
    head = {
        "broker": broker,
        "broker_epoch": values.get("broker_epoch", -1),
        "version": version,
        "controller_id": values["controller_id"],
        "controller_epoch": values["controller_epoch"],
    }
    if request is m.STOP_REPLICA:
        return SendStopReplica(**head, partition_states=tuple(stopped(values)))
    states = [
        (topic["topic_name"], row) for topic in values.get("topic_states", ()) for row in topic["partition_states"]
    ]
    states += [(row["topic_name"], row) for row in values.get("ungrouped_partition_states", ())]
    ids = tuple((each["topic_name"], each.get("topic_id", ZERO_TOPIC_ID)) for each in values.get("topic_states", ()))
    if request is m.LEADER_AND_ISR:
        rows = tuple(
            LeaderAndIsrPartition(
                TopicPartition(topic, row["partition_index"]),
                leadership(row, "partition_epoch"),
                ReplicaAssignment(
                    tuple(row["replicas"]),
                    tuple(row.get("adding_replicas", ())),
                    tuple(row.get("removing_replicas", ())),
                ),
                row.get("is_new", False),
            )
            for topic, row in states
        )
        return SendLeaderAndIsr(**head, partition_states=rows, live_leaders=(), topic_ids=ids)
    metadata = tuple(
        UpdateMetadataPartition(
            TopicPartition(topic, row["partition_index"]),
            leadership(row, "zk_version"),
            tuple(row["replicas"]),
            tuple(row.get("offline_replicas", ())),
        )
        for topic, row in states
    )
    live = tuple(Broker(BrokerId(each["id"])) for each in values["live_brokers"])
    return SendUpdateMetadata(**head, partition_states=metadata, live_brokers=live, topic_ids=ids)


def leadership(row: dict[str, Any], epoch_name: str) -> LeaderAndIsr:
    recovery = LeaderRecoveryState(row.get("leader_recovery_state", 0))
    isr = tuple(row["isr"])
    return LeaderAndIsr(row["leader"], row["leader_epoch"], isr, recovery, row[epoch_name], row["controller_epoch"])


def stopped(values: dict[str, Any]) -> list[StopReplicaPartition]:
    flag = values.get("delete_partitions", False)
    found = [
        StopReplicaPartition(TopicPartition(each["topic_name"], each["partition_index"]), flag, -1)
        for each in values.get("ungrouped_partitions", ())
    ]
    for topic in values.get("topics", ()):
        found += [StopReplicaPartition(TopicPartition(topic["name"], n), flag, -1) for n in topic["partition_indexes"]]
    for topic in values.get("topic_states", ()):
        for row in topic["partition_states"]:
            partition = TopicPartition(topic["topic_name"], row["partition_index"])
            found.append(StopReplicaPartition(partition, row["delete_partition"], row["leader_epoch"]))
    return found
