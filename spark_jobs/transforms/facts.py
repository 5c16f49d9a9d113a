"""One row per snapshot with what a rule must know about the cluster as a whole; and the rows no rule may see."""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import StructType

from controller_core.znodes.configs import POSITIVE
from spark_jobs.schemas import CORE_FACTS, FACTS, SNAPSHOT_KEY

KEY = list(SNAPSHOT_KEY)
NO_LEADER = -1
STATE_PATH = "^/brokers/topics/([^/]+)/partitions/([0-9]+)/state$"
_TOPIC_OF_PATH = "^/brokers/topics/([^/]+)"
UNCLEAN, MIN_ISR = "unclean.leader.election.enable", "min.insync.replicas"


def some_are_equal(columns: Sequence[Column]) -> Column:
    """Whether two of the columns are equal; null equals nothing. Compiled code compares them in pairs, which is for a few columns."""
    pairs = [F.coalesce(one == other, F.lit(False)) for one, other in combinations(columns, 2)]
    return reduce(or_, pairs)


def snapshot_facts(tables: Mapping[str, DataFrame], rules: DataFrame, refused: DataFrame | None = None) -> DataFrame:
    """Live brokers, racks, queue and version switches of every snapshot.

    In:  `tables` cluster, brokers, requests, configs, partitions and bad_rows (schemas of those names); `rules`,
         settings.RULES; `refused`, schemas.REFUSED_ROWS, without it what the snapshots could not decode.
    Out: schemas.FACTS, one row per (cluster, snapshot_id). A snapshot without brokers has an empty `live`.
    """
    live = (
        tables["brokers"]
        .groupBy(*KEY, "broker_id")  # of /brokers/ids/01 and /brokers/ids/1 older snapshots have two rows
        .agg(F.max("rack").alias("rack"))
        .unionByName(_in_kraft_mode(tables))
        .groupBy(*KEY)
        .agg(
            F.sort_array(F.collect_set("broker_id")).alias("live"),
            F.sort_array(F.collect_set(F.struct("broker_id", "rack"))).alias("rack_of"),
            F.countDistinct("rack").cast("int").alias("rack_count"),
        )
    )
    is_deletion, is_reassignment = F.col("kind") == "delete_topics", F.col("kind") == "reassign_partitions"
    asked = (
        tables["requests"]
        .groupBy(*KEY)
        .agg(
            F.sort_array(F.collect_set(F.when(is_deletion, F.col("topic")))).alias("queued_topics"),
            F.max(is_reassignment).alias("reassignment_requested"),
            F.max(F.col("kind") == "preferred_replica_election").alias("election_requested"),
        )
    )
    undecided = tables["bad_rows"] if refused is None else refused
    under_way = tables["partitions"].where(being_reassigned()).select(*KEY).distinct()
    return (
        tables["cluster"]
        .select(*KEY, "taken_at", kraft_begun().alias("kraft_begun"))
        .join(F.broadcast(live), KEY, how="left")  # one row per snapshot on each side
        .join(F.broadcast(asked), KEY, how="left")
        .join(F.broadcast(under_way.withColumn("under_way", F.lit(True))), KEY, how="left")
        .join(F.broadcast(_cluster_defaults(tables["configs"])), KEY, how="left")
        .join(F.broadcast(_unreadable(undecided, tables["requests"])), KEY, how="left")
        .join(F.broadcast(_unreadable_states(tables["bad_rows"])), KEY, how="left")
        .join(F.broadcast(rules), KEY, how="inner")
        .withColumns(
            {
                "min_isr_default": F.coalesce("cluster_min_isr", "min_isr_default"),
                "unclean_election_default": F.coalesce("cluster_unclean", "unclean_election_default"),
                "any_reassignment": _or_false("under_way") | _or_false("reassignment_requested"),
                "any_election": _or_false("election_requested"),
                "rack_count": F.coalesce("rack_count", F.lit(0)),
                **_or_empty(FACTS, "live", "rack_of", "queued_topics", "unreadable", "unreadable_states"),
            }
        )
        .select(*FACTS.names)
    )


