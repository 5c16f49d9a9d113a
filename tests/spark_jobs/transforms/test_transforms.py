"""The analyses of a date on frames of a few rows."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.testing import assertSchemaEqual

from spark_jobs import schemas, settings
from spark_jobs.io import datasets
from spark_jobs.planner.bounds import rack_quota
from spark_jobs.transforms import bad_rows, cluster_findings, deletion, facts, imbalance, partition_findings, summary
from tests.spark_jobs.worlds import World, frame, frames

SETTINGS = '{"default": {"kafka_version": "3.9", "min_insync_replicas": 1}}'


def described_facts(spark, tables, text=SETTINGS, refused=None):
    evidence = settings.evidence_frame(tables["cluster"], tables["brokers"], tables["topics"], tables["partitions"])
    rules = [settings.rules_of(settings.parse_settings(text), row) for row in evidence.collect()]
    return facts.snapshot_facts(tables, datasets.driver_rows(spark, rules, settings.RULES), refused)


def facts_of(spark, tables, text=SETTINGS, refused=None):
    """The facts as the job has them: computed once, whatever is made of them."""
    return datasets.through_driver(described_facts(spark, tables, text, refused), schemas.FACTS)


def deletions_of(spark, tables, text=SETTINGS, refused=None):
    found = facts_of(spark, tables, text, refused)
    result = deletion.deletion_eligibility(tables["partitions"], tables["topics"], tables["requests"], found)
    return {row["topic"]: (row["eligible"], [reason["kind"] for reason in row["reasons"]]) for row in result.collect()}


def rows_of(result, *names):
    return sorted(tuple(row[name] for name in names) for row in result.collect())


SKEWED = World(
    brokers={0: "a", 1: "b", 2: "c"},
    partitions=(
        ("orders", 0, (2, 0, 1), 2, (2, 0, 1)),
        ("orders", 1, (2, 0, 1), 0, (0, 1, 2)),
        ("orders", 2, (2, 0, 1), 0, (0, 1)),
        ("orders", 3, (2, 0, 1), -1, (1,)),
        ("orders", 4, (2, 0, 1), None, ()),
        ("orders", 5, (9, 0, 1), 0, (0, 1)),
        ("trash", 0, (1, 2), 2, (1, 2)),
    ),
    queued={"trash": 30},
)


def test_imbalance_counts_as_the_controller_does(spark):
    tables = frames(spark, SKEWED)
    result = imbalance.imbalance(tables["partitions"], facts_of(spark, tables))
    assertSchemaEqual(result.schema, schemas.IMBALANCE, ignoreNullable=True)
    names = ("broker_id", "live", "preferred_count", "imbalanced_count", "ratio", "triggers", "electable_count")
    assert rows_of(result, *names) == [
        (2, True, 5, 3, 0.6, True, 1),  # the partition without a state counts, the one led by nobody is misplaced
        (9, False, 1, 1, 1.0, True, 0),  # a dead broker appears; the queued topic's broker 1 does not
    ]


@pytest.mark.parametrize(
    ("version", "candidates"),
    [
        pytest.param("2.5", 0, id="a reassignment elsewhere blocks and the ISR does not matter"),
        pytest.param("3.3", 0, id="a reassignment elsewhere blocks"),
        pytest.param("3.4", 1, id="reassignments block no more, the ISR counts"),
    ],
)
def test_candidates_follow_the_version(spark, version, candidates):
    world = World(
        brokers={1: None, 2: None},
        partitions=(
            ("t", 0, (1, 2), 2, (1, 2)),
            ("t", 1, (1, 2), 2, (2,)),
            ("u", 0, (2, 1), 2, (2,), (1,), ()),
        ),
    )
    tables = frames(spark, world)
    found = facts_of(spark, tables, f'{{"default": {{"kafka_version": "{version}"}}}}')
    assert rows_of(imbalance.imbalance(tables["partitions"], found).where("broker_id = 1"), "candidate_count") == [
        (candidates,)
    ]


def test_every_partition_that_cannot_be_elected_has_a_reason(spark):
    tables = frames(spark, SKEWED)
    result = imbalance.imbalanced_partitions(tables["partitions"], facts_of(spark, tables))
    assertSchemaEqual(result.schema, schemas.IMBALANCED_PARTITIONS, ignoreNullable=True)
    assert rows_of(result, "topic", "partition", "electable", "reason") == [
        ("orders", 1, True, None),
        ("orders", 2, False, "preferred replica is not in the ISR"),
        ("orders", 3, False, "preferred replica is not in the ISR"),
        ("orders", 5, False, "preferred broker is not online"),
    ]


def test_a_version_nobody_named_is_taken_from_the_snapshot(spark):
    tables = frames(spark, SKEWED)
    assert rows_of(facts_of(spark, tables, "{}"), "kafka_version", "election_needs_isr", "any_reassignment") == [
        ("3.4", True, False)
    ]


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
    assert deletions_of(spark, tables, refused=refused) == {
        "done": (True, []),
        "gone": (False, ["unknown topic"]),
        "half": unreadable,
        "mute": unreadable,
        "torn": unreadable,
    }
    forbidden = deletions_of(spark, tables, '{"default": {"delete_topic_enable": false}}', refused)
    assert forbidden["torn"] == (False, ["deletion disabled"])


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
    text = f'{{"default": {{"kafka_version": "{version}"}}}}'
    assert deletions_of(spark, frames(spark, world), text) == {"new": answer, "old": (True, [])}


def test_a_cluster_that_forbids_deletion_has_no_queue(spark):
    tables = frames(spark, QUEUE)
    found = facts_of(spark, tables, '{"default": {"delete_topic_enable": false}}')
    result = deletion.deletion_eligibility(tables["partitions"], tables["topics"], tables["requests"], found)
    done = next(row for row in result.collect() if row["topic"] == "done")
    assert (done["eligible"], done["remedy"]) == (False, "set delete.topic.enable=true on every broker and ask again")
    assert facts.queued_topics(found).isEmpty()


SICK = World(
    brokers={1: "a", 2: "b", 3: "b"},
    partitions=(
        ("fine", 0, (1, 2), 1, (1, 2)),
        ("lost", 0, (9, 8), -1, (9,)),
        ("slow", 0, (1, 2), 1, (1,)),
        ("same", 0, (2, 3), 2, (2, 3)),
        ("lone", 0, (1,), 1, (1,)),
        ("away", 0, (1, 2), 2, (2, 1)),
        ("none", 0, (1, 2), None, ()),
        ("odd", 0, (1, 2), 3, (1, 2, 3)),
        ("moves", 0, (1, 2, 3), 1, (1, 2), (3,), ()),
        ("void", 0, (1, 2), 1, (1, 2), (), (1, 2)),
        ("gone", 0, (1, 2), -1, (1,)),
    ),
    queued={"gone": 60},
    configs=(("topics", "slow", "min.insync.replicas", "2"), ("topics", "lone", "min.insync.replicas", "2")),
)


def test_each_sickness_is_found_once(spark):
    tables = frames(spark, SICK)
    result = partition_findings.partition_findings(tables["partitions"], facts_of(spark, tables), tables["configs"])
    assertSchemaEqual(result.schema, schemas.FINDINGS, ignoreNullable=True)
    assert rows_of(result, "topic", "kind") == [
        ("away", "non_preferred_leader"),
        ("lone", "min_isr_unreachable"),
        ("lone", "single_replica"),
        ("lost", "non_preferred_leader"),
        ("lost", "offline"),
        ("lost", "under_replicated"),
        ("moves", "being_reassigned"),
        ("none", "no_state"),
        ("odd", "isr_outside_assignment"),
        ("odd", "non_preferred_leader"),
        ("same", "rack_violation"),
        ("slow", "under_min_isr"),
        ("slow", "under_replicated"),
        ("void", "being_reassigned"),
        ("void", "empty_reassignment_target"),
        ("void", "min_isr_unreachable"),
    ]


def test_the_default_min_isr_of_the_cluster_counts(spark):
    world = World(
        brokers={1: None, 2: None},
        partitions=(("t", 0, (1, 2), 1, (1,)),),
        configs=(("brokers", "<default>", "min.insync.replicas", "2"),),
    )
    tables = frames(spark, world)
    result = partition_findings.partition_findings(tables["partitions"], facts_of(spark, tables), tables["configs"])
    assert ("under_min_isr", "ISR [1] is smaller than min.insync.replicas=2") in rows_of(result, "kind", "detail")


def test_the_default_of_the_cluster_for_unclean_elections_counts(spark):
    fleet = {
        "on for all brokers": ("true", {}, True),
        "written otherwise": (" TRUE", {}, True),
        "no truth value": ("maybe", {}, False),
        "off, whatever the settings say": ("false", {"unclean_leader_election_enable": True}, False),
    }
    worlds = (
        World(
            cluster=name,
            brokers={1: None},
            configs=(("brokers", "<default>", "unclean.leader.election.enable", value),),
        )
        for name, (value, _, _) in fleet.items()
    )
    told = {"default": {"kafka_version": "3.9"}, "clusters": {name: own for name, (_, own, _) in fleet.items()}}
    found = facts_of(spark, frames(spark, *worlds), json.dumps(told))
    assert rows_of(found, "cluster", "unclean_election_default", "min_isr_default") == sorted(
        (name, allowed, 1) for name, (_, _, allowed) in fleet.items()
    )


def test_the_min_isr_that_counts_follows_the_version(spark):
    """Since Kafka 3.7 it is no more than there are replicas; before, it is as it is written."""
    rows = (("lone", 0, (1,), 1, (1,)), ("slow", 0, (1, 2), 1, (1,)), ("fine", 0, (1, 2), 1, (1, 2)))
    tables = frames(
        spark, *(World(cluster=name, brokers={1: None, 2: None}, partitions=rows) for name in ("3.6", "3.9"))
    )
    told = {name: {"kafka_version": name, "min_insync_replicas": 2} for name in ("3.6", "3.9")}
    result = partition_findings.partition_findings(
        tables["partitions"], facts_of(spark, tables, json.dumps({"clusters": told})), tables["configs"]
    )
    assert rows_of(result.where("kind like '%min_isr%'"), "cluster", "topic", "kind", "severity") == [
        ("3.6", "lone", "min_isr_unreachable", "critical"),
        ("3.6", "lone", "under_min_isr", "critical"),
        ("3.6", "slow", "under_min_isr", "critical"),
        ("3.9", "lone", "min_isr_unreachable", "warning"),
        ("3.9", "slow", "under_min_isr", "critical"),
    ]


RACKS = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"}


TOO_CLOSE = {
    "two and two": (RACKS, (1, 2, 4, 5), None),
    "three and one": (RACKS, (1, 2, 3, 4), "a: 3, b: 1; evenly spread a rack holds 2 to 2"),
    "one rack of two": (RACKS, (1, 2), "a: 2; evenly spread a rack holds 1 to 1"),
    "three replicas in two racks": (RACKS, (1, 2, 4), None),
    "too few in one": (
        {**RACKS, 7: "c", 8: "c", 9: "c"},
        (1, 2, 3, 4, 5, 6, 7),
        "a: 3, b: 3, c: 1; evenly spread a rack holds 2 to 3",
    ),
    "a rack of one broker is full": ({1: "a", 4: "b", 5: "b"}, (1, 4, 5), None),
    "the third may be in the other rack": (RACKS, (1, 2, 99), None),
    "wherever the fourth is, three are too many": (RACKS, (1, 2, 3, 99), "a: 3, not known: 1; evenly"),
    "nothing is known": (RACKS, (98, 99), None),
    "a broker without a rack: Kafka spreads over none": ({**RACKS, 7: None}, (1, 2, 3), None),
    "one rack only": (dict.fromkeys(RACKS, "a"), (1, 2, 3), None),
}
"""Of each cluster: the rack of each broker, the replicas of its partition, and what is found, None for nothing."""


@pytest.fixture(scope="module")
def rack_violations(spark):
    """What is found in each cluster of TOO_CLOSE that has a violation."""
    fleet = (
        World(cluster=name, brokers=brokers, partitions=(("t", 0, replicas, replicas[0], replicas),))
        for name, (brokers, replicas, _) in TOO_CLOSE.items()
    )
    tables = frames(spark, *fleet)
    result = partition_findings.partition_findings(tables["partitions"], facts_of(spark, tables), tables["configs"])
    rows = result.where("kind = 'rack_violation'").collect()
    assert len(rows) == len({row["cluster"] for row in rows})
    return {row["cluster"]: row["detail"] for row in rows}


@pytest.mark.parametrize("cluster", TOO_CLOSE)
def test_replicas_that_lie_too_close(rack_violations, cluster):
    _, _, detail = TOO_CLOSE[cluster]
    assert (cluster in rack_violations) == (detail is not None)
    assert detail is None or detail in rack_violations[cluster]


def test_a_rack_violation_is_what_the_planner_would_mend(spark):
    """Against the planner's quota, on random clusters whose brokers are all there."""
    dice = random.Random(7)
    fleet = []
    for number in range(60):
        brokers = {broker: dice.choice("abcd"[: 1 + number % 4]) for broker in range(1, dice.randint(2, 9))}
        lists = [tuple(dice.sample(sorted(brokers), dice.randint(1, len(brokers)))) for _ in range(8)]
        rows = tuple(("t", place, replicas, replicas[0], replicas) for place, replicas in enumerate(lists))
        fleet.append(World(cluster=f"c{number:02}", brokers=brokers, partitions=rows))
    expected = {
        (world.cluster, row[1])
        for world in fleet
        for row in world.partitions
        if not within_quota(Counter(world.brokers[broker] for broker in row[2]), Counter(world.brokers.values()))
    }
    tables = frames(spark, *fleet)
    result = partition_findings.partition_findings(tables["partitions"], facts_of(spark, tables), tables["configs"])
    found = result.where("kind = 'rack_violation'").select("cluster", "partition").collect()
    assert {tuple(row) for row in found} == expected
    assert 50 < len(expected) < 400


