"""Partitions that are sick, each kind with a row that has it and one that just has not."""

import json

from pyspark.testing import assertSchemaEqual

from spark_jobs import schemas
from spark_jobs.transforms import partition_findings, summary
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import SICK, World, frame, frames, rows_of


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


def test_a_queued_topic_is_judged_where_nothing_is_deleted(spark):
    tables = frames(spark, SICK)
    kept = facts_of(spark, tables, '{"default": {"delete_topic_enable": false}}')
    result = partition_findings.partition_findings(tables["partitions"], kept, tables["configs"])
    assert [kind for topic, kind in rows_of(result, "topic", "kind") if topic == "gone"] == [
        "non_preferred_leader", "offline", "under_replicated",
    ]  # fmt: skip
    assert rows_of(summary.cluster_summary(tables["partitions"], kept), "offline_count") == [(2,)]


def test_the_default_min_isr_of_the_cluster_counts(spark):
    world = World(
        brokers={1: None, 2: None},
        partitions=(("t", 0, (1, 2), 1, (1,)),),
        configs=(("brokers", "<default>", "min.insync.replicas", "2"),),
    )
    tables = frames(spark, world)
    result = partition_findings.partition_findings(tables["partitions"], facts_of(spark, tables), tables["configs"])
    assert ("under_min_isr", "ISR [1] is smaller than min.insync.replicas=2") in rows_of(result, "kind", "detail")


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


CAUSES = (
    ("3.9", "2 is live and lags", (1, 2, 3), 1, (1,), 2, "under_min_isr", None),
    ("3.9", "2 is live, lags, and would not be enough", (1, 2, 3), 1, (1,), 3, "under_min_isr", "broker_down [3]"),
    ("3.9", "only 3 lacks", (1, 3), 1, (1,), 2, "under_min_isr", "broker_down [3]"),
    ("3.9", "2 is being added", (1, 3, 2), 1, (1,), 2, "under_min_isr", "broker_down [3]"),
    ("3.9", "two count where three are wanted", (1, 2), 1, (1,), 3, "under_min_isr", None),
    ("3.6", "three can never be", (1, 2), 1, (1,), 3, "under_min_isr", "min_isr_unreachable"),
    ("3.9", "one counts where two are wanted", (1,), 1, (1,), 2, "single_replica", None),
    ("3.6", "two can never be", (1,), 1, (1,), 2, "single_replica", "min_isr_unreachable"),
    ("3.9", "1 is live and in the ISR", (1, 3), -1, (1,), 1, "offline", None),
    ("3.9", "the ISR is gone", (1, 3), -1, (3,), 1, "offline", "broker_down [3]"),
    ("3.9", "the leader is gone", (3, 1), 3, (3, 1), 1, "offline", "broker_down [3]"),
    ("3.9", "its leader fell out of the ISR and is gone", (3, 1), 3, (1,), 1, "leader_outside_isr", None),
)
"""Of a cluster with the brokers 1 and 2: version, what is so, replicas, leader, ISR, min ISR; a finding and its cause."""


def test_a_finding_has_a_cause_only_where_that_is_enough(spark):
    fleet = [
        World(
            cluster=version,
            brokers={1: None, 2: None},
            partitions=tuple(
                (topic, 0, replicas, leader, isr, (2,) if "added" in topic else (), ())
                for of, topic, replicas, leader, isr, *_ in CAUSES
                if of == version
            ),
            configs=tuple(
                ("topics", row[1], "min.insync.replicas", str(row[5])) for row in CAUSES if row[0] == version
            ),
        )
        for version in ("3.6", "3.9")
    ]
    tables = frames(spark, *fleet)
    told = json.dumps({"clusters": {world.cluster: {"kafka_version": world.cluster} for world in fleet}})
    result = partition_findings.partition_findings(
        tables["partitions"], facts_of(spark, tables, told), tables["configs"]
    )
    found = {row[:3]: row[3] for row in rows_of(result, "cluster", "topic", "kind", "cause")}
    expected = {(version, topic, kind): cause for version, topic, *_, kind, cause in CAUSES}
    assert {key: found[key] for key in expected} == expected


def test_a_reassignment_that_has_not_moved_since_the_date_before_is_stuck(spark):
    rows = (("t", 0, (1, 2, 3), 1, (1, 2), (3,), (2,)), ("t", 1, (1, 2), 1, (1, 2)))
    moved = (("t", 0, (1, 2, 4), 1, (1, 2), (4,), (2,)), rows[1])
    current = frame(spark, "partitions", World(partitions=rows))
    stuck = partition_findings.unmoved_findings(current, frame(spark, "partitions", World(partitions=rows).on(1)))
    assertSchemaEqual(stuck.schema, schemas.FINDINGS, ignoreNullable=True)
    assert rows_of(stuck, "kind", "partition", "age_s") == [("stuck_reassignment", 0, 86400)]
    assert partition_findings.unmoved_findings(
        current, frame(spark, "partitions", World(partitions=moved).on(1))
    ).isEmpty()
