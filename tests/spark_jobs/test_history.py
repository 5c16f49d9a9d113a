"""What the dates tell together."""

from datetime import date, timedelta

import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.testing import assertSchemaEqual

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.operations.analysis.run import stage
from kafka_maintenance.operations.snapshots.compact import keep_compact
from spark_jobs import nightly_analysis, schemas
from spark_jobs.transforms import history
from spark_jobs.transforms.partition_findings import lagging
from tests.spark_jobs.worlds import DAY, World, frame, publish

FIRST = DAY - timedelta(days=3)


def days():
    """Four dates: t-0 loses its leader and gets it back, a replica of t-1 came back, u-0 comes late, broker 3 misses one."""
    rest = ("t", 1, (2, 1), 2, (2, 1))
    late = ("u", 0, (3,), 3, (3,))
    brokers = {1: "a", 2: "b", 3: "a"}
    return [
        World(brokers=brokers, partitions=(("t", 0, (1, 2), 1, (1, 2)), rest)).on(3),
        World(brokers={1: "a", 2: "b"}, partitions=(("t", 0, (1, 2), 2, (2,)), rest)).on(2),
        World(
            brokers=brokers, partitions=(("t", 0, (1, 2), 1, (2, 1)), rest, late), controller={"controller_epoch": 9}
        ).on(1),
        World(
            brokers=brokers,
            partitions=(("t", 0, (1, 3), 1, (1, 3)), ("t", 1, (2, 1), 2, (1, 2)), late),
            controller={"controller_epoch": 9},
        ),
    ]


def rows_of(result, *names):
    return sorted(tuple(row[name] for name in names) for row in result.collect())


def test_changes_are_counted_by_day_and_by_partition(spark):
    tables = {name: frame(spark, name, *days()) for name in ("partitions", "brokers", "cluster")}
    changes = history.partition_changes(tables["partitions"]).cache()
    grown = history.growth(tables["partitions"], tables["brokers"], tables["cluster"]).cache()
    churn = history.leader_churn(changes, grown)
    unstable = history.unstable_partitions(changes)
    assertSchemaEqual(churn.schema, schemas.LEADER_CHURN, ignoreNullable=True)
    assertSchemaEqual(unstable.schema, schemas.UNSTABLE_PARTITIONS, ignoreNullable=True)
    assertSchemaEqual(grown.schema, schemas.GROWTH, ignoreNullable=True)
    assert rows_of(churn, "date", "partition_count", "leader_changes", "isr_changes", "assignment_changes") == [
        (FIRST, 2, 0, 0, 0),
        (FIRST + timedelta(days=1), 2, 1, 1, 0),
        (FIRST + timedelta(days=2), 3, 1, 1, 0),
        (DAY, 3, 0, 2, 1),  # what came back stands last: a new order is a change
    ]
    assert rows_of(unstable, "topic", "partition", "leader_changes", "isr_changes", "nights_under_replicated") == [
        ("t", 0, 2, 3, 1),
        ("t", 1, 0, 1, 0),
    ]
    assert rows_of(grown, "date", "topic_count", "replica_count", "broker_count", "replicas_per_broker") == [
        (FIRST, 1, 4, 3, 4 / 3),
        (FIRST + timedelta(days=1), 1, 4, 2, 2.0),
        (FIRST + timedelta(days=2), 2, 5, 3, 5 / 3),
        (DAY, 2, 5, 3, 5 / 3),
    ]


def test_a_replica_that_is_being_added_makes_no_partition_under_replicated(spark):
    """The definition of the finding, the summary and Kafka's metric: what the history counts adds up with them."""
    worlds = [
        World(
            partitions=(
                ("added", 0, (1, 2, 3), 2 - day, (1, 2), (3,), ()),
                ("stray", 0, (1, 2), 2 - day, (1, 9)),
                ("offline", 0, (1, 2), -day, (1,)),
            )
        ).on(day)
        for day in range(2)
    ]
    partitions = frame(spark, "partitions", *worlds)
    unstable = history.unstable_partitions(history.partition_changes(partitions))
    lacking = partitions.where(F.size(lagging()) > 0).groupBy("topic").count()
    assert dict(rows_of(unstable, "topic", "nights_under_replicated")) == {"added": 0, "stray": 2, "offline": 2}
    assert rows_of(lacking, "topic", "count") == [("offline", 2), ("stray", 2)]