def within_quota(held, sizes):
    least, most = rack_quota(held.total(), list(sizes.values()))
    return all(low <= held[rack] <= high for rack, low, high in zip(sizes, least, most, strict=True))


def test_brokers_without_a_rack_beside_others_are_named(spark):
    fleet = {"some": {1: "a", 2: None, 3: None}, "all": {1: "a", 2: "b"}, "none": {1: None, 2: None}, "no broker": {}}
    tables = frames(spark, *(World(cluster=name, brokers=racks) for name, racks in fleet.items()))
    result = cluster_findings.registration_findings(facts_of(spark, tables), tables["brokers"], tables["cluster"])
    assertSchemaEqual(result.schema, schemas.FINDINGS, ignoreNullable=True)
    assert rows_of(result.where("kind = 'broker_without_rack'"), "cluster", "brokers") == [("some", [2, 3])]


def test_brokers_that_register_in_several_formats_are_named(spark):
    tables = frames(spark, World(brokers={1: None, 2: None}))
    told = facts_of(spark, tables)
    mixed = tables["brokers"].withColumn("json_version", F.col("broker_id") + 3)
    for brokers, found in ((tables["brokers"], []), (mixed, [("mixed_broker_formats",)])):
        assert rows_of(cluster_findings.registration_findings(told, brokers, tables["cluster"]), "kind") == found


