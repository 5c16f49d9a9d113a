"""One connection to one broker: one request at a time, each with its deadline.

Source: Kafka 3.9 `NetworkClient`, `SaslClientAuthenticator`; ApiVersions version 0 is answered by every broker since 0.10,
also before authentication.
"""

import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, NamedTuple

from controller_core.adapters.brokers.access import BrokerAccess, BrokerLogin, conversation
from controller_core.model.errors import BrokerAccessDeniedError, BrokerUnreachableError
from controller_core.model.partitions import Broker, BrokerId, Endpoint, TopicPartition
from controller_core.wire import messages as m
from controller_core.wire.frame import payload_length, request_frame, response_values
from controller_core.wire.schema import Message

CLIENT_ID: Final = "kafka-maintenance"
_LENGTH_BYTES: Final = 4


class PartitionMetadata(NamedTuple):
    """A partition as one broker's metadata cache has it; -1: without a leader."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """What one broker believes of the cluster; `controller` is -1 where it knows none.

    `errors` has Kafka's name of what is wrong with a topic.
    """

    controller: BrokerId
    brokers: tuple[BrokerId, ...]
    partitions: Mapping[TopicPartition, PartitionMetadata]
    errors: Mapping[str, str] = field(default_factory=dict)


class BrokerConnection:
    """A connection that is open, authenticated, and knows the broker's versions.

    Attributes:
        versions: api key → oldest and newest version that the broker knows.
    """

    def __init__(self, broker: Broker, access: BrokerAccess, *, timeout_s: float) -> None:
        """Connect.

        Raises:
            BrokerUnreachableError: nobody answered in time.
            BrokerAccessDeniedError: no such listener, or certificate or credentials were refused.
        """
        endpoint = access.endpoint(broker)
        self.versions: dict[int, tuple[int, int]] = {}
        self._where = f"broker {broker.id} at {endpoint.host}:{endpoint.port} ({endpoint.listener})"
        self._correlation_id = 0
        deadline_s = monotonic() + timeout_s
        self._socket = self._connected(endpoint, access, timeout_s)
        try:
            answer = self._ask(m.API_VERSIONS, m.API_VERSIONS_ANSWER, 0, {}, deadline_s)
            self.versions = {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}
            if access.login is not None:
                self._authenticate(access.login, deadline_s)
        except BaseException:
            self.close()
            raise

    def ask(
        self, request: Message, answer: Message, version: int, values: Mapping[str, Any], *, timeout_s: float
    ) -> dict[str, Any]:
        """The broker's response to one request; after an error the connection is of no more use.

        Args:
            request: which message.
            answer: what its response is.
            version: of both.
            values: fields of the request, see `wire.codec.encode`.
            timeout_s: how long the answer is waited for.

        Raises:
            BrokerUnreachableError: no answer in time, or the connection broke.
            MalformedMessageError: the answer cannot be read.
        """
        return self._ask(request, answer, version, values, monotonic() + timeout_s)

    def newest(self, message: Message) -> int:
        """The newest version of a request that the broker knows; -1 where it knows none."""
        _, newest = self.versions.get(message.api_key, (0, -1))
        return newest

    def metadata(self, topics: Iterable[str] | None, *, timeout_s: float) -> ClusterMetadata:
        """What the broker believes of these topics (None: of all).

        Raises:
            BrokerError: see `ask`.
        """
        asked = None if topics is None else [{"name": topic} for topic in topics]
        found = self.ask(m.METADATA, m.METADATA_ANSWER, 1, {"topics": asked}, timeout_s=timeout_s)
        return ClusterMetadata(
            BrokerId(found["controller_id"]),
            tuple(sorted(BrokerId(row["node_id"]) for row in found["brokers"])),
            {
                TopicPartition(topic["name"], row["partition_index"]): PartitionMetadata(
                    BrokerId(row["leader_id"]), tuple(row["isr_nodes"]), tuple(row["replica_nodes"])
                )
                for topic in found["topics"]
                for row in topic["partitions"]
            },
            {topic["name"]: m.error_name(topic["error_code"]) for topic in found["topics"] if topic["error_code"]},
        )

    def close(self) -> None:
        """Close the connection; a thread that waits for an answer gets BrokerUnreachableError."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._socket.close()

    def _connected(self, endpoint: Endpoint, access: BrokerAccess, timeout_s: float) -> socket.socket:
        try:
            plain = socket.create_connection((endpoint.host, endpoint.port), timeout=timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if access.tls is None:
                return plain
            return access.tls.context().wrap_socket(plain, server_hostname=endpoint.host)
        except ssl.SSLError as error:
            raise BrokerAccessDeniedError(
                f"{self._where} refused TLS, or we its certificate: {error}; check the CA file, our certificate and the listener"
            ) from error
        except OSError as error:
            raise BrokerUnreachableError(
                f"{self._where} not connected within {timeout_s:g} s ({error}); check network and broker"
            ) from error

    def _authenticate(self, login: BrokerLogin, deadline_s: float) -> None:
        said = {"mechanism": login.mechanism}
        shaken = self._ask(m.SASL_HANDSHAKE, m.SASL_HANDSHAKE_ANSWER, 1, said, deadline_s)
        if shaken["error_code"]:
            raise BrokerAccessDeniedError(
                f"{self._where} does not offer {login.mechanism}: {m.error_name(shaken['error_code'])}, it offers "
                f"{', '.join(shaken['mechanisms'])}; choose one of them"
            )
        exchange = conversation(login)
        words = next(exchange)
        while True:
            answer = self._ask(m.SASL_AUTHENTICATE, m.SASL_AUTHENTICATE_ANSWER, 0, {"auth_bytes": words}, deadline_s)
            if answer["error_code"]:
                raise BrokerAccessDeniedError(
                    f"{self._where} refused {login!r}: {m.error_name(answer['error_code'])} ({answer['error_message']}); "
                    "check user and password"
                )
            try:
                words = exchange.send(answer["auth_bytes"])
            except StopIteration:
                return

    def _ask(
        self, request: Message, answer: Message, version: int, values: Mapping[str, Any], deadline_s: float
    ) -> dict[str, Any]:
        self._correlation_id += 1
        what = f"{request.name} version {version} to {self._where}"
        try:
            self._socket.settimeout(_left(deadline_s))
            self._socket.sendall(request_frame(request, version, self._correlation_id, CLIENT_ID, values))
            payload = self._receive(payload_length(self._receive(_LENGTH_BYTES, deadline_s)), deadline_s)
        except (OSError, ValueError) as error:
            raise BrokerUnreachableError(
                f"{what}: expected an answer, found {error or type(error).__name__}; the broker may have obeyed"
            ) from error
        return response_values(answer, version, self._correlation_id, payload)

    def _receive(self, count: int, deadline_s: float) -> bytes:
        found = bytearray()
        while len(found) < count:
            self._socket.settimeout(_left(deadline_s))
            part = self._socket.recv(min(count - len(found), 1 << 20))
            if not part:
                raise OSError("the end of the connection")
            found += part
        return bytes(found)


def _left(deadline_s: float) -> float:
    left_s = deadline_s - monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s
