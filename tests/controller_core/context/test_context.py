"""The context: every index and both counters equal a recount, whatever happens; contradictions are named."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from controller_core.context.builder import BadRow, build_context, build_leniently
from controller_core.context.partition_entries import PartitionEntry
from controller_core.controller.partition_state_machine import TriggerOnlinePartitionStateChange
from controller_core.model.dialect import dialect_for
from controller_core.model.errors import InvalidMetadataError
from controller_core.model.partitions import Broker, BrokerId, PartitionAndReplica, ReplicaAssignment, TopicPartition
from controller_core.model.states import PartitionState, ReplicaState
from tests.controller_core.clusters import broker, cluster, led, partition, perform

ids = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True).map(tuple)
names = st.sampled_from(["a-0", "a-1", "b-0", "c-0"])
topics = st.sampled_from(["a", "b", "c"])
changes = st.one_of(
    st.tuples(st.just("assign"), names, ids, st.booleans()),
    st.tuples(st.just("lead"), names, st.integers(-1, 4), ids),
    st.tuples(st.just("state"), names, st.sampled_from(list(PartitionState))),
    st.tuples(st.just("queue"), topics),
    st.tuples(st.just("begin"), topics),
    st.tuples(st.just("remove"), topics),
)


def changed(context, change):
    match change:
        case ("assign", name, replicas, moves):
            after = ReplicaAssignment(replicas)
            return context.with_entry(partition(name), assignment=after.reassign_to(replicas[::-1]) if moves else after)
        case ("lead", name, leader, isr):
            if context.entry(partition(name)).assignment is None:
                return context
            return context.with_entry(partition(name), leadership=led(leader, isr))
        case ("state", name, state):
            return context.with_entry(partition(name), state=state)
        case ("queue", topic):
            return context.queue_topic_deletion([topic])
        case ("begin", topic):
            return context.begin_topic_deletion([topic])
        case _:
            return context.remove_topic(change[1])


@given(st.lists(changes, max_size=25))
def test_indexes_equal_a_recount(history):
    context = cluster({"a-0": (1, 2), "b-0": (2, 3)})
    for change in history:
        context = changed(context, change)
    on_broker, led_by, waiting = {}, {}, {}
    for p, entry in context.partitions.items():
        for b in set(entry.assignment.replicas if entry.assignment else ()):
            on_broker.setdefault(b, set()).add(p)
        if entry.leadership is not None:
            led_by.setdefault(entry.leadership.leader, set()).add(p)
        if entry.state in {PartitionState.NEW, PartitionState.OFFLINE}:
            waiting.setdefault(entry.state, set()).add(p)
    assert {b: set(found) for b, found in context.on_broker.items()} == on_broker
    assert {b: set(found) for b, found in context.led_by.items()} == led_by
    assert {s: set(found) for s, found in context.in_state.items()} == waiting
    numbers = {}
    for p, entry in context.partitions.items():
        if entry.assignment is not None:
            numbers.setdefault(p.topic, []).append(p.partition)
    assert {n: list(t.partitions) for n, t in context.topics.items() if t.partitions} == {
        n: sorted(found) for n, found in numbers.items()
    }


@given(st.lists(changes, max_size=25))
def test_counters_equal_a_recount_where_no_deletion_froze_them(history):
    context = cluster({"a-0": (1, 2), "b-0": (2, 3)})
    for change in history:
        if change[0] not in {"begin", "remove"}:
            context = changed(context, change)
    to_be_deleted = context.topics_to_be_deleted
    entries = context.partitions.items()
    assert context.offline_partition_count == sum(x.state is PartitionState.OFFLINE for _, x in entries)
    assert context.preferred_replica_imbalance_count == sum(
        not x.has_preferred_leader(waits_for_adding=True) for p, x in entries if p.topic not in to_be_deleted
    )


@pytest.mark.parametrize(
    ("marked", "offline"),
    [
        pytest.param(lambda context: context, 1, id="a topic that stays"),
        pytest.param(lambda context: context.queue_topic_deletion(["t"]), 1, id="a deletion that waits"),
        pytest.param(lambda context: context.begin_topic_deletion(["t"]), 0, id="a deletion that has started"),
    ],
)
def test_the_offline_count_is_frozen_once_a_deletion_has_started(marked, offline):
    context = marked(cluster({"t-0": (1, 2), "u-0": (2, 1)}))
    for name in ("t-0", "u-0"):
        context = context.with_entry(partition(name), state=PartitionState.OFFLINE)
    assert context.offline_partition_count == offline + 1


@pytest.mark.parametrize(
    ("assignment", "leader", "isr", "waits", "balanced"),
    [
        pytest.param(ReplicaAssignment((1, 2)), 1, (1, 2), True, True, id="the preferred replica leads"),
        pytest.param(ReplicaAssignment((1, 2)), 2, (1, 2), True, False, id="another leads"),
        pytest.param(ReplicaAssignment((3, 1), (3,), ()), 1, (1,), True, True, id="an adding replica that lags may"),
        pytest.param(ReplicaAssignment((3, 1), (3,), ()), 1, (1, 3), True, False, id="once in sync it should lead"),
        pytest.param(ReplicaAssignment((3, 1), (3,), ()), 1, (1,), False, False, id="before 2.7 nobody waits for it"),
        pytest.param(ReplicaAssignment(()), 1, (1,), True, True, id="nobody is preferred where nobody is assigned"),
    ],
)
def test_has_preferred_leader(assignment, leader, isr, waits, balanced):
    entry = PartitionEntry(assignment, led(leader, isr))
    assert entry.has_preferred_leader(waits_for_adding=waits) is balanced


def test_unknown_things_have_empty_answers():
    context = cluster({"t-0": (1, 2)})
    ghost = partition("ghost-7")
    assert context.assignment(ghost) == ()
    assert context.full_assignment(ghost) == ReplicaAssignment(())
    assert context.leadership(ghost) is None
    assert context.partition_state(ghost) is PartitionState.NON_EXISTENT
    assert context.replica_state(PartitionAndReplica(ghost, BrokerId(1))) is ReplicaState.NON_EXISTENT
    assert context.partitions_for_topic("ghost") == ()
    assert context.are_all_replicas_in_state("ghost", ReplicaState.DELETION_SUCCESSFUL)
    assert context.leader_epoch(ghost) == -1


def test_the_edges_of_what_is_asked_about_leaders():
    context = cluster(
        {"t-0": (1, 2), "t-1": (1,), "u-0": (1, 2)},
        states={"t-0": led(1, (1, 2)), "t-1": led(-1, (1,)), "u-0": led(1, (1, 2))},
    )
    assert context.partitions_with_offline_leader() == [partition("t-1")]
    assert context.with_entry(partition("t-1"), leadership=led(1, (1,))).partition_leaders_on_broker(1) == [
        partition("t-0"),
        partition("u-0"),
    ]
    assert context.leader_epoch(partition("t-0")) == 5
    queued = context.queue_topic_deletion(["t"])
    assert queued.leader_epoch(partition("t-0")) == -2
    assert queued.partitions_with_offline_leader() == []
    assert queued.partition_leaders_on_broker(1) == [partition("u-0")]


def test_a_context_travels_to_an_executor():
    context = cluster({"t-0": (1, 2)})
    assert pickle.loads(pickle.dumps(context)) == context


def test_states_that_a_starting_controller_finds():
    context = cluster(
        {"t-0": (1, 2), "t-1": (2, 1), "t-2": (3, 1)}, live=(1, 2), states={"t-0": led(1, (1,)), "t-2": led(3, (3, 1))}
    )
    states = [context.partition_state(partition(f"t-{n}")) for n in range(3)]
    assert states == [PartitionState.ONLINE, PartitionState.NEW, PartitionState.OFFLINE]
    assert context.replica_state(PartitionAndReplica(partition("t-2"), BrokerId(3))) is ReplicaState.OFFLINE
    old = cluster({"t-2": (3, 1)}, live=(1, 2), version="2.2")
    assert old.replica_state(PartitionAndReplica(partition("t-2"), BrokerId(3))) is ReplicaState.DELETION_INELIGIBLE


def test_failed_log_directories_count_when_a_context_is_built():
    p = TopicPartition("t", 0)
    context = build_context(
        dialect=dialect_for("3.9"), brokers=[broker(1), broker(2)], assignments={p: ReplicaAssignment((1, 2))},
        states={p: led(1, (1, 2))}, offline_dirs={BrokerId(1): [p]}, reassignment_targets={p: (2, 1)},
    )  # fmt: skip
    assert context.partition_state(p) is PartitionState.OFFLINE
    assert context.partitions_with_offline_leader() == [p]
    assert context.replica_state(PartitionAndReplica(p, BrokerId(1))) is ReplicaState.OFFLINE
    assert context.partitions_under_reassignment() == [p]


BAD = [
    pytest.param({"brokers": [broker(1), broker(1)]}, "listed twice", id="a broker twice"),
    pytest.param({"brokers": [Broker(BrokerId(-2))]}, "negative id", id="a negative broker"),
    pytest.param({"assignments": [("t-0", ())]}, "empty replica list", id="no replicas"),
    pytest.param({"assignments": [("t-0", (1, -1))]}, "negative broker id", id="a negative replica"),
    pytest.param({"assignments": [("t-0", (1, 1))]}, "names a broker twice", id="a replica twice"),
    pytest.param({"assignments": [("t-0", (1,)), ("t-0", (2,))]}, "assigned twice", id="a partition twice"),
    pytest.param({"assignments": [("-0", (1,))]}, "no partition", id="no topic name"),
    pytest.param({"assignments": [("t-0", (1,), (2,))]}, "not among its replicas", id="adding a stranger"),
    pytest.param({"states": [("t-0", led(1, (1, 1)))]}, "twice in its ISR", id="an ISR member twice"),
    pytest.param({"states": [("t-0", led(1, (1, -9)))]}, "negative broker id in its ISR", id="a negative ISR member"),
    pytest.param({"states": [("x-0", led(1, (1,)))]}, "no assignment", id="a state without a topic"),
    pytest.param({"states": [("t-0", led(1, (1,))), ("t-0", led(1, (1,)))]}, "given twice", id="a state twice"),
    pytest.param({"states": [("t-0", led(1, (1,), epoch=-1))]}, "negative leader epoch", id="a negative epoch"),
    pytest.param({"states": [("t-0", led(-2, (1,)))]}, "expected a broker id", id="leader -2"),
    pytest.param({"topics_to_be_deleted": ["ghost"]}, "does not exist", id="deletion of nothing"),
]


@pytest.mark.parametrize(("rows", "reason"), BAD)
def test_a_contradiction_is_named_and_left_out(rows, reason):
    told = {"brokers": [broker(1)], "assignments": [("t-0", (1,))]} | rows
    told["assignments"] = [
        (TopicPartition(name.rpartition("-")[0], 0), ReplicaAssignment(*lists)) for name, *lists in told["assignments"]
    ]
    told["states"] = [(partition(name), state) for name, state in told.get("states", [])]
    built = build_leniently(dialect=dialect_for("3.9"), **told)
    assert [type(row) for row in built.bad_rows] == [BadRow]
    assert reason in built.bad_rows[0].reason
    with pytest.raises(InvalidMetadataError, match="no context built"):
        build_context(dialect=dialect_for("3.9"), **told)


@given(
    st.lists(st.tuples(names, st.lists(st.integers(-1, 4), max_size=3).map(tuple)), max_size=4),
    st.lists(st.tuples(names, st.integers(-3, 5), st.lists(st.integers(-1, 5), max_size=3).map(tuple)), max_size=4),
)
def test_whatever_is_given_a_context_comes_out(assignments, states):
    built = build_leniently(
        dialect=dialect_for("3.9"),
        brokers=[broker(1), broker(2)],
        assignments=[(partition(name), ReplicaAssignment(replicas)) for name, replicas in assignments],
        states=[(partition(name), led(leader, isr)) for name, leader, isr in states],
    )
    for p, entry in built.context.partitions.items():
        assert entry.assignment.replicas, p
        assert entry.leadership is None or len(set(entry.leadership.isr)) == len(entry.leadership.isr), p


def test_a_broker_that_is_no_replica_may_be_in_the_isr():
    context = cluster({"t-0": (1, 2, 3)}, states={"t-0": led(1, (1, 9))})  # through Kafka 2.3 moves leave such an ISR
    assert context.partition_state(partition("t-0")) is PartitionState.ONLINE
    assert context.leadership(partition("t-0")).isr == (1, 9)


def test_a_leader_that_does_not_exist_is_a_dead_one():
    context = cluster({"t-0": (1, 2)}, states={"t-0": led(9, (2,))})
    assert context.partition_state(partition("t-0")) is PartitionState.OFFLINE
    found = perform(context, TriggerOnlinePartitionStateChange())
    assert found.leadership("t-0").leader == 2


def test_what_was_asked_for_is_known():
    context = build_context(
        dialect=dialect_for("2.3"),
        brokers=[broker(1), broker(2)],
        assignments={partition("t-0"): ReplicaAssignment((BrokerId(1),))},
        topics=["empty"],
        topics_to_be_deleted=["t", "empty"],
        shutting_down=[BrokerId(2), BrokerId(9)],
        reassignment_targets={partition("t-0"): (BrokerId(2),)},
    )
    assert context.topics_to_be_deleted == {"t", "empty"}
    assert context.shutting_down == {2}
    assert context.partitions_under_reassignment() == [partition("t-0")]
    assert context.config.controller_id == 1


def test_partitions_in_states_of_any_kind():
    context = cluster({"t-0": (1, 2), "u-0": (1,)})
    everything = context.partitions_in_states(list(PartitionState))
    assert everything == [partition("t-0"), partition("u-0")]
    assert context.partitions_in_states([PartitionState.ONLINE], "t") == [partition("t-0")]


def test_a_removed_topic_is_forgotten_but_for_its_states():
    assert cluster({"t-0": (1, 2)}).queue_topic_deletion(["t"]).is_topic_queued_for_deletion("t")
    assert not cluster({"t-0": (1, 2)}).begin_topic_deletion(["t"]).is_topic_deletion_started("u")
    context = replace(cluster({"t-0": (1, 2)}), topics_ineligible_for_deletion=frozenset({"t"})).remove_topic("t")
    assert (context.topics, context.topic_names, context.led_by, context.on_broker) == (Map(), Map(), Map(), Map())
    assert context.partition_state(partition("t-0")) is PartitionState.ONLINE
    assert context.topics_ineligible_for_deletion == {"t"}
