"""The cluster that the core's benchmarks run on: 200 brokers, RF 3, and a ZooKeeper that answers at once."""

from collections.abc import Iterator

from controller_core.context.builder import build_context
from controller_core.context.context import ControllerContext
from controller_core.controller.step import Step, step
from controller_core.engine.turn import RunTasks, Task
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.runtime.driver import answered_steps
from controller_core.runtime.simulated.answers import SimulatedAnswers

BROKERS = 200
TOPIC_SIZE = 100


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


def run(context: ControllerContext, zookeeper: SimulatedAnswers, *tasks: Task) -> Step:
    done = step(context, RunTasks(tasks))
    *_, last = answered_steps(done, zookeeper.answer, limit=10_000)
    return last
