"""The core as the only controller of real brokers: they end where it said that they would, as under Kafka's own controller."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain, combinations

import pytest
from kafka import KafkaProducer
from kafka.errors import IncompatibleBrokerVersion

from controller_core.adapters.zookeeper.session import connect
from controller_core.model.dialect import Dialect, dialect_for, parse_version
from controller_core.model.errors import BrokerAccessDeniedError, NoNodeError
from controller_core.model.partitions import Broker, BrokerId, Endpoint, ReplicaAssignment, TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION, ZooKeeper
from controller_core.runtime.laboratory import LaboratoryController, require_loopback
from controller_core.znodes import (
    CONTROLLER,
    REASSIGN_PARTITIONS,
    config_path,
    decode_config,
    encode_reassign_partitions,
)
from kafka_maintenance.demo.traffic import Traffic, message_counts
from kafka_maintenance.operations.cluster.admin_requests import (
    UnansweredError,
    alter_reassignments,
    elect_preferred_leaders,
)
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.plans.explain import Action
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from kafka_maintenance.servers.workspace import Workspace
from tests.differential.leaving import OLDEST, shut_down
from tests.differential.lockstep import (
    ASSIGNMENT,
    BROKER_CONFIG,
    BROKERS,
    PARTITIONS,
    TARGETS,
    TOPIC,
    Lockstep,
    create_topic,
    delete_topic,
    elect,
    reassign,
    tree,
)
from tests.differential.under_the_core import (
    PATIENT,
    SESSION_TIMEOUT_S,
    TICK_MS,
    brokers_under_the_core,
    config_of,
    dialect_of_jars,
)
from tests.kafka_versions import kafka_versions

PLACED = "placed"
OURS, OURS_TOO = BrokerId(1000), BrokerId(1001)
START = {each: ASSIGNMENT[each.partition] for each in TARGETS}
TRAFFIC_TIMEOUT_S = 120.0
CHANCE_TIMEOUT_S = 600.0


class UnderOurs(Lockstep):
    """Predictions, too, are made with a controller that stays and is a broker without replicas."""

    def __init__(self, kafka: KafkaCluster, zookeeper: ZooKeeper, ours: LaboratoryController, dialect: Dialect) -> None:
        super().__init__(kafka, zookeeper)
        self.dialect, self.ours = dialect, ours
        self.logs_isr_changes = True

    def live(self) -> list[int]:
        return [*super().live(), OURS]

    def controller(self) -> int:
        return OURS

    def logged(self) -> list[str]:
        return list(self.ours.state_changes)

    def courses_of_a_shutdown(self, broker: BrokerId) -> list[Action]:
        """The shutdowns of a follower in which leaders take it back into some ISRs; none from Kafka 3.3 on."""
        if self.dialect.refuses_isr_of_unavailable:
            return []
        some = chain.from_iterable(combinations(PARTITIONS, count) for count in range(1, len(PARTITIONS) + 1))
        return [partial(shut_down, broker=broker, taken_back=partitions) for partitions in some]


@contextmanager
def under_ours(version: str) -> Iterator[UnderOurs]:
    """Three brokers that know no controller but the core, from their first start on; it must not have ended with an error."""
    with brokers_under_the_core(version, OURS, brokers=len(BROKERS), timeout_s=TRAFFIC_TIMEOUT_S) as (
        ours,
        kafka,
        zookeeper,
    ):
        yield UnderOurs(kafka, zookeeper, ours, dialect_of_jars(version))


def flows(traffic: Traffic, when: str) -> None:
    """Each partition acknowledges one more message: brokers serve what the core told them to."""
    before = traffic.acknowledged.copy()
    wait_until(
        lambda: all(traffic.acknowledged[each] > before[each] for each in PARTITIONS),
        what=f"messages to each partition are acknowledged {when}",
        timeout_s=TRAFFIC_TIMEOUT_S,
    )


def clients_ask(kafka: KafkaCluster, zookeeper: ZooKeeper) -> None:
    """An administrator and an idempotent producer: they find the controller as in any cluster, and are answered by it."""
    first = PARTITIONS[0]
    brokers = BrokersAsked(kafka.bootstrap_servers)
    for target in ((1, 2, 3), (2, 3)):
        assert alter_reassignments(brokers, {first: target}, "a move") == {}
        moved(zookeeper, {first: target}, OURS)
    with admin_client("a list", brokers, TRAFFIC_TIMEOUT_S, UnansweredError) as admin:
        assert admin.list_partition_reassignments() == {}
        admin.create_topics(
            {PLACED: {"num_partitions": 3, "replication_factor": 2, "configs": {"retention.ms": "7000"}}}
        )
    placed = [row for partition, row in tree(zookeeper).rows.items() if partition.startswith(PLACED)]
    assert {broker for row in placed for broker in row.assignment.replicas} == set(BROKERS), "ours holds no replica"
    assert [row.leader for row in placed] == [row.assignment.replicas[0] for row in placed], "it waited for the leaders"
    config = decode_config(zookeeper.get(config_path("topics", PLACED))[0], path=PLACED).config
    assert config == {"retention.ms": "7000"}
    assert elect_preferred_leaders(brokers, [first], "an election") == {}
    assert tree(zookeeper).rows[str(first)].leader == target[0]
    wait_until(lambda: produced_once(kafka), what="an idempotent producer has its id", timeout_s=TRAFFIC_TIMEOUT_S)


def produced_once(kafka: KafkaCluster) -> bool:
    """Whether an idempotent producer got through; where it asks the controller itself for its id, which has no part of a broker but this, it does not."""
    with (
        suppress(IncompatibleBrokerVersion),
        closing(
            KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks="all", enable_idempotence=True)
        ) as producer,
    ):
        producer.send(TOPIC, b"once", partition=1).get(TRAFFIC_TIMEOUT_S)
        return True
    return False


@pytest.mark.kafka
@pytest.mark.parametrize("version", [each for each in kafka_versions("2.4", "3.9") if parse_version(each) >= OLDEST])
def test_real_brokers_live_under_the_core_alone(version: str) -> None:
    with under_ours(version) as world:
        kafka, zookeeper = world.kafka, world.zookeeper
        world.request("a new topic", create_topic)
        with Traffic(kafka, PARTITIONS) as traffic:
            flows(traffic, "before a broker dies")
            victim = max(BROKERS)
            world.shows(
                "a broker dies",
                lambda cluster: cluster.stop_broker(BrokerId(victim)),
                lambda: kafka[victim].kill(forget=True),
            )
            world.shows("it is back", lambda cluster: cluster.start_broker(BrokerId(victim)), kafka[victim].start)
            world.shows(
                "a broker shuts down in order",
                lambda cluster: shut_down(cluster, BrokerId(victim)),
                kafka[victim].terminate,
                world.courses_of_a_shutdown(BrokerId(victim)),
            )
            world.shows("it is back again", lambda cluster: cluster.start_broker(BrokerId(victim)), kafka[victim].start)
            world.request("preferred leaders are elected", elect)
            world.request("two partitions are reassigned", reassign)
            flows(traffic, "after the reassignment")
            clients_ask(kafka, zookeeper)
        counts = message_counts(kafka, TOPIC)
        rows = [(traffic.acknowledged[each], counts[each.partition]) for each in PARTITIONS]
        assert all(readable >= acknowledged for acknowledged, readable in rows), rows
        world.request("the topic is deleted", delete_topic)
        assert kafka.controller_id() == OURS
    served = set(world.ours.served)
    assert "ControlledShutdown" in served
    assert ("AlterPartition" in served) is world.dialect.isr_through_controller, served
    assert ("AllocateProducerIds" in served) is (parse_version(version) >= (3, 0)), served
    assert {"AlterPartitionReassignments", "ListPartitionReassignments", "ElectLeaders", "CreateTopics"} <= served


@pytest.mark.kafka
def test_kafkas_controller_hands_over_to_ours_and_back_while_partitions_move() -> None:
    dialect = dialect_for("3.9")
    with (
        Workspace.create_temporary() as workspace,
        ZooKeeperServer(workspace, tick_time_ms=TICK_MS) as server,
        KafkaCluster(
            "3.9", server, brokers=len(BROKERS), workspace=workspace, config={**PATIENT, **BROKER_CONFIG}
        ) as kafka,
        kafka.session() as zookeeper,
        connect(server.hosts, session_timeout_s=SESSION_TIMEOUT_S) as first_session,
        connect(server.hosts, session_timeout_s=SESSION_TIMEOUT_S) as second_session,
    ):
        create_topic(zookeeper)
        with (
            LaboratoryController(first_session, dialect, config_of(OURS, rebalance=True)) as first,
            LaboratoryController(second_session, dialect, config_of(OURS_TOO, rebalance=True)) as second,
        ):
            with Traffic(kafka, PARTITIONS) as traffic:
                flows(traffic, "under Kafka's controller")
                for number, successor in enumerate((OURS, OURS_TOO, BrokerId(1), OURS)):
                    targets = TARGETS if number % 2 == 0 else START
                    move(zookeeper, targets)
                    hand_over(kafka, zookeeper, successor)
                    moved(zookeeper, targets, successor)
                    flows(traffic, f"under controller {successor}")
                assert (first.is_active, second.is_active) == (True, False)
                preferred = {str(each): (START | {PARTITIONS[2]: ASSIGNMENT[2]})[each][0] for each in PARTITIONS}
                wait_until(
                    lambda: {name: row.leader for name, row in tree(zookeeper).rows.items()} == preferred,
                    what="the automatic rebalance of ours elected the preferred leaders",
                    timeout_s=TRAFFIC_TIMEOUT_S,
                )
            counts = message_counts(kafka, TOPIC)
            assert all(counts[each.partition] >= traffic.acknowledged[each] for each in PARTITIONS)
    assert (first.failure, second.failure) == (None, None)


def move(zookeeper: ZooKeeper, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    wanted = {partition: tuple(map(BrokerId, ids)) for partition, ids in targets.items()}
    zookeeper.create(REASSIGN_PARTITIONS, encode_reassign_partitions(wanted))


def hand_over(kafka: KafkaCluster, zookeeper: ZooKeeper, successor: BrokerId) -> None:
    """`/controller` is deleted until chance makes the successor the active controller: all brokers and both of ours compete to become it."""
    deadline_s = time.monotonic() + CHANCE_TIMEOUT_S
    while (holder := kafka.controller_id()) != successor:
        assert time.monotonic() < deadline_s, f"{successor} never became the controller, {holder} is it"
        with suppress(NoNodeError):
            zookeeper.delete(CONTROLLER, ANY_VERSION)
        wait_until(
            lambda: kafka.controller_id() is not None, what="there is an active controller", timeout_s=TRAFFIC_TIMEOUT_S
        )


def moved(zookeeper: ZooKeeper, targets: Mapping[TopicPartition, tuple[int, ...]], successor: BrokerId) -> None:
    def is_over() -> bool:
        rows = tree(zookeeper).rows
        return zookeeper.exists(REASSIGN_PARTITIONS) is None and all(
            (rows[str(each)].assignment, rows[str(each)].isr) == (ReplicaAssignment(ids), tuple(sorted(ids)))
            for each, ids in targets.items()
        )

    wait_until(is_over, what=f"what was under way is over under {successor}", timeout_s=TRAFFIC_TIMEOUT_S)


def test_a_broker_elsewhere_is_refused() -> None:
    def broker(host: str) -> Broker:
        return Broker(BrokerId(1), 1, (Endpoint(host, 9092, "PLAINTEXT", "PLAINTEXT"),))

    require_loopback(broker("127.0.0.1"))
    require_loopback(broker("localhost"))
    for host in ("10.0.0.1", "kafka.example.org"):
        with pytest.raises(BrokerAccessDeniedError, match="Kafka's own controller runs"):
            require_loopback(broker(host))
