"""A cluster that actions are done to, with connections that can lose answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from controller_core.messages.effects import BrokerRequest
from controller_core.model.dialect import Dialect
from controller_core.model.errors import ConnectionLostError, NodeExistsError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION, ZooKeeper
from controller_core.runtime.retrying_session import RetryingZooKeeper
from controller_core.runtime.simulated.cluster import Node, OnSent, SimulatedCluster, SimulatedController
from controller_core.runtime.simulated.zookeeper import Applied, MemoryServer
from controller_core.znodes import CONTROLLER
from tests.simulation.actions import Action

LOST_BEFORE, LOST_AFTER = "before it happened", "after it happened"


class FaultyZooKeeper:
    """A session whose next call can be made to lose its answer; everything else is passed on."""

    def __init__(self, session: ZooKeeper) -> None:
        self._session = session
        self.loses: str | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._session, name)
        return self._faulty(method, many=name == "multi_all") if callable(method) else method

    def _faulty(self, method: Callable[..., Any], *, many: bool) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            loses, self.loses = self.loses, None
            lost = ConnectionLostError("the simulation lost the answer")
            if loses == LOST_BEFORE:
                if many:
                    return [lost for _ in arguments[0]]
                raise lost
            answer = method(*arguments, **named)
            if loses == LOST_AFTER:
                if many:
                    return [lost for _ in answer]
                raise lost
            return answer

        return call


def _ids(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


class World:
    """What is there, what was asked of it, and every action so far.

    Attributes:
        targets: the target of the last accepted reassignment of each partition, unless the controller refused it.
        moved: partitions whose reassignment was ever accepted.
        out_of_reach: broker and partition of each log that ever lay in a failed log directory.
        sessions: session id → broker.
    """

    def __init__(self, dialect: Dialect, broker_ids: Iterable[int], broker_config: dict[str, str]) -> None:
        self.dialect = dialect
        self.broker_ids = _ids(broker_ids)
        self.server = MemoryServer()
        self.sessions: dict[int, BrokerId] = {}
        self.targets: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.moved: set[TopicPartition] = set()
        self.out_of_reach: set[tuple[BrokerId, TopicPartition]] = set()
        self._faulty: dict[int, FaultyZooKeeper] = {}
        self._request_listeners: list[OnSent] = []
        self.cluster = SimulatedCluster(
            dialect, broker_config=broker_config, wrap=self._wrap, server=self.server, sent=self._tell_request
        )
        self.tools = self.cluster.tools

    def listen(self, listener: Callable[[Applied], None]) -> None:
        self.server.listen(listener)

    def listen_to_requests(self, listener: OnSent) -> None:
        self._request_listeners.append(listener)

    @property
    def nodes(self) -> dict[BrokerId, Node]:
        return self.cluster.nodes

    @property
    def is_quiet(self) -> bool:
        """Nobody has anything to do."""
        nodes = self.nodes.values()
        busy = any(node.controller.is_busy or node.controller.replies for node in nodes)
        requests = any(
            channel and broker in self.nodes for node in nodes for broker, channel in node.controller.channels.items()
        )
        return not busy and not requests

    def do(self, action: Action) -> None:
        getattr(self, f"_{action.kind.replace(' ', '_')}")(*action.arguments)
        for node in self.nodes.values():
            self.sessions[node.session.session_id] = node.broker.id
            self.cluster.hand_replies(node.controller)
            for refusal in node.controller.refusals:
                if refusal.reason.startswith("reassignment") and refusal.subject in self.targets:
                    self.targets = {each: ids for each, ids in self.targets.items() if each != refusal.subject}
            node.controller.refusals.clear()

    # ---- progress ----

    def _advance(self, broker: BrokerId) -> None:
        if broker in self.nodes:
            self.nodes[broker].controller.advance()

    def _deliver(self, controller: BrokerId, broker: BrokerId) -> None:
        if controller in self.nodes:
            self.cluster.deliver(self.nodes[controller].controller, broker)

    def _isr(self, broker: BrokerId) -> None:
        if broker in self.nodes:
            self.cluster.change_isrs(broker)

    def _settle(self) -> None:
        self.cluster.settle()

    # ---- faults ----

    def _stop(self, broker: BrokerId) -> None:
        if broker in self.nodes:
            self.cluster.stop_broker(broker)

    def _start(self, broker: BrokerId) -> None:
        if broker not in self.nodes:
            self.cluster.start_broker(broker)

    def _expire(self, broker: BrokerId) -> None:
        if broker in self.nodes:
            self.cluster.expire_session(broker)

    def _lose(self, broker: BrokerId, when: str) -> None:
        if broker in self.nodes:
            self._faulty[self.nodes[broker].session.session_id].loses = when

    def _fail_dir(self, broker: BrokerId, number: int) -> None:
        if broker not in self.nodes or not self.dialect.log_dir_failures:
            return
        disk = self.nodes[broker].broker.disk
        healthy = sorted(disk.logs)
        if healthy and not disk.failed:
            self.cluster.fail_log_dir(broker, healthy[number % len(healthy)])
            self.out_of_reach |= {(broker, partition) for partition in disk.logs if disk.is_offline(partition)}

    def _depose(self) -> None:
        if self.tools.get_controller() is not None:
            self.tools.zookeeper.delete(CONTROLLER, ANY_VERSION)

    # ---- commands ----

    def _create(self, topic: str, replica_lists: Sequence[Sequence[int]]) -> None:
        if topic in self.tools.list_topics() or self.tools.is_marked_for_deletion(topic):
            return
        self.targets = {partition: target for partition, target in self.targets.items() if partition.topic != topic}
        self.tools.create_topic(
            topic, {number: ReplicaAssignment(_ids(replicas)) for number, replicas in enumerate(replica_lists)}
        )

    def _grow(self, topic: str, replicas: Sequence[int]) -> None:
        znodes, _ = self.tools.get_topics([topic])
        if topic not in znodes:
            return
        old = znodes[topic].assignments
        self.tools.set_topic(topic, {**old, len(old): ReplicaAssignment(_ids(replicas))}, znodes[topic].topic_id, None)

    def _delete(self, topic: str) -> None:
        if topic in self.tools.list_topics() and not self.tools.is_marked_for_deletion(topic):
            self.tools.create_delete_topic(topic)

    def _move(self, targets: Sequence[tuple[str, int, tuple[int, ...]]]) -> None:
        wanted = {TopicPartition(topic, number): _ids(ids) for topic, number, ids in targets}
        known = {partition for topic in self.tools.list_topics() for partition in self.tools.full_assignments(topic)}
        if not wanted.keys() <= known:
            return
        states, _ = self.tools.get_states(list(wanted))
        if wanted.keys() != states.keys():  # moving what never had a leader goes wrong in Kafka (docs/simulation.md)
            return
        try:
            self.tools.create_reassignment(wanted)
        except NodeExistsError:
            return
        self.targets |= wanted
        self.moved |= wanted.keys()

    def _elect(self, partitions: Sequence[tuple[str, int]]) -> None:
        wanted = [TopicPartition(*each) for each in partitions]
        try:
            self.tools.create_preferred_election(wanted)  # up to 2.1 one that is gone by then wedges the request
        except NodeExistsError:
            return

    def _shut_down(self, broker: BrokerId) -> None:
        if broker in self.nodes:
            self.cluster.ask_controlled_shutdown(broker, self.nodes[broker].broker.epoch)

    def _rebalance(self) -> None:
        self.cluster.check_rebalance()

    def _tell_request(self, controller: SimulatedController, request: BrokerRequest) -> None:
        for listener in self._request_listeners:
            listener(controller, request)

    def _wrap(self, session: ZooKeeper) -> ZooKeeper:
        faulty = FaultyZooKeeper(session)
        self._faulty[session.session_id] = faulty
        return RetryingZooKeeper(faulty)
