"""What holds for a whole cluster: its version, and the defaults that its brokers have."""

import json

from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs.transforms import partition_findings
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import World, frames, rows_of


def test_a_version_nobody_named_is_taken_from_the_snapshot(spark):
    tables = frames(spark, World(brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),)))
    assert rows_of(facts_of(spark, tables, "{}"), "kafka_version", "election_needs_isr", "any_reassignment") == [
        ("3.4", True, False)
    ]


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


def test_a_broker_with_two_registrations_is_one_broker(spark):
    """Of two names that are the same number older snapshots have two rows: as two racks of one broker they would end every cluster's analysis."""
    tables = frames(spark, World(brokers={1: "a", 2: "b"}, partitions=(("t", 0, (1, 2), 1, (1, 2)),)))
    twice = tables["brokers"].unionByName(tables["brokers"].withColumn("rack", F.lit("c")))
    facts = facts_of(spark, {**tables, "brokers": twice})
    assert rows_of(facts, "live", "rack_count", "rack_of") == [([1, 2], 1, [(1, "c"), (2, "c")])]
    judged = partition_findings.partition_findings(tables["partitions"], facts, tables["configs"])
    assert rows_of(judged, "kind") == []
