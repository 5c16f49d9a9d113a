"""What a plan is made from: a snapshot in the store, or a fresh read of the cluster; and where it is stored.

Source: docs/operations.md, "The plan".
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, NamedTuple, TypedDict

from msgspec import structs

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.context.builder import build_leniently
from controller_core.context.context import ControllerContext
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import Dialect, Evidence, detect_version, dialect_for
from controller_core.model.errors import ObjectMissingError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.model.words import counted
from controller_core.plans.checks import unmet
from controller_core.plans.conditions import AssignedTo, ZooKeeperControllerRules
from controller_core.plans.kinds import Origin, Refused
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut, Plan, SnapshotReference
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.cluster.min_isr import min_insync_replicas, recorded_min_insync_replicas
from kafka_maintenance.operations.cluster.observe import observe, observe_tables, session
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.plans.store import StoredPlan, store_plan
from kafka_maintenance.operations.snapshots.catalog import newest_snapshot, read_manifest, read_table

_TABLES: Final = ("partitions", "topics", "brokers", "requests", "notifications", "cluster", "bad_rows")


class Seen(NamedTuple):
    """What a plan is made from, for whom, the folder (a key prefix) that it is stored under, what is doubtful, and what tells
    min.insync.replicas of topics.
    """

    observed: Observation
    origin: Origin
    folder: str
    dialect: Dialect
    doubt: str | None = None
    min_isr: Callable[[Collection[str]], Mapping[str, int]] = lambda _: {}


class Source(TypedDict, total=False):
    """What `see` reads, and a function that makes a plan passes on: `see` says what each one means."""

    manifest: str | None
    zookeeper: ClusterAddress | ZooKeeper | None
    kafka_version: str | None
    now: datetime | None


def see(
    store: ObjectStore,
    cluster: str,
    *,
    manifest: str | None = None,
    zookeeper: ClusterAddress | ZooKeeper | None = None,
    kafka_version: str | None = None,
    now: datetime | None = None,
) -> Seen:
    """The cluster as a plan is made from it: live where an address or a session is given and no snapshot is named.

    Args:
        store: where the snapshots are.
        cluster: its name in the store.
        manifest: address of the snapshot's manifest; None: the newest one, or a live read.
        zookeeper: the cluster's address, or a session; None: a snapshot is read.
        kafka_version: of the brokers; None: the oldest that explains what is seen.
        now: the time, for a live read's folder; None: the clock's.

    Raises:
        BadInputError: no snapshot, one of another cluster, or no Kafka tree.
    """
    if manifest is None and zookeeper is not None:
        with session(zookeeper) as opened_session:
            observed = observe(opened_session)
        day = (now or datetime.now(UTC)).astimezone(UTC).date()
        folder = f"v1/cluster={cluster}/date={day}/live/"
        dialect = dialect_of(observed, kafka_version)
        return Seen(observed, Origin(cluster), folder, dialect, min_isr=partial(_min_isr_now, zookeeper))
    return _see_in_snapshot(store, cluster, manifest, kafka_version)


def matches(topic: str, patterns: Collection[str]) -> bool:
    """Whether one of these shell patterns matches the topic; without any, every topic is meant."""
    return not patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)


def require_topics(cluster: str, observed: Observation, patterns: Iterable[str]) -> None:
    """Refuses shell patterns of which one matches no topic, so that a mistyped one is not taken for no wish."""
    unmatched = [each for each in patterns if not any(fnmatchcase(name, each) for name in observed.topics)]
    if unmatched:
        raise BadInputError(
            f"nothing planned for {cluster!r}: a topic for each pattern expected, none of {len(observed.topics)} found for "
            f"{listed(unmatched)}; change the patterns"
        )


def dialect_of(observed: Observation, kafka_version: str | None) -> Dialect:
    """The rules of the version that is named, or of the oldest one that explains what is seen."""
    if kafka_version is not None:
        return dialect_for(kafka_version)
    epoch, version = observed.controller_epoch, observed.controller_epoch_version
    evidence = Evidence(
        broker_json_versions=tuple(observed.broker_json_versions.values()),
        topic_json_versions=tuple(observed.topic_json_versions),
        controller_json_version=observed.controller_json_version,
        controller_epoch_version=None if epoch is None or version is None else version - epoch + 1,
        has_recovery_state=any(state.recovery for state in observed.states.values()),
        version_znodes=observed.version_znodes,
    )
    return dialect_for(detect_version(evidence).version)


def context_of(seen: Seen, *, with_requests: bool = False) -> ControllerContext:
    """The controller's view; deletion counts as enabled, since the tree does not tell and Kafka's answer will.

    `with_requests`: also of the reassignments and elections that are asked for and not begun.
    """
    observed = seen.observed
    controller_id = BrokerId(-1) if observed.active_controller is None else observed.active_controller.controller_id
    return build_leniently(
        dialect=seen.dialect,
        config=ControllerConfig(controller_id=controller_id, delete_topic=True),
        brokers=observed.brokers.values(),
        assignments=observed.assignments,
        states=observed.states,
        topics=observed.topics,
        topics_to_be_deleted=observed.queued_topics,
        reassignment_targets=observed.reassign_requests if with_requests else {},
        preferred_elections=observed.election_requests if with_requests else (),
        epoch=observed.controller_epoch or 0,
        epoch_zk_version=observed.controller_epoch_version or 0,
    ).context


def _see_in_snapshot(store: ObjectStore, cluster: str, address: str | None, kafka_version: str | None) -> Seen:
    manifest = _manifest(store, cluster, address)
    tables = {name: read_table(store, manifest, name) for name in _TABLES}
    observed = observe_tables(tables)
    origin = Origin(cluster, SnapshotReference(manifest.uri, manifest.digest))
    doubt = None
    if not manifest.consistent:
        doubt = f"The snapshot is not of one moment ({manifest.reason}); what differs is refused when it is applied."
    dialect = dialect_of(observed, kafka_version)
    return Seen(observed, origin, f"{manifest.prefix}/", dialect, doubt, partial(_min_isr_in_snapshot, store, manifest))


def _min_isr_now(zookeeper: ClusterAddress | ZooKeeper, topics: Collection[str]) -> Mapping[str, int]:
    with session(zookeeper) as opened_session:
        return min_insync_replicas(opened_session, topics)


def _min_isr_in_snapshot(store: ObjectStore, manifest: Manifest, topics: Collection[str]) -> Mapping[str, int]:
    return recorded_min_insync_replicas(read_table(store, manifest, "configs"), topics)


def _manifest(store: ObjectStore, cluster: str, address: str | None) -> Manifest:
    if address is None:
        newest = newest_snapshot(store, cluster)
        if newest is None:
            raise BadInputError(
                f"nothing planned for {cluster!r}: the store {store.uri} has no snapshot of it; take one first, "
                "or plan from the live cluster"
            )
        return newest
    try:
        manifest = read_manifest(store, address)
    except ObjectMissingError:
        raise BadInputError(
            f"nothing planned for {cluster!r}: no manifest at {address!r} in {store.uri}; list the snapshots, or take one"
        ) from None
    if manifest.cluster != cluster:
        raise BadInputError(
            f"nothing planned for {cluster!r}: snapshot {manifest.uri} is of {manifest.cluster!r}; name one of {cluster!r}"
        )
    return manifest


def store_made(
    store: ObjectStore, made: Plan | Refused, seen: Seen, *, proof: Mapping[str, Any] | None = None
) -> StoredPlan | None:
    """Stores a plan that was made; None where it has no steps.

    Args:
        store: of snapshots, plans and records.
        made: the plan, or why there is none.
        seen: what it was made from.
        proof: of the planner; None: none.

    Raises:
        RefusedError: it was refused, with the reasons; or the cluster is on its way to KRaft.
    """
    if isinstance(made, Refused):
        raise RefusedError(f"nothing planned for {seen.origin.cluster!r}: {listed(made.reasons)}")
    if not made.steps:
        return None
    if seen.observed.kraft_sign is not None:
        reasons = unmet((ZooKeeperControllerRules(),), seen.observed)
        raise RefusedError(f"nothing planned for {seen.origin.cluster!r}: {listed(reasons)}")
    unreadable = tuple(
        LeftOut(path, f"cannot be read: {what}") for path, what in sorted(seen.observed.unreadable.items())
    )
    made = structs.replace(made, left_out=(*made.left_out, *unreadable))
    if not seen.dialect.min_isr_capped_by_replicas:
        made = structs.replace(made, risks=(*_min_isr_risk(made, seen), *made.risks))
    if seen.doubt is not None:
        made = structs.replace(made, risks=(seen.doubt, *made.risks))
    return store_plan(store, made, seen.folder, proof=proof)


def _min_isr_risk(made: Plan, seen: Seen) -> Iterator[str]:
    """Which partitions a step leaves with fewer replicas than producers with acks=all need.

    Source: Kafka 3.6 `Partition.appendRecordsToLeader`; KAFKA-15583 for 3.7.
    """
    fewer: dict[TopicPartition, int] = {}
    for step in made.steps:
        before = {each.partition: len(each.replicas) for each in step.expectations if isinstance(each, AssignedTo)}
        for each in step.outcomes:
            if isinstance(each, AssignedTo) and (size := len(each.replicas)) < before.get(each.partition, 0):
                fewer[each.partition] = min(size, fewer.get(each.partition, size))
    wanted = seen.min_isr({each.topic for each in fewer}) if fewer else {}
    short = [each for each, size in fewer.items() if size < wanted.get(each.topic, 1)]
    if short:
        first = short[0]
        yield (
            f"{counted(len(short), 'partition', 'get')} fewer replicas than min.insync.replicas, {first} first ({fewer[first]}, and "
            f"{wanted[first.topic]} are wanted): brokers older than Kafka 3.7 refuse from then on what producers with acks=all send. Lower the "
            "setting first, or keep more replicas."
        )
