"""Conditions hold, or say what is wrong."""

import json
from dataclasses import replace

import pytest

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.checks import check
from controller_core.plans.conditions import (
    AssignedTo,
    BrokerInRack,
    BrokersRegistered,
    CaughtUp,
    Condition,
    ControllerIs,
    ElectedAfter,
    HasLiveLeader,
    InSync,
    KafkaClusterIs,
    LedBy,
    NotificationsGone,
    NotificationsLinger,
    RequestAbandoned,
    RequestAbsent,
    RequestIdle,
    StateReadable,
    TopicCreatedAt,
    TopicGone,
    TopicIs,
    TopicNotInElection,
    TopicNotQueued,
    TopicNotReassigned,
    ZooKeeperControllerRules,
    subject,
)
from controller_core.plans.document import decoded, encoded
from controller_core.plans.observation import ActiveController, Observation
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, A1, Q0
from tests.controller_core.plans.quiet import SEEN

NAMES = tuple(f"isr_change_{n:010d}" for n in range(12))
CONDITIONS = [
    (KafkaClusterIs(cluster_id="one"), None),
    (KafkaClusterIs(cluster_id="two"), "/cluster/id: expected 'two', found 'one'; this is another cluster"),
    (ZooKeeperControllerRules(), None),
    (ControllerIs(controller_id=BrokerId(1), czxid=5, epoch=3, epoch_version=3), None),
    (ControllerIs(controller_id=BrokerId(1), czxid=6, epoch=3, epoch_version=3), "broker 1 since zxid 0x5, epoch 3"),
    (ControllerIs(controller_id=BrokerId(1), czxid=5, epoch=2, epoch_version=3), "another controller was elected"),
    (ControllerIs(controller_id=BrokerId(1), czxid=5, epoch=3, epoch_version=2), "another controller was elected"),
    (ElectedAfter(epoch=2), None),
    (ElectedAfter(epoch=3), "/controller_epoch: expected more than 3, found 3"),
    (BrokersRegistered(brokers=ids(3, 1)), None),
    (BrokersRegistered(brokers=ids(1, 4)), "/brokers/ids: expected brokers [1, 4], found no broker [4]"),
    (BrokerInRack(broker=BrokerId(3), rack="east"), None),
    (BrokerInRack(broker=BrokerId(4), rack="east"), None),
    (BrokerInRack(broker=BrokerId(3), rack="west"), "/brokers/ids/3: expected rack 'west', by which the plan places replicas, found rack 'east'"),
    (BrokerInRack(broker=BrokerId(1), rack="west"), "found no rack; set broker.rack back and restart it, or plan again"),
    (RequestAbsent(path="/admin/preferred_replica_election"), None),
    (RequestAbsent(path="/admin/reassign_partitions"), "/admin/reassign_partitions: expected no znode, found other"),
    (RequestAbandoned(path="/admin/reassign_partitions"), "a request that names only partitions that are gone, found other"),
    (RequestAbandoned(path="/admin/preferred_replica_election"), None),
    (RequestIdle(path="/admin/preferred_replica_election", czxid=6), "expected the request created at zxid 0x6, not begun, found no znode"),
    (RequestIdle(path="/admin/reassign_partitions", czxid=8), None),
    (TopicIs(topic="a", czxid=9, partition_count=2), None),
    (TopicIs(topic="a", czxid=8, partition_count=2), "found one created at zxid 0x9 with 2 partitions"),
    (TopicIs(topic="a", czxid=9, partition_count=1), "found one created at zxid 0x9 with 2 partitions"),
    (TopicIs(topic="b", czxid=9, partition_count=1), "found no such topic"),
    (TopicGone(topic="b", czxid=9), None),
    (TopicGone(topic="a", czxid=8), None),
    (TopicGone(topic="a", czxid=9), "topic a: expected no such topic, found the topic, not queued for deletion; nobody asked"),
    (TopicGone(topic="q", czxid=10), "found the topic, queued for deletion"),
    (TopicNotQueued(topic="a"), None),
    (TopicNotQueued(topic="q"), "topic q: expected no request to delete it"),
    (TopicCreatedAt(topic="a", czxid=9), None),
    (TopicCreatedAt(topic="a", czxid=8), "topic a: expected the topic created at zxid 0x8, found one created at zxid 0x9"),
    (TopicCreatedAt(topic="b", czxid=9), "found no such topic"),
    (TopicNotReassigned(topic="q"), None),
    (TopicNotReassigned(topic="b"), "topic b: expected a topic that can be read, found none"),
    (
        TopicNotReassigned(topic="a"),
        "no reassignment of it, found [a-1, which adds or removes replicas, a-0 in /admin/reassign_partitions]; wait until",
    ),
    (TopicNotInElection(topic="a"), None),
    (TopicNotInElection(topic="q"), "found [q-0 in /admin/preferred_replica_election]; wait until it is done"),
    (HasLiveLeader(*A0), None),
    (HasLiveLeader(*A1), "a-1: expected a leader and an ISR, found no state"),
    (HasLiveLeader(*Q0), "q-0: expected a leader that is registered, found leader 4, ISR [4, 1]; bring a broker"),
    (AssignedTo(*A0, replicas=ids(1, 2)), None),
    (AssignedTo(*A0, replicas=ids(2, 1)), "a-0: expected replicas [2, 1], not being reassigned, found replicas [1, 2]"),
    (AssignedTo(*A1, replicas=ids(3, 2, 1)), "found a reassignment: adding [3], removing [1]"),
    (AssignedTo(*A1, replicas=ids(3, 2, 1), adding=ids(3), removing=ids(1)), None),
    (
        AssignedTo(*A0, replicas=ids(1, 2), adding=ids(2)),
        "a-0: expected replicas [1, 2], a reassignment: adding [2], removing [], found replicas [1, 2]",
    ),
    (AssignedTo(*TopicPartition("b", 0), replicas=ids(1)), "found no such partition"),
    (InSync(*A0, leader=BrokerId(2), isr=ids(1, 2)), None),
    (InSync(*A0, leader=BrokerId(1), isr=ids(1, 2)), "a-0: expected leader 1, ISR [1, 2], found leader 2"),
    (InSync(*A0, leader=BrokerId(2), isr=ids(2)), "found leader 2, ISR [2, 1]"),
    (InSync(*A1, leader=BrokerId(2), isr=ids(2)), "found no state"),
    (CaughtUp(*A0, replicas=ids(1)), None),
    (CaughtUp(*A0, replicas=ids(1, 3)), "a-0: expected [1, 3] in the ISR, found ISR [2, 1]"),
    (LedBy(*A0, leader=BrokerId(2)), None),
    (LedBy(*A0, leader=BrokerId(1)), "a-0: expected leader 1, found leader 2"),
    (StateReadable(*A0), None),
    (StateReadable(*TopicPartition("gone", 0)), None),
    (StateReadable(*A1), "a-1: expected a readable state, found none"),
    (NotificationsLinger(names=NAMES), None),
    (NotificationsLinger(names=("isr_change_0000000009",)), "found none; the controller has drained them"),
    (NotificationsGone(names=("isr_change_0000000009",)), None),
    (NotificationsGone(names=NAMES), "found [isr_change_0000000001]"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "wrong"), CONDITIONS)
