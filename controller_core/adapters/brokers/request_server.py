"""The listener of a controller that is no broker: brokers and clients ask it what they ask a controller in ZooKeeper mode.

It holds no replica, and says NONE to what a controller commands it. One thread per connection, one request at a time on it, as
a broker answers in order. Loopback only: no production cluster has such a controller (docs/fidelity.md).
Source: Kafka 3.9 `SocketServer`, `KafkaApis`.
"""

import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any, Final, Self

from controller_core.adapters.brokers.asked import ANSWERS, Asked
from controller_core.adapters.brokers.requests import LEADER_AND_ISR_API, STOP_REPLICA_API, UPDATE_METADATA_API
from controller_core.model.errors import MalformedMessageError
from controller_core.wire import controller_requests as c
from controller_core.wire import messages as m
from controller_core.wire.frame import RequestHead, payload_length, request_head, request_values, response_frame
from controller_core.wire.schema import Message

log = logging.getLogger(__name__)
HOST: Final = "127.0.0.1"
ANSWER_TIMEOUT_S: Final = 30.0
Answer = Callable[[Mapping[str, Any] | None], None]
OnAsked = Callable[[Asked, Answer], None]
"""Told each request with what answers it; None closes the connection, as a broker does that cannot say anything."""
_COMMANDS: Final = {api.request: api.answer for api in (LEADER_AND_ISR_API, UPDATE_METADATA_API, STOP_REPLICA_API)}
_RESPONSES: Final = {
    **_COMMANDS,
    **ANSWERS,
    c.ALLOCATE_PRODUCER_IDS: c.ALLOCATE_PRODUCER_IDS_ANSWER,
    c.CREATE_TOPICS: c.CREATE_TOPICS_ANSWER,
    m.API_VERSIONS: m.API_VERSIONS_ANSWER,
    m.METADATA: m.METADATA_ANSWER,
}
_SERVED: Final[Mapping[int, Message]] = {each.api_key: each for each in _RESPONSES}
_LENGTH_BYTES: Final = 4
_UNSUPPORTED_VERSION: Final = m.error_code("UNSUPPORTED_VERSION")
_OBEYED: Final = {"error_code": 0, "partition_errors": (), "topics": ()}
"""To a command: there is nothing to do, since it holds no replica."""


class ControllerServer:
    """Listens on a free port of loopback; a context manager that closes every connection at its end.

    Attributes:
        port: at which it listens.
    """

    def __init__(self, asked: OnAsked) -> None:
        """Listen.

        Args:
            asked: called by the thread of a connection with each request that is not answered here.
        """
        self._asked = asked
        self._lock = Lock()
        self._connections: set[socket.socket] = set()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, name="listener of the controller", daemon=True).start()

    def __enter__(self) -> Self:
        """It listens already."""
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            everybody = [self._listener, *self._connections]
        for each in everybody:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connections.add(connection)
            Thread(target=self._serve, args=(connection,), name="asked of the controller", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while (prefix := _received(connection, _LENGTH_BYTES)) is not None:
                payload = _received(connection, payload_length(prefix))
                response = None if payload is None else self._response(payload)
                if response is None:
                    return
                connection.sendall(response)
        except MalformedMessageError as error:
            log.warning("connection of a client of the controller closed: %s", error)
        except OSError:  # the other side left, or this server ends
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _response(self, payload: bytes) -> bytes | None:
        head = request_head(payload)
        message = _SERVED.get(head.api_key)
        if message is m.API_VERSIONS:
            code = _UNSUPPORTED_VERSION if head.version > message.newest else 0
            return response_frame(m.API_VERSIONS_ANSWER, 0, head.correlation_id, _versions(code))
        if message is None or head.version > message.newest:
            raise MalformedMessageError(
                f"expected one of {sorted(_SERVED)}, found api key {head.api_key} version {head.version}"
            )
        asked = Asked(message, head.version, request_values(message, head, payload))
        values = _OBEYED if message in _COMMANDS else self._answered(asked)
        return None if values is None else _framed(head, _RESPONSES[message], values)

    def _answered(self, asked: Asked) -> Mapping[str, Any] | None:
        waiting: Queue[Mapping[str, Any] | None] = Queue()
        self._asked(asked, waiting.put)
        try:
            return waiting.get(timeout=ANSWER_TIMEOUT_S)
        except Empty:
            log.warning("%s was not answered within %g s", asked.message.name, ANSWER_TIMEOUT_S)
            return None


def _framed(head: RequestHead, answer: Message, values: Mapping[str, Any]) -> bytes:
    return response_frame(answer, head.version, head.correlation_id, values)


def _versions(code: int) -> dict[str, Any]:
    rows = [{"api_key": key, "min_version": 0, "max_version": each.newest} for key, each in sorted(_SERVED.items())]
    return {"error_code": code, "api_keys": rows}


def _received(connection: socket.socket, count: int) -> bytes | None:
    """So many bytes; None where the other side left."""
    found = bytearray()
    while len(found) < count:
        part = connection.recv(min(count - len(found), 1 << 20))
        if not part:
            return None
        found += part
    return bytes(found)
