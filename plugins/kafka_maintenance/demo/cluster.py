"""A real cluster that needs care: what the demo breaks, in the order in which it happens to operators.

Leaders have left their preferred replicas, a new broker is empty, a deletion cannot finish, and ISR-change
notifications linger because the controller hangs. Everything is done to real brokers; nothing is written into the tree
but what an operator's tools write.
"""

from collections.abc import Callable, Sequence

from controller_core.model.partitions import TopicPartition
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.znodes.paths import DELETE_TOPICS, ISR_CHANGE_NOTIFICATION, delete_topic_path
from kafka_maintenance.demo.broker_metadata import broker_metadata
from kafka_maintenance.demo.traffic import Traffic, create_topic, message_counts, partition_states
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.kafka import KafkaBroker, KafkaCluster
from kafka_maintenance.servers.ports import LOOPBACK
from kafka_maintenance.servers.process import wait_until

INTER_BROKER_PROTOCOL_VERSION = "2.6"
# A controller that hangs stays the active one as long as its session lives; a person may take her time to approve.
SESSION_TIMEOUT_MS = 2 * 3600 * 1000
ZOOKEEPER_CONFIG = {"maxSessionTimeout": str(SESSION_TIMEOUT_MS)}
# A replica that hangs is out of the ISRs soon, one that only waits for a busy machine is not.
BROKER_CONFIG = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.wait.max.ms": "400",
}
RING = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
PAIRS = ((1, 2), (2, 3), (3, 1))
STUCK_TOPIC = "clicks-2023"
RETIRED_TOPIC = "clicks-2024"
SETTLE_TIMEOUT_S = 90.0
Say = Callable[[str], None]


