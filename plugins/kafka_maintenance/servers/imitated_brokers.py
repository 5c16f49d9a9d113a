"""Brokers imitated towards a KRaft controller: they register as ZooKeeper brokers in migration mode and send heartbeats, nothing else.

That is all that the migration asks of a broker before it copies the metadata. Nothing listens where they say they are.
Source: Kafka 3.9 `BrokerRegistrationRequest.json` (62), `BrokerHeartbeatRequest.json` (63), `RequestHeader.json`;
`KRaftMigrationDriver.areZkBrokersReadyForMigration`.
"""

import contextlib
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from kafka_maintenance.servers.ports import LOOPBACK

REGISTRATION: Final = 62
HEARTBEAT: Final = 63
HEARTBEAT_VERSION: Final = 0
PLAINTEXT: Final = "PLAINTEXT"
METADATA_VERSIONS: Final = (1, 100)
"""From Kafka 3.3-IV3 on; a real broker names exactly its inter.broker.protocol.version."""
_CAUGHT_UP: Final = 1 << 40
_NO_ERROR: Final = 0
_NOT_REGISTERED: Final = -1
_EVERY_S: Final = 0.25
_TIMEOUT_S: Final = 30.0
_CLIENT_ID: Final = b"rehearsal"
_NO_TAGS: Final = b"\0"


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says of itself. `directory` None: BrokerRegistration version 1, as Kafka before 3.7 knows it."""

    broker_id: int
    cluster_id: str
    listener: str = PLAINTEXT
    incarnation: uuid.UUID = field(default_factory=uuid.uuid4)
    directory: uuid.UUID | None = None

    @property
    def version(self) -> int:
        """Version of the request that says it."""
        return 1 if self.directory is None else 2


def registration_request(registration: Registration, correlation_id: int) -> bytes:
    """A BrokerRegistration request of version 1 or 2 with its header, without the length before it."""
    endpoint = (
        _text(registration.listener) + _text(LOOPBACK) + struct.pack(">Hh", 1, 0) + _NO_TAGS
    )  # port 1: nothing listens; PLAINTEXT
    feature = _text("metadata.version") + struct.pack(">hh", *METADATA_VERSIONS) + _NO_TAGS
    body = struct.pack(">i", registration.broker_id) + _text(registration.cluster_id) + registration.incarnation.bytes
    body += _array([endpoint]) + _array([feature]) + _text(None) + struct.pack(">?", True)
    if registration.directory is not None:
        body += _array([registration.directory.bytes])
    return _header(REGISTRATION, registration.version, correlation_id) + body + _NO_TAGS


def heartbeat_request(broker_id: int, epoch: int, correlation_id: int) -> bytes:
    """A BrokerHeartbeat request of version 0 of a broker that has caught up and wants to be unfenced."""
    body = struct.pack(">iqq??", broker_id, epoch, _CAUGHT_UP, False, False)
    return _header(HEARTBEAT, HEARTBEAT_VERSION, correlation_id) + body + _NO_TAGS


class ImitatedBrokers:
    """Brokers of one cluster, kept registered with a controller by one thread; a context manager that starts and ends it.

    The thread tries again for as long as the controller does not answer or refuses.
    """

    def __init__(
        self,
        broker_ids: Iterable[int],
        *,
        cluster_id: str,
        controller_port: int,
        with_directories: bool = True,
        listener: str = PLAINTEXT,
    ) -> None:
        """Describe them; nothing is sent.

        Args:
            broker_ids: one imitated broker each.
            cluster_id: of the cluster that the controller was formatted for.
            controller_port: where the controller listens on 127.0.0.1.
            with_directories: name a log directory, as Kafka does from 3.7 on.
            listener: that brokers share.
        """
        self._said = [
            Registration(broker_id, cluster_id, listener, directory=uuid.uuid4() if with_directories else None)
            for broker_id in broker_ids
        ]
        self._port = controller_port
        self._epochs: dict[int, int] = {}
        self._refused: dict[int, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="imitated-brokers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_TIMEOUT_S)

    @property
    def all_registered(self) -> bool:
        """Whether the controller has accepted every one of them."""
        return len(self._epochs) == len(self._said)

    @property
    def refused(self) -> dict[int, int]:
        """Broker id → Kafka's error code of the last refusal."""
        return dict(self._refused)

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            with contextlib.suppress(OSError), _Connection(self._port) as controller:
                while not self._ended.is_set():
                    self._round(controller)
                    self._ended.wait(_EVERY_S if not self.all_registered else 1.0)

    def _round(self, controller: "_Connection") -> None:
        for said in self._said:
            epoch = self._epochs.get(said.broker_id, _NOT_REGISTERED)
            if epoch == _NOT_REGISTERED:
                _, error, epoch = struct.unpack(
                    ">ihq", controller.ask(registration_request(said, controller.next_id()))[:14]
                )
                if error != _NO_ERROR:
                    self._refused[said.broker_id] = error
                    continue
                self._epochs[said.broker_id] = epoch
                self._refused.pop(said.broker_id, None)
            # at once: one that is unfenced after the copy gets the partitions without a leader, which the copy left without one
            answer = controller.ask(heartbeat_request(said.broker_id, epoch, controller.next_id()))
            if struct.unpack(">ih", answer[:6])[1] != _NO_ERROR:
                self._epochs.pop(said.broker_id)


class _Connection:
    """One TCP connection; requests one after the other. `OSError` when it breaks."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), timeout=_TIMEOUT_S)
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def next_id(self) -> int:
        self._asked += 1
        return self._asked

    def ask(self, request: bytes) -> bytes:
        """The body of the answer, behind its header (correlation id and tags)."""
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)[5:]

    def _read(self, count: int) -> bytes:
        deadline = time.monotonic() + _TIMEOUT_S
        found = b""
        while len(found) < count:
            part = self._socket.recv(count - len(found))
            if not part or time.monotonic() > deadline:
                raise ConnectionError(f"controller at {LOOPBACK}: connection closed in the middle of an answer")
            found += part
        return found


def _header(api: int, version: int, correlation_id: int) -> bytes:
    return (
        struct.pack(">hhi", api, version, correlation_id) + struct.pack(">h", len(_CLIENT_ID)) + _CLIENT_ID + _NO_TAGS
    )


def _text(text: str | None) -> bytes:
    """A compact nullable string."""
    return _varint(0) if text is None else _varint(len(text.encode()) + 1) + text.encode()


def _array(items: Sequence[bytes]) -> bytes:
    """A compact array."""
    return _varint(len(items) + 1) + b"".join(items)


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])