def test_what_is_not_registered_is_named(spark):
    world = World(
        brokers={1: None, 2: None},
        partitions=(("t", 0, (1, 3), 3, (3,)), ("t", 1, (1, 2), 4, (1,))),
        controller={"controller_id": 3},
    )
    before = replace(world, brokers=dict.fromkeys((1, 2, 3))).on(1)
    tables = frames(spark, world)
    told = facts_of(spark, tables)
    load = summary.broker_load(tables["partitions"], told)
    down = cluster_findings.broker_findings(load, told, frame(spark, "brokers", world, before))
    assertSchemaEqual(down.schema, schemas.FINDINGS, ignoreNullable=True)
    assert rows_of(down, "brokers", "age_s", "severity") == [([3], 86400, "critical"), ([4], None, "critical")]
    first, second = (row["detail"] for row in down.orderBy("brokers").collect())
    assert first.startswith(
        "broker 3 is not registered, last registered in the snapshot of 2026-11-19 02:30; holds 1 replica,"
    )
    assert "registered in no snapshot of the window; holds 0 replicas" in second
    assert "still named leader of 1" in second
    result = cluster_findings.registration_findings(told, tables["brokers"], tables["cluster"])
    assert rows_of(result, "kind", "brokers") == [("controller_not_registered", [3])]


