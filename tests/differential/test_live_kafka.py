"""The core beside Kafka 3.9's own classes in the same run, for what needs no doubles.

So the recorded corpora can be trusted by somebody who has only this project. Seeds are fixed; small clusters make collisions.
"""

import random
from collections.abc import Callable

import pytest

from controller_core.context.builder import build_context
from controller_core.context.context import ControllerContext
from controller_core.controller.elections import (
    controlled_shutdown_leader,
    offline_leader,
    preferred_leader,
    reassign_leader,
)
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import Broker, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.model.states import PartitionState
from tests.differential.kafka_jvm import KafkaJvm, kafka_jvm

pytestmark = pytest.mark.kafka
BROKERS = range(5)
BROKER_EPOCH = 1 << 40  # py4j passes it as Java's Long only because it is no int
TOPICS = ("a", "b")
PARTITIONS = [TopicPartition(topic, number) for topic in TOPICS for number in range(2)]


@pytest.fixture(scope="module")
def kafka():
    with kafka_jvm() as jvm:
        yield jvm


def some(rng: random.Random, least: int = 0) -> tuple[int, ...]:
    return tuple(rng.sample(BROKERS, rng.randint(least, 4)))


def optional(kafka_option) -> int | None:
    return kafka_option.get() if kafka_option.isDefined() else None


@pytest.mark.parametrize("seed", range(150))
def test_elections(kafka: KafkaJvm, seed: int) -> None:
    rng = random.Random(seed)
    assignment, isr, live, stopping, unclean = some(rng), some(rng), some(rng), some(rng), rng.random() < 0.5
    theirs = kafka.controller.PartitionLeaderElectionAlgorithms
    lists = kafka.sequence(assignment), kafka.sequence(isr), kafka.set(live)
    counters = kafka.controller.ControllerContext()
    assert offline_leader(assignment, isr, live, unclean=unclean)[0] == optional(
        theirs.offlinePartitionLeaderElection(*lists, unclean, counters)
    )
    assert reassign_leader(assignment, isr, live) == optional(theirs.reassignPartitionLeaderElection(*lists))
    assert preferred_leader(assignment, isr, live) == optional(theirs.preferredReplicaPartitionLeaderElection(*lists))
    assert controlled_shutdown_leader(assignment, isr, live, stopping) == optional(
        theirs.controlledShutdownPartitionLeaderElection(*lists, kafka.set(stopping))
    )


@pytest.mark.parametrize("seed", range(150))
def test_assignment_arithmetic(kafka: KafkaJvm, seed: int) -> None:
    rng = random.Random(seed)
    replicas, target = some(rng, 1), some(rng, 1)
    ours = ReplicaAssignment(replicas)
    theirs = kafka.assignment(replicas)
    for step in (target, some(rng, 1), replicas):
        ours, theirs = ours.reassign_to(step), theirs.reassignTo(kafka.sequence(step))
        gone = rng.choice(BROKERS)
        for left, right in ((ours, theirs), (ours.remove_replica(gone), theirs.removeReplica(gone))):
            assert list(left.replicas) == kafka.values(right.replicas())
            assert list(left.adding) == kafka.values(right.addingReplicas())
            assert list(left.removing) == kafka.values(right.removingReplicas())
            assert list(left.target) == kafka.values(right.targetReplicas())
            assert list(left.origin) == kafka.values(right.originReplicas())
            assert left.is_being_reassigned == right.isBeingReassigned()


