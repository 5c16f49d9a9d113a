"""Real brokers that know no controller but the core, from their first start on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from controller_core.adapters.zookeeper.session import connect
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import Dialect, dialect_for
from controller_core.model.partitions import BrokerId
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.runtime.laboratory import LaboratoryController
from kafka_maintenance.operations.laboratory.run import DIRECTORIES
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.kafka_jars import kafka_jars
from kafka_maintenance.servers.process import wait_until
from kafka_maintenance.servers.workspace import Workspace

SESSION_TIMEOUT_S = 60
TICK_MS = SESSION_TIMEOUT_S * 1000 // 20
"""Of ZooKeeper, whose sessions last 20 ticks at most."""
PATIENT = {
    "zookeeper.session.timeout.ms": f"{SESSION_TIMEOUT_S * 1000}",  # a broker that hangs stays registered
    "replica.lag.time.max.ms": "30000",  # no follower falls out of an ISR by itself; before 2.5 it would after 10 s
}
"""Settings of brokers on a busy machine: only what a test does to them changes their state."""


def config_of(controller: BrokerId, *, rebalance: bool = False) -> ControllerConfig:
    return ControllerConfig(
        controller_id=controller, auto_leader_rebalance=rebalance, imbalance_percentage=0, imbalance_check_interval_s=1
    )


def dialect_of_jars(version: str) -> Dialect:
    """That of the brokers that are started: those of 2.4 are built for Scala 2.12, which orders some things in another way."""
    scala_2_13 = any(kafka_jars(version).glob("kafka_2.13-*.jar"))
    return replace(dialect_for(version), scala_2_13=scala_2_13)


@contextmanager
def brokers_under_the_core(
    version: str,
    controller: BrokerId,
    *,
    brokers: int,
    timeout_s: float,
    config: Mapping[str, str] | None = None,
    broker_config_in: Callable[[Workspace], Mapping[int, Mapping[str, str]]] = lambda _: {},
) -> Iterator[tuple[LaboratoryController, KafkaCluster, ZooKeeper]]:
    """The laboratory, its brokers, and a session; the laboratory must not have ended with an error.

    Args:
        version: line of Kafka.
        controller: id of the laboratory, which is a broker without replicas.
        brokers: how many.
        timeout_s: within which the core is the active controller.
        config: of the brokers, beside `PATIENT`.
        broker_config_in: workspace → broker → what it alone has.
    """
    with (
        Workspace.create_temporary() as workspace,
        ZooKeeperServer(workspace, tick_time_ms=TICK_MS) as server,
        connect(server.hosts, session_timeout_s=SESSION_TIMEOUT_S) as session,
    ):
        for path in DIRECTORIES:
            session.create(path, make_parents=True)
        with LaboratoryController(session, dialect_of_jars(version), config_of(controller)) as ours:
            wait_until(lambda: ours.is_active, what="the core is the active controller", timeout_s=timeout_s)
            with (
                KafkaCluster(
                    version,
                    server,
                    brokers=brokers,
                    workspace=workspace,
                    config={**PATIENT, **(config or {})},
                    broker_config=broker_config_in(workspace),
                ) as kafka,
                kafka.session() as zookeeper,
            ):
                yield ours, kafka, zookeeper
        assert ours.failure is None, ours.failure