class TroubledCluster:
    """The demo's cluster: troubled step by step, relieved of what only a person at the machines can do."""

    def __init__(self, kafka: KafkaCluster, say: Say) -> None:
        self.kafka = kafka
        self.say = say
        self.partitions: list[TopicPartition] = []
        self.traffic: Traffic | None = None
        self.hanging: KafkaBroker | None = None
        self.dead: KafkaBroker | None = None

    def make_topics(self) -> None:
        """Four topics, and an application that writes to two of them all the time."""
        self.partitions += create_topic(self.kafka, "orders", dict(enumerate(RING * 4)))
        self.partitions += create_topic(self.kafka, "payments", dict(enumerate(RING * 2)))
        for topic in (STUCK_TOPIC, RETIRED_TOPIC):
            create_topic(self.kafka, topic, dict(enumerate(PAIRS)))
        self.traffic = Traffic(self.kafka, self.partitions)
        self.traffic.__enter__()
        self.say(
            f"topics orders, payments, {STUCK_TOPIC}, {RETIRED_TOPIC}; an application writes to {len(self.partitions)} partitions"
        )

    def lose_and_regain_a_broker(self) -> None:
        """A broker crashes and comes back: its partitions stay with the others."""
        broker = self._beside_the_controller(-1)
        broker.kill(forget=True)
        with self.kafka.session() as zookeeper:
            self._until(lambda: broker.id not in self._leaders(zookeeper), f"broker {broker.id} leads nothing")
            broker.start()
            self._until_in_sync(zookeeper, self.partitions)
        self.say(f"broker {broker.id} was killed and came back: it is in sync and leads nothing")

    def add_an_empty_broker(self) -> None:
        """A broker joins; Kafka gives it nothing."""
        broker = self.kafka.add_broker()
        self.say(f"broker {broker.id} joined in {broker.rack}: it holds nothing")

    def lose_a_broker_and_delete_a_topic(self) -> None:
        """A broker dies, and a topic with replicas on it is deleted: that cannot finish."""
        self.dead = broker = self._beside_the_controller(1)
        with self.kafka.session() as zookeeper:
            self._until_in_sync(zookeeper, self.partitions)  # else the controller inherits everything
            broker.kill(forget=True)
            self._until(lambda: broker.id not in self._leaders(zookeeper), f"broker {broker.id} leads nothing")
            zookeeper.create(delete_topic_path(STUCK_TOPIC), b"")
        self.say(f"broker {broker.id} was killed and stays away: the deletion of {STUCK_TOPIC} cannot finish")

    def hang_the_controller(self) -> None:
        """The controller stops answering and keeps its session: nobody reads ISR-change notifications any more.

        First the brokers must know what they lead. The controller writes it to ZooKeeper before it tells them; were it
        hung in between, nobody would shrink an ISR, and no notification would ever be written.
        """
        self.await_right_metadata()
        self.hanging = broker = self._controller()
        broker.pause()
        with self.kafka.session() as zookeeper:
            self._until(lambda: bool(zookeeper.children(ISR_CHANGE_NOTIFICATION)), "ISR-change notifications wait")
            count = len(zookeeper.children(ISR_CHANGE_NOTIFICATION))
        self.say(f"controller {broker.id} hangs with its session alive: {count} ISR-change notification(s) linger")

    def wake_the_former_controller(self) -> None:
        """The hanging broker goes on, as after a long pause of its JVM, and finds another active controller."""
        broker = self._known(self.hanging, "hanging")
        broker.resume()
        self.hanging = None
        self.say(f"broker {broker.id} woke up; controller is broker {self.kafka.controller_id()}")

    def bring_the_dead_broker_back(self) -> None:
        """The dead broker starts again: the deletion that waited for it finishes by itself."""
        broker = self._known(self.dead, "dead").start()
        self.dead = None
        with self.kafka.session() as zookeeper:
            self._until(lambda: not zookeeper.children(DELETE_TOPICS), f"{STUCK_TOPIC} is deleted")
            self._until_in_sync(zookeeper, self.partitions)
        self.say(f"broker {broker.id} is back: {STUCK_TOPIC} is gone, all replicas are in sync")

    def close(self) -> None:
        """Stop the application at once, whatever still waits."""
        if self.traffic is not None:
            self.traffic.stop(timeout_s=0)

    def stop_traffic(self) -> int:
        """Stop the application; how many messages were acknowledged."""
        if self.traffic is None:
            return 0
        self.traffic.stop()
        return sum(self.traffic.acknowledged.values())

    def lost_messages(self) -> dict[TopicPartition, int]:
        """Partition → acknowledged messages that cannot be read; empty when nothing was lost. Stops the traffic."""
        self.stop_traffic()
        acknowledged = self.traffic.acknowledged if self.traffic else {}
        readable = {
            TopicPartition(topic, number): count
            for topic in {partition.topic for partition in self.partitions}
            for number, count in message_counts(self.kafka, topic).items()
        }
        lost = {partition: count - readable.get(partition, 0) for partition, count in acknowledged.items()}
        return {partition: count for partition, count in lost.items() if count > 0}

    def await_right_metadata(self) -> int:
        """Wait until every running broker tells its clients the leaders that ZooKeeper holds; how many brokers do."""
        running = [broker for broker in self.kafka.brokers.values() if broker.is_running and broker is not self.hanging]
        with self.kafka.session() as zookeeper:
            self._until(lambda: not self.wrong_metadata(zookeeper, running), "all brokers tell the right leaders")
        return len(running)

    def wrong_metadata(self, zookeeper: ZooKeeper, brokers: Sequence[KafkaBroker]) -> list[str]:
        """What brokers tell that ZooKeeper does not hold, in words; empty when all agree."""
        states = partition_states(zookeeper, self.partitions)
        wrong = []
        for broker in brokers:
            try:
                told = broker_metadata(LOOPBACK, broker.port)
            except OSError as error:
                wrong.append(f"broker {broker.id} does not answer: {error}")
                continue
            for partition, state in states.items():
                view = told.get(partition)
                if state is None or view is None or (view.leader, set(view.isr)) != (state.leader, set(state.isr)):
                    wrong.append(f"broker {broker.id} tells {view} of {partition}, ZooKeeper holds {state}")
        return wrong

    def _controller(self) -> KafkaBroker:
        controller = self.kafka.controller_id()
        if controller is None:
            raise LocalStackError(
                "looking for the controller of the demo's cluster: there is no active controller; run the demo again"
            )
        return self.kafka[controller]

    def _beside_the_controller(self, step: int) -> KafkaBroker:
        """The broker before (-1) or after (1) the controller in the ring of assignments.

        The one before it loses its partitions to the controller, so that they stay away when the one after it dies.
        """
        ring = [broker for broker, *_ in RING]
        return self.kafka[ring[(ring.index(self._controller().id) + step) % len(ring)]]

    def _known(self, broker: KafkaBroker | None, what: str) -> KafkaBroker:
        if broker is None:
            raise LocalStackError(
                f"relieving the {what} broker of the demo's cluster: there is none; a step was left out"
            )
        return broker

    def _leaders(self, zookeeper: ZooKeeper) -> set[int]:
        return {int(state.leader) for state in partition_states(zookeeper, self.partitions).values() if state}

    def _until_in_sync(self, zookeeper: ZooKeeper, partitions: Sequence[TopicPartition]) -> None:
        self._until(
            lambda: all(
                state and len(state.isr) == len(RING[0]) for state in partition_states(zookeeper, partitions).values()
            ),
            "all replicas are in sync",
        )

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what=what, timeout_s=SETTLE_TIMEOUT_S)
