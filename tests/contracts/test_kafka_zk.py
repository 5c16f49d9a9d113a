"""Kafka's operations on ZooKeeper, the effects that use them and the watches: in memory and on a real server."""

import threading
from types import SimpleNamespace

import pytest

from controller_core.messages import answers, events
from controller_core.messages import effects as e
from controller_core.model.dialect import dialect_for
from controller_core.model.errors import ControllerMovedError, MalformedZnodeError, NodeExistsError, NoNodeError
from controller_core.model.partitions import Broker, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION, WatchEvent, WatchEventKind
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.perform_effects import ZooKeeperEffects
from controller_core.runtime.watches import ControllerWatches
from controller_core.znodes import BrokerZnode

EVENT_TIMEOUT_S = 20.0
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
STATE = LeaderAndIsr(1, 0, (1, 2), controller_epoch=1)


@pytest.fixture
def kafka(world):
    kafka = KafkaZk(world.zookeeper, formats_of(dialect_for("3.9")))
    assert kafka.create_controller_epoch(1) == "OK"
    return kafka


def broker(broker_id, host="h"):
    endpoint = Endpoint(host, 9092, "PLAINTEXT", "PLAINTEXT")
    return BrokerZnode(broker=Broker(broker_id, endpoints=(endpoint,)), version=5, host=host, port=9092)


def test_states_are_created_once(kafka):
    assert kafka.create_states({T0: STATE, T1: STATE}, 0) == {T0: "NONODE", T1: "NONODE"}
    kafka.create_topic("t", {0: ReplicaAssignment((1, 2))})
    assert kafka.create_states({T0: STATE, T1: STATE}, 0) == {T0: "OK", T1: "OK"}
    assert kafka.create_states({T0: STATE}, 0) == {T0: "NODEEXISTS"}
    assert kafka.get_states([T0, TopicPartition("t", 9)]) == ({T0: STATE}, {})


def test_states_are_compared_and_set(kafka):
    kafka.create_topic("t", {0: ReplicaAssignment((1, 2))})
    kafka.create_states({T0: STATE}, 0)
    newer = STATE._replace(leader=2, leader_epoch=1)
    updated, retry, failed = kafka.update_leader_and_isr({T0: newer, T1: STATE}, 0)
    assert (updated, retry, failed) == ({T0: newer._replace(partition_epoch=1)}, (), {T1: "NONODE"})
    assert kafka.update_leader_and_isr({T0: newer}, 0).retry == (T0,)


def test_a_leader_that_lost_an_answer_knows_its_own_write(kafka):
    kafka.create_topic("t", {0: ReplicaAssignment((1, 2))})
    kafka.create_states({T0: STATE}, 0)
    smaller = STATE._replace(isr=(1,))
    assert kafka.leader_updates_isr(T0, smaller) == 1
    assert kafka.leader_updates_isr(T0, smaller) == 1
    assert kafka.leader_updates_isr(T0, STATE) is None
    assert kafka.leader_updates_isr(T1, STATE) is None


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda kafka: kafka.create_states({T0: STATE}, 1), id="creating states"),
        pytest.param(lambda kafka: kafka.set_states({T0: STATE}, 1), id="setting states"),
        pytest.param(lambda kafka: kafka.set_topic("t", {}, None, 1), id="writing a topic"),
        pytest.param(lambda kafka: kafka.delete_topic_znode("t", 1), id="deleting a topic"),
        pytest.param(lambda kafka: kafka.delete_topic_config("t", 1), id="deleting a config"),
        pytest.param(lambda kafka: kafka.delete_topic_deletions(["t"], 1), id="deleting a request"),
        pytest.param(lambda kafka: kafka.set_or_create_reassignment({T0: (1,)}, 1), id="writing a reassignment"),
        pytest.param(lambda kafka: kafka.delete_reassignment(1), id="deleting a reassignment"),
        pytest.param(lambda kafka: kafka.delete_preferred_election(1), id="deleting an election"),
        pytest.param(lambda kafka: kafka.delete_isr_notifications(["0000000000"], 1), id="deleting notifications"),
        pytest.param(lambda kafka: kafka.delete_log_dir_events(["0000000000"], 1), id="deleting events"),
        pytest.param(lambda kafka: kafka.delete_controller(1), id="resigning"),
    ],
)
def test_an_epoch_check_that_fails_stops(kafka, write):
    kafka.create_topic("t", {0: ReplicaAssignment((1, 2))})
    with pytest.raises(ControllerMovedError, match="/controller_epoch"):
        write(kafka)
    assert kafka.full_assignments("t") == {T0: ReplicaAssignment((1, 2))}
    assert not kafka.reassignment_in_progress()


