"""What is wrong with a cluster as a whole: its brokers, controller, requests, configs, and the tree itself.

Source: docs/operations.md, "ISR-change notifications", for what a wedged controller leaves behind.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs.transforms import racks
from spark_jobs.transforms.facts import KEY, STATE_PATH, UNCLEAN, has_kraft_controller, kraft_begun, migration_offset
from spark_jobs.transforms.findings import (
    BROKER_DOWN,
    CRITICAL,
    INFO,
    WARNING,
    as_findings,
    counted,
    each_finding,
    finding,
    listed,
)

STUCK_AFTER_S = 600
"""A request older than this is called stuck; Kafka handles one in seconds, data movement apart."""
STALE_AFTER_S = 60
"""A notification older than this means that nobody handles them (docs/operations.md, "ISR-change notifications")."""
_RATE_KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICA_KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def broker_findings(load: DataFrame, facts: DataFrame, seen: DataFrame) -> DataFrame:
    """Brokers that hold or lead partitions and are not registered, the first thing to look at.

    In:  schemas.BROKER_LOAD and FACTS of the analysed snapshots; schemas.BROKERS of the window.
    Out: schemas.FINDINGS, one row broker_down per such broker; `age_s` is the time since the last snapshot that had it.
    """
    last = seen.groupBy("cluster", "broker_id").agg(F.max("taken_at").alias("last_seen"))
    since = F.when(
        F.col("last_seen").isNotNull(),
        F.concat(F.lit("last registered in the snapshot of "), F.date_format("last_seen", "yyyy-MM-dd HH:mm")),
    ).otherwise(F.lit("registered in no snapshot of the window"))
    counts = F.format_string(
        "holds %s, is preferred for %s and still named leader of %,d: start it again, or move its replicas",
        counted(F.col("replica_count"), "replica"),
        counted(F.col("preferred_count"), "partition"),
        "leader_count",
    )
    down = (
        load.where(~F.col("live") & (F.col("replica_count") + F.col("leader_count") > 0))
        .join(F.broadcast(last), ["cluster", "broker_id"], how="left")  # one row per broker on each side
        .join(F.broadcast(facts.select(*KEY, "taken_at")), KEY)
        .select(
            *KEY,
            F.lit(BROKER_DOWN).alias("kind"),
            F.lit(CRITICAL).alias("severity"),
            F.array("broker_id").alias("brokers"),
            (F.unix_timestamp("taken_at") - F.unix_timestamp("last_seen")).alias("age_s"),
            F.concat(F.format_string("broker %d is not registered, ", "broker_id"), since, F.lit("; "), counts).alias(
                "detail"
            ),
        )
    )
    return as_findings(down)


def registration_findings(facts: DataFrame, brokers: DataFrame, cluster: DataFrame) -> DataFrame:
    """What the registrations of a cluster contradict.

    In:  schemas.FACTS, BROKERS and CLUSTER.
    Out: schemas.FINDINGS, one row per cluster and kind: broker_without_rack (only some have one), mixed_broker_formats (their
         registrations have several JSON versions), controller_not_registered. A cluster with a KRaft controller has neither rack nor controller here.
    """
    bare = F.transform(F.filter("rack_of", lambda entry: entry["rack"].isNull()), lambda entry: entry["broker_id"])
    formats = brokers.groupBy(*KEY).agg(F.sort_array(F.collect_set("json_version")).alias("formats"))
    checks = (
        finding(
            F.col("controller_id").isNotNull()
            & ~F.array_contains("live", F.col("controller_id"))
            & ~F.col("has_kraft_controller"),
            "controller_not_registered",
            CRITICAL,
            F.format_string("the controller is broker %d, which is not registered", "controller_id"),
            F.array("controller_id"),
        ),
        finding(
            racks.some_without_rack() & ~F.col("has_kraft_controller"),
            "broker_without_rack",
            WARNING,
            F.format_string(
                "brokers %s have no broker.rack, others have: Kafka spreads new replicas over no racks then, rack_violation "
                "is not judged, and reassignments are planned only if racks are to be ignored; set broker.rack there",
                listed(bare),
            ),
            bare,
        ),
        finding(
            F.size("formats") > 1,
            "mixed_broker_formats",
            WARNING,
            F.format_string(
                "brokers register with the JSON versions %s: they run different versions or protocols of Kafka; finish the "
                "upgrade",
                listed(F.col("formats")),
            ),
        ),
    )
    controllers = cluster.select(*KEY, "controller_id", has_kraft_controller().alias("has_kraft_controller"))
    judged = facts.join(controllers, KEY, how="left").join(formats, KEY, how="left")
    return as_findings(each_finding(judged, KEY, *checks))


def unclean_findings(configs: DataFrame, topics: DataFrame, facts: DataFrame) -> DataFrame:
    """What allows unclean elections; a config that its topic left behind does not.

    In:  schemas.CONFIGS, TOPICS and FACTS.
    Out: schemas.FINDINGS: unclean_election_allowed, one row by the default, or one per topic whose config says so.
    """
    may_lose = "elections may take a leader that lacks messages: they are lost"
    by_default = finding(
        F.col("unclean_election_default"),
        "unclean_election_allowed",
        WARNING,
        f"unclean.leader.election.enable is true for every topic that does not say otherwise: {may_lose}",
    )
    of_cluster = as_findings(each_finding(facts, KEY, by_default))
    says_so = (F.col("key") == UNCLEAN) & (F.lower(F.trim("value")) == "true") & (F.col("entity_type") == "topics")
    of_topics = (
        configs.where(says_so)
        .withColumnRenamed("entity_name", "topic")
        .join(topics.select(*KEY, "topic"), [*KEY, "topic"], how="left_semi")
        .join(F.broadcast(facts.where(~F.col("unclean_election_default")).select(*KEY)), KEY)
        .select(
            *KEY,
            F.lit("unclean_election_allowed").alias("kind"),
            F.lit(WARNING).alias("severity"),
            "topic",
            F.lit(f"unclean.leader.election.enable is true: {may_lose}").alias("detail"),
        )
    )
    return of_cluster.unionByName(as_findings(of_topics))


def request_findings(requests: DataFrame, notifications: DataFrame) -> DataFrame:
    """Requests that nobody finishes and notifications that nobody handles.

    In:  schemas.REQUESTS and NOTIFICATIONS.
    Out: schemas.FINDINGS, one row per stuck request kind and topic, and per stale notification kind; `age_s` is the
         oldest, in seconds before the snapshot.
    """
    age_s = F.unix_timestamp("taken_at") - F.unix_timestamp("ctime")
    stuck = (
        requests.withColumn("age_s", age_s)
        .where(F.col("age_s") >= STUCK_AFTER_S)
        .groupBy(*KEY, F.col("kind").alias("request"), "topic")
        .agg(F.max("age_s").alias("age_s"), F.count("partition").alias("partition_count"))
        .select(
            *KEY,
            F.concat(F.lit("stuck_"), "request").alias("kind"),
            F.lit(WARNING).alias("severity"),
            "topic",
            "age_s",
            F.format_string("request for %s pending for %d s", "topic", "age_s").alias("detail"),
        )
    )
    stale = (
        notifications.where(F.col("kind") != "config_change")  # brokers leave those behind on purpose, for 15 minutes
        .withColumn("age_s", age_s)
        .where(F.col("age_s") >= STALE_AFTER_S)
        .groupBy(*KEY, F.col("kind").alias("queue"))
        .agg(
            F.max("age_s").alias("age_s"),
            F.countDistinct("name").alias("name_count"),
            F.sort_array(F.collect_set("broker")).alias("brokers"),
        )
        .select(
            *KEY,
            F.concat(F.lit("stale_"), "queue").alias("kind"),
            F.lit(CRITICAL).alias("severity"),
            "brokers",
            "age_s",
            F.format_string(
                "%s, the oldest for %d s: the controller does not handle them",
                counted(F.col("name_count"), "notification", "wait"),
                "age_s",
            ).alias("detail"),
        )
    )
    return as_findings(stuck.unionByName(stale, allowMissingColumns=True))


def config_findings(configs: DataFrame, facts: DataFrame) -> DataFrame:
    """Replication throttles that stayed behind after the reassignment they were for.

    In:  schemas.CONFIGS and FACTS. Out: schemas.FINDINGS, one row per throttled broker or topic.
    """
    broker = F.when(F.col("entity_type") == "brokers", F.col("entity_name").try_cast("int"))  # null of <default>
    is_throttle = F.col("key").isin(*_RATE_KEYS, *_REPLICA_KEYS)
    idle = facts.where(~F.col("any_reassignment")).select(*KEY)
    stale = (
        configs.where(is_throttle)
        .join(F.broadcast(idle), KEY)
        .groupBy(*KEY, "entity_type", "entity_name")
        .agg(F.concat_ws(", ", F.sort_array(F.collect_set("key"))).alias("keys"))
        .select(
            *KEY,
            F.lit("stale_throttle").alias("kind"),
            F.lit(WARNING).alias("severity"),
            F.when(F.col("entity_type") == "topics", F.col("entity_name")).alias("topic"),
            F.when(broker.isNotNull(), F.array(broker)).alias("brokers"),
            F.format_string("%s %s keeps %s while nothing is reassigned", "entity_type", "entity_name", "keys").alias(
                "detail"
            ),
        )
    )
    return as_findings(stale)


_REFUSED = "nothing of ours writes to ZooKeeper until a way back has ended, see docs/kraft.md"
_LEFT_OVER = (
    "a /migration is left over and the controller is a broker: a fresh quorum would take the copy for done and delete every topic; delete it before any "
    "quorum is started"
)


def _offset() -> Column:
    """The offset in `/migration`; -2 where it cannot be read."""
    return F.coalesce(migration_offset(), F.lit(-2))


def _phase() -> Column:
    """In which phase of docs/kraft.md a cluster is on its way to KRaft."""
    claimed = F.coalesce(F.col("kraft_controller_epoch") >= 0, F.lit(False))
    return F.concat(
        F.when(
            has_kraft_controller() & (F.col("registered_count") == 0),
            "P5/P6: a KRaft controller is active, and no broker is in /brokers/ids, which is no outage",
        )
        .when(
            has_kraft_controller() & (F.col("unregistered_count") > 0),
            F.format_string(
                "P4: a KRaft controller is active, and %s replicas without being in /brokers/ids, which is no outage",
                counted(F.col("unregistered_count"), "broker", "hold"),
            ),
        )
        .when(
            has_kraft_controller(),
            "P3: a KRaft controller is active, and writes ZooKeeper behind it; all brokers are in /brokers/ids",
        )
        .when(
            claimed & F.col("migration").isNull(),
            "left over: /controller belongs to a KRaft controller, and there is no /migration",
        )
        .when(
            claimed,
            "claimed: the copy runs or has died; where this lasts a minute there is no working controller, go back",
        )
        .otherwise("P1/P2: a quorum was started, brokers are rolled into migration mode"),
        F.lit(f"; {_REFUSED}"),
    )


def registrations(load: DataFrame, brokers: DataFrame) -> DataFrame:
    """How many brokers are registered, and how many hold replicas and are not.

    In:  schemas.BROKER_LOAD and BROKERS. Out: (cluster, snapshot_id, registered_count, unregistered_count), one row per snapshot with brokers.
    """
    there = brokers.select(*KEY, "broker_id").withColumn("there", F.lit(True))
    lacks = F.col("there").isNull() & (F.col("replica_count") > 0)
    return (
        load.join(F.broadcast(there), [*KEY, "broker_id"], how="left")  # one row per broker on each side
        .groupBy(*KEY)
        .agg(F.count("there").alias("registered_count"), F.count_if(lacks).alias("unregistered_count"))
    )


def cluster_findings(
    cluster: DataFrame, earlier: DataFrame, bad_rows: DataFrame, registered: DataFrame, *, churn_max: int = 3
) -> DataFrame:
    """What is wrong with the controller and with the tree itself.

    Args:
        cluster: schemas.CLUSTER of the current snapshot, at most one row per cluster.
        earlier: the same of the snapshot before.
        bad_rows: schemas.BAD_ROWS.
        registered: `registrations`.
        churn_max: so many elections since the snapshot before are no finding yet.

    Out: schemas.FINDINGS: no_controller, controller_churn (more than `churn_max` elections),
         kraft_migration, inconsistent_snapshot, unreadable_znode.
    """
    before = earlier.select("cluster", F.col("controller_epoch").alias("epoch_before"))
    elections = F.try_subtract(F.col("controller_epoch"), F.col("epoch_before"))  # null beyond 32 bits
    left_over = (
        ~F.coalesce(F.col("kraft_controller_epoch") >= 0, F.lit(False))
        & F.col("migration").isNotNull()
        & (_offset() != -1)
    )
    checks = (
        finding(F.col("controller_id").isNull(), "no_controller", CRITICAL, "no broker is controller"),
        finding(
            elections > churn_max,
            "controller_churn",
            WARNING,
            F.concat(counted(elections, "controller election"), F.lit(" since the snapshot before")),
        ),
        finding(left_over, "kraft_migration", CRITICAL, _LEFT_OVER),
        finding(kraft_begun() & ~left_over, "kraft_migration", WARNING, _phase()),
        finding(
            ~F.col("consistent"), "inconsistent_snapshot", INFO, "the tree changed while it was read; see its manifest"
        ),
    )
    compared = cluster.join(F.broadcast(before), ["cluster"], how="left").join(F.broadcast(registered), KEY, how="left")
    of_cluster = each_finding(compared, KEY, *checks)
    is_state = F.col("path").rlike(STATE_PATH)
    unreadable = bad_rows.select(
        *KEY,
        F.lit("unreadable_znode").alias("kind"),
        F.when(is_state, CRITICAL).otherwise(WARNING).alias("severity"),
        F.concat_ws(
            "",
            F.format_string("%s: %s", "path", "reason"),
            F.when(
                is_state,
                F.lit(
                    "; Kafka's controller takes it for a new partition, finds the znode there and leaves it without a leader, or ends "
                    "the elections of every partition in the same call: the failure drill leaves it out"
                ),
            ),
        ).alias("detail"),
    )
    return as_findings(of_cluster.unionByName(unreadable, allowMissingColumns=True))
