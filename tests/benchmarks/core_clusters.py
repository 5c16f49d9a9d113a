"""The cluster that the core's benchmarks run on: 200 brokers, RF 3, and a ZooKeeper that answers at once."""

from collections.abc import Iterator

from controller_core.context.builder import build_context
from controller_core.context.context import ControllerContext
from controller_core.controller.step import Step, step
from controller_core.engine.turn import RunTasks, Task
from controller_core.messages import answers
from controller_core.messages import effects as e
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)

BROKERS = 200
TOPIC_SIZE = 100


class InstantZooKeeper:
    """State znodes in a dictionary; writes are compared and set."""

    def __init__(self, context: ControllerContext) -> None:
        self.states = {p: x.leadership for p, x in context.partitions.items() if x.leadership is not None}

    def answer(self, effect: e.Effect) -> answers.Answer:
        match effect:
            case e.ReadPartitionStates(partitions=partitions):
                states = self.states
                return answers.StatesRead(effect, {p: states[p] for p in partitions if p in states})
            case e.WritePartitionStates(states=written):
                versions = {}
                for partition, state in written:
                    version = state.partition_epoch + 1
                    self.states[partition] = state._replace(partition_epoch=version)
                    versions[partition] = version
                return answers.StatesWritten(effect, versions)
            case e.ReadTopicConfigs(topics=topics):
                return answers.TopicConfigsRead(effect, {topic: {} for topic in topics})
            case _:
                return answers.Done(effect)


def replicas(i: int) -> tuple[BrokerId, ...]:
    return tuple(
        map(BrokerId, (i % BROKERS, (i + 1 + i // BROKERS % 7) % BROKERS, (i + 11 + i // BROKERS % 5) % BROKERS))
    )


def rows(count: int) -> Iterator[tuple[TopicPartition, tuple[BrokerId, ...]]]:
    names = [f"topic-{number}" for number in range(count // TOPIC_SIZE + 1)]
    for i in range(count):
        yield TopicPartition(names[i // TOPIC_SIZE], i % TOPIC_SIZE), replicas(i)


def brokers() -> list[Broker]:
    return [
        Broker(BrokerId(b), 1, (Endpoint(f"h{b}", 9092, "PLAINTEXT", "PLAINTEXT"),), f"r{b % 3}")
        for b in range(BROKERS)
    ]


def cluster(count: int, *, started: bool = True) -> ControllerContext:
    decoded = list(rows(count))
    return build_context(
        dialect=dialect_for("3.9"),
        brokers=brokers(),
        assignments=((p, ReplicaAssignment(r)) for p, r in decoded),
        states=((p, LeaderAndIsr(r[0], 0, r, controller_epoch=1)) for p, r in decoded),
        epoch=1,
        epoch_zk_version=1,
        machines_started=started,
    )


def run(context: ControllerContext, zookeeper: InstantZooKeeper, *tasks: Task) -> Step:
    done = step(context, RunTasks(tasks))
    while done.awaiting is not None:
        done = done.then(zookeeper.answer(done.awaiting))
    return done