def test_a_condition_holds_or_says_what_is_wrong(condition: Condition, wrong: str | None):
    found = check(condition, SEEN)
    if wrong is None:
        assert found is None
    else:
        assert wrong in str(found)
        assert found is not None
        assert found.subject.startswith(subject(condition))


@pytest.mark.parametrize("condition", [row[0] for row in CONDITIONS])
def test_a_condition_survives_json(condition: Condition):
    document = json.loads(encoded(condition))
    assert document["condition"] == type(condition).__name__
    assert decoded(json.dumps(document).encode(), Condition, "condition") == condition


@pytest.mark.parametrize(
    ("active_controller", "migration", "wrong"),
    [
        pytest.param(None, None, "found no znode", id="nobody"),
        pytest.param(ActiveController(BrokerId(9), 5, 0), None, "id 9, which is not registered", id="a ghost"),
        pytest.param(ActiveController(BrokerId(1), 5, 0, kraft_epoch=0), None, "kraftControllerEpoch 0", id="KRaft"),
        pytest.param(ActiveController(BrokerId(1), 5, 0, is_ephemeral=False), None, "not ephemeral", id="claimed"),
        pytest.param(ActiveController(BrokerId(1), 5, 0), "{}", "/migration exists", id="a prepared migration"),
    ],
)
@pytest.mark.parametrize("condition", [ZooKeeperControllerRules(), ElectedAfter(epoch=0)])
def test_without_a_zookeeper_controller_nothing_may_be_asked(condition, active_controller, migration, wrong):
    seen = Observation(
        active_controller=active_controller, migration=migration, brokers=SEEN.brokers, controller_epoch=3
    )
    assert wrong in str(check(condition, seen))


