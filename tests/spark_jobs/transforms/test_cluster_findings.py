"""What is wrong with a cluster as a whole: its brokers, requests, throttles, controller, migration."""

from dataclasses import replace

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.testing import assertSchemaEqual

from spark_jobs import schemas
from spark_jobs.transforms import cluster_findings, summary
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import World, frame, frames, rows_of


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


def test_throttles_are_stale_when_nothing_moves(spark):
    still = World(
        brokers={1: None},
        configs=(
            ("brokers", "1", "leader.replication.throttled.rate", "1000"),
            ("brokers", "<default>", "leader.replication.throttled.rate", "1000"),
            ("topics", "t", "leader.replication.throttled.replicas", "0:1"),
            ("topics", "t", "retention.ms", "1000"),
        ),
    )
    tables = frames(
        spark, still, replace(still, cluster="moving", requests=(("reassign_partitions", "t", 0, (1,), 5),))
    )
    result = cluster_findings.config_findings(tables["configs"], facts_of(spark, tables))
    found = [(row["cluster"], row["topic"], row["brokers"]) for row in result.collect()]
    assert sorted(found, key=str) == sorted(
        [("alpha", "t", None), ("alpha", None, [1]), ("alpha", None, None)], key=str
    )


def test_unclean_elections_are_allowed_by_the_config_of_a_topic_that_exists(spark):
    unclean = "unclean.leader.election.enable"
    configs = tuple(("topics", topic, unclean, "true") for topic in ("there", "deleted"))
    tables = frames(spark, World(brokers={1: None}, partitions=(("there", 0, (1,), 1, (1,)),), configs=configs))
    result = cluster_findings.unclean_findings(tables["configs"], tables["topics"], facts_of(spark, tables))
    assert rows_of(result, "kind", "topic") == [("unclean_election_allowed", "there")]


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
    "copied": (1, COPIED, (1, 2), "warning", "P3: a KRaft controller is active"),
    "one broker in KRaft mode": (
        1,
        COPIED,
        (1,),
        "warning",
        "P4: a KRaft controller is active, and 1 broker holds replicas without being in",
    ),
    "all brokers in KRaft mode": (1, COPIED, (), "warning", "P5/P6: a KRaft controller is active"),
    "a /controller that is left over": (1, None, (1, 2), "warning", "left over: /controller"),
    "a /migration that is left over": (-1, COPIED, (1, 2), "critical", "a /migration is left over"),
    "an empty /migration": (-1, "", (1, 2), "critical", "a /migration is left over"),
    **{
        f"no number in /migration: {offset}": (
            1,
            f'{{"kraft_metadata_offset":{offset}}}',
            (1, 2),
            "warning",
            "claimed:",
        )
        for offset in ('"x"', "1.5", "{}", "9" * 20)
    },
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


def test_epochs_further_apart_than_a_number_of_kafka_hold_up_no_other_cluster(spark):
    fleet = [World(cluster=name, controller={"controller_epoch": epoch}) for name, epoch in (("a", -(2**31)), ("b", 9))]
    before = [World(cluster=name, controller={"controller_epoch": epoch}).on(1) for name, epoch in (("a", 9), ("b", 2))]
    result = cluster_findings.cluster_findings(
        frame(spark, "cluster", *fleet),
        frame(spark, "cluster", *before),
        frame(spark, "bad_rows", *fleet),
        registered_in(spark, *fleet),
    )
    assert rows_of(result.where("kind = 'controller_churn'"), "cluster") == [("b",)]


@pytest.mark.parametrize(
    ("migration", "live", "offline", "found"),
    [
        pytest.param(COPIED, [1, 2, 3], 0, [], id="a KRaft controller is active: brokers 2 and 3 run in KRaft mode"),
        pytest.param(
            STARTED, [1], 2, ["controller_not_registered"], id="a broker is active controller: brokers 2 and 3 are down"
        ),
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
