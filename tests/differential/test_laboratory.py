"""The core as the only controller of real brokers: they end where it said that they would, as under Kafka's own controller."""

import pytest

from controller_core.adapters.zookeeper.session import connect
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import Dialect, dialect_for
from controller_core.model.errors import BrokerAccessDeniedError
from controller_core.model.partitions import Broker, BrokerId, Endpoint
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.runtime.laboratory import LaboratoryController, require_loopback
from kafka_maintenance.demo.traffic import Traffic, message_counts
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from kafka_maintenance.servers.workspace import Workspace
from tests.differential.test_real_brokers import (
    BROKERS,
    PARTITIONS,
    TOPIC,
    Lockstep,
    create_topic,
    delete_topic,
    elect,
    reassign,
)

OURS = BrokerId(1000)
TRAFFIC_TIMEOUT_S = 120.0
DIRECTORIES = (
    "/brokers/ids",
    "/brokers/topics",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
)


class UnderOurs(Lockstep):
    """Predictions, too, are made with one controller that stays; which broker it is does not show in the tree."""

    def __init__(self, kafka: KafkaCluster, zookeeper: ZooKeeper, ours: LaboratoryController, dialect: Dialect) -> None:
        super().__init__(kafka, zookeeper)
        self.dialect, self.ours = dialect, ours
        self.logs_isr_changes = True

    def controller(self) -> int:
        return 1

    def logged(self) -> list[str]:
        return list(self.ours.state_changes)


def flows(traffic: Traffic, when: str) -> None:
    """Each partition acknowledges one more message: brokers serve what the core told them to."""
    before = traffic.acknowledged.copy()
    wait_until(
        lambda: all(traffic.acknowledged[each] > before[each] for each in PARTITIONS),
        what=f"messages to each partition are acknowledged {when}",
        timeout_s=TRAFFIC_TIMEOUT_S,
    )


@pytest.mark.kafka
@pytest.mark.parametrize(("version", "protocol"), [("2.4", "2.4"), ("3.9", "2.6")])
def test_real_brokers_live_under_the_core_alone(version: str, protocol: str) -> None:
    dialect = dialect_for(version, protocol)
    with (
        Workspace.create_temporary() as workspace,
        ZooKeeperServer(workspace) as server,
        connect(server.hosts) as session,
    ):
        for path in DIRECTORIES:
            session.create(path, make_parents=True)
        config = ControllerConfig(controller_id=OURS, auto_leader_rebalance=False)
        with LaboratoryController(session, dialect, config) as ours:
            wait_until(lambda: ours.is_active, what="the core is the active controller", timeout_s=20)
            with (
                KafkaCluster(
                    version,
                    server,
                    brokers=len(BROKERS),
                    workspace=workspace,
                    inter_broker_protocol_version=protocol,
                ) as kafka,
                kafka.session() as zookeeper,
            ):
                world = UnderOurs(kafka, zookeeper, ours, dialect)
                world.request("a new topic", create_topic)
                with Traffic(kafka, PARTITIONS) as traffic:
                    flows(traffic, "before a broker dies")
                    victim = max(BROKERS)
                    world.shows(
                        "a broker dies",
                        lambda cluster: cluster.stop_broker(BrokerId(victim)),
                        lambda: kafka[victim].kill(forget=True),
                    )
                    world.shows(
                        "it is back", lambda cluster: cluster.start_broker(BrokerId(victim)), kafka[victim].start
                    )
                    world.request("preferred leaders are elected", elect)
                    world.request("two partitions are reassigned", reassign)
                    flows(traffic, "after the reassignment")
                counts = message_counts(kafka, TOPIC)
                rows = [(traffic.acknowledged[each], counts[each.partition]) for each in PARTITIONS]
                assert all(readable >= acknowledged for acknowledged, readable in rows), rows
                world.request("the topic is deleted", delete_topic)
                assert kafka.controller_id() == OURS
        assert ours.failure is None


def test_a_broker_elsewhere_is_refused() -> None:
    def broker(host: str) -> Broker:
        return Broker(BrokerId(1), 1, (Endpoint(host, 9092, "PLAINTEXT", "PLAINTEXT"),))

    require_loopback(broker("127.0.0.1"))
    require_loopback(broker("localhost"))
    for host in ("10.0.0.1", "kafka.example.org"):
        with pytest.raises(BrokerAccessDeniedError, match="Kafka's own controller runs"):
            require_loopback(broker(host))
