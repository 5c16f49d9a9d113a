"""What the core's state machines say would happen."""

import json

import pytest
from pyspark.testing import assertSchemaEqual

from controller_core.context.builder import build_context
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from spark_jobs import schemas
from spark_jobs.on_core import bridge, drill
from spark_jobs.on_core.deletion_steps import predict
from spark_jobs.transforms import facts
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import World, frames, rows_of


def context_of(partitions, live, moving=(), version="3.9", queued=()):
    names = [TopicPartition(topic, number) for topic, number, *_ in partitions]
    return build_context(
        dialect=dialect_for(version),
        brokers=[Broker(BrokerId(broker), epoch=broker) for broker in live],
        assignments=[(name, ReplicaAssignment(row[2])) for name, row in zip(names, partitions, strict=True)],
        states=[
            (name, LeaderAndIsr(row[3], 1, row[4], controller_epoch=1))
            for name, row in zip(names, partitions, strict=True)
            if row[3] is not None
        ],
        reassignment_targets=dict.fromkeys(moving, (1,)),
        topics_to_be_deleted=queued,
        epoch=2,
    )


CLUSTER = (
    ("a", 0, (1, 2, 3), 1, (1, 2, 3)),
    ("a", 1, (1, 3), 1, (1,)),
    ("b", 0, (2, 3), 2, (2, 3)),
    ("c", 0, (1, 2), 1, (1, 2)),
)


@pytest.mark.parametrize(
    ("failed", "unclean", "offline", "below", "uncleanly", "gained"),
    [
        pytest.param((1,), {}, 1, 1, 0, {2: 2}, id="the only member of an ISR is gone"),
        pytest.param((1,), {"a": "true"}, 0, 1, 1, {2: 2, 3: 1}, id="unclean election is allowed"),
        pytest.param((2,), {}, 0, 2, 0, {3: 1}, id="a leader is replaced"),
        pytest.param((1, 2), {}, 2, 2, 0, {3: 2}, id="two at once"),
        pytest.param((3,), {}, 0, 1, 0, {}, id="a follower is gone"),
    ],
)
def test_drill(failed, unclean, offline, below, uncleanly, gained):
    configs = {topic: {"unclean.leader.election.enable": value} for topic, value in unclean.items()}
    found = drill.drill(context_of(CLUSTER, (1, 2, 3)), failed, {"a": 2}, 2, configs)
    assert (found["offline_count"], found["under_min_isr_count"], found["unclean_count"]) == (offline, below, uncleanly)
    assert {row["broker"]: row["leaders"] for row in found["gained"]} == gained


def test_the_drill_counts_the_transitions_of_the_state_machines():
    found = drill.drill(context_of(CLUSTER, (1, 2, 3)), (1,), {}, 1, {})
    kinds = {(each["subject"], each["before"], each["after"]): each["count"] for each in found["state_changes"]}
    assert kinds == {
        ("partition", "OnlinePartition", "OfflinePartition"): 3,  # what broker 1 led
        ("partition", "OfflinePartition", "OnlinePartition"): 2,  # all but a-1, whose ISR it was
        ("partition", "OnlinePartition", "OnlinePartition"): 2,  # broker 1 leaves the ISR of those
        ("partition", "OfflinePartition", "OfflinePartition"): 1,  # a-1 has no leader any more
        ("replica", "OnlineReplica", "OfflineReplica"): 3,
    }


def test_the_drill_is_ranked_and_does_not_depend_on_its_slices(spark, monkeypatch):
    world = World(
        brokers={1: "a", 2: "a", 3: "b", 4: "b"},
        partitions=tuple(("t", n, ((n % 4) + 1, ((n + 1) % 4) + 1), (n % 4) + 1, ((n % 4) + 1,)) for n in range(16)),
    )
    tables = frames(spark, world)
    told = facts.core_facts(facts_of(spark, tables), tables)

    def ranked():
        partial = drill.failure_drill(tables["partitions"], told, pairs_max=2)
        result = drill.ranked(bridge.results(partial, drill.PARTIAL))
        assertSchemaEqual(result.schema, schemas.FAILURE_DRILL, ignoreNullable=True)
        return sorted(result.collect(), key=lambda row: row["rank"])

    whole = ranked()
    assert [(row["rank"], row["scenario"], row["failed"]) for row in whole[:4]] == [
        (1, "pair", [1, 2]),
        (2, "pair", [1, 4]),
        (3, "rack:a", [1, 2]),
        (4, "rack:b", [3, 4]),
    ]
    assert [row["offline_count"] for row in whole] == [8, 8, 8, 8, 4, 4, 4, 4]
    monkeypatch.setattr(drill, "SLICE_ROWS", 5)
    assert ranked() == whole


def test_a_broker_that_is_down_takes_no_place_among_the_pairs(spark):
    rows = tuple(
        ("t", number, replicas, 1, (1,)) for number, replicas in enumerate([(1, 9)] * 3 + [(1, 2)] * 2 + [(1, 3)])
    )
    tables = frames(spark, World(brokers={1: None, 2: None, 3: None}, partitions=rows))
    told = facts.core_facts(facts_of(spark, tables), tables)
    assert rows_of(drill.shared_pairs(tables["partitions"], told, 1), "pairs") == [([[1, 2]],)]


def test_an_election_that_waits_already_is_no_failures_doing(spark):
    unclean = ("topics", "d", "unclean.leader.election.enable", "true")
    world = World(brokers={1: None, 2: None, 3: None}, partitions=(("d", 0, (9, 3), 9, (9,)),), configs=(unclean,))
    tables = frames(spark, world)
    told = facts.core_facts(facts_of(spark, tables), tables)
    found = bridge.results(drill.failure_drill(tables["partitions"], told), drill.PARTIAL).collect()
    seen = {tuple(row["failed"]): (row["unclean_count"], row["offline_count"]) for row in found}
    assert seen == {(1,): (0, 0), (2,): (0, 0), (3,): (0, 1)}


