"""Spark SQL and the core say the same of every cluster."""

import json

import pytest

from controller_core.controller.deletion_eligibility import IneligibilityKind
from spark_jobs.on_core import agreement, bridge, drill
from spark_jobs.schemas import NOT_ANALYSED
from spark_jobs.transforms import deletion, facts, imbalance
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.random_worlds import random_world
from tests.spark_jobs.worlds import World, frames

VERSIONS = ("0.10.2", "1.0", "2.4", "2.6", "3.3", "3.9")
FLEET = 180


def keyed(result, *names):
    return sorted((tuple(row[name] for name in ("cluster", *names)) for row in result.collect()), key=repr)


def test_spark_sql_equals_the_core(spark):
    fleet = [random_world(number) for number in range(FLEET)]
    settings = {
        world.cluster: {"kafka_version": VERSIONS[number % len(VERSIONS)], "delete_topic_enable": number % 7 > 0}
        for number, world in enumerate(fleet)
    }
    tables = frames(spark, *fleet)
    found = facts_of(spark, tables, json.dumps({"clusters": settings}))
    told = facts.core_facts(found, tables)

    judged = agreement.core_judgement(tables["partitions"], told).cache()
    assert judged.where("error is not null").collect() == []
    by_core, ratios_by_core, queue_by_core = (
        judged.where(f"{name} is not null").select("cluster", f"{name}.*")
        for name in ("imbalanced_partitions", "imbalance", "deletion_eligibility")
    )
    by_sql = imbalance.imbalanced_partitions(tables["partitions"], found).cache()
    columns = ("topic", "partition", "preferred_leader", "leader", "candidate")
    assert keyed(by_sql, *columns) == keyed(by_core, *columns)
    refused = "not candidate"
    assert by_sql.count() > FLEET
    assert keyed(by_sql.where(refused), *columns, "reason") == keyed(by_core.where(refused), *columns, "reason")

    per_broker = ("broker_id", "preferred_count", "imbalanced_count", "ratio", "triggers", "candidate_count")
    assert ratios_by_core.where("ratio > 0").count() > FLEET / 3
    assert keyed(imbalance.imbalance(tables["partitions"], found), *per_broker) == keyed(ratios_by_core, *per_broker)

    assert queue_by_core.where("not eligible").count() > FLEET / 4
    kinds = {reason["kind"] for row in queue_by_core.collect() for reason in row["reasons"]}
    assert kinds == {kind.value for kind in IneligibilityKind}
    queue_by_sql = deletion.deletion_eligibility(tables["partitions"], tables["topics"], tables["requests"], found)
    assert keyed(queue_by_sql, "topic", "eligible", "reasons") == keyed(queue_by_core, "topic", "eligible", "reasons")
    for cached in (found, by_sql, judged):
        cached.unpersist()


def test_one_cluster_that_fails_does_not_stop_the_others(spark):
    def analysis(rows):
        if rows.facts["cluster"] == "beta":
            raise RuntimeError("no such luck")
        return [{"stage": "x", "reason": str(len(rows.partitions))}]

    one = World(brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),))
    two = World(cluster="beta", brokers={1: None}, partitions=one.partitions)
    tables = frames(spark, one, two)
    told = facts.core_facts(facts_of(spark, tables), tables)
    done = bridge.per_snapshot(tables["partitions"], told, analysis, NOT_ANALYSED)
    assert keyed(bridge.results(done, NOT_ANALYSED), "reason") == [("alpha", "1")]
    assert keyed(bridge.failures(done, "drill"), "stage", "reason") == [("beta", "drill", "RuntimeError: no such luck")]


def test_one_task_says_the_same_as_several(spark):
    world = World(brokers={1: None, 2: None}, partitions=tuple((f"t{n}", 0, (1, 2), 1, (1,)) for n in range(5)))
    tables = frames(spark, world)
    told = facts.core_facts(facts_of(spark, tables), tables)
    dealt = drill.failure_drill(tables["partitions"], told)
    one = drill.failure_drill(tables["partitions"], told, tasks=1)
    assert (dealt.rdd.getNumPartitions() > 1, one.rdd.getNumPartitions()) == (True, 1)
    assert sorted(dealt.collect(), key=str) == sorted(one.collect(), key=str) != []


@pytest.mark.parametrize(("rows", "slices"), [(0, 0), (1, 1), (drill.SLICE_ROWS, 1), (drill.SLICE_ROWS + 1, 2)])
def test_a_cluster_is_cut_into_slices(rows, slices):
    assert drill.slices_of(rows) == slices