class Twins:
    """One context of ours and one of Kafka's, changed alike."""

    def __init__(self, kafka: KafkaJvm, rng: random.Random) -> None:
        self.kafka = kafka
        self.rng = rng
        live = sorted(rng.sample(BROKERS, 4))
        self.theirs = kafka.controller.ControllerContext()
        self.theirs.setLiveBrokers(kafka.mapping({kafka.broker(broker): BROKER_EPOCH for broker in live}))
        dialect = dialect_for("3.9")
        self.ours: ControllerContext = build_context(
            dialect=dialect,
            brokers=[Broker(broker, BROKER_EPOCH) for broker in live],
            assignments={},
            config=ControllerConfig(controller_id=live[0]),
        )
        for partition in PARTITIONS:  # leadership of a partition without replicas breaks Kafka itself
            self.assign(partition)

    def assign(self, partition: TopicPartition) -> None:
        replicas = some(self.rng, 2)
        adding = tuple(b for b in replicas if self.rng.random() < 0.3)
        self.ours = self.ours.with_entry(partition, assignment=ReplicaAssignment(replicas, adding))
        self.theirs.updatePartitionFullReplicaAssignment(
            self._their(partition), self.kafka.assignment(replicas, adding)
        )

    def lead(self, partition: TopicPartition) -> None:
        if not self.ours.assignment(partition):
            return
        leader, isr = self.rng.choice([-1, *BROKERS]), some(self.rng, 1)
        self.ours = self.ours.with_entry(partition, leadership=LeaderAndIsr(leader, 3, isr, controller_epoch=1))
        self.theirs.putPartitionLeadershipInfo(self._their(partition), self.kafka.leadership(leader, 3, isr, 1))

    def move(self, partition: TopicPartition) -> None:
        state = self.rng.choice(list(PartitionState))
        self.ours = self.ours.with_entry(partition, state=state)
        self.theirs.putPartitionState(self._their(partition), self.kafka.singleton(state.value))

    def queue(self, partition: TopicPartition) -> None:
        self.ours = self.ours.queue_topic_deletion([partition.topic])
        self.theirs.queueTopicDeletion(self.kafka.set([partition.topic]))

    def begin(self, partition: TopicPartition) -> None:
        self.ours = self.ours.begin_topic_deletion([partition.topic])
        self.theirs.beginTopicDeletion(self.kafka.set([partition.topic]))

    def remove(self, partition: TopicPartition) -> None:
        self.ours = self.ours.remove_topic(partition.topic)
        self.theirs.removeTopic(partition.topic)

    def check(self) -> None:
        assert self.ours.offline_partition_count == self.theirs.offlinePartitionCount()
        assert self.ours.preferred_replica_imbalance_count == self.theirs.preferredReplicaImbalanceCount()
        assert self._our(self.ours.partitions_with_leaders()) == self._names(self.theirs.partitionsWithLeaders())
        assert self._our(self.ours.partitions_with_offline_leader()) == self._names(
            self.theirs.partitionsWithOfflineLeader()
        )
        broker = self.rng.choice(BROKERS)
        assert self._our(self.ours.partitions_on_broker(broker)) == self._names(self.theirs.partitionsOnBroker(broker))
        assert self._our(self.ours.partition_leaders_on_broker(broker)) == self._names(
            self.theirs.partitionLeadersOnBroker(broker)
        )
        for partition in PARTITIONS:
            assert self.ours.leader_epoch(partition) == self.theirs.leaderEpoch(self._their(partition))

    def _their(self, partition: TopicPartition):
        return self.kafka.partition(*partition)

    def _names(self, partitions) -> list[str]:
        return sorted(str(partition) for partition in self.kafka.values(partitions))

    @staticmethod
    def _our(partitions) -> list[str]:
        return sorted(map(str, partitions))


@pytest.mark.parametrize("seed", range(40))
def test_context_and_counters(kafka: KafkaJvm, seed: int) -> None:
    rng = random.Random(seed)
    twins = Twins(kafka, rng)
    often: list[Callable[[TopicPartition], None]] = [twins.assign, twins.lead, twins.lead, twins.move, twins.move]
    changes = often * 2 + [twins.queue, twins.begin, twins.remove]
    for _ in range(25):
        rng.choice(changes)(rng.choice(PARTITIONS))
        twins.check()
