"""Brokers that start, fail, bounce, change their data or lose a disk; each row is a sentence."""

import pytest

from controller_core.controller.brokers import OnBrokerFailure
from controller_core.messages import effects as e
from controller_core.messages import events
from controller_core.model.partitions import BrokerId
from controller_core.model.states import PartitionState, ReplicaState
from tests.controller_core.clusters import T0, broker, cluster, led, perform, replica, run, zookeeper_of


def test_a_dead_leader_is_replaced_and_leaves_the_isr():
    context = cluster({"t-0": (1, 2, 3), "t-1": (2, 3, 1)})
    found = run(context, events.BrokersChanged(), zookeeper_of(context, brokers=(broker(2), broker(3))))
    assert found.leadership("t-0").leader == 2
    assert found.leadership("t-0").isr == (2, 3)
    assert found.leadership("t-1").isr == (2, 3)
    assert found.context.live_broker_ids == (2, 3)
    assert found.of(e.CloseChannels)[0].brokers == (1,)


def test_a_new_broker_hears_of_everything_and_of_what_it_hosts():
    context = cluster({"t-0": (1, 2, 3)}, live=(1, 2), states={"t-0": led(1, (1, 2))})
    found = run(context, events.BrokersChanged(), zookeeper_of(context, brokers=(broker(1), broker(2), broker(3))))
    assert [effect.broker for effect in found.of(e.SendLeaderAndIsr)] == [3]
    assert found.context.replica_state(replica("t-0-3")) is ReplicaState.ONLINE
    assert found.of(e.OpenChannels)[0].brokers == (broker(3),)


@pytest.mark.parametrize(("version", "epoch"), [("3.9", 6), ("2.1", 5)])
def test_a_bounced_broker_fails_and_starts_where_epochs_tell(version, epoch):
    context = cluster({"t-0": (1, 2, 3)}, version=version)
    back = (broker(1, epoch=9), broker(2), broker(3))
    found = run(context, events.BrokersChanged(), zookeeper_of(context, brokers=back))
    assert found.leadership("t-0").leader_epoch == epoch
    assert (found.leadership("t-0").leader == 2) is (version == "3.9")


def test_brokers_that_cannot_be_read_change_nothing():
    context = cluster({"t-0": (1, 2)})
    found = run(context, events.BrokersChanged(), zookeeper_of(context, failures={"ReadBrokers": "CONNECTIONLOSS"}))
    assert found.context == context
    assert "not read" in found.refusals[0].reason


@pytest.mark.parametrize(
    ("after", "told"),
    [
        pytest.param(broker(2)._replace(endpoints=broker(9).endpoints), True, id="other endpoints"),
        pytest.param(broker(2)._replace(rack="r9"), False, id="another rack alone"),
        pytest.param(broker(7), False, id="gone"),
    ],
)
def test_a_broker_changes_its_data(after, told):
    context = cluster({"t-0": (1, 2)})
    found = run(context, events.BrokerDataChanged(BrokerId(2)), zookeeper_of(context, brokers=(broker(1), after)))
    assert bool(found.of(e.SendUpdateMetadata)) is told
    failed = zookeeper_of(context, failures={"ReadBrokers": "x"})
    assert not run(context, events.BrokerDataChanged(BrokerId(2)), failed).of(e.SendUpdateMetadata)


@pytest.mark.parametrize("version", ["3.9", "3.0", "2.1", "1.0"])
def test_a_death_that_concerns_no_partition_is_told(version):
    context = cluster({"t-0": (1, 2)}, version=version).without_brokers([BrokerId(3)])
    found = perform(context, OnBrokerFailure((BrokerId(3),)))
    assert {effect.broker for effect in found.of(e.SendUpdateMetadata)} == {1, 2}


@pytest.mark.parametrize(
    ("version", "leader", "state", "told"),
    [
        pytest.param("0.10.2", 2, PartitionState.ONLINE, True, id="0.10.2 leaves it, and tells of the death"),
        pytest.param("0.11.0", 2, PartitionState.ONLINE, True, id="0.11 leaves it, and tells of the death"),
        pytest.param("1.0", 1, PartitionState.ONLINE, False, id="1.0 elects for whoever is not online"),
    ],
)
def test_a_death_beside_a_broker_that_is_shutting_down(version, leader, state, told):
    context = cluster({"t-0": (2, 1)}, version=version, shutting_down=frozenset({BrokerId(2)}))
    found = perform(context.without_brokers([BrokerId(3)]), OnBrokerFailure((BrokerId(3),)))
    assert (found.leadership("t-0").leader, found.context.partition_state(T0)) == (leader, state)
    assert bool(found.of(e.SendUpdateMetadata) and not found.of(e.SendLeaderAndIsr)) is told