def test_a_topic_made_again_is_another_topic(spark):
    before = World(partitions=(("t", 0, (1,), 1, (1,)),)).on(1)
    after = World(partitions=(("t", 0, (2,), 2, (2,)),))
    old, new = frame(spark, "partitions", before), frame(spark, "partitions", after)
    again = new.withColumn("czxid", new["czxid"] + 1)
    assert history.partition_changes(old.union(again)).isEmpty()
    assert not history.partition_changes(old.union(new)).isEmpty()


def test_brokers_that_flap_and_loads_that_grow(spark):
    worlds = [
        World(brokers={1: None, **({2: None} if day % 2 else {})}, partitions=tuple(
            ("t", number, (1,), 1, (1,)) for number in range(5 - day)
        )).on(day)
        for day in range(5)
    ]  # fmt: skip
    partitions, brokers = frame(spark, "partitions", *worlds), frame(spark, "brokers", *worlds)
    found = history.broker_history(brokers, frame(spark, "cluster", *worlds), history.replicas_by_day(partitions))
    assertSchemaEqual(found.schema, schemas.BROKER_HISTORY, ignoreNullable=True)
    assert rows_of(found, "broker_id", "nights_seen", "nights_missing", "flapping", "replica_trend_per_night") == [
        (1, 5, 0, False, 1.0),
        (2, 2, 2, False, 0.0),
    ]


def test_a_broker_that_was_retired_does_not_flap_and_one_that_registers_each_day_does(spark):
    worlds = [World(brokers={1: None, 3: None, **({2: None} if day > 3 else {})}).on(day) for day in range(6)]
    of_day = F.unix_date(F.to_date("taken_at"))
    brokers = frame(spark, "brokers", *worlds).withColumn(
        "broker_epoch", F.when(F.col("broker_id") == 3, of_day).otherwise(F.col("broker_epoch"))
    )
    held = history.replicas_by_day(frame(spark, "partitions", *worlds))
    found = history.broker_history(brokers, frame(spark, "cluster", *worlds), held)
    assert rows_of(found, "broker_id", "nights_missing", "registrations", "flapping") == [
        (1, 0, 1, False),
        (2, 4, 1, False),
        (3, 0, 6, True),
    ]


def test_controller_elections_between_days(spark):
    found = history.controller_churn(frame(spark, "cluster", *days()))
    assertSchemaEqual(found.schema, schemas.CONTROLLER_CHURN, ignoreNullable=True)
    assert sorted((row["date"], row["elections"]) for row in found.collect()) == [
        (date(2026, 11, 17), None),
        (date(2026, 11, 18), 0),
        (date(2026, 11, 19), 2),
        (date(2026, 11, 20), 0),
    ]


def test_epochs_further_apart_than_a_number_of_kafka_are_no_count_of_elections(spark):
    worlds = [World(controller={"controller_epoch": epoch}).on(ago) for ago, epoch in enumerate((5, 4, -(2**31), 9))]
    found = history.controller_churn(frame(spark, "cluster", *worlds)).collect()
    assert [row["elections"] for row in sorted(found, key=lambda row: row["date"])] == [None, None, None, 1]


RESULTS = ("growth", "leader_churn", "unstable_partitions", "broker_history", "controller_churn")


def history_of(spark, store, manifests, folder):
    """The results of a staged job that concern the history, and how many snapshots it was given one by one."""
    staged = stage(store, manifests, folder, run_id="r", day=DAY)
    args = nightly_analysis.parse([*staged.arguments, "--only", *RESULTS])
    assert nightly_analysis.run(spark, args, say=list) == 0
    tables = {name: pq.read_table(f"{staged.output}/{name}", partitioning=None).to_pylist() for name in RESULTS}
    return tables, len((folder / "inputs").read_text().splitlines()) - 1


def test_the_compact_history_gives_the_results_of_the_snapshots(spark, tmp_path):
    store = open_store(str(tmp_path / "store"))
    other = World(cluster="beta", brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),))
    earlier = [publish(world.on(1), store) for world in (*days(), other, other.on(1))]
    assert len({manifest.date for manifest in earlier}) == 4
    manifests = [publish(days()[-1], store)]
    plain, single = history_of(spark, store, manifests, tmp_path / "plain")
    assert len(keep_compact(store, "alpha", f"{DAY:%Y-%m}").snapshots) == 5
    compact, given = history_of(spark, store, manifests, tmp_path / "compact")
    assert compact == plain
    assert (single, given) == (5, 2)
    assert sum(row["leader_changes"] for row in plain["leader_churn"]) > 0
