"""Which queued topics can be deleted, and what stands in the way of the others."""

from dataclasses import replace

import pytest
from pyspark.testing import assertSchemaEqual

from spark_jobs import schemas
from spark_jobs.transforms import bad_rows, deletion, facts
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import World, frames


def deletions_of(tables, found):
    result = deletion.deletion_eligibility(tables["partitions"], tables["topics"], tables["requests"], found)
    return {row["topic"]: (row["eligible"], [reason["kind"] for reason in row["reasons"]]) for row in result.collect()}


QUEUE = World(
    brokers={1: None, 2: None},
    partitions=(
        ("done", 0, (1, 2), 1, (1, 2)),
        ("stuck", 0, (1, 3), 1, (1,)),
        ("stuck", 1, (4, 3), 4, (4,)),
        ("stuck", 2, (1, 2), 1, (1,), (2,), ()),
        ("stays", 0, (3,), -1, (3,)),
    ),
    queued={"done": 10, "stuck": 1000, "gone": 5},
    requests=(("reassign_partitions", "stuck", 0, (1, 2), 900), ("reassign_partitions", "stuck", 2, (1, 2), 900)),
)


def test_deletion_eligibility_names_every_reason(spark):
    tables = frames(spark, QUEUE)
    result = deletion.deletion_eligibility(
        tables["partitions"], tables["topics"], tables["requests"], facts_of(spark, tables)
    )
    assertSchemaEqual(result.schema, schemas.DELETION_ELIGIBILITY, ignoreNullable=True)
    found = {
        row["topic"]: (row["eligible"], [(r["kind"], r["partition"], r["brokers"]) for r in row["reasons"]])
        for row in result.collect()
    }
    assert found == {
        "done": (True, []),
        "gone": (False, [("unknown topic", None, [])]),
        "stuck": (
            False,
            [
                ("dead replica", 0, [3]),
                ("partition being reassigned", 0, []),
                ("dead replica", 1, [4, 3]),
                ("partition being reassigned", 2, []),
            ],
        ),
    }


def test_dead_replicas_are_found_whatever_the_ids(spark):
    fleet = {
        "all are there": ((1, 2, 3), []),
        "one between is missing": ((1, 3), [2]),
        "the lowest is missing": ((2, 3), [1]),
        "ids far apart": ((2, 900_000), [1, 3]),
        "none is there": ((), [1, 2, 3]),
    }
    rows = (("t", 0, (1, 2, 3), 1, (1,)),)
    tables = frames(
        spark,
        *(
            World(cluster=name, brokers=dict.fromkeys(live), partitions=rows, queued={"t": 5})
            for name, (live, _) in fleet.items()
        ),
    )
    result = deletion.deletion_eligibility(
        tables["partitions"], tables["topics"], tables["requests"], facts_of(spark, tables)
    )
    found = [
        (row["cluster"], [broker for reason in row["reasons"] for broker in reason["brokers"]])
        for row in result.collect()
    ]
    assert sorted(found) == sorted((name, dead) for name, (_, dead) in fleet.items())


def test_dead_replicas_are_those_of_their_own_cluster(spark):
    lists = {"near": (1, 2), "lent": (7, 1), "long": (1, 2, 3, 4, 5, 6, 7), "far": (1, 20_000)}
    partitions = tuple((topic, 0, replicas, 1, (1,)) for topic, replicas in lists.items())
    alpha = World(brokers=dict.fromkeys(range(1, 8)), partitions=partitions, queued=dict.fromkeys(lists, 5))
    beta = replace(alpha, cluster="beta", brokers=dict.fromkeys((1, 2, 3, 4, 5, 6, 20_000)))
    tables = frames(spark, alpha, beta)
    found = facts_of(spark, tables)
    result = deletion.deletion_eligibility(tables["partitions"], tables["topics"], tables["requests"], found)
    dead = {
        (row["cluster"], row["topic"]): [reason["brokers"] for reason in row["reasons"]] for row in result.collect()
    }
    assert dead == {
        **{("alpha", topic): [] for topic in ("near", "lent", "long")},
        ("alpha", "far"): [[20_000]],
        **{("beta", topic): [] for topic in ("near", "far")},
        **{("beta", topic): [[7]] for topic in ("lent", "long")},
    }


def test_a_queued_topic_that_cannot_be_read_is_not_judged(spark):
    world = World(
        brokers={1: None, 2: None},
        partitions=(
            ("done", 0, (1, 2), 1, (1, 2)),
            ("half", 0, (1, 2), 1, (1, 2)),
            ("half", 1, (), None, ()),
            ("mute", 0, (1, 2), None, ()),
            ("stays", 0, (), None, ()),
        ),
        queued=dict.fromkeys(("done", "gone", "half", "mute", "torn"), 5),
        bad_rows=(
            ("/brokers/topics/torn", "not JSON"),
            ("/brokers/topics/mute/partitions/0/state", "not JSON"),
            ("/brokers/topics/tornado", "not JSON"),
            ("/config/topics/done", "not JSON"),
        ),
    )
    tables = frames(spark, world)
    judged = bad_rows.with_reason(tables["partitions"])
    refused = bad_rows.refused_rows(judged, tables["bad_rows"])
    tables["partitions"] = bad_rows.good_partitions(judged)
    unreadable = (False, ["unreadable, cannot be judged"])
    assert deletions_of(tables, facts_of(spark, tables, refused=refused)) == {
        "done": (True, []),
        "gone": (False, ["unknown topic"]),
        "half": unreadable,
        "mute": unreadable,
        "torn": unreadable,
    }
    forbidden = facts_of(spark, tables, '{"default": {"delete_topic_enable": false}}', refused)
    assert deletions_of(tables, forbidden)["torn"] == (False, ["deletion disabled"])


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        pytest.param("1.1", (False, ["partition that never had a leader"]), id="the deletion would never end"),
        pytest.param("2.0", (True, []), id="KAFKA-6650 is mended"),
    ],
)
def test_a_partition_that_never_had_a_leader_keeps_its_topic(spark, version, answer):
    world = World(
        brokers={1: None, 2: None},
        partitions=(("new", 0, (1, 2), None, ()), ("old", 0, (1, 2), -1, (2,))),
        queued={"new": 5, "old": 5},
    )
    tables = frames(spark, world)
    found = facts_of(spark, tables, f'{{"default": {{"kafka_version": "{version}"}}}}')
    assert deletions_of(tables, found) == {"new": answer, "old": (True, [])}


def test_a_cluster_that_forbids_deletion_has_no_queue(spark):
    tables = frames(spark, QUEUE)
    found = facts_of(spark, tables, '{"default": {"delete_topic_enable": false}}')
    result = deletion.deletion_eligibility(tables["partitions"], tables["topics"], tables["requests"], found)
    done = next(row for row in result.collect() if row["topic"] == "done")
    assert (done["eligible"], done["remedy"]) == (False, "set delete.topic.enable=true on every broker and ask again")
    assert facts.queued_topics(found).isEmpty()