def test_old_requests_and_notifications_are_reported_with_their_age(spark):
    world = World(
        brokers={1: None},
        queued={"old": 700, "new": 20},
        requests=(
            ("reassign_partitions", "t", 0, (1,), 3600),
            ("reassign_partitions", "t", 1, (1,), 3600),
            ("preferred_replica_election", "t", 0, None, 30),
            ("preferred_replica_election", "u", 0, None, 800),
        ),
        notifications=(
            ("isr_change", "isr_change_0000000001", "t", 0, None, 400),
            ("isr_change", "isr_change_0000000001", "t", 1, None, 400),
            ("isr_change", "isr_change_0000000002", "t", 1, None, 5),
            ("log_dir_event", "log_dir_event_0000000001", None, None, 4, 90),
            ("config_change", "config_change_0000000001", None, None, None, 800),
        ),
    )
    tables = frames(spark, world)
    result = cluster_findings.request_findings(tables["requests"], tables["notifications"])
    assertSchemaEqual(result.schema, schemas.FINDINGS, ignoreNullable=True)
    assert sorted((r["kind"], r["age_s"], tuple(r["brokers"] or ())) for r in result.collect()) == [
        ("stale_isr_change", 400, ()),
        ("stale_log_dir_event", 90, (4,)),
        ("stuck_delete_topics", 700, ()),
        ("stuck_preferred_replica_election", 800, ()),
        ("stuck_reassign_partitions", 3600, ()),
    ]