@pytest.mark.parametrize(("version", "told"), [("0.11.0", True), ("1.0", False), ("3.0", False), ("3.1", True)])
def test_a_partition_that_nobody_can_lead_hides_a_death(version, told):
    context = cluster({"t-0": (9,)}, states={"t-0": led(-1, (9,))}, version=version)
    context = context.with_entry(T0, state=PartitionState.OFFLINE).without_brokers([BrokerId(3)])
    found = perform(context, OnBrokerFailure((BrokerId(3),)))
    assert bool(found.of(e.SendUpdateMetadata)) is told


@pytest.mark.parametrize(("version", "leaders"), [("2.2", {-2, 1}), ("2.6", {-2, 1}), ("2.7", {1}), ("3.9", {1})])
def test_what_a_new_broker_hears_of_topics_being_deleted(version, leaders):
    context = cluster({"t-0": (1, 2), "gone-0": (1, 2)}, live=(1, 2), version=version).queue_topic_deletion(["gone"])
    zookeeper = zookeeper_of(context, brokers=(broker(1), broker(2), broker(3)))
    found = run(context, events.BrokersChanged(), zookeeper)
    heard = next(effect for effect in found.of(e.SendUpdateMetadata) if effect.broker == 3)
    assert {row.leadership.leader for row in heard.partition_states} == leaders


def test_an_event_of_a_broker_that_is_gone_probes_all_the_same():
    context = cluster({"t-0": (1, 3)}, live=(1, 2)).with_entry(
        T0, replica_states=((BrokerId(1), ReplicaState.ONLINE), (BrokerId(3), ReplicaState.OFFLINE))
    )
    found = run(context, events.LogDirEventsChanged(), zookeeper_of(context, log_dir_events={"log_dir_event_1": 3}))
    assert found.context.replica_state(replica("t-0-3")) is ReplicaState.ONLINE
    assert not found.of(e.SendLeaderAndIsr)
    assert {effect.broker for effect in found.of(e.SendUpdateMetadata)} == {1, 2}


def test_a_failed_log_directory_is_found_by_probing():
    context = cluster({"t-0": (1, 2)})
    zookeeper = zookeeper_of(context, log_dir_events={"log_dir_event_1": 1})
    probed = run(context, events.LogDirEventsChanged(), zookeeper)
    assert probed.of(e.DeleteLogDirEvents)[0].names == ("log_dir_event_1",)
    assert [effect.broker for effect in probed.of(e.SendLeaderAndIsr)] == [1]
    answer = events.LeaderAndIsrAnswered(BrokerId(1), "NONE", {T0: "KAFKA_STORAGE_ERROR"})
    found = run(probed.context, answer, zookeeper_of(probed.context))
    assert found.leadership("t-0").leader == 2
    assert not found.context.is_replica_online(BrokerId(1), T0)
    healed = run(found.context, events.LeaderAndIsrAnswered(BrokerId(1), "NONE", {T0: "NONE"}))
    assert healed.context.is_replica_online(BrokerId(1), T0)
    assert (
        run(healed.context, events.LeaderAndIsrAnswered(BrokerId(1), "STALE", {T0: "NONE"})).context == healed.context
    )


def test_no_log_dir_event_no_work():
    context = cluster({"t-0": (1, 2)})
    assert run(context, events.LogDirEventsChanged(), zookeeper_of(context)).kinds() == ["ListLogDirEvents"]
    assert run(context, events.LeaderAndIsrAnswered(BrokerId(1), "NONE", {T0: "NONE"})).effects == []
    failed = zookeeper_of(context, log_dir_events={"x": 1}, failures={"ReadLogDirEvents": "NOAUTH"})
    assert run(context, events.LogDirEventsChanged(), failed).kinds()[-1] == "DeleteLogDirEvents"


@pytest.mark.parametrize(
    ("topic_ids", "offline"),
    [
        pytest.param((("t", "id-of-t"),), {T0}, id="the same topic"),
        pytest.param((("t", "another"),), set(), id="another topic of that name"),
        pytest.param((("t", None),), set(), id="an id that nobody knew"),
        pytest.param((), {T0}, id="before LeaderAndIsr 5 a topic is its name"),
    ],
)
def test_a_late_answer_tells_nothing_of_a_topic_that_is_gone(topic_ids, offline):
    context = cluster({"t-0": (1, 2)})
    found = run(context, events.LeaderAndIsrAnswered(BrokerId(1), "NONE", {T0: "KAFKA_STORAGE_ERROR"}, topic_ids))
    assert found.context.offline_dirs.get(BrokerId(1), frozenset()) == offline
