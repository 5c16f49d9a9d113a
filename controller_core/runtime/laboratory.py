"""A controller of ours that commands real brokers: for tests on loopback, never for a production cluster.

The core decides, ZooKeeper's watches and the brokers' answers are its events, channels carry its requests. What brokers ask of a controller
themselves (AlterPartition, ControlledShutdown, AllocateProducerIds) is not served: brokers up to an inter.broker.protocol.version of 2.6 live
without, apart from an orderly shutdown. Production asks Kafka's own controller instead (docs/adr/0001).
"""

import logging
from ipaddress import ip_address
from queue import Queue
from threading import Thread
from time import time
from typing import Final, Self

from controller_core.adapters.brokers.channels import BrokerAnswered, TcpChannels
from controller_core.context.context import ControllerContext
from controller_core.controller.step import Command, Step
from controller_core.engine.request_batch import event_of
from controller_core.messages import effects as e
from controller_core.messages.answers import Answer
from controller_core.messages.events import Startup
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import Dialect
from controller_core.model.errors import BrokerAccessDeniedError
from controller_core.model.partitions import Broker
from controller_core.model.refusals import Refusal
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.perform_effects import ZooKeeperEffects
from controller_core.runtime.retrying_session import RetryingZooKeeper
from controller_core.runtime.state_change_log import state_change_log
from controller_core.runtime.watches import ControllerWatches

log = logging.getLogger(__name__)
_MS: Final = 1000


class LaboratoryController:
    """One controller on one session; a context manager: inside of it a thread takes one event after the other.

    Attributes:
        refusals: what it refused so far.
        state_changes: lines of its state-change log so far.
        failure: what ended its thread; None while it lives.
    """

    def __init__(self, zookeeper: ZooKeeper, dialect: Dialect, config: ControllerConfig) -> None:
        self._events: Queue[Command | BrokerAnswered | None] = Queue()
        again = not dialect.lists_notifications_when_processed
        watches = ControllerWatches(zookeeper, self._events.put, subscribes_again=again)
        kafka = KafkaZk(RetryingZooKeeper(zookeeper), formats_of(dialect))
        self._zookeeper = ZooKeeperEffects(kafka, watches, now_ms=lambda: int(time() * _MS))
        self._channels = TcpChannels(self._events.put)
        self._last = Step(ControllerContext(dialect=dialect, config=config))
        self._thread = Thread(target=self._work, name="laboratory controller", daemon=True)
        self.refusals: list[Refusal] = []
        self.state_changes: list[str] = []
        self.failure: Exception | None = None

    @property
    def is_active(self) -> bool:
        """Whether it believes to be the active controller."""
        context = self._last.context
        return context.active_controller_id == context.config.controller_id

    def __enter__(self) -> Self:
        """Tries to become the active controller."""
        self._events.put(Startup())
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._events.put(None)
        self._thread.join()
        self._channels.__exit__()

    def _work(self) -> None:
        try:
            while (event := self._events.get()) is not None:
                command = self._command(event)
                while command is not None:
                    command = self._take(command)
        except Exception as error:
            log.exception("the controller ended")
            self.failure = error

    def _command(self, event: Command | BrokerAnswered) -> Command | None:
        if isinstance(event, BrokerAnswered):
            return event_of(self._last.context, event.request, event.error, event.partition_errors)
        return event

    def _take(self, command: Command) -> Command | None:
        """One step and its effects; the answer to the last one, if it is a question."""
        self._last = self._last.then(command)
        self.refusals += self._last.refusals
        self.state_changes += state_change_log(self._last)
        answer: Command | None = None
        for effect in self._last.effects:
            answer = self._perform(effect) or answer
        return answer if self._last.awaiting is not None else None

    def _perform(self, effect: e.Effect) -> Answer | None:
        match effect:
            case e.SendLeaderAndIsr() | e.SendUpdateMetadata() | e.SendStopReplica():
                self._channels.send(effect)
            case e.OpenChannels(brokers=brokers):
                for broker in brokers:
                    require_loopback(broker)
                self._channels.open(brokers)
            case e.CloseChannels(brokers=brokers):
                self._channels.close(brokers)
            case (
                e.ReplyControlledShutdown()
                | e.ReplyAlterPartition()
                | e.ReplyReassignments()
                | e.ReplyReassignmentList()
                | e.ReplyElections()
            ):
                pass  # nobody asks
            case e.ScheduleRebalance() | e.CancelSchedules():
                pass  # there is no automatic rebalance here
            case _:
                return self._zookeeper.perform(effect)
        return None


def require_loopback(broker: Broker) -> None:
    """Refuses a broker that listens anywhere but on loopback.

    Raises:
        BrokerAccessDeniedError: no production cluster is ever run by a laboratory.
    """
    strange = [each.host for each in broker.endpoints if not is_loopback(each.host)]
    if strange:
        raise BrokerAccessDeniedError(
            f"broker {broker.id} not commanded: the laboratory expects loopback addresses, found {strange}; Kafka's own controller runs "
            "production clusters"
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by address or as `localhost`; any other name is not looked up."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