def test_a_reassignment_that_has_not_moved_since_last_night_is_stuck(spark):
    rows = (("t", 0, (1, 2, 3), 1, (1, 2), (3,), (2,)), ("t", 1, (1, 2), 1, (1, 2)))
    moved = (("t", 0, (1, 2, 4), 1, (1, 2), (4,), (2,)), rows[1])
    current = frame(spark, "partitions", World(partitions=rows))
    stuck = partition_findings.unmoved_findings(current, frame(spark, "partitions", World(partitions=rows).on(1)))
    assertSchemaEqual(stuck.schema, schemas.FINDINGS, ignoreNullable=True)
    assert rows_of(stuck, "kind", "partition", "age_s") == [("stuck_reassignment", 0, 86400)]
    assert partition_findings.unmoved_findings(
        current, frame(spark, "partitions", World(partitions=moved).on(1))
    ).isEmpty()


def test_throttles_are_stale_when_nothing_moves(spark):
    still = World(
        brokers={1: None},
        configs=(
            ("brokers", "1", "leader.replication.throttled.rate", "1000"),
            ("topics", "t", "leader.replication.throttled.replicas", "0:1"),
            ("topics", "t", "retention.ms", "1000"),
        ),
    )
    tables = frames(
        spark, still, replace(still, cluster="moving", requests=(("reassign_partitions", "t", 0, (1,), 5),))
    )
    result = cluster_findings.config_findings(tables["configs"], facts_of(spark, tables))
    found = [(row["cluster"], row["topic"], row["brokers"]) for row in result.collect()]
    assert sorted(found, key=str) == sorted([("alpha", "t", None), ("alpha", None, [1])], key=str)


def registered_in(spark, *worlds):
    tables = frames(spark, *worlds)
    load = summary.broker_load(tables["partitions"], facts_of(spark, tables))
    return cluster_findings.registrations(load, tables["brokers"])


def test_the_controller_and_the_tree_are_judged(spark):
    current = World(
        brokers={1: None},
        controller={"controller_id": None, "controller_epoch": 12, "migration": "{}", "consistent": False},
        bad_rows=(("/brokers/topics/t/partitions/0/state", "not JSON"), ("/config/topics/u", "not JSON")),
    )
    result = cluster_findings.cluster_findings(
        frame(spark, "cluster", current),
        frame(spark, "cluster", current.on(1), World().on(1))
        .limit(0)
        .union(frame(spark, "cluster", World(brokers={1: None}).on(1))),
        frame(spark, "bad_rows", current),
        registered_in(spark, current),
    )
    assert rows_of(result, "kind", "severity") == [
        ("controller_churn", "warning"),
        ("inconsistent_snapshot", "info"),
        ("kraft_migration", "critical"),
        ("no_controller", "critical"),
        ("unreadable_znode", "critical"),
        ("unreadable_znode", "warning"),
    ]


COPIED = '{"version":0,"kraft_metadata_offset":81}'
STARTED = '{"version":0,"kraft_metadata_offset":-1}'