def drilled(spark, world, **settings):
    """(unclean, offline, below min ISR) by the brokers that fail."""
    tables = frames(spark, world)
    told = facts.core_facts(facts_of(spark, tables, json.dumps({"default": settings})), tables)
    found = bridge.results(drill.failure_drill(tables["partitions"], told), drill.PARTIAL).collect()
    counts = ("unclean_count", "offline_count", "under_min_isr_count")
    return {tuple(row["failed"]): tuple(row[name] for name in counts) for row in found}


def test_an_isr_with_a_broker_that_is_no_replica_saves_nobody(spark):
    world = World(brokers={1: None, 2: None, 3: None}, partitions=(("t", 0, (1, 2, 3), 1, (1, 9)),))
    assert drilled(spark, world, kafka_version="2.3")[1,] == (0, 1, 0)


def test_the_drill_elects_uncleanly_where_the_cluster_does(spark):
    default = ("brokers", "<default>", "unclean.leader.election.enable", "true")
    world = World(
        brokers={1: None, 2: None},
        partitions=(("t", 0, (1, 2), 1, (1,)), ("u", 0, (1, 2), 1, (1,))),
        configs=(default, ("topics", "u", "unclean.leader.election.enable", "false")),
    )
    assert drilled(spark, world, kafka_version="3.9")[1,] == (1, 1, 0)


def test_what_is_being_deleted_is_no_loss():
    context = context_of(CLUSTER, (1, 2, 3), queued=["a"])
    found = drill.drill(context, (1,), {}, 1, {})
    assert (found["affected_count"], found["offline_count"], found["gained"]) == (1, 0, [{"broker": 2, "leaders": 1}])


@pytest.mark.parametrize(("version", "below"), [("3.6", 0), ("3.9", 1)])
def test_the_min_isr_that_a_drill_looks_at_follows_the_version(version, below):
    """Of two replicas no three can be in sync: up to 3.6 nobody could write before, from 3.7 on two are enough."""
    context = context_of((("t", 0, (1, 2), 1, (1, 2)),), (1, 2), version=version)
    assert drill.drill(context, (2,), {}, 3, {})["under_min_isr_count"] == below


def test_a_deletion_is_followed_to_its_end():
    told = predict(context_of(CLUSTER, (1, 2, 3)), "c").told
    assert told[-1] == "the deletion of c is complete"
    assert "brokers 1, 2 are told to delete 2 replicas" in told
    assert "ZooKeeper: delete /brokers/topics/c, /config/topics/c, /admin/delete_topics/c" in told


def test_a_deletion_that_waits_for_a_broker_says_so():
    told = predict(context_of(CLUSTER, (1, 2)), "b").told
    assert "brokers 2 are told to delete 1 replica" in told
    assert told[-2:] == (
        "the deletion of b waits for brokers 3, and goes on by itself then",
        "1 replica of b on brokers 2 is gone by then; nobody can read it",
    )


def test_a_deletion_that_a_starting_controller_found_has_deleted_nothing():
    assert predict(context_of(CLUSTER, (1, 2)), "b", asked=True).told == (
        "the deletion of b waits for brokers 3, and goes on by itself then",
        "nothing of b is deleted before",
    )


def test_a_topic_without_leaders_that_waits_is_deleted_where_brokers_are_up():
    partitions = (("t", 0, (1, 3), -1, (1,)), ("t", 1, (2, 1), -1, (2,)))
    told = predict(context_of(partitions, (1, 2)), "t", asked=True).told
    assert told[-1] == (
        "3 replicas of t on brokers 1, 2 are gone already, unless it had no leader before; nobody can read it"
    )


@pytest.mark.parametrize(
    ("version", "end"),
    [
        pytest.param("1.1", "the deletion of t never ends: t-1 never had a leader (KAFKA-6650)", id="stays for ever"),
        pytest.param("2.0", "the deletion of t is complete", id="KAFKA-6650 is mended"),
    ],
)
def test_a_deletion_that_never_ends_says_so(version, end):
    partitions = (("t", 0, (1, 2), 1, (1, 2)), ("t", 1, (1, 2), None, ()))
    assert predict(context_of(partitions, (1, 2), version=version), "t").told[-1] == end


def test_a_deletion_of_what_cannot_be_read_is_not_predicted():
    (told,) = predict(context_of(CLUSTER, (1, 2, 3)), "c", "/brokers/topics/c: not JSON").told
    assert told == "/brokers/topics/c: not JSON; what is known of topic 'c' is not enough to judge it"


def test_a_deletion_beside_a_reassignment_leaves_its_request_behind():
    told = predict(context_of(CLUSTER, (1, 2, 3), moving=[TopicPartition("c", 0)]), "c").told
    assert told[-2] == "the deletion of c is complete"
    assert told[-1].startswith(
        "/admin/reassign_partitions still names c-0: where nothing else is left in it, only a new"
    )


def test_a_starting_controller_waits_for_a_reassignment():
    told = predict(context_of(CLUSTER, (1, 2, 3), moving=[TopicPartition("c", 0)]), "c", asked=True).told
    assert told[0] == "the deletion of c waits for its reassignments and elections to end, and goes on by itself then"


def test_a_topic_that_does_not_exist_is_dropped():
    assert predict(context_of(CLUSTER, (1,)), "x").told == (
        "topic 'x' does not exist: the controller drops the request",
    )