def test_topics(kafka):
    assert kafka.list_topics() == []
    assert kafka.partition_count("t") is None
    assert kafka.full_assignments("t") == {}
    kafka.create_topic("t", {0: ReplicaAssignment((1, 2))}, "3tRvjlrmRXmsYOMp9Fg0AA")
    with pytest.raises(NodeExistsError):
        kafka.create_topic("t", {})
    moving = ReplicaAssignment((3, 1, 2), (3,), (1,))
    assert kafka.set_topic("t", {0: moving}, None, 0, extra=(("later", "1"),)) == "OK"
    assert kafka.full_assignments("t") == {T0: moving}
    assert kafka.get_topics(["t", "u"])[0]["t"].extra == (("later", "1"),)
    assert kafka.set_topic("u", {}, None, 0) == "NONODE"
    assert kafka.partition_count("t") == 1
    kafka.create_states({T0: STATE}, 0)
    kafka.delete_topic_znode("t", 0)
    assert kafka.list_topics() == []
    assert not kafka.delete_recursive("/brokers/topics/t", 0)


def test_a_damaged_topic_and_config_are_named(kafka):
    kafka.create_recursive("/brokers/topics/t", b'{"partitions":{"x":[]}}')
    kafka.create_recursive("/config/topics/t", b'{"config":{"a":1}}')
    kafka.create_recursive("/config/topics/u", b'{"config":{"a":"1"}}')
    with pytest.raises(MalformedZnodeError, match="/brokers/topics/t"):
        kafka.full_assignments("t")
    configs, problems = kafka.get_topic_configs(["t", "u", "v"])
    assert configs == {"u": {"a": "1"}, "v": {}}
    assert "/config/topics/t" in problems["t"]


def test_requests(kafka):
    assert kafka.get_reassignment() is None
    kafka.create_reassignment({T0: (1, 2)})
    with pytest.raises(NodeExistsError):
        kafka.create_reassignment({T1: (1,)})
    kafka.set_or_create_reassignment({T1: (3,)}, 0)
    assert kafka.get_reassignment() == {T1: (3,)}
    kafka.delete_reassignment(0)
    kafka.delete_reassignment(0)
    kafka.set_or_create_reassignment({T0: (3,)}, 0)
    assert kafka.reassignment_in_progress()
    assert kafka.get_preferred_election() is None
    kafka.create_preferred_election([T0, T1])
    assert kafka.get_preferred_election() == (T0, T1)
    kafka.delete_preferred_election(0)
    kafka.create_recursive("/admin/preferred_replica_election", b"no json")
    assert kafka.get_preferred_election() == ()
    kafka.create_delete_topic("t")
    assert kafka.is_marked_for_deletion("t")
    kafka.delete_topic_deletions(["t", "u"], 0)
    assert kafka.list_topic_deletions() == []


def test_notifications(kafka):
    assert kafka.propagate_isr_changes([T0]).endswith("/isr_change_0000000000")
    kafka.propagate_isr_changes([T0, T1])
    kafka.create_recursive("/isr_change_notification/isr_change_0000000009", b"no json")
    assert kafka.list_isr_notifications() == ["0000000000", "0000000001", "0000000009"]
    assert kafka.read_isr_notifications(["0000000000", "0000000001", "0000000009", "0000000077"]) == (T0, T0, T1)
    kafka.delete_isr_notifications(["0000000000", "0000000077"], 0)
    assert kafka.list_isr_notifications() == ["0000000001", "0000000009"]
    kafka.propagate_log_dir_event(4)
    kafka.create_recursive("/log_dir_event_notification/log_dir_event_0000000009", b"no json")
    assert kafka.read_log_dir_events(kafka.list_log_dir_events()) == (4,)
    kafka.delete_log_dir_events(kafka.list_log_dir_events(), 0)
    assert kafka.list_log_dir_events() == []