PHASES = {
    "a quorum was started": (-1, STARTED, (1, 2), "warning", "P1/P2:"),
    "claimed": (1, STARTED, (1, 2), "warning", "claimed:"),
    "copied": (1, COPIED, (1, 2), "warning", "P3: KRaft rules"),
    "one broker in KRaft mode": (
        1,
        COPIED,
        (1,),
        "warning",
        "P4: KRaft rules, and 1 broker holds replicas without being in",
    ),
    "all brokers in KRaft mode": (1, COPIED, (), "warning", "P5/P6: KRaft rules"),
    "a /controller that is left over": (1, None, (1, 2), "warning", "left over: /controller"),
    "a /migration that is left over": (-1, COPIED, (1, 2), "critical", "a /migration is left over"),
    "an empty /migration": (-1, "", (1, 2), "critical", "a /migration is left over"),
}
"""Of each cluster: the epoch of KRaft's controller, /migration, the registered brokers; the severity, and how the detail begins."""


def test_the_phase_of_a_migration_is_told(spark):
    fleet = [
        World(
            cluster=name,
            brokers=dict.fromkeys(registered),
            partitions=(("t", 0, (1, 2), 1, (1, 2)),),
            controller={"controller_id": 3000, "kraft_controller_epoch": epoch, "migration": migration},
        )
        for name, (epoch, migration, registered, _, _) in PHASES.items()
    ]
    cluster = frame(spark, "cluster", *fleet)
    result = cluster_findings.cluster_findings(
        cluster, cluster.limit(0), frame(spark, "bad_rows", *fleet), registered_in(spark, *fleet)
    )
    assert [
        (name, kind, severity, detail[: len(PHASES[name][-1])])
        for name, kind, severity, detail in rows_of(result, "cluster", "kind", "severity", "detail")
    ] == sorted((name, "kraft_migration", severity, begins) for name, (*_, severity, begins) in PHASES.items())


@pytest.mark.parametrize(
    ("migration", "live", "offline", "found"),
    [
        pytest.param(COPIED, [1, 2, 3], 0, [], id="KRaft rules: brokers 2 and 3 run in KRaft mode"),
        pytest.param(STARTED, [1], 2, ["controller_not_registered"], id="a broker rules: brokers 2 and 3 are down"),
    ],
)
def test_brokers_in_kraft_mode_are_no_outage(spark, migration, live, offline, found):
    rows = (("t", 0, (1, 2), 1, (1, 2)), ("t", 1, (2, 3), 2, (2, 3)), ("t", 2, (3, 1), 3, (3,)), ("t", 3, (9,), 9, ()))
    epoch = 1 if migration == COPIED else -1
    controller = {"controller_id": 3000, "kraft_controller_epoch": epoch, "migration": migration}
    tables = frames(spark, World(partitions=rows, brokers={1: "r1"}, controller=controller))
    known = facts_of(spark, tables)
    assert [row["live"] for row in known.collect()] == [live]
    assert rows_of(summary.cluster_summary(tables["partitions"], known), "offline_count") == [(offline + 1,)]
    judged = cluster_findings.registration_findings(known, tables["brokers"], tables["cluster"])
    assert [kind for (kind,) in rows_of(judged, "kind")] == found


def test_a_queued_topic_is_judged_where_nothing_is_deleted(spark):
    tables = frames(spark, SICK)
    kept = facts_of(spark, tables, '{"default": {"delete_topic_enable": false}}')
    result = partition_findings.partition_findings(tables["partitions"], kept, tables["configs"])
    assert [kind for topic, kind in rows_of(result, "topic", "kind") if topic == "gone"] == [
        "non_preferred_leader", "offline", "under_replicated",
    ]  # fmt: skip
    assert rows_of(summary.cluster_summary(tables["partitions"], kept), "offline_count") == [(2,)]


def test_cluster_summary_and_broker_load_count_everything_once(spark):
    tables = frames(spark, SICK)
    found = facts_of(spark, tables)
    numbers = summary.cluster_summary(tables["partitions"], found)
    load = summary.broker_load(tables["partitions"], found)
    assertSchemaEqual(numbers.schema, schemas.CLUSTER_SUMMARY, ignoreNullable=True)
    assertSchemaEqual(load.schema, schemas.BROKER_LOAD, ignoreNullable=True)
    counts = ("topic_count", "partition_count", "replica_count", "broker_count", "offline_count", "imbalanced_count")
    assert rows_of(numbers, *counts, "under_replicated_count") == [(11, 11, 22, 3, 1, 3, 2)]
    assert rows_of(numbers, "kafka_version", "version_reason") == [("3.9", "named in the settings")]
    assert rows_of(load, "broker_id", "live", "replica_count", "leader_count", "preferred_count") == [
        (1, True, 9, 5, 9),
        (2, True, 9, 2, 1),
        (3, True, 2, 1, 0),
        (8, False, 1, 0, 0),
        (9, False, 1, 0, 1),
    ]


