"""The channels of a controller: one connection, one queue and one thread per broker, one request in flight.

A request whose connection breaks is sent again, as Kafka's controller does, until it is answered or its channel is closed.
Source: Kafka 3.9 `ControllerChannelManager`, `RequestSendThread` (back-off 100 ms, `controller.socket.timeout.ms` 30 s).
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from threading import Condition, Lock, Thread
from time import monotonic
from typing import Final, Self

from controller_core.adapters.brokers.access import PLAIN_ACCESS, BrokerAccess
from controller_core.adapters.brokers.connection import BrokerConnection
from controller_core.adapters.brokers.requests import answered_errors, api_of, request_values, version_for
from controller_core.messages.effects import BrokerRequest
from controller_core.model.errors import BrokerError
from controller_core.model.partitions import Broker, BrokerId, TopicPartition

log = logging.getLogger(__name__)
BACKOFF_S: Final = 0.1
REQUEST_TIMEOUT_S: Final = 30.0
UNREACHABLE: Final = "BROKER_UNREACHABLE"
"""The error of an answer that no broker gave: a channel that gives up says so (Kafka's own never gives up)."""


@dataclass(frozen=True, slots=True)
class BrokerAnswered:
    """What a broker answered to a request: one error for all, and those of partitions that have one; "NONE" is none.

    `detail` says why a channel gave up.
    """

    request: BrokerRequest
    error: str
    partition_errors: Mapping[TopicPartition, str] = field(default_factory=dict)
    detail: str = ""


OnAnswer = Callable[[BrokerAnswered], None]


@dataclass(frozen=True, slots=True)
class ChannelMetrics:
    """Of one channel since it was opened; times in seconds, that of a request from its sending to its answer.

    Attributes:
        queue_length: requests that wait, the one in flight included.
        answered_count: requests that were answered.
        failure_count: attempts that failed: connections refused or broken, answers that never came.
        request_time_s: of the last request that was answered.
        request_time_max_s: of the slowest one.
        queue_time_s: how long the last one had waited.
    """

    queue_length: int = 0
    answered_count: int = 0
    failure_count: int = 0
    request_time_s: float = 0.0
    request_time_max_s: float = 0.0
    queue_time_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """How channels behave.

    Attributes:
        access: as whom, and at which listener.
        pinned: send the version that a request names (that of the inter.broker.protocol.version), not the newest known.
        attempts_max: tries of one request before the answer is UNREACHABLE; None: for ever, as Kafka's controller.
        request_timeout_s: how long one answer, or one connection, is waited for.
    """

    access: BrokerAccess = PLAIN_ACCESS
    pinned: bool = False
    attempts_max: int | None = None
    request_timeout_s: float = REQUEST_TIMEOUT_S


DEFAULTS: Final = ChannelSettings()


class TcpChannels:
    """All channels of a controller; a context manager that closes them at its end.

    `answered` is called by the thread of a channel, in order per broker.
    """

    def __init__(self, answered: OnAnswer, settings: ChannelSettings = DEFAULTS) -> None:
        self._answered = answered
        self._settings = settings
        self._channels: dict[BrokerId, _Channel] = {}
        self._lock = Lock()

    def __enter__(self) -> Self:
        """Channels for the length of a `with` block."""
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def open(self, brokers: Iterable[Broker]) -> None:
        """Open channels to these brokers; one to an earlier run of a broker is closed, and its queue dropped."""
        for broker in brokers:
            with self._lock:
                known = self._channels.get(broker.id)
                if known is not None and known.broker == broker:
                    continue
                self._channels[broker.id] = _Channel(broker, self._settings, self._answered)
            if known is not None:
                known.close()

    def close(self, brokers: Iterable[BrokerId] | None = None) -> None:
        """Close the channels to these brokers, None: to all, and drop what is queued for them."""
        for broker in list(self._channels) if brokers is None else brokers:
            with self._lock:
                channel = self._channels.pop(broker, None)
            if channel is not None:
                channel.close()

    def send(self, request: BrokerRequest) -> None:
        """Queue a request for its broker; without a channel to that broker it is dropped, as in Kafka."""
        channel = self._channels.get(request.broker)
        if channel is None:
            log.warning("%s not sent to broker %d: it is offline", type(request).__name__, request.broker)
        else:
            channel.send(request)

    def versions(self) -> dict[BrokerId, Mapping[int, tuple[int, int]]]:
        """Of each broker that is connected: api key → oldest and newest version that it knows."""
        with self._lock:
            found = {broker: channel.versions() for broker, channel in sorted(self._channels.items())}
        return {broker: versions for broker, versions in found.items() if versions is not None}

    def metrics(self) -> dict[BrokerId, ChannelMetrics]:
        """Of each broker's channel."""
        with self._lock:
            return {broker: channel.metrics() for broker, channel in sorted(self._channels.items())}


class _Channel:
    """The channel to one run of one broker."""

    def __init__(self, broker: Broker, settings: ChannelSettings, answered: OnAnswer) -> None:
        self.broker = broker
        self._settings = settings
        self._answered = answered
        self._queue: deque[tuple[BrokerRequest, float]] = deque()
        self._changed = Condition()
        self._is_closed = False
        self._connection: BrokerConnection | None = None
        self._metrics = ChannelMetrics()
        Thread(target=self._work, name=f"requests to broker {broker.id}", daemon=True).start()

    def send(self, request: BrokerRequest) -> None:
        with self._changed:
            self._queue.append((request, monotonic()))
            self._changed.notify()

    def close(self) -> None:
        """Drops the queue and closes the connection; nobody hears the answer to what was in flight."""
        with self._changed:
            self._is_closed = True
            self._queue.clear()
            connection = self._connection
            self._changed.notify()
        if connection is not None:
            connection.close()

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        with self._changed:
            return None if self._connection is None else self._connection.versions

    def metrics(self) -> ChannelMetrics:
        with self._changed:
            return replace(self._metrics, queue_length=len(self._queue))

    def _work(self) -> None:
        while (head := self._first()) is not None:
            request, queued_s = head
            begun_s = monotonic()
            answer = self._until_answered(request)
            with self._changed:
                if self._is_closed:
                    return
                self._queue.popleft()
                took_s = monotonic() - begun_s
                self._metrics = replace(
                    self._metrics,
                    answered_count=self._metrics.answered_count + 1,
                    request_time_s=took_s,
                    request_time_max_s=max(took_s, self._metrics.request_time_max_s),
                    queue_time_s=begun_s - queued_s,
                )
            self._answered(answer)

    def _first(self) -> tuple[BrokerRequest, float] | None:
        """The oldest request, which stays in the queue while it is in flight; None when the channel is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed)
            return None if self._is_closed else self._queue[0]

    def _until_answered(self, request: BrokerRequest) -> BrokerAnswered:
        attempts = 0
        while True:
            try:
                return self._attempt(request)
            except BrokerError as error:
                self._hang_up()
                attempts += 1
                log.info("%s to broker %d, attempt %d: %s", type(request).__name__, self.broker.id, attempts, error)
                with self._changed:
                    self._metrics = replace(self._metrics, failure_count=self._metrics.failure_count + 1)
                    given_up = attempts == self._settings.attempts_max
                    if self._is_closed or given_up or self._changed.wait_for(lambda: self._is_closed, BACKOFF_S):
                        return BrokerAnswered(request, UNREACHABLE, detail=str(error))

    def _attempt(self, request: BrokerRequest) -> BrokerAnswered:
        connection = self._connected()
        api = api_of(request)
        version = version_for(request, connection.newest(api.request), pinned=self._settings.pinned)
        values = connection.ask(
            api.request,
            api.answer,
            version,
            request_values(request, version),
            timeout_s=self._settings.request_timeout_s,
        )
        error, partition_errors = answered_errors(request, version, values)
        return BrokerAnswered(request, error, partition_errors)

    def _connected(self) -> BrokerConnection:
        if self._connection is None:
            timeout_s = self._settings.request_timeout_s
            connection = BrokerConnection(self.broker, self._settings.access, timeout_s=timeout_s)
            with self._changed:
                self._connection = connection
                if self._is_closed:
                    connection.close()
        assert self._connection is not None, "connected above"
        return self._connection

    def _hang_up(self) -> None:
        with self._changed:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
