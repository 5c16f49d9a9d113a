"""Spark SQL and the core say the same of every cluster."""

import json
import random

import pytest

from controller_core.controller.deletion_eligibility import IneligibilityKind
from spark_jobs.on_core import agreement, bridge, drill
from spark_jobs.schemas import NOT_ANALYSED
from spark_jobs.transforms import deletion, facts, imbalance
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import World, frames

VERSIONS = ("0.10.2", "1.0", "2.4", "2.6", "3.3", "3.9")
FLEET = 180


def some(dice, values, fewest=0, most=None):
    values = list(values)
    return tuple(dice.sample(values, dice.randint(fewest, min(len(values), most or len(values)))))


def random_partitions(dice):
    for topic in some(dice, "abc", 1):
        for number in range(dice.randint(1, 4)):
            replicas = some(dice, range(5), 1, 3)
            leader = dice.choice((None, -1, *replicas, replicas[0]))
            isr = () if leader is None else some(dice, replicas)
            if isr and dice.random() < 0.15:
                isr = (*isr, next(broker for broker in range(9) if broker not in replicas))  # genuine through Kafka 2.3
            adding = some(dice, replicas, 0, 1)
            removing = tuple(broker for broker in replicas[1:] if broker not in adding)
            moving = (adding, removing) if dice.random() < 0.15 else ((), ())
            yield (topic, number, replicas, leader, isr, *moving)


def random_world(number):
    dice = random.Random(number)
    rows = tuple(random_partitions(dice))
    kind = dice.choice(("reassign_partitions", "preferred_replica_election"))
    named = some(dice, rows, 0, 2) if dice.random() < 0.4 else ()
    return World(
        cluster=f"cluster-{number:03}",
        brokers=dict.fromkeys(some(dice, range(5), 1), "rack"),
        partitions=rows,
        queued=dict.fromkeys(some(dice, "abcx"), 60),
        requests=tuple((kind, row[0], row[1], row[2], 5) for row in named),
        bad_rows=tuple(
            (f"/brokers/topics/{topic}", "not JSON") for topic in some(dice, "abcx", 0, 1) if number % 5 == 0
        ),
    )


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
