"""A whole ZooKeeper-mode cluster in one process: the tree in memory, obeying brokers, and a controller on each of them.

Everything happens in single actions, in an order that the caller may choose: `advance` of a controller performs one effect or takes
one command, `deliver` hands one request to a broker, `change_isrs` lets one leader act. `settle` does all of it, in a fixed
order, until nothing more happens.
Source: Kafka 3.9 `KafkaServer`, `KafkaController`; the conformance contract's simulated cluster is this one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from controller_core.context.context import ControllerContext
from controller_core.controller.preemption import preempted
from controller_core.controller.step import Step
from controller_core.messages import effects as e
from controller_core.messages.answers import SESSION_EXPIRED, Failed
from controller_core.messages.answers import Answer as CommandAnswer
from controller_core.messages.events import (
    ControlledShutdown,
    Event,
    RebalanceDue,
    SessionEstablished,
    SessionExpired,
    Startup,
)
from controller_core.model.config import ControllerConfig, config_from
from controller_core.model.dialect import Dialect
from controller_core.model.errors import NotSettledError
from controller_core.model.partitions import Broker, BrokerId, Endpoint, ReplicaAssignment, TopicPartition
from controller_core.model.refusals import Refusal
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.perform_effects import ZooKeeperEffects
from controller_core.runtime.retrying_session import RetryingZooKeeper
from controller_core.runtime.simulated.brokers import Disk, SimulatedBroker
from controller_core.runtime.simulated.zookeeper import MemoryServer, MemoryZooKeeper
from controller_core.runtime.watches import ControllerWatches
from controller_core.znodes import (
    BROKER_IDS,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    TOPICS,
    BrokerZnode,
)

ACTIONS_MAX = 200_000
"""How many actions a cluster may need to settle; more means that it never does."""
_PORT = 9092
_DIRECTORIES = (
    BROKER_IDS,
    TOPICS,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    "/config/topics",
)
Wrap = Callable[[ZooKeeper], ZooKeeper]


class SimulatedController:
    """The controller of one broker: `controller_core.step`, its queue, its effects and its channels.

    Attributes:
        last: its last step, with what is under way.
        todo: effects of the last step that are not performed yet; a crash forgets them.
        channels: requests on their way, broker by broker.
        refusals: what it refused so far; whoever reads them may clear the list.
        is_blocked: it takes no commands, they queue up.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        config: ControllerConfig,
        dialect: Dialect,
        kafka: KafkaZk,
        new_topic_id: Callable[[], str],
        sent: "OnSent | None" = None,
        stepped: "OnStep | None" = None,
    ) -> None:
        self.id = broker_id
        self._sent = sent
        self._stepped = stepped
        self.last = Step(ControllerContext(dialect=dialect, config=config))
        self.queue: deque[Event | CommandAnswer] = deque()
        self.todo: deque[e.Effect] = deque()
        self.channels: dict[BrokerId, deque[e.BrokerRequest]] = {}
        self.refusals: list[Refusal] = []
        self.replies: deque[e.ReplyAlterPartition | e.ReplyControlledShutdown] = deque()
        self.is_blocked = False
        watches = ControllerWatches(
            kafka.zookeeper, self.queue.append, subscribes_again=not dialect.lists_notifications_when_processed
        )
        self._zookeeper = ZooKeeperEffects(kafka, watches, now_ms=lambda: 0, new_topic_id=new_topic_id)

    @property
    def context(self) -> ControllerContext:
        """What it believes of the cluster."""
        return self.last.context

    @property
    def is_active(self) -> bool:
        """Whether it believes to be the active controller."""
        return self.context.is_active

    @property
    def is_busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.todo or (self.queue and not self.is_blocked))

    def advance(self) -> bool:
        """Perform one effect, or take one command; False when there is neither."""
        if self.todo:
            self._perform(self.todo.popleft())
            return True
        if not self.queue or self.is_blocked:
            return False
        self.last = self.last.then(self.queue.popleft())
        self.todo.extend(self.last.effects)
        self.refusals += self.last.refusals
        if self._stepped is not None:
            self._stepped(self, self.last)
        return True

    def expire(self, queued: Iterable[Event | CommandAnswer]) -> None:
        """The session is over: what was `queued` or under way is forgotten, and its end is the first command."""
        self.todo.extend(preempted(self.context.dialect, queued))
        if self.last.awaiting is not None:
            self.queue.append(Failed(self.last.awaiting, SESSION_EXPIRED))
        self.queue.append(SessionExpired())

    def _perform(self, effect: e.Effect) -> None:
        match effect:
            case e.SendLeaderAndIsr() | e.SendUpdateMetadata() | e.SendStopReplica():
                if effect.broker in self.channels:  # else the broker is gone: nothing may wait there for its next run
                    self.channels[effect.broker].append(effect)
                if self._sent is not None:
                    self._sent(self, effect)
            case e.OpenChannels(brokers=brokers):
                self.channels |= {broker.id: deque() for broker in brokers if broker.id not in self.channels}
            case e.CloseChannels(brokers=brokers):
                for broker in list(self.channels) if brokers is None else brokers:
                    self.channels.pop(broker, None)
            case e.ReplyAlterPartition() | e.ReplyControlledShutdown():
                self.replies.append(effect)
            case e.ReplyReassignments() | e.ReplyReassignmentList() | e.ReplyElections():
                pass  # nobody listens
            case e.ScheduleRebalance() | e.CancelSchedules():
                pass  # timers are the caller's
            case _:  # the rest is ZooKeeper's: mypy checks it
                answer = self._zookeeper.perform(effect)
                if answer is not None and effect == self.last.awaiting and not self.todo:
                    self.queue.appendleft(answer)


