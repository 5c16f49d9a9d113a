"""Approved plans on real brokers: Kafka does what was planned, and the same plan twice does it once."""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import UnknownBrokerIdError

from controller_core.adapters.object_store.open import MemoryStore, open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth
from controller_core.admin.throttles import FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from controller_core.context.builder import build_leniently
from controller_core.context.context import ControllerContext
from controller_core.controller.deletion_eligibility import deletion_eligibility
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import MINOR_VERSIONS, dialect_for
from controller_core.model.errors import NoAuthError, NoNodeError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes import (
    encode_isr_change_notification,
    encode_preferred_replica_election,
    encode_reassign_partitions,
)
from controller_core.znodes import paths as znode
from controller_core.znodes.configs import ConfigChange, ConfigZnode, decode_config, encode_config, encode_config_change
from kafka_maintenance.cli.main import main
from kafka_maintenance.demo.traffic import create_topic, message_counts, partition_states, produce
from kafka_maintenance.operations.apply.cancel import cancel, cancellation
from kafka_maintenance.operations.apply.executions import left_behind, unlock
from kafka_maintenance.operations.apply.plan import apply_plan, verify
from kafka_maintenance.operations.apply.receipt import Receipt
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.cluster.admin_requests import alter_reassignments
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.errors import (
    ClusterBusyError,
    NotFinishedError,
    PlanStaleError,
    RefusedError,
    StoppedError,
)
from kafka_maintenance.operations.plans.deletions import plan_deletions
from kafka_maintenance.operations.plans.drain import plan_drain
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.reassignment import plan_cancel, plan_reassignment
from kafka_maintenance.operations.plans.rollback import plan_rollback
from kafka_maintenance.operations.plans.store import StoredPlan, load_plan
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.servers import KafkaBroker, KafkaCluster, ZooKeeperServer
from kafka_maintenance.servers.process import wait_until
from spark_jobs.on_core.deletion_steps import predict
from tests.broker_ids import ids
from tests.kafka_maintenance.operations.apply.applying import ActsAfter, StopsAfter
from tests.kafka_versions import kafka_versions

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module", params=kafka_versions("3.9", "1.1"))
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three brokers in one JVM; 2.7 and newer as in the middle of an upgrade, so that notifications exist."""
    protocol = "2.6" if dialect_for(request.param).isr_through_controller else None
    with KafkaCluster(
        request.param,
        mode="shared_jvm",
        racks=("a", "b", "c"),
        inter_broker_protocol_version=protocol,
        config={"zookeeper.session.timeout.ms": "18000"},  # outlasts the pauses of a loaded machine
    ) as running:
        yield running


@pytest.fixture
def cluster(kafka: KafkaCluster) -> Iterator[KafkaCluster]:
    """The brokers; a test that fails leaves none of them down or hanging, and no request, to the next one."""
    yield kafka
    assert kafka.shared_jvm is not None
    kafka.shared_jvm.resume()
    for broker in kafka.brokers.values():
        if not broker.is_running:
            broker.start()
    with kafka.session() as zookeeper, suppress(NoNodeError):
        zookeeper.delete(znode.REASSIGN_PARTITIONS, ANY_VERSION)


def apply(store: MemoryStore, plan: StoredPlan, cluster: KafkaCluster, **changed: Any) -> Receipt:
    return apply_plan(
        store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ann",
        now=datetime.now(UTC), step_timeout_s=60.0, **{"zookeeper": ClusterAddress(cluster.zookeeper_connect), **changed},
    )  # fmt: skip


def applied_twice(store: MemoryStore, plan: StoredPlan | None, cluster: KafkaCluster) -> None:
    """Applies the plan, finds it verified, and finds that a second run writes nothing."""
    assert plan is not None
    assert not apply(store, plan, cluster).already_applied
    assert verify(store=store, plan_uri=plan.uri, zookeeper=ClusterAddress(cluster.zookeeper_connect)).done
    events = read_events(store, "demo", plan.digest)
    assert apply(store, plan, cluster).already_applied
    assert read_events(store, "demo", plan.digest) == events


def test_leaders_return_to_their_preferred_replicas(cluster):
    partitions = create_topic(cluster, "elect", {n: ((n % 3) + 1, ((n + 1) % 3) + 1) for n in range(6)})
    cluster[2].terminate()
    cluster[2].start()
    with cluster.session() as zookeeper:
        wait_until(
            lambda: all(
                state is not None and len(state.isr) == 2 for state in partition_states(zookeeper, partitions).values()
            ),
            what="broker 2 is in sync again",
            timeout_s=60,
        )
    store = MemoryStore()
    plan = plan_elections(store, "demo", zookeeper=ClusterAddress(cluster.zookeeper_connect))
    applied_twice(store, plan, cluster)
    with cluster.session() as zookeeper:
        leaders = [state.leader for state in partition_states(zookeeper, partitions).values() if state]
    assert leaders == [1, 2, 3, 1, 2, 3]
    assert plan_elections(store, "demo", zookeeper=ClusterAddress(cluster.zookeeper_connect)) is None


def test_replicas_move_wave_by_wave_and_back(cluster):
    first, second = create_topic(cluster, "move", {0: (1, 2), 1: (2, 3)})
    written = produce(cluster, "move", 0, count=20)
    store = MemoryStore()
    waves = [[Target(*first, ids(3, 2))], [Target(*second, ids(1, 3))]]
    plan = plan_reassignment(store, "demo", zookeeper=ClusterAddress(cluster.zookeeper_connect), waves=waves)
    applied_twice(store, plan, cluster)
    assert plan is not None
    assert plan.rollback_uri is not None
    applied_twice(store, load_plan(store, plan.rollback_uri), cluster)
    with cluster.session() as zookeeper:
        seen = observe(zookeeper, partitions=[first, second])
    assert [seen.assignments[each].replicas for each in (first, second)] == [(1, 2), (2, 3)]
    assert message_counts(cluster, "move")[0] == written == 20


def test_a_run_that_was_stopped_after_its_first_wave_is_rolled_back(cluster):
    first, second = create_topic(cluster, "halfway", {0: (1, 2), 1: (2, 3)})
    store, stop = MemoryStore(), Stop()
    waves = [[Target(*first, ids(3, 2))], [Target(*second, ids(1, 3))]]
    plan = plan_reassignment(store, "demo", zookeeper=ClusterAddress(cluster.zookeeper_connect), waves=waves)
    assert plan is not None
    with pytest.raises(StoppedError):
        apply(StopsAfter(store, "-verified.json", stop), plan, cluster, stop=stop)
    back = plan_rollback(store, "demo", plan.digest, zookeeper=ClusterAddress(cluster.zookeeper_connect))
    assert back is not None
    assert back.count == 1
    applied_twice(store, back, cluster)
    with cluster.session() as zookeeper:
        seen = observe(zookeeper, partitions=[first, second])
    assert [seen.assignments[each].replicas for each in (first, second)] == [(1, 2), (2, 3)]


def test_what_is_under_way_is_cancelled_by_the_brokers_and_nothing_is_lost(cluster):
    store, address = MemoryStore(), ClusterAddress(cluster.zookeeper_connect)
    create_topic(cluster, "heavy", {0: (1, 2), 1: (2, 1)})
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
        for number in range(2 * 300):
            producer.send("heavy", b"x" * 10_000, partition=number % 2)
    waves = [[Target("heavy", n, ids(n + 1, 3)) for n in range(2)]]
    plan = plan_reassignment(store, "demo", waves=waves, zookeeper=address, throttle_bytes_per_s=1_000)
    assert plan is not None
    stop, now = Stop(), datetime.now(UTC)
    with pytest.raises(StoppedError):
        apply(stopped_without(cluster[3], store, stop), plan, cluster, stop=stop)
    if not dialect_for(cluster.version).adding_and_removing_replicas:
        with pytest.raises(RefusedError, match=r"Kafka up to 2\.3 cannot cancel"):
            cancellation(store, "demo", plan.digest, address, now)
        with cluster.session() as zookeeper:
            left = left_behind(store, "demo", zookeeper)
            unlock(
                store=store, cluster="demo", zookeeper=zookeeper, approved_digest=left.digest, approver="ann", now=now
            )
            cluster[3].start()
            wait_until(lambda: not zookeeper.exists(znode.REASSIGN_PARTITIONS), what="no throttle", timeout_s=60)
        return
    with cluster.session() as zookeeper:
        wait_until(
            lambda: all(len(_replicas(zookeeper, TopicPartition("heavy", n))) == 3 for n in range(2)),
            what="begun",
            timeout_s=60,
        )
        found = cancellation(store, "demo", plan.digest, address, now)
        assert len(found.partitions) == 2
        told = cancel(
            store=store, cluster="demo", digest=plan.digest, zookeeper=address, approved_digest=found.digest, by="ann",
            brokers=BrokersAsked(cluster.bootstrap_servers), reason="too slow", now=now,
        )  # fmt: skip
        assert "2 reverted" in told
        assert not zookeeper.exists(znode.REASSIGN_PARTITIONS)
        assert b"throttled" not in zookeeper.get("/config/topics/heavy")[0]
        assignments = observe(zookeeper, partitions=[TopicPartition("heavy", 0)]).assignments
        assert {*assignments[TopicPartition("heavy", 0)].replicas} == {1, 2}
    assert message_counts(cluster, "heavy") == {0: 300, 1: 300}
    with pytest.raises(RefusedError, match="cancelled by ann: too slow"):
        apply(store, plan, cluster)


def stopped_without(broker: KafkaBroker, store: MemoryStore, stop: Stop) -> ActsAfter:
    """A store under which a run is stopped as soon as it has asked, while `broker`, which is to copy, is down: so nothing ends."""
    return ActsAfter(store, {"intended.json": broker.terminate, "requested.json": lambda: stop.ask("SIGTERM")})


def test_what_another_tool_asked_for_is_taken_back_by_brokers_and_by_a_request(cluster):
    (moving,) = create_topic(cluster, "foreign", {0: (1, 2)})
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
        for _ in range(300):
            producer.send("foreign", b"x" * 10_000, partition=0)
    store, live = (
        MemoryStore(),
        {"zookeeper": ClusterAddress(cluster.zookeeper_connect), "kafka_version": cluster.version},
    )
    with cluster.session() as zookeeper:
        cluster[3].terminate()  # the reassignment waits for it
        zookeeper.create(znode.REASSIGN_PARTITIONS, encode_reassign_partitions({moving: ids(1, 3)}))
        wait_until(lambda: len(_replicas(zookeeper, moving)) == 3, what="the reassignment began", timeout_s=60)
        if not dialect_for(cluster.version).adding_and_removing_replicas:
            with pytest.raises(RefusedError, match=r"Kafka up to 2\.3 cannot cancel it"):
                plan_cancel(store, "demo", **live)
            cluster[3].start()
            wait_until(lambda: not zookeeper.exists(znode.REASSIGN_PARTITIONS), what="it is over", timeout_s=60)
            return
        plan = plan_cancel(store, "demo", **live)
        assert plan is not None
        with pytest.raises(ClusterBusyError, match="another tool's request is pending"):
            apply(store, plan, cluster)
        apply(store, plan, cluster, brokers=BrokersAsked(cluster.bootstrap_servers))
        assert (_replicas(zookeeper, moving), zookeeper.exists(znode.REASSIGN_PARTITIONS)) == ((1, 2), None)

        cluster[3].start()
        throttled = {"brokers/1": {LEADER_RATE: "1000"}, "topics/foreign": {LEADER_REPLICAS: "*"}}
        for entity, config in throttled.items():
            _configure(zookeeper, entity, config)
        assert _have_rates(cluster, {1: "1000"})
        assert not alter_reassignments(BrokersAsked(cluster.bootstrap_servers), {moving: ids(1, 3)}, "they move")
        plan = plan_cancel(store, "demo", **live)
        applied_twice(store, plan, cluster)
        assert (_replicas(zookeeper, moving), plan_cancel(store, "demo", **live)) == ((1, 2), None)
        for entity in throttled:
            _configure(zookeeper, entity, {})
    assert message_counts(cluster, "foreign") == {0: 300}


def _replicas(zookeeper: Any, partition: TopicPartition) -> tuple[int, ...]:
    return observe(zookeeper, partitions=[partition]).assignments[partition].replicas


def test_a_throttle_is_kept_until_the_step_is_over_and_what_others_set_is_there_afterwards(cluster):
    store, address = MemoryStore(), ClusterAddress(cluster.zookeeper_connect)
    moving = create_topic(cluster, "slow", {0: (1, 2), 1: (2, 1)})
    create_topic(cluster, "theirs", {0: (1, 2)})
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
        for number in range(2 * 300):
            producer.send("slow", b"x" * 10_000, partition=number % 2)
    theirs = {"brokers/1": {LEADER_RATE: "70000000"}, "topics/theirs": {LEADER_REPLICAS: "*"}}
    with cluster.session() as zookeeper:
        for entity, config in theirs.items():
            _configure(zookeeper, entity, config)
        before = _throttles(zookeeper)
        waves = [[Target(*each, ids(each.partition + 1, 3)) for each in moving]]
        plan = plan_reassignment(store, "demo", waves=waves, zookeeper=address, throttle_bytes_per_s=100_000)
        assert plan is not None
        stop, brokers = Stop(), BrokersAsked(cluster.bootstrap_servers)
        with pytest.raises(StoppedError):
            apply(StopsAfter(store, "requested.json", stop), plan, cluster, stop=stop, brokers=brokers)
        during = _throttles(zookeeper)
        assert {each: config[LEADER_RATE] for each, config in during.items() if each.startswith("brokers/")} == {
            f"brokers/{broker}": "100000" for broker in (1, 2, 3)
        }
        assert during["topics/slow"] == {FOLLOWER_REPLICAS: "0:3,1:3", LEADER_REPLICAS: "0:1,0:2,1:1,1:2"}
        assert during["topics/theirs"] == theirs["topics/theirs"]
        assert _have_rates(cluster, dict.fromkeys((1, 2, 3), "100000"))
        apply(store, plan, cluster, brokers=brokers)
        assert _throttles(zookeeper) == before
        assert before == theirs
        assert _have_rates(cluster, {1: "70000000"})
        for entity in theirs:
            _configure(zookeeper, entity, {})
    told = read_events(store, "demo", plan.digest)
    road = "admin_api" if dialect_for(cluster.version).adding_and_removing_replicas else "request_znodes"
    assert [each.detail["road"] for each in told if each.event == "requested"] == [road]
    assert message_counts(cluster, "slow") == {0: 300, 1: 300}


def _configure(zookeeper: Any, entity: str, config: dict[str, str]) -> None:
    """As `kafka-configs.sh --zookeeper` does."""
    path = f"{znode.CONFIG}/{entity}"
    data = encode_config(ConfigZnode(config))
    if zookeeper.exists(path) is None:
        zookeeper.create(path, data, make_parents=True)
    else:
        zookeeper.set(path, data, ANY_VERSION)
    notice = encode_config_change(ConfigChange(entity))
    zookeeper.create(f"{znode.CONFIG_CHANGES}/{znode.CONFIG_CHANGE_PREFIX}", notice, sequential=True)


def _throttles(zookeeper: Any) -> dict[str, dict[str, str]]:
    """What is throttled, by broker and topic."""
    entities = [
        f"{kind}/{name}" for kind in ("brokers", "topics") for name in zookeeper.children(f"{znode.CONFIG}/{kind}")
    ]
    found = {each: decode_config(zookeeper.get(f"{znode.CONFIG}/{each}")[0], path=each).config for each in entities}
    throttles = {
        each: {name: value for name, value in config.items() if "throttled" in name} for each, config in found.items()
    }
    return {each: config for each, config in throttles.items() if config}


def _have_rates(cluster: KafkaCluster, rates: dict[int, str]) -> bool:
    """Whether the brokers say that they limit their leaders so; before 2.4 they say nothing of it, and 2.4 hides the value as it hides secrets."""

    def told() -> dict[int, str]:
        with admin_client("rates", BrokersAsked(cluster.bootstrap_servers), 30.0, NotFinishedError) as admin:
            asked = [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in cluster.brokers]
            try:
                answers = [admin.describe_configs([each])["broker"] for each in asked]
            except UnknownBrokerIdError:  # it has just started, and the one that was asked has not heard of it
                return {}
        found = {int(broker): configs for answer in answers for broker, configs in answer.items()}
        return {broker: configs[LEADER_RATE]["value"] for broker, configs in found.items() if LEADER_RATE in configs}

    if dialect_for(cluster.version).adding_and_removing_replicas:
        hidden = dict.fromkeys(rates)
        wait_until(
            lambda: told() == (hidden if cluster.version == "2.4" else rates),
            what=f"the brokers have heard of {rates}",
            timeout_s=30,
        )
    return True


def test_a_topic_is_deleted_and_its_namesake_is_safe(cluster):
    create_topic(cluster, "old", {0: (1, 2), 1: (3, 1)})
    store = MemoryStore()
    plan = plan_deletions(
        store,
        "demo",
        zookeeper=ClusterAddress(cluster.zookeeper_connect),
        topics=["old"],
        kafka_version=cluster.version,
    )
    assert plan is not None
    unrecorded = MemoryStore()
    for key in store.list("v1/cluster="):
        unrecorded.put(key, store.get(key))
    applied_twice(store, plan, cluster)
    create_topic(cluster, "old", {0: (1, 2), 1: (3, 1)})
    with pytest.raises(PlanStaleError, match="created at zxid"):
        apply(unrecorded, plan, cluster)


def test_a_topic_in_reassignment_is_not_deleted_and_what_another_tools_deletion_leaves_is_cleared(cluster):
    moving, staying = create_topic(cluster, "moving", {0: (1, 2), 1: (2, 1)})
    store = MemoryStore()
    live = {"zookeeper": ClusterAddress(cluster.zookeeper_connect), "kafka_version": cluster.version}
    plan = plan_deletions(store, "demo", topics=["moving"], **live)
    assert plan is not None
    cluster[3].terminate()  # the reassignment waits for it
    with cluster.session() as zookeeper:
        request = encode_reassign_partitions({moving: ids(1, 3)})
        zookeeper.create(znode.REASSIGN_PARTITIONS, request)
        wait_until(
            lambda: len(observe(zookeeper, partitions=[moving]).assignments[moving].replicas) == 3,
            what="the reassignment began",
            timeout_s=60,
        )
        with pytest.raises(RefusedError, match="moving-0 is being reassigned"):
            plan_deletions(store, "demo", topics=["moving"], **live)
        with pytest.raises(PlanStaleError, match=r"expected no reassignment of it, found .*moving-0"):
            apply(store, plan, cluster)
        assert zookeeper.children(znode.DELETE_TOPICS) == []

        prediction = predict(_context(zookeeper, cluster.version), "moving")
        zookeeper.create(znode.delete_topic_path("moving"))  # somebody does it all the same
        wait_until(lambda: not _logs(cluster, "moving"), what="brokers 1 and 2 deleted what they held", timeout_s=60)
        assert {(each.partition, each.replica) for each in prediction.deleted} == {
            (partition, broker) for partition in (moving, staying) for broker in (1, 2)
        }
        assert prediction.told[-2] == "the deletion of moving waits for brokers 3, and goes on by itself then"
        text = deletion_eligibility(_context(zookeeper, cluster.version, queued=True), "moving").reasons[0].text
        assert text.endswith("its replicas on brokers [1, 2] are deleted already, or nobody can read them")
        cluster[3].start()
        wait_until(lambda: zookeeper.exists(znode.topic_path("moving")) is None, what="the topic is gone", timeout_s=60)

        assert zookeeper.get(znode.REASSIGN_PARTITIONS)[0] == request
        (other,) = create_topic(cluster, "blocked", {0: (1, 2)})
        blocked = plan_reassignment(store, "demo", waves=[[Target(*other, ids(2, 1))]], **live)
        assert blocked is not None
        with pytest.raises(ClusterBusyError, match="if it stays, clear it by a forced re-election"):
            apply(store, blocked, cluster)
        if dialect_for(cluster.version).adding_and_removing_replicas:
            asked = apply(store, blocked, cluster, brokers=BrokersAsked(cluster.bootstrap_servers))
            assert not asked.already_applied  # the request that nobody finishes blocks nobody who asks the brokers
        applied_twice(store, plan_drain(store, "demo", **live), cluster)
        assert zookeeper.exists(znode.REASSIGN_PARTITIONS) is None
        apply(store, blocked, cluster)


def _context(zookeeper: Any, version: str, *, queued: bool = False) -> ControllerContext:
    seen = observe(zookeeper)
    return build_leniently(
        dialect=dialect_for(version),
        brokers=seen.brokers.values(),
        assignments=seen.assignments,
        states=seen.states,
        topics_to_be_deleted=seen.queued_topics if queued else (),
        reassignment_targets=seen.reassign_requests,
        config=ControllerConfig(controller_id=BrokerId(1), delete_topic=True),
        epoch=seen.controller_epoch or 0,
        epoch_zk_version=seen.controller_epoch_version or 0,
    ).context


def _logs(cluster: KafkaCluster, topic: str) -> list[str]:
    """The directories of logs of the topic, of whichever broker; those that wait to be erased are deleted already."""
    names = (path.name for path in cluster.folder.glob(f"**/{topic}-*"))
    return [name for name in names if not name.endswith("-delete")]


def test_lingering_notifications_are_drained_by_a_new_controller(cluster):
    if not dialect_for(cluster.version).failover_deletes_notifications:
        pytest.skip(f"a new controller of Kafka {cluster.version} leaves notifications where they are: no plan is made")
    (partition,) = create_topic(cluster, "linger", {0: (1, 2)})
    assert cluster.shared_jvm is not None
    store = MemoryStore()
    with cluster.session() as zookeeper:
        before = observe(zookeeper, partitions=[])
        cluster.shared_jvm.pause()  # a controller that hangs, for less than its session
        zookeeper.create(
            f"{znode.ISR_CHANGE_NOTIFICATION}/{znode.ISR_CHANGE_PREFIX}",
            encode_isr_change_notification([partition]),
            sequential=True,
        )
        plan = plan_drain(store, "demo", zookeeper=zookeeper, age_min_s=0.0, kafka_version=cluster.version)
        zookeeper.exists(znode.CONTROLLER, watch=lambda _: cluster.shared_jvm.resume())
        applied_twice(store, plan, cluster)
        after = observe(zookeeper, partitions=[partition])
    assert before.controller_epoch is not None
    assert after.controller_epoch is not None
    assert after.controller_epoch > before.controller_epoch
    assert (after.notifications, after.states[partition].isr) == ((), (1, 2))


def test_an_election_that_a_hanging_controller_has_not_begun_is_held_by_the_next_one(cluster):
    (partition,) = create_topic(cluster, "waits", {0: (1, 2)})
    assert cluster.shared_jvm is not None
    store = MemoryStore()
    with cluster.session() as zookeeper:
        cluster.shared_jvm.pause()  # for less than its session
        zookeeper.create(znode.PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election([partition]))
        plan = plan_drain(store, "demo", zookeeper=zookeeper, age_min_s=0.0, kafka_version=cluster.version)
        zookeeper.exists(znode.CONTROLLER, watch=lambda _: cluster.shared_jvm.resume())
        applied_twice(store, plan, cluster)
        assert zookeeper.exists(znode.PREFERRED_REPLICA_ELECTION) is None


def test_a_reassignment_that_the_controller_has_not_heard_of_is_taken_up_by_the_next_one(cluster):
    if not dialect_for(cluster.version).adding_and_removing_replicas:
        pytest.skip(f"whether Kafka {cluster.version} has begun a reassignment nobody can tell from its tree")
    cluster[3].terminate()  # the first one waits for it
    # Where broker 3 was the controller, the next one reads the request twice if it finds one while it takes over.
    # The second topic is served only after that.
    first, second = (*create_topic(cluster, "held", {0: (1, 2)}), *create_topic(cluster, "unheard", {0: (1, 2)}))
    store, live = (
        MemoryStore(),
        {"zookeeper": ClusterAddress(cluster.zookeeper_connect), "kafka_version": cluster.version},
    )
    with cluster.session() as zookeeper:
        zookeeper.create(znode.REASSIGN_PARTITIONS, encode_reassign_partitions({first: ids(1, 3)}))
        wait_until(lambda: len(_replicas(zookeeper, first)) == 3, what="the reassignment began", timeout_s=60)
        zookeeper.delete(znode.REASSIGN_PARTITIONS, ANY_VERSION)  # which disarms the controller's watch
        zookeeper.create(znode.REASSIGN_PARTITIONS, encode_reassign_partitions({second: ids(2, 1)}))
        plan = plan_drain(store, "demo", age_min_s=0.0, **live)
        assert plan is not None
        assert _replicas(zookeeper, second) == (1, 2)
        applied_twice(store, plan, cluster)
        wait_until(lambda: _replicas(zookeeper, second) == (2, 1), what="the second one is done", timeout_s=60)
        cluster[3].start()
        wait_until(lambda: _replicas(zookeeper, first) == (1, 3), what="the first one is done", timeout_s=60)


def test_a_dead_controller_leaves_a_record_and_a_second_run_goes_on(cluster):
    partitions = create_topic(cluster, "later", {0: (1, 2)})
    assert cluster.shared_jvm is not None
    store = MemoryStore()
    waves = [[Target(*partitions[0], ids(2, 3))]]
    plan = plan_reassignment(store, "demo", zookeeper=ClusterAddress(cluster.zookeeper_connect), waves=waves)
    assert plan is not None
    cluster.shared_jvm.pause()
    with pytest.raises(NotFinishedError, match="run again to go on waiting"):
        apply_plan(
            store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ann",
            zookeeper=ClusterAddress(cluster.zookeeper_connect), now=datetime.now(UTC), step_timeout_s=0.0,
        )  # fmt: skip
    cluster.shared_jvm.resume()
    apply(store, plan, cluster)
    assert [str(event.event) for event in read_events(store, "demo", plan.digest)] == [
        "started", "intended", "requested", "unfinished", "started", "verified", "done",
    ]  # fmt: skip


def test_the_command_leads_from_a_snapshot_to_a_receipt(cluster, capsys, tmp_path):
    partitions = create_topic(cluster, "command", {0: (1, 2), 1: (2, 3)})
    cluster[2].terminate()
    cluster[2].start()
    with cluster.session() as zookeeper:
        wait_until(
            lambda: all(
                state is not None and len(state.isr) == 2 for state in partition_states(zookeeper, partitions).values()
            ),
            what="broker 2 is in sync again",
            timeout_s=60,
        )
    where = ("--cluster", "demo", "--store", str(tmp_path))
    assert main(["snapshot", "--zookeeper", cluster.zookeeper_connect, *where]) == 0
    manifest = capsys.readouterr().out.splitlines()[-1]
    assert main(["plan", "elections", *where, "--manifest", manifest, "--topic", "command", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert plan["uri"].startswith(manifest.removesuffix("manifest.json"))
    apply_it = ["apply", plan["uri"], "--zookeeper", cluster.zookeeper_connect]
    assert main(apply_it) == 1
    assert main([*apply_it, "--approve", plan["digest"], "--bootstrap-servers", cluster.bootstrap_servers]) == 0
    events = read_events(open_store(str(tmp_path)), "demo", plan["digest"])
    road = "admin_api" if MINOR_VERSIONS.index(cluster.version) >= MINOR_VERSIONS.index("2.2") else "request_znodes"
    assert [each.detail["road"] for each in events if each.event == "requested"] == [road]
    with cluster.session() as zookeeper:
        assert [state.leader for state in partition_states(zookeeper, partitions).values() if state] == [1, 2]


def test_on_a_secured_zookeeper_only_the_brokers_user_may_ask():
    auth = ZooKeeperAuth(scheme="sasl", username="kafka", password="geheim")
    with (
        ZooKeeperServer(users={"kafka": "geheim", "stranger": "fremd"}) as server,
        KafkaCluster("3.9", server, brokers=2, mode="shared_jvm", login=("kafka", "geheim")) as secured,
    ):
        (partition,) = create_topic(secured, "safe", {0: (1, 2)})
        store = MemoryStore()
        waves = [[Target(*partition, ids(2, 1))]]
        plan = plan_reassignment(
            store, "demo", zookeeper=ClusterAddress(secured.zookeeper_connect, auth=auth), waves=waves
        )
        assert plan is not None
        for stranger in (None, ZooKeeperAuth(scheme="sasl", username="stranger", password="fremd")):
            with pytest.raises(NoAuthError):
                apply(store, plan, secured, zookeeper=ClusterAddress(secured.zookeeper_connect, auth=stranger))
        assert not apply(
            store, plan, secured, zookeeper=ClusterAddress(secured.zookeeper_connect, auth=auth)
        ).already_applied
        with secured.session() as zookeeper:
            assert observe(zookeeper, partitions=[partition]).assignments[partition].replicas == (2, 1)