def test_brokers_and_cluster(world, kafka):
    epoch = kafka.register_broker(broker(1))
    with pytest.raises(NodeExistsError):
        kafka.register_broker(broker(1))
    with pytest.raises(NoNodeError):
        kafka.update_broker(broker(2))
    kafka.update_broker(broker(1, "elsewhere"))
    found = kafka.get_broker(1)
    assert (found.broker.epoch, found.host) == (epoch, "elsewhere")
    assert kafka.get_brokers() == [found]
    for odd in ("01", "02"):  # Kafka reads /brokers/ids/1 and /brokers/ids/2 instead
        kafka.create_recursive(f"/brokers/ids/{odd}", b"{}")
    assert kafka.get_brokers() == [found]
    assert kafka.get_broker(2) is None
    assert (kafka.next_broker_sequence_id(), kafka.next_broker_sequence_id()) == (1, 2)
    assert kafka.get_cluster_id() is None
    assert kafka.create_or_get_cluster_id("first") == kafka.create_or_get_cluster_id("second") == "first"


@pytest.mark.parametrize("version", ["3.9", "1.1"])
def test_elections_of_the_controller(world, version):
    mine = KafkaZk(world.zookeeper, formats_of(dialect_for(version)))
    other = KafkaZk(world.open(), formats_of(dialect_for(version)))
    atomic = version == "3.9"
    assert mine.register_controller(1, 0) == (1, 1)
    assert mine.get_controller_epoch() == (1, 1 if atomic else 0)
    assert mine.get_controller().broker_id == 1
    with pytest.raises(NodeExistsError):
        other.register_controller(2, 0)
    world.expire(mine.zookeeper)
    epoch = other.register_controller(2, 0)
    assert epoch.epoch == 2
    assert other.get_controller_epoch() == epoch


@pytest.mark.parametrize("version", ["3.9", "1.1"])
def test_the_lost_answer_to_a_won_election_is_recognised(world, monkeypatch, version):
    kafka = KafkaZk(world.zookeeper, formats_of(dialect_for(version)))
    assert kafka.create_controller_epoch(1) == "OK"
    elsewhere = kafka.zookeeper
    multi = elsewhere.multi

    def won_but_unheard(operations):
        if operations[0].path == "/controller":
            multi(operations)
        return multi(operations)

    monkeypatch.setattr(elsewhere, "multi", won_but_unheard)
    assert kafka.register_controller(1, 0) == kafka.get_controller_epoch() == (2, 1)


# ---- effects and watches ---------------------------------------------------------------------------------------------


class Told:
    """What the controller hears."""

    def __init__(self):
        self.events = []
        self._arrived = threading.Semaphore(0)

    def __call__(self, event):
        self.events.append(event)
        self._arrived.release()

    def next(self):
        assert self._arrived.acquire(timeout=EVENT_TIMEOUT_S)
        return self.events[-1]

    def until(self, event):
        """Waits for one event; others may come before it."""
        while self.next() != event:
            pass


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def effects(kafka, told):
    for path in ("/brokers/ids", "/admin/delete_topics", "/isr_change_notification", "/log_dir_event_notification"):
        kafka.create_recursive(path)
    kafka.create_topic("t", {0: ReplicaAssignment((1, 2))})
    return ZooKeeperEffects(kafka, ControllerWatches(kafka.zookeeper, told), now_ms=lambda: 17)


def test_states_through_effects(effects):
    create = e.CreatePartitionStates(states=((T0, STATE),), controller_epoch_version=0)
    assert effects.perform(create) == answers.StatesCreated(create)
    assert effects.perform(create) == answers.StatesCreated(create, {T0: "NODEEXISTS"})
    write = e.WritePartitionStates(states=((T0, STATE), (T1, STATE)), controller_epoch_version=0)
    assert effects.perform(write) == answers.StatesWritten(write, {T0: 1}, {T1: "NONODE"})
    effects.kafka.create_recursive("/brokers/topics/t/partitions/1/state", b"{}")
    effects.kafka.create_recursive("/brokers/topics/t/partitions/2/state", b"{")
    read = e.ReadPartitionStates(partitions=(T0, T1, TopicPartition("t", 2), TopicPartition("t", 3)))
    answer = effects.perform(read)
    assert answer.found == {T0: STATE._replace(partition_epoch=1)}
    assert {p: (problem.code, problem.ends_kafkas_call) for p, problem in answer.problems.items()} == {
        T1: ("MALFORMED", True),
        TopicPartition("t", 2): ("MALFORMED", False),
    }
    moved = e.WritePartitionStates(states=((T0, STATE),), controller_epoch_version=5)
    assert effects.perform(moved) == answers.Failed(moved, answers.CONTROLLER_MOVED)