def test_bad_rows_are_set_aside_with_a_reason(spark):
    good = World(brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),))
    rows = good.rows("partitions")
    place = {name: index for index, name in enumerate(schemas.PARTITIONS.names)}

    def changed(number, **values):
        row = list(rows[0])
        for name, value in {"partition": number, **values}.items():
            row[place[name]] = value
        return tuple(row)

    bad = [
        changed(1, replicas=[], preferred_leader=None),
        changed(2, replicas=[1, 1]),
        changed(3, replicas=[-4], preferred_leader=-4),
        changed(4, preferred_leader=2),
        changed(5, isr=None),
        changed(6, isr=[1, 1]),
        changed(7, isr=[-1]),
        changed(8, leader=-2),
        changed(9, leader_epoch=-1),
        changed(-1),
        changed(0),
    ]
    partitions = spark.createDataFrame([*rows, *bad], schemas.PARTITIONS)
    judged = bad_rows.with_reason(partitions)
    refused = bad_rows.refused_rows(judged, frame(spark, "bad_rows", World(bad_rows=(("/x", "not JSON"),))))
    assertSchemaEqual(refused.schema, schemas.REFUSED_ROWS, ignoreNullable=True)
    assert rows_of(bad_rows.good_partitions(judged), "topic", "partition") == [("t", 0)]
    assert rows_of(refused, "path", "reason") == [
        ("/brokers/topics/t/partitions/-1", "partition number is negative"),
        ("/brokers/topics/t/partitions/0", "another row has the same topic and partition"),
        ("/brokers/topics/t/partitions/1", "replica list is empty"),
        ("/brokers/topics/t/partitions/2", "replica list names a broker twice"),
        ("/brokers/topics/t/partitions/3", "replica list holds null or a negative broker id"),
        ("/brokers/topics/t/partitions/4", "preferred_leader is not the first replica"),
        ("/brokers/topics/t/partitions/5", "leader, isr and epochs are partly null"),
        ("/brokers/topics/t/partitions/6", "ISR names a broker twice"),
        ("/brokers/topics/t/partitions/7", "ISR holds null or a negative broker id"),
        ("/brokers/topics/t/partitions/8", "leader is neither a broker id nor -1"),
        ("/brokers/topics/t/partitions/9", "leader epoch is negative"),
        ("/x", "not JSON"),
    ]


@pytest.mark.parametrize("length", range(1, 7))
def test_a_hole_and_a_broker_named_twice_are_seen_in_each_place_of_a_list(spark, length):
    good = World(brokers={1: None}, partitions=(("t", 0, tuple(range(1, length + 1)), 1, (1,)),))
    (row,) = good.rows("partitions")
    columns = schemas.PARTITIONS.names
    lists: list[list[int | None]] = [list(range(1, length + 1)) for _ in range(3 * length)]
    for place in range(length):
        lists[place][place] = None
        lists[length + place][place] = -1
        lists[2 * length + place][place] = (place + 1) % length + 1  # what its neighbour is
    changed = [dict(zip(columns, row, strict=True)) | {"partition": n + 1, "isr": each} for n, each in enumerate(lists)]
    changed += [{**each, "replicas": each["isr"], "isr": [1], "partition": each["partition"] + 100} for each in changed]
    rows = [row, *(tuple(each[name] for name in columns) for each in changed)]
    judged = bad_rows.with_reason(spark.createDataFrame(rows, schemas.PARTITIONS))
    holes, twice = "replica list holds null or a negative broker id", "replica list names a broker twice"
    isr_holes, isr_twice = "ISR holds null or a negative broker id", "ISR names a broker twice"
    expected: list[str | None] = [
        *[isr_holes] * (2 * length),
        *[isr_twice] * length,
        *[holes] * (2 * length),
        *[twice] * length,
    ]
    if length == 1:  # one broker is its own neighbour: nothing is wrong with the last list of each kind
        expected[2] = expected[5] = None
    assert [each["reason"] for each in judged.orderBy("partition").collect()] == [None, *expected]