def kraft_begun() -> Column:
    """True for a row of CLUSTER that is not in ZooKeeper mode, P0 of docs/kraft.md: nothing of ours is written to its tree."""
    return F.coalesce(F.col("kraft_controller_epoch") >= 0, F.lit(False)) | F.col("migration").isNotNull()


def has_kraft_controller() -> Column:
    """True for a row of CLUSTER whose metadata were copied to KRaft: phases P3 to P6 of docs/kraft.md."""
    return F.coalesce((F.col("kraft_controller_epoch") >= 0) & (migration_offset() >= 0), F.lit(False))


def migration_offset() -> Column:
    """The offset in the `/migration` of a row of CLUSTER; null where it cannot be read."""
    return F.get_json_object("migration", "$.kraft_metadata_offset").try_cast("long")


def _in_kraft_mode(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Brokers that KRaft says are alive and that are not in `/brokers/ids` any more: they are in an ISR of a cluster with a KRaft controller.

    A broker in KRaft mode has no registration in ZooKeeper, and no rack there; KRaft writes the states behind it.
    """
    in_kraft = tables["cluster"].where(has_kraft_controller()).select(*KEY)
    registered = tables["brokers"].select(*KEY, "broker_id")
    return (
        tables["partitions"]
        .join(F.broadcast(in_kraft), KEY, how="left_semi")
        .select(*KEY, F.explode("isr").alias("broker_id"))
        .distinct()
        .join(F.broadcast(registered), [*KEY, "broker_id"], how="left_anti")
        .withColumn("rack", F.lit(None).cast("string"))
    )


def core_facts(facts: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    """FACTS with the pending requests and the topic configs that the controller looks at.

    In:  schemas.FACTS; `tables` requests, configs and cluster.
    Out: schemas.CORE_FACTS, one row per (cluster, snapshot_id).
    """
    partition = F.struct("topic", "partition", "replicas")
    requests = (
        tables["requests"]
        .groupBy(*KEY)
        .agg(
            F.collect_list(F.when(F.col("kind") == "reassign_partitions", partition)).alias("reassign_requests"),
            F.collect_list(F.when(F.col("kind") == "preferred_replica_election", partition)).alias("election_requests"),
        )
    )
    min_isr = (
        min_isr_of_topics(tables["configs"])
        .groupBy(*KEY)
        .agg(F.collect_list(F.struct("topic", F.col("topic_min_isr").alias("min_isr"))).alias("topic_min_isr"))
    )
    wanted = (F.col("entity_type") == "topics") & (F.col("key") == UNCLEAN)
    configs = (
        tables["configs"]
        .where(wanted)
        .groupBy(*KEY)
        .agg(F.collect_list(F.struct(F.col("entity_name").alias("topic"), "value")).alias("topic_unclean"))
    )
    epochs = tables["cluster"].select(*KEY, "controller_epoch", "controller_epoch_version")
    return (
        facts.join(requests, KEY, how="left")  # one row per snapshot on each side
        .join(configs, KEY, how="left")
        .join(min_isr, KEY, how="left")
        .join(epochs, KEY, how="left")
        .withColumns(_or_empty(CORE_FACTS, "reassign_requests", "election_requests", "topic_unclean", "topic_min_isr"))
        .select(*CORE_FACTS.names)
    )


def queued_topics(facts: DataFrame) -> DataFrame:
    """Topics that the controller counts as queued for deletion: none where deletion is disabled.

    In:  schemas.FACTS. Out: one row per (cluster, snapshot_id, topic).
    """
    return facts.where("deletion_enabled").select(*KEY, F.explode("queued_topics").alias("topic"))


def staying(partitions: DataFrame, facts: DataFrame) -> DataFrame:
    """Partitions whose topic is not queued for deletion: the controller judges those only.

    In: schemas.PARTITIONS and FACTS. Out: rows of PARTITIONS.
    """
    return partitions.join(F.broadcast(queued_topics(facts)), [*KEY, "topic"], how="left_anti")


def snapshot_number() -> Column:
    """A number for (cluster, snapshot_id): to group and join millions of rows by it is quicker than by two strings.

    Two of 10,000 snapshots share one in 3 of 10^12 cases.
    """
    return F.xxhash64(*KEY)


def being_reassigned() -> Column:
    """True for a row of PARTITIONS whose assignment is on its way to another."""
    return (F.size("adding") > 0) | (F.size("removing") > 0)


def led_by_another() -> Column:
    """True for a row of PARTITIONS that has a state and another leader than its preferred one, or none."""
    return F.col("leader").isNotNull() & (F.col("leader") != F.col("preferred_leader"))


def offline() -> Column:
    """True for a row of PARTITIONS with `live` whose state names no live leader: Kafka's `OfflinePartitionsCount`."""
    return F.col("leader").isNotNull() & ~F.array_contains("live", F.col("leader"))


def min_isr_of_topics(configs: DataFrame) -> DataFrame:
    """In: schemas.CONFIGS. Out: (cluster, snapshot_id, topic, topic_min_isr), where a topic has one that Kafka can read."""
    of_topics = (F.col("key") == MIN_ISR) & (F.col("entity_type") == "topics")
    return (
        configs.where(of_topics)
        .select(*KEY, F.col("entity_name").alias("topic"), _min_isr().alias("topic_min_isr"))
        .where(F.col("topic_min_isr").isNotNull())
    )


def _min_isr() -> Column:
    """The column `value` as min.insync.replicas, as `positive_setting` reads it; null for what Kafka refuses."""
    number = F.regexp_extract("value", POSITIVE, 1).try_cast("int")
    return F.when(number >= 1, number)


def _cluster_defaults(configs: DataFrame) -> DataFrame:
    """What `/config/brokers/<default>` says to every broker, since Kafka 1.1; null where it says nothing (that can be read).

    In: schemas.CONFIGS. Out: (cluster, snapshot_id, cluster_min_isr, cluster_unclean), one row per snapshot at most.
    """
    is_default = (F.col("entity_type") == "brokers") & (F.col("entity_name") == "<default>")
    flag = F.lower(F.trim("value"))
    unclean = F.when((F.col("key") == UNCLEAN) & flag.isin("true", "false"), flag == "true")
    return (
        configs.where(is_default & F.col("key").isin(UNCLEAN, MIN_ISR))
        .groupBy(*KEY)
        .agg(
            F.max(F.when(F.col("key") == MIN_ISR, _min_isr())).alias("cluster_min_isr"),
            F.max(unclean).alias("cluster_unclean"),
        )
    )


def _unreadable(refused: DataFrame, requests: DataFrame) -> DataFrame:
    """The topics queued for deletion of which a znode or a row cannot be used, each with the first such path.

    In:  rows with a `path` and a `reason`; schemas.REQUESTS.
    Out: (cluster, snapshot_id, unreadable), one row per snapshot at most.
    """
    queued = requests.where(F.col("kind") == "delete_topics").select(*KEY, "topic")
    return (
        refused.select(*KEY, F.regexp_extract("path", _TOPIC_OF_PATH, 1).alias("topic"), "path", "reason")
        .join(F.broadcast(queued), [*KEY, "topic"], how="left_semi")
        .groupBy(*KEY, "topic")
        .agg(F.min(F.struct("path", "reason")).alias("first"))
        .groupBy(*KEY)
        .agg(F.sort_array(F.collect_list(F.struct("topic", "first.path", "first.reason"))).alias("unreadable"))
    )


def _unreadable_states(bad_rows: DataFrame) -> DataFrame:
    """In: schemas.BAD_ROWS. Out: (cluster, snapshot_id, unreadable_states): partitions whose `state` znode cannot be read."""
    of_state = [F.regexp_extract("path", STATE_PATH, group) for group in (1, 2)]
    name = F.struct(of_state[0].alias("topic"), of_state[1].try_cast("int").alias("partition"))
    return (
        bad_rows.where(F.col("path").rlike(STATE_PATH))
        .groupBy(*KEY)
        .agg(F.sort_array(F.collect_set(name)).alias("unreadable_states"))
    )


def _or_empty(schema: StructType, *names: str) -> dict[str, Column]:
    return {name: F.coalesce(F.col(name), F.array().cast(schema[name].dataType)) for name in names}


def _or_false(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(False))