def test_topics_through_effects(effects):
    read = e.ReadTopicAssignments(topics=("t", "u", "bad"))
    effects.kafka.create_recursive("/brokers/topics/bad", b"[]")
    answer = effects.perform(read)
    assert answer.topics == {"t": answers.TopicContent({0: ReplicaAssignment((1, 2))})}
    assert list(answer.problems) == ["bad"]
    write = e.WriteTopicAssignment(
        topic="t", topic_id=None, assignments=((0, ReplicaAssignment((2,))),), extra=(), controller_epoch_version=0
    )
    assert effects.perform(write) == answers.Done(write)
    gone = e.WriteTopicAssignment(topic="u", topic_id=None, assignments=(), extra=(), controller_epoch_version=0)
    assert effects.perform(gone) == answers.Failed(gone, "NONODE")
    listed = e.ReadTopics()
    assert effects.perform(listed) == answers.TopicsRead(listed, ("bad", "t"))
    for action in (
        e.DeleteTopicNode(topic="t", controller_epoch_version=0),
        e.DeleteTopicConfig(topic="t", controller_epoch_version=0),
        e.DeleteTopicDeletions(topics=("t",), controller_epoch_version=0),
    ):
        assert effects.perform(action) == answers.Done(action)
    configs = e.ReadTopicConfigs(topics=("t",))
    assert effects.perform(configs) == answers.TopicConfigsRead(configs, {"t": {}})


def test_partitions_are_listed_through_effects(effects):
    listed = e.ListPartitions(topic="t")
    assert effects.perform(listed) == answers.PartitionsListed(listed, ())
    effects.perform(e.CreatePartitionStates(states=((T1, STATE),), controller_epoch_version=0))
    effects.kafka.create_recursive("/brokers/topics/t/partitions/0")  # a creation that was cut off: no `state` below
    assert effects.perform(listed) == answers.PartitionsListed(listed, ("0", "1"))


def test_topics_get_ids_through_effects(effects):
    effects.kafka.create_topic("named", {}, "3tRvjlrmRXmsYOMp9Fg0AA")
    assign = e.AssignTopicIds(topics=("t", "named", "gone"), controller_epoch_version=0)
    ids = effects.perform(assign).topic_ids
    assert ids.keys() == {"t", "named"}
    assert ids["named"] == "3tRvjlrmRXmsYOMp9Fg0AA"
    znode = effects.kafka.get_topics(["t"])[0]["t"]
    assert (znode.topic_id, znode.assignments) == (ids["t"], {0: ReplicaAssignment((1, 2))})


def test_requests_through_effects(effects, told):
    read = e.ReadReassignmentRequests()
    assert effects.perform(read) == answers.ReassignmentRequestsRead(read, None)
    effects.kafka.create_reassignment({T0: (1,)})
    assert told.next() == events.ReassignmentRequested()
    write = e.WriteReassignmentRequests(targets=((T1, (3,)),), controller_epoch_version=0)
    assert effects.perform(write) == answers.Done(write)
    assert effects.perform(read).targets == {T1: (3,)}
    delete = e.DeleteReassignmentRequests(controller_epoch_version=0)
    assert effects.perform(delete) == answers.Done(delete)
    effects.kafka.create_recursive("/admin/reassign_partitions", b"{}")
    assert told.next() == events.ReassignmentRequested()
    assert "'partitions'" in effects.perform(read).problem
    election = e.ReadPreferredElectionRequest()
    assert effects.perform(election) == answers.PreferredElectionRequestRead(election, None)
    effects.kafka.create_preferred_election([T0])
    assert told.next() == events.PreferredElectionRequested()
    assert effects.perform(election).partitions == (T0,)
    done = e.DeletePreferredElectionRequest(controller_epoch_version=0)
    assert effects.perform(done) == answers.Done(done)
    deletions = e.ReadDeletionRequests()
    assert effects.perform(deletions).topics == ()
    effects.kafka.create_delete_topic("t")
    assert told.next() == events.DeletionsChanged()