OnSent = Callable[[SimulatedController, e.BrokerRequest], None]
"""Hears of every request when a controller sends it; the controller's context is still that of the step."""
OnStep = Callable[[SimulatedController, Step], None]
"""Hears of every step that a controller has taken, before its effects are performed."""


class Node:
    """One run of a broker with its session and its controller."""

    def __init__(
        self, broker: SimulatedBroker, controller: SimulatedController, session: MemoryZooKeeper, kafka: KafkaZk
    ) -> None:
        self.broker = broker
        self.controller = controller
        self.session = session
        self.kafka = kafka


class SimulatedCluster:
    """Brokers on one tree.

    Attributes:
        server: the tree.
        tools: a session for what operators and clients do.
        nodes: the brokers that run, by id.
        disks: what brokers keep while they are down.
        shutdown_replies: answers to controlled shutdowns, oldest first.
        followers_catch_up: leaders add followers to their ISRs in `settle`.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        broker_config: Mapping[str, str | int] | None = None,
        racks: Mapping[BrokerId, str] | None = None,
        wrap: Wrap = RetryingZooKeeper,
        server: MemoryServer | None = None,
        sent: OnSent | None = None,
        stepped: OnStep | None = None,
    ) -> None:
        self.dialect = dialect
        self._sent = sent
        self._stepped = stepped
        self.server = server or MemoryServer()
        self.tools = KafkaZk(self.server.session(), formats_of(dialect))
        self.nodes: dict[BrokerId, Node] = {}
        self.disks: dict[BrokerId, Disk] = {}
        self.shutdown_replies: list[e.ReplyControlledShutdown] = []
        self.followers_catch_up = True
        self._broker_config = dict(broker_config or {})
        self._racks = dict(racks or {})
        self._wrap = wrap
        self._asked_epoch = 0
        self._topic_ids = 0
        for path in _DIRECTORIES:
            if not self.tools.exists(path):
                self.tools.create_recursive(path)

    # ---- brokers ----

    def start_broker(self, broker_id: BrokerId) -> Node:
        """Start a broker: it registers, then its controller tries to become the active one."""
        session = self.server.session()
        kafka = KafkaZk(self._wrap(session), formats_of(self.dialect))
        broker = SimulatedBroker(broker_id, self._register(kafka, broker_id), self.disks.setdefault(broker_id, Disk()))
        config = config_from(self._broker_config, controller_id=broker_id, dialect=self.dialect)
        controller = self._controller(broker_id, config, kafka)
        node = Node(broker, controller, session, kafka)
        self.nodes[broker_id] = node
        controller.queue.append(Startup())
        return node

    def _controller(self, broker_id: BrokerId, config: ControllerConfig, kafka: KafkaZk) -> SimulatedController:
        return SimulatedController(
            broker_id, config, self.dialect, kafka, self._new_topic_id, self._sent, self._stepped
        )

    def stop_broker(self, broker_id: BrokerId) -> None:
        """Let a broker die: its session ends at once, and with it its ephemeral znodes."""
        node = self.nodes.pop(broker_id)
        node.session.close()

    def expire_session(self, broker_id: BrokerId) -> None:
        """End a broker's session while it runs; it registers again in a new session."""
        node = self.nodes[broker_id]
        node.session.close()
        session = self.server.session()
        kafka = KafkaZk(self._wrap(session), formats_of(self.dialect))
        controller = self._controller(broker_id, node.controller.context.config, kafka)
        controller.last = node.controller.last
        controller.expire(node.controller.queue)
        node.session, node.kafka, node.controller = session, kafka, controller
        node.broker.epoch = self._register(kafka, broker_id)
        controller.queue.append(SessionEstablished())

    def fail_log_dir(self, broker_id: BrokerId, partition: TopicPartition) -> None:
        """Fail the log directory of a partition's replica; the broker announces it."""
        node = self.nodes[broker_id]
        node.broker.fail_log_dir(partition)
        node.kafka.propagate_log_dir_event(broker_id)

    # ---- what operators and clients do ----

    def create_topics(self, topics: Mapping[str, Mapping[int, ReplicaAssignment]]) -> None:
        """Write topic znodes, as the tools do; nobody has reacted yet."""
        for topic, assignments in topics.items():
            self.tools.create_topic(topic, assignments)

    def ask_controlled_shutdown(self, broker_id: BrokerId, broker_epoch: int) -> None:
        """A broker's request to the active controller; unanswered where there is none."""
        active = self.active_controller()
        if active is not None:
            active.queue.append(ControlledShutdown(broker_id, broker_epoch))

    def check_rebalance(self) -> None:
        """The timer of the automatic rebalance fires."""
        active = self.active_controller()
        if active is not None:
            active.queue.append(RebalanceDue())

    def active_controller(self) -> SimulatedController | None:
        """The controller that `/controller` names, if it runs and knows."""
        holder = self.tools.get_controller()
        node = self.nodes.get(holder.broker_id) if holder else None
        return node.controller if node and node.controller.is_active else None

    # ---- single actions ----

    def deliver(self, controller: SimulatedController, broker_id: BrokerId) -> bool:
        """Hand the oldest request of a channel to its broker, and take the answer back; False: nobody is there."""
        channel = controller.channels.get(broker_id)
        node = self.nodes.get(broker_id)
        if not channel or node is None:
            return False
        answer = node.broker.handle(channel.popleft())
        if answer is not None:
            controller.queue.append(answer)
        return True

    def hand_replies(self, controller: SimulatedController) -> bool:
        """Hand out what the controller answered to brokers."""
        done = bool(controller.replies)
        while controller.replies:
            reply = controller.replies.popleft()
            if isinstance(reply, e.ReplyControlledShutdown):
                self.shutdown_replies.append(reply)
            elif reply.broker in self.nodes:
                self.nodes[reply.broker].broker.hear(reply)
        return done

    def change_isrs(self, broker_id: BrokerId) -> bool:
        """Let a leader add the followers that caught up, the way the dialect does; False: there are none."""
        node = self.nodes[broker_id]
        active = self.active_controller()
        if self.dialect.isr_through_controller and active is None:
            return False
        wanted = node.broker.wanted_isr_changes({each: other.broker for each, other in self.nodes.items()})
        if not wanted:
            return False
        if self.dialect.isr_through_controller and active is not None:
            active.queue.append(node.broker.ask(wanted))
            return True
        changed = []
        for partition, state in wanted:
            version = node.kafka.leader_updates_isr(partition, state)
            node.broker.adopt(partition, state, version)
            changed += [partition] if version is not None else []
        if changed:
            node.kafka.propagate_isr_changes(changed)
        return True

    # ---- everybody ----

    def settle(self) -> None:
        """Let everybody react, lowest broker id first, until nothing more happens.

        Raises:
            NotSettledError: it goes on and on; names who is busy.
        """
        rounds = 0
        while self._round():
            rounds += 1
            if rounds > ACTIONS_MAX:
                busy = [node.controller.id for node in self.nodes.values() if node.controller.is_busy]
                raise NotSettledError(f"the cluster does not settle after {rounds} rounds; busy controllers: {busy}")

    def _round(self) -> bool:
        """Controllers first, then their requests, then ISR changes; true if anything happened."""
        nodes = self._in_order()
        reacted = [self._run_controller(node.controller) for node in nodes]
        if any(reacted):
            return True
        delivered = [self._deliver_all(node.controller) for node in nodes]
        if any(delivered):
            return True
        self._let_ask_again()
        if not self.followers_catch_up:
            return False
        changed = [self.change_isrs(node.broker.id) for node in nodes]
        return any(changed)

    def _run_controller(self, controller: SimulatedController) -> bool:
        moved = False
        while controller.advance():
            moved = True
        return self.hand_replies(controller) or moved

    def _deliver_all(self, controller: SimulatedController) -> bool:
        moved = False
        for broker_id in sorted(controller.channels):
            while self.deliver(controller, broker_id):
                moved = True
        return moved

    def _let_ask_again(self) -> None:
        found = self.tools.get_controller_epoch()
        epoch = found.epoch if found else 0
        if epoch != self._asked_epoch and self.active_controller() is not None:
            self._asked_epoch = epoch
            for node in self.nodes.values():
                node.broker.may_ask_again()

    def _in_order(self) -> list[Node]:
        return [self.nodes[broker_id] for broker_id in sorted(self.nodes)]

    def _new_topic_id(self) -> str:
        """Distinct, and the same in every run."""
        self._topic_ids += 1
        return f"{self._topic_ids:022d}"

    def _register(self, kafka: KafkaZk, broker_id: BrokerId) -> int:
        host = f"host{broker_id}"
        endpoint = Endpoint(host, _PORT, "PLAINTEXT", "PLAINTEXT")
        broker = Broker(broker_id, endpoints=(endpoint,), rack=self._racks.get(broker_id))
        version = kafka.formats.broker_version
        return kafka.register_broker(BrokerZnode(broker=broker, version=version, host=host, port=_PORT))
