"""Three real brokers and a fourth that is the controller and has no replicas: Kafka's own, or the laboratory."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from controller_core.model.errors import NoNodeError
from controller_core.model.partitions import BrokerId
from controller_core.ports.zookeeper import ANY_VERSION, ZooKeeper
from controller_core.znodes import BROKER_IDS, CONTROLLER
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from tests.differential.live_looks import told_by
from tests.differential.under_the_core import brokers_under_the_core

CONTROLLER_ID = BrokerId(4)
BROKERS = (1, 2, 3)
CONFIG = {
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "4000",
    "zookeeper.session.timeout.ms": "40000",  # a broker that hangs stays registered
}
TIMEOUT_S = 120.0


@dataclass
class World:
    """Real brokers under one controller."""

    kafka: KafkaCluster
    zookeeper: ZooKeeper
    successor: Callable[[], None]
    """Another controller is elected: in the end broker 4 again."""


def succeed(kafka: KafkaCluster, zookeeper: ZooKeeper) -> None:
    """`/controller` is deleted until broker 4 is the next one; each is let begin, for of one that is cut short in its first moment Kafka's brokers elect no successor."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        wait_until(
            lambda: {kafka.controller_id()} == controllers_told(zookeeper),
            what="every broker knows the controller",
            timeout_s=TIMEOUT_S,
        )
        with suppress(NoNodeError):
            zookeeper.delete(CONTROLLER, ANY_VERSION)
        wait_until(lambda: kafka.controller_id() is not None, what="there is a controller", timeout_s=TIMEOUT_S)
        if kafka.controller_id() == CONTROLLER_ID:
            return
        assert time.monotonic() < deadline_s, f"broker {CONTROLLER_ID} never became the controller"


def controllers_told(zookeeper: ZooKeeper) -> set[int]:
    """Who is the controller, as brokers tell that may have replicas."""
    live = {int(each) for each in zookeeper.children(BROKER_IDS)}
    return {told_by(zookeeper, broker, "nothing")["controller"] for broker in live - {CONTROLLER_ID}}


@contextmanager
def under_kafkas(version: str) -> Iterator[World]:
    """Four brokers; Kafka's controller is the fourth."""
    with KafkaCluster(version, brokers=len(BROKERS) + 1, config=CONFIG) as kafka, kafka.session() as zookeeper:
        if kafka.controller_id() != CONTROLLER_ID:
            succeed(kafka, zookeeper)
        yield World(kafka, zookeeper, lambda: succeed(kafka, zookeeper))


@contextmanager
def under_the_core(version: str) -> Iterator[World]:
    """Three brokers that know no controller but the laboratory, which is the fourth."""
    with brokers_under_the_core(version, CONTROLLER_ID, brokers=len(BROKERS), timeout_s=TIMEOUT_S, config=CONFIG) as (
        ours,
        kafka,
        zookeeper,
    ):

        def successor() -> None:
            succeed(kafka, zookeeper)
            wait_until(lambda: ours.is_active, what="the core is active again", timeout_s=TIMEOUT_S)

        yield World(kafka, zookeeper, successor)