def test_notifications_through_effects(effects, told):
    listing = e.ListIsrNotifications()
    assert effects.perform(listing) == answers.NotificationsListed(listing, ())
    effects.kafka.propagate_isr_changes([T0])
    assert told.next() == events.IsrNotificationsChanged()
    effects.kafka.create_recursive("/isr_change_notification/isr_change_0000000009", b"{}")
    names = effects.perform(listing).names
    assert names == ("isr_change_0000000000", "isr_change_0000000009")
    assert effects.perform(e.ReadIsrNotifications(names=names)).partitions == (T0,)
    delete = e.DeleteIsrNotifications(names=names, controller_epoch_version=0)
    assert effects.perform(delete) == answers.Done(delete)
    listed = e.ListLogDirEvents()
    assert effects.perform(listed).names == ()
    effects.kafka.propagate_log_dir_event(4)
    told.until(events.LogDirEventsChanged())  # the deletion of the notifications may be heard of first
    (name,) = effects.perform(listed).names
    assert effects.perform(e.ReadLogDirEvents(names=(name,))).brokers == (4,)
    drop = e.DeleteLogDirEvents(names=(name,), controller_epoch_version=0)
    assert effects.perform(drop) == answers.Done(drop)


def test_brokers_and_active_controller_through_effects(world, effects, told):
    read = e.ReadBrokers()
    assert effects.perform(read) == answers.BrokersRead(read, ())
    epoch = effects.kafka.register_broker(broker(1))
    assert told.next() == events.BrokersChanged()
    assert [each.epoch for each in effects.perform(read).brokers] == [epoch]
    assert effects.perform(e.Watch(kind=e.WatchKind.BROKER, names=("1",))) is None
    effects.kafka.update_broker(broker(1, "elsewhere"))
    assert told.next() == events.BrokerDataChanged(1)
    look = e.ReadController()
    assert effects.perform(look) == answers.ControllerRead(look, None)
    register = e.RegisterController(controller_id=1, json_version=2, atomically=True)
    assert effects.perform(register) == answers.ControllerRegistered(register, 2, 1)
    assert told.next() == events.ControllerChanged()
    assert (
        effects.perform(register) == answers.Failed(register, "NODEEXISTS")
        or effects.kafka.get_controller().broker_id == 1
    )
    assert effects.perform(look).controller_id == 1
    resign = e.DeleteControllerNode(controller_epoch_version=1)
    assert effects.perform(resign) == answers.Done(resign)
    assert told.next() == events.ControllerVanished()
    world.expire(world.zookeeper)
    assert effects.perform(look) == answers.Failed(look, answers.SESSION_EXPIRED)


def test_a_malformed_broker_fails_the_whole_reading(effects):
    effects.kafka.create_recursive("/brokers/ids/3", b"{}")
    answer = effects.perform(e.ReadBrokers())
    assert isinstance(answer, answers.Failed)
    assert "/brokers/ids/3" in answer.error


def test_data_watches_tell_of_changes_and_can_be_ended(effects, told):
    effects.kafka.create_states({T0: STATE}, 0)
    effects.perform(e.Watch(kind=e.WatchKind.PARTITION_STATE, names=("t-0",)))
    effects.kafka.set_states({T0: STATE}, 0)
    assert told.next() == events.PartitionStateChanged(T0)
    effects.kafka.set_states({T0: STATE._replace(partition_epoch=1)}, 0)  # the watch fired, nobody set it again
    effects.perform(e.ReadPartitionStates(partitions=(T0,)))
    effects.kafka.set_states({T0: STATE._replace(partition_epoch=2)}, 0)
    told.next()
    assert told.events == [events.PartitionStateChanged(T0)] * 2
    effects.perform(e.Watch(kind=e.WatchKind.TOPIC, names=("t",)))
    effects.perform(e.ReadPartitionStates(partitions=(T0,)))
    effects.perform(e.Unwatch(kind=e.WatchKind.PARTITION_STATE))
    effects.kafka.set_states({T0: STATE._replace(partition_epoch=3)}, 0)
    effects.kafka.set_topic("t", {}, None, 0)
    assert told.next() == events.TopicDataChanged("t")
    assert len(told.events) == 3