@pytest.mark.parametrize("condition", [TopicNotReassigned(topic="q"), TopicNotInElection(topic="a")])
def test_a_request_that_cannot_be_read_may_name_any_topic(condition):
    requests = ("/admin/reassign_partitions", "/admin/preferred_replica_election")
    seen = replace(SEEN, unreadable=dict.fromkeys(requests, "no JSON"))
    assert "which cannot be read (no JSON); nobody knows which topics it names" in str(check(condition, seen))


def test_a_request_that_names_only_what_is_gone_is_told_from_one_that_is_pending():
    path = "/admin/reassign_partitions"
    gone = replace(SEEN, reassign_requests={TopicPartition("gone", 0): ids(1)}, election_requests=frozenset())
    assert gone.abandoned_requests == {path: (TopicPartition("gone", 0),)}
    assert check(RequestAbandoned(path=path), gone) is None
    assert "clear it by a forced re-election (plan drain)" in str(check(RequestAbsent(path=path), gone))
    election = RequestAbandoned(path="/admin/preferred_replica_election")
    assert "found no znode; nothing to do any more" in str(check(election, gone))
    both = replace(gone, reassign_requests={**gone.reassign_requests, A0: ids(1)})
    assert both.abandoned_requests == {}
    assert "let the controller finish it" in str(check(RequestAbsent(path=path), both))


@pytest.mark.parametrize(("json_version", "told"), [(1, False), (2, True)])
def test_a_request_of_which_nothing_is_begun_is_told_where_the_topics_show_it(json_version, told):
    path = "/admin/reassign_partitions"
    idle = replace(SEEN, reassign_requests={A0: ids(1)}, topic_json_versions=frozenset({json_version}))
    assert ("only the next controller takes it up (plan drain)" in str(check(RequestAbsent(path=path), idle))) is told


def test_a_request_is_idle_as_long_as_it_is_the_same_and_nothing_of_it_is_begun():
    path = "/admin/reassign_partitions"
    assert check(RequestIdle(path=path, czxid=8), SEEN) is None
    assert check(RequestIdle(path=path, czxid=9), SEEN) is not None
    begun = replace(SEEN, reassign_requests={A0: ids(3), A1: ids(3, 2)})
    assert "the controller has taken it up" in str(check(RequestIdle(path=path, czxid=8), begun))


def test_no_active_controller_is_another_controller():
    condition = ControllerIs(controller_id=BrokerId(1), czxid=5, epoch=3, epoch_version=3)
    assert "found no znode" in str(check(condition, Observation()))


def test_long_lists_are_cut_and_counted():
    condition = NotificationsLinger(names=NAMES)
    assert "isr_change_0000000009, … 12 in all]" in str(check(condition, Observation()))
