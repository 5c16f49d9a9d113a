"""Three real brokers and a fourth that is the controller and has no replicas: Kafka's own, or the laboratory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from controller_core.model.partitions import BrokerId
from controller_core.ports.zookeeper import ANY_VERSION, ZooKeeper
from controller_core.znodes import BROKER_IDS, CONTROLLER
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from kafka_maintenance.servers.workspace import Workspace
from tests.differential.controller_cpu import kafkas_cpu_s, our_cpu_s
from tests.differential.live_looks import told_by
from tests.differential.under_the_core import PATIENT, TICK_MS, brokers_under_the_core

CONTROLLER_ID = BrokerId(4)
BROKERS = (1, 2, 3)
CONFIG = {
    **PATIENT,
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "4000",
}
TIMEOUT_S = 120.0


def log_dirs_in(workspace: Workspace) -> Mapping[int, Mapping[str, str]]:
    """Each broker that has replicas has two log directories, so that one can fail."""
    folders = {each: [workspace.subfolder(f"logs-{each}-{number}") for number in (1, 2)] for each in BROKERS}
    return {each: {"log.dirs": ",".join(map(str, pair))} for each, pair in folders.items()}


@dataclass
class World:
    """Real brokers under one controller."""

    kafka: KafkaCluster
    zookeeper: ZooKeeper
    successor: Callable[[], None]
    """Another controller is elected: in the end broker 4 again."""
    cpu_s: Callable[[], float]
    """CPU seconds of the controller so far."""


def succeed(kafka: KafkaCluster, zookeeper: ZooKeeper) -> None:
    """`/controller` is deleted while all but broker 4 hang, so that it is the next one: each controller more would raise epochs of partitions without leader."""
    others = [each for each in kafka.brokers.values() if each.is_running and each.id != CONTROLLER_ID]
    for broker in others:
        broker.pause()
    try:
        zookeeper.delete(CONTROLLER, ANY_VERSION)
        wait_until(
            lambda: kafka.controller_id() == CONTROLLER_ID, what="broker 4 is the controller", timeout_s=TIMEOUT_S
        )
    finally:
        for broker in others:
            broker.resume()
    wait_until(
        lambda: controllers_told(zookeeper) == {CONTROLLER_ID},
        what="every broker knows the controller",
        timeout_s=TIMEOUT_S,
    )


def controllers_told(zookeeper: ZooKeeper) -> set[int]:
    """Who is the controller, as brokers tell that may have replicas."""
    live = {int(each) for each in zookeeper.children(BROKER_IDS)}
    return {told_by(zookeeper, broker, "nothing")["controller"] for broker in live - {CONTROLLER_ID}}


def await_all_known(zookeeper: ZooKeeper) -> None:
    """A broker that the controller does not know yet leads nothing that is created now."""
    everybody = [*BROKERS, CONTROLLER_ID]
    wait_until(
        lambda: all(told_by(zookeeper, broker, "nothing")["brokers"] == everybody for broker in BROKERS),
        what="every broker knows all brokers",
        timeout_s=TIMEOUT_S,
    )


@contextmanager
def under_kafkas(version: str, config: Mapping[str, str] = CONFIG) -> Iterator[World]:
    """Four brokers; Kafka's controller is the fourth."""
    with (
        Workspace.create_temporary() as workspace,
        ZooKeeperServer(workspace, tick_time_ms=TICK_MS) as server,
        KafkaCluster(
            version,
            server,
            brokers=len(BROKERS) + 1,
            config=config,
            broker_config=log_dirs_in(workspace),
            workspace=workspace,
        ) as kafka,
        kafka.session() as zookeeper,
    ):
        if kafka.controller_id() != CONTROLLER_ID:
            succeed(kafka, zookeeper)
        await_all_known(zookeeper)
        yield World(kafka, zookeeper, lambda: succeed(kafka, zookeeper), lambda: kafkas_cpu_s(kafka[CONTROLLER_ID]))


@contextmanager
def under_the_core(version: str, config: Mapping[str, str] = CONFIG) -> Iterator[World]:
    """Three brokers that know no controller but the laboratory, which is the fourth."""
    with brokers_under_the_core(
        version,
        CONTROLLER_ID,
        brokers=len(BROKERS),
        timeout_s=TIMEOUT_S,
        config=config,
        broker_config_in=log_dirs_in,
    ) as (ours, kafka, zookeeper):

        def successor() -> None:
            succeed(kafka, zookeeper)
            wait_until(lambda: ours.is_active, what="the core is active again", timeout_s=TIMEOUT_S)

        await_all_known(zookeeper)
        yield World(kafka, zookeeper, successor, our_cpu_s)
