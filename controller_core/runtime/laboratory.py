"""A controller of ours that commands real brokers: for tests on loopback, never for a production cluster.

The core decides, ZooKeeper's watches and the brokers' answers are its events, channels carry its requests. It registers as a broker without
replicas, as every controller in ZooKeeper mode is a broker, and serves there what brokers and clients ask of a controller: ControlledShutdown,
AlterPartition, AllocateProducerIds, ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments, CreateTopics. Production asks Kafka's
own controller instead (docs/adr/0001).
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from queue import Queue
from threading import Thread, Timer
from time import monotonic, sleep, time
from typing import Final, Self

from controller_core.adapters.brokers.channels import BrokerAnswered, TcpChannels
from controller_core.adapters.brokers.request_server import HOST, ControllerServer
from controller_core.context.context import ControllerContext
from controller_core.controller.step import Command, Step
from controller_core.engine.request_batch import event_of
from controller_core.messages import answers
from controller_core.messages import effects as e
from controller_core.messages.events import RebalanceDue, SessionEstablished, SessionExpired, Startup
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import Dialect
from controller_core.model.errors import BrokerAccessDeniedError, SessionExpiredError, ZooKeeperError
from controller_core.model.partitions import Broker, Endpoint
from controller_core.model.refusals import Refusal
from controller_core.ports.zookeeper import ANY_VERSION, WatchEvent, WatchEventKind, ZooKeeper
from controller_core.runtime.config_changes import ConfigChanges
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.perform_effects import ZooKeeperEffects
from controller_core.runtime.retrying_session import RetryingZooKeeper
from controller_core.runtime.served_requests import Request, ServedRequests
from controller_core.runtime.state_change_log import state_change_log
from controller_core.runtime.watches import ControllerWatches
from controller_core.znodes.brokers import BrokerZnode
from controller_core.znodes.paths import broker_path

log = logging.getLogger(__name__)
_MS: Final = 1000
_NEW_SESSION_S: Final = 60.0
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class _ConfigsChanged:
    """There may be new notices of changed configs."""


@dataclass(frozen=True, slots=True)
class _SessionOver:
    """The session ended, and its registration with it; the client opens another one."""


_Heard = Command | BrokerAnswered | Request | _ConfigsChanged | _SessionOver


class LaboratoryController:
    """One controller on one session; a context manager: inside of it a thread takes one event after the other.

    Attributes:
        refusals: what it refused so far.
        state_changes: lines of its state-change log so far.
        served: names of the requests that it answered so far.
        failure: what ended its thread; None while it lives.
    """

    def __init__(self, zookeeper: ZooKeeper, dialect: Dialect, config: ControllerConfig) -> None:
        self._events: Queue[_Heard | None] = Queue()
        self._kafka = KafkaZk(RetryingZooKeeper(zookeeper), formats_of(dialect))
        again = not dialect.lists_notifications_when_processed
        watches = ControllerWatches(self._kafka.zookeeper, self._events.put, subscribes_again=again)
        self._zookeeper = ZooKeeperEffects(self._kafka, watches, now_ms=lambda: int(time() * _MS))
        self._channels = TcpChannels(self._events.put)
        self._server = ControllerServer(lambda asked, answer: self._events.put(Request(asked, answer)))
        self._requests = ServedRequests(self._kafka)
        self._configs = ConfigChanges(
            self._kafka.zookeeper,
            config.controller_id,
            lambda: self._events.put(_ConfigsChanged()),
            static=config.unclean_leader_election,
        )
        self._timers: list[Timer] = []
        self._last = Step(ControllerContext(dialect=dialect, config=config))
        self._thread = Thread(target=self._work, name="laboratory controller", daemon=True)
        self.refusals: list[Refusal] = []
        self.state_changes: list[str] = []
        self.served = self._requests.names
        self.failure: Exception | None = None

    @property
    def is_active(self) -> bool:
        """Whether it believes to be the active controller."""
        return self._last.context.is_active

    def __enter__(self) -> Self:
        """Registers as a broker, and tries to become the active controller.

        Raises:
            NodeExistsError: a broker of its id is registered.
        """
        self._configs.begin()
        self._adopt_configs()
        self._register()
        self._events.put(Startup())
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._events.put(None)
        self._thread.join()
        self._cancel_timers()
        self._server.__exit__()
        self._channels.__exit__()
        with suppress(ZooKeeperError):  # the session may be over, and the registration with it
            self._kafka.zookeeper.delete(broker_path(self._last.context.config.controller_id), ANY_VERSION)

    def _register(self) -> None:
        config = self._last.context.config
        endpoint = Endpoint(HOST, self._server.port, config.inter_broker_listener, "PLAINTEXT")
        broker = Broker(config.controller_id, -1, (endpoint,))
        version = self._kafka.formats.broker_version
        self._kafka.register_broker(BrokerZnode(broker=broker, version=version, host=endpoint.host, port=endpoint.port))
        self._session_id = self._kafka.zookeeper.session_id
        self._kafka.zookeeper.exists(broker_path(config.controller_id), watch=self._registration_changed)

    def _registration_changed(self, event: WatchEvent) -> None:
        """It goes with the session; the watch is lost with it, or has been set again in the next one already."""
        if event.kind is WatchEventKind.LOST or self._kafka.zookeeper.session_id != self._session_id:
            self._events.put(_SessionOver())

    def _work(self) -> None:
        try:
            while (event := self._events.get()) is not None:
                if isinstance(event, _ConfigsChanged):
                    self._execute_config_changes()
                elif isinstance(event, _SessionOver):
                    self._begin_anew()
                else:
                    self._follow(self._command(event))
        except Exception as error:
            log.exception("the controller ended")
            self.failure = error

    def _begin_anew(self) -> None:
        """Resigns, registers in the next session, and tries to become the active controller, as `KafkaController.Expire` and `RegisterBrokerAndReelect`."""
        self._follow(SessionExpired())
        deadline_s = monotonic() + _NEW_SESSION_S
        while True:
            try:
                self._register()
                break
            except SessionExpiredError:  # the next one is not open yet
                if monotonic() > deadline_s:
                    raise
                sleep(_LOOK_S)
        self._follow(SessionEstablished())
        self._execute_config_changes()

    def _follow(self, command: Command | None) -> None:
        """An event, and the answers to its questions."""
        while command is not None:
            command = self._take(command)
        self._requests.answer_creations(self._last.context)

    def _execute_config_changes(self) -> None:
        for enabled in self._configs.executed():
            self._adopt_configs()
            if self.is_active:
                self._follow(enabled)
        self._adopt_configs()

    def _adopt_configs(self) -> None:
        context = self._last.context
        config = replace(context.config, unclean_leader_election=self._configs.unclean_election)
        self._last = replace(self._last, context=replace(context, config=config))

    def _command(self, event: Command | BrokerAnswered | Request) -> Command | None:
        if isinstance(event, BrokerAnswered):
            return event_of(self._last.context, event.request, event.error, event.partition_errors)
        return self._requests.event_of(event, self._last.context) if isinstance(event, Request) else event

    def _take(self, command: Command) -> Command | None:
        """One step and its effects; the answer to the last one, if it is a question."""
        self._last = self._last.then(command)
        self.refusals += self._last.refusals
        self.state_changes += state_change_log(self._last)
        answer: Command | None = None
        for effect in self._last.effects:
            answer = self._perform(effect) or answer
        return answer if self._last.awaiting is not None else None

    def _perform(self, effect: e.Effect) -> answers.Answer | None:
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
                self._requests.reply(effect)
            case e.ScheduleRebalance(delay_s=delay_s):
                timer = Timer(delay_s, self._events.put, [RebalanceDue()])
                timer.daemon = True
                self._timers.append(timer)
                timer.start()
            case e.CancelSchedules():
                self._cancel_timers()
            case _:
                return self._zookeeper.perform(effect)
        return None

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()


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
