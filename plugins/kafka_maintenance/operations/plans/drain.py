"""Plans of a forced re-election, which drains ISR-change notifications that linger; nothing is written to a cluster.

Source: docs/operations.md, "The plan".
"""

from datetime import UTC, datetime

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.plans.kinds import drain_plan
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.plans.seen import see, store_made
from kafka_maintenance.operations.plans.store import StoredPlan


def plan_drain(
    store: ObjectStore,
    cluster: str,
    *,
    zookeeper: ClusterAddress | ZooKeeper,
    age_min_s: float = 60.0,
    kafka_version: str | None = None,
    now: datetime | None = None,
) -> StoredPlan | None:
    """A forced re-election, where ISR-change notifications of at least `age_min_s` linger; always from a live read.

    A request znode that names only partitions that are gone lingers, too.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        zookeeper: the living cluster.
        age_min_s: of a notification that lingers, in seconds.
        kafka_version: of the brokers; None: as the snapshot shows.
        now: the time for the record, UTC; None: the clock's.

    Returns:
        The stored plan, or None when nothing lingers.

    Raises:
        RefusedError: no controller is active, or a re-election would not drain (up to Kafka 1.0).
        BadInputError: no Kafka tree.
    """
    moment = now or datetime.now(UTC)
    seen = see(store, cluster, zookeeper=zookeeper, kafka_version=kafka_version, now=moment)
    made = drain_plan(
        seen.observed,
        seen.origin,
        now_ms=int(moment.timestamp() * 1000),
        linger_age_ms=int(age_min_s * 1000),
        failover_deletes_notifications=seen.dialect.failover_deletes_notifications,
    )
    return store_made(store, made, seen)