def test_an_outsider_who_removes_a_request_disarms_the_watch(effects, told):
    effects.perform(e.ReadReassignmentRequests())
    effects.kafka.create_reassignment({T0: (1,)})
    told.next()
    effects.perform(e.ReadReassignmentRequests())
    effects.kafka.zookeeper.delete("/admin/reassign_partitions", ANY_VERSION)
    effects.kafka.create_reassignment({T0: (1,)})
    effects.perform(e.Watch(kind=e.WatchKind.TOPIC, names=("t",)))
    effects.kafka.set_topic("t", {}, None, 0)
    assert told.next() == events.TopicDataChanged("t")
    assert told.events == [events.ReassignmentRequested(), events.TopicDataChanged("t")]


@pytest.mark.parametrize(
    ("delete", "ask", "heard"),
    [
        pytest.param(
            e.DeleteReassignmentRequests(controller_epoch_version=0),
            lambda kafka: kafka.create_reassignment({T0: (1,)}),
            events.ReassignmentRequested(),
            id="reassignment",
        ),
        pytest.param(
            e.DeletePreferredElectionRequest(controller_epoch_version=0),
            lambda kafka: kafka.create_preferred_election([T0]),
            events.PreferredElectionRequested(),
            id="preferred election",
        ),
    ],
)
def test_a_request_that_comes_as_soon_as_the_last_is_deleted_is_heard_of(
    effects, told, monkeypatch, delete, ask, heard
):
    ask(effects.kafka)
    exists = effects.kafka.zookeeper.exists

    def ask_first(path, *, watch=None):
        monkeypatch.undo()
        ask(effects.kafka)
        return exists(path, watch=watch)

    monkeypatch.setattr(effects.kafka.zookeeper, "exists", ask_first)
    assert effects.perform(delete) == answers.Done(delete)
    assert told.next() == heard


def test_clients_up_to_1_0_subscribe_again_by_themselves(kafka, told):
    kafka.create_recursive("/isr_change_notification")
    watches = ControllerWatches(kafka.zookeeper, told, subscribes_again=True)
    watches.before_listing(e.WatchKind.REASSIGNMENT)
    watches.before_listing(e.WatchKind.ISR_NOTIFICATIONS)
    kafka.create_reassignment({T0: (1,)})
    assert told.next() == events.ReassignmentRequested()
    kafka.set_or_create_reassignment({T1: (1,)}, 0)
    assert told.next() == events.ReassignmentRequested()
    kafka.propagate_isr_changes([T0])
    assert told.next() == events.IsrNotificationsChanged(("isr_change_0000000000",))


def test_a_directory_that_does_not_exist_yet_is_heard_of(kafka, told):
    watches = ControllerWatches(kafka.zookeeper, told)
    watches.before_listing(e.WatchKind.DELETIONS)
    kafka.create_recursive("/admin/delete_topics")
    assert told.next() == events.DeletionsChanged()
    kafka.create_delete_topic("t")
    assert told.next() == events.DeletionsChanged()


def test_a_controller_that_goes_before_its_coming_is_heard_of_is_heard_to_be_gone(kafka, told):
    heard = []
    zookeeper = SimpleNamespace(exists=lambda path, watch: heard.append(watch) or kafka.zookeeper.exists(path))
    watches = ControllerWatches(zookeeper, told)
    watches.before_controller()
    kafka.zookeeper.create("/controller", b"{}", ephemeral=True)
    heard[0](WatchEvent(WatchEventKind.CREATED, "/controller"))
    kafka.zookeeper.delete("/controller", ANY_VERSION)
    heard[0](WatchEvent(WatchEventKind.CREATED, "/controller"))
    assert told.events == [events.ControllerChanged(), events.ControllerVanished()]
