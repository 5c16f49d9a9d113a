"""Makes plans: from a snapshot in the store or from a fresh read of the cluster, by the rules of `controller_core`.

A plan is stored beside the snapshot it was made from. Making one writes nothing to a cluster.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.context.builder import build_leniently
from controller_core.context.context import ControllerContext
from controller_core.controller.deletion_eligibility import deletion_eligibility
from controller_core.controller.leader_imbalance import NOT_IN_ISR, leader_imbalance
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import Dialect, Evidence, detect_version, dialect_for
from controller_core.model.errors import ObjectMissingError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.kinds import Origin, Refused, deletions_plan, drain_plan, elections_plan, reassignment_plan
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut, Plan, SnapshotReference
from controller_core.plans.request_znodes import CreateReassignPartitions, Target
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.cluster.observe import observe, observe_tables, session
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.plans.planner import cut, prediction, propose
from kafka_maintenance.operations.plans.sizes import Sizes
from kafka_maintenance.operations.plans.store import StoredPlan, load_plan, store_plan
from kafka_maintenance.operations.plans.topic_use import (
    NOBODY_ASKED,
    UNUSED_DAYS,
    BrokersAsked,
    ask_use,
    in_words,
    why_in_use,
)
from kafka_maintenance.operations.snapshots.catalog import newest_snapshot, read_manifest, read_table
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.waves import Limits

_REASONS_SHOWN_MAX = 5
_TABLES = ("partitions", "topics", "brokers", "requests", "notifications", "cluster", "bad_rows")


class _Seen(NamedTuple):
    """What a plan is made from, for whom, the folder (a key prefix) that it is stored under, and what is doubtful."""

    observed: Observation
    origin: Origin
    folder: str
    dialect: Dialect
    doubt: str | None = None


def plan_elections(
    store: ObjectStore,
    cluster: str,
    *,
    manifest: str | None = None,
    zookeeper: ClusterAddress | ZooKeeper | None = None,
    election_count_max: int | None = None,
    topics: Sequence[str] = (),
    kafka_version: str | None = None,
    now: datetime | None = None,
) -> StoredPlan | None:
    """Elections that give partitions back to their preferred leaders, those of the most imbalanced brokers first.

    Args:
        store: where the snapshot lies and the plan goes.
        cluster: its name in the store.
        manifest: address of the snapshot's manifest; None: the newest one, or a live read when `zookeeper` is given.
        zookeeper: the cluster's address or a session; it is read live.
        election_count_max: at most so many; None: all.
        topics: only topics that match one of these shell patterns; empty: all.
        kafka_version: of the brokers; None: the oldest that explains what is seen.
        now: the time, for a live read's folder; None: the clock's.

    Returns:
        The stored plan, or None when there is nothing to elect.

    Raises:
        RefusedError: the cluster may not be asked, with the reasons.
        BadInputError: no snapshot, no Kafka tree, or a pattern that no topic matches.
    """
    seen = _seen(store, cluster, manifest, zookeeper, kafka_version, now)
    electable, left_out = _electable(seen, topics)
    made = elections_plan(
        seen.observed, seen.origin, electable, left_out=left_out, election_count_max=election_count_max
    )
    return _stored(store, made, seen)


def plan_reassignment(
    store: ObjectStore,
    cluster: str,
    *,
    manifest: str | None = None,
    zookeeper: ClusterAddress | ZooKeeper | None = None,
    waves: Sequence[Sequence[Target]] | None = None,
    goals: Goals | None = None,
    move_count_max: int | None = None,
    limits: Limits | None = None,
    sizes: Sizes | None = None,
    may_change_replication_factor: bool = False,
    throttle_bytes_per_s: int | None = None,
    kafka_version: str | None = None,
    now: datetime | None = None,
) -> StoredPlan | None:
    """Moves of replicas, wave by wave: the next one starts when the former one is in sync.

    `waves` are the targets, and the plan says what the controller's rules make of them; without them the planner chooses
    the fewest moves that reach `goals` (by default: replicas and leaders balanced over brokers and racks), at most
    `move_count_max` copies; its certificate is stored beside the plan, with all that is needed to verify it again.
    `limits` cut what the planner chose, or the one given wave. Limits and goals in bytes need the `sizes` of the partitions
    (`partition_sizes`). `may_change_replication_factor` says whether a given target may be longer or shorter than the
    present list. `throttle_bytes_per_s` is how fast each broker may send, and receive, what is copied; None: as fast as it
    can. The other arguments are those of `plan_elections`.

    Returns:
        The stored plan, or None when everything is where it should be.

    Raises:
        RefusedError: a target must not be asked for, or the cluster may not be asked; with the reasons.
        BadInputError: no snapshot, no Kafka tree, `sizes` lack a partition, or an argument would have no effect.
    """
    _require_effect(cluster, waves, goals, move_count_max, limits, sizes, may_differ=may_change_replication_factor)
    seen = _seen(store, cluster, manifest, zookeeper, kafka_version, now)
    if waves is not None:
        asked = partial(
            reassignment_plan,
            seen.observed,
            seen.origin,
            may_change_replication_factor=may_change_replication_factor,
            throttle_bytes_per_s=throttle_bytes_per_s,
        )
        made = _given(seen, asked, waves, limits, sizes)
        return _stored(store, made, seen)
    wanted = goals or Goals()
    caps = [cap for cap in (wanted.moves_max, move_count_max) if cap is not None]
    wanted = replace(wanted, moves_max=min(caps, default=None))
    proposal = propose(seen.observed, wanted, limits, dialect=seen.dialect, sizes=sizes)
    if proposal is None:
        return None
    planned = reassignment_plan(
        seen.observed,
        seen.origin,
        proposal.waves,
        may_change_replication_factor=wanted.replication_factor is not None,
        left_out=proposal.left_out,
        remarks=proposal.remarks,
        why=proposal.why,
        throttle_bytes_per_s=throttle_bytes_per_s,
    )
    return _stored(store, planned, seen, proof=proposal.proof)


def plan_deletions(
    store: ObjectStore,
    cluster: str,
    *,
    topics: Sequence[str] = (),
    manifest: str | None = None,
    zookeeper: ClusterAddress | ZooKeeper | None = None,
    brokers: BrokersAsked | None = None,
    unused_days: int = UNUSED_DAYS,
    even_if_used: bool = False,
    kafka_version: str | None = None,
    now: datetime | None = None,
) -> StoredPlan | None:
    """Deletion of the named topics that are eligible and that nobody uses; the others are left out with every reason.

    `topics` are exact names, no patterns: nothing is deleted that nobody named. `brokers` are asked who uses them, and the
    approver reads what they say; None: nobody is asked, which the plan says. A topic is in use when a group has members
    that read it or offsets of it, or when somebody wrote to it within `unused_days`; that, or that a program made it for
    itself (a changelog, a Connect cluster's state), keeps it out unless `even_if_used`. The other arguments are those of
    `plan_elections`.

    Returns:
        The stored plan, or None when no topic was named.

    Raises:
        RefusedError: a topic does not exist, none is eligible, or the cluster may not be asked; with the reasons.
        UseUnknownError, SizesUnknownError: the brokers do not say who uses the topics.
        BadInputError: no snapshot, or no Kafka tree.
    """
    if not topics:
        return None
    seen = _seen(store, cluster, manifest, zookeeper, kafka_version, now)
    eligible, left_out = _deletable(seen, topics)
    use = ask_use(seen.observed, eligible, brokers, unused_days=unused_days, now=now)
    used = {topic: why for topic, found in use.items() if (why := why_in_use(found, unused_days=unused_days))}
    if not even_if_used:
        left_out += [LeftOut(topic, f"{why}; {in_words(use[topic])}") for topic, why in used.items()]
        eligible = [topic for topic in eligible if topic not in used]
    made = deletions_plan(
        seen.observed,
        seen.origin,
        eligible,
        left_out=left_out,
        evidence={topic: in_words(found) for topic, found in use.items()},
        even_if_used=even_if_used,
    )
    if isinstance(made, Plan):
        warned = [f"{topic} is in use: {why}." for topic, why in sorted(used.items()) if topic in eligible]
        made = replace(made, risks=(*([NOBODY_ASKED] if brokers is None else []), *warned, *made.risks))
    if isinstance(made, Plan) and not made.steps:
        reasons = [f"{each.subject}: {each.reason}" for each in made.left_out]
        raise RefusedError(f"no deletion planned for {cluster!r}: no topic is eligible: {listed(reasons)}")
    return _stored(store, made, seen)


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

    Returns:
        The stored plan, or None when nothing lingers.

    Raises:
        RefusedError: nobody is in active_controller, or a re-election would not drain (up to Kafka 1.0).
        BadInputError: no Kafka tree.
    """
    moment = now or datetime.now(UTC)
    seen = _seen(store, cluster, None, zookeeper, kafka_version, moment)
    made = drain_plan(
        seen.observed,
        seen.origin,
        now_ms=int(moment.timestamp() * 1000),
        linger_age_ms=int(age_min_s * 1000),
        failover_deletes_notifications=seen.dialect.failover_deletes_notifications,
    )
    return _stored(store, made, seen)


def _deletable(seen: _Seen, topics: Iterable[str]) -> tuple[list[str], list[LeftOut]]:
    """The topics against whose deletion nothing stands, and the others with every reason."""
    context, unreadable = _context(seen, with_requests=True), _unreadable_of_topics(seen.observed)
    eligible: list[str] = []
    left_out: list[LeftOut] = []
    for topic in sorted(set(topics)):
        found = deletion_eligibility(context, topic, unreadable=unreadable.get(topic))
        if found.eligible or topic not in seen.observed.topics.keys() | unreadable.keys():
            eligible.append(topic)  # an unknown one is refused by name
        else:
            left_out.append(LeftOut(topic, _joined([reason.text for reason in found.reasons])))
    return eligible, left_out


def _unreadable_of_topics(observed: Observation) -> dict[str, str]:
    """Topic → the first of its znodes that cannot be read, and why."""
    found: dict[str, str] = {}
    for path, what in sorted(observed.unreadable.items()):
        if path.startswith(f"{znodes.TOPICS}/"):
            found.setdefault(path.split("/")[3], f"{path}: {what}")
    return found


def _require_effect(
    cluster: str,
    waves: Sequence[Sequence[Target]] | None,
    goals: Goals | None,
    move_count_max: int | None,
    limits: Limits | None,
    sizes: Sizes | None,
    *,
    may_differ: bool,
) -> None:
    """Refuses what would be dropped: targets are given, or the planner chooses them; limits in bytes need sizes."""
    chosen = [name for name, value in (("goals", goals), ("move_count_max", move_count_max)) if value is not None]
    problem = None
    if waves is not None and chosen:
        problem = f"given targets (--targets) and {', '.join(chosen)} for the planner exclude each other; leave out one of them"
    elif waves is not None and len(waves) > 1 and limits is not None:
        problem = (
            f"{len(waves)} --targets are waves already, limits would cut them again; give one, or leave the limits out"
        )
    elif waves is not None and limits is None and sizes is not None:
        problem = (
            "given targets (--targets) are not chosen by sizes (--sizes); leave these out, or give limits of waves"
        )
    elif waves is None and may_differ:
        problem = (
            "--change-replication-factor is for given targets, and --targets is missing; give them, or the goal "
            "--replication-factor to the planner"
        )
    elif limits is not None and limits.in_bytes and sizes is None:
        problem = (
            f"{', '.join(limits.in_bytes)} (--wave-bytes, --bandwidth, --window-s) need the sizes of the partitions, none "
            "found; give --sizes"
        )
    if problem is not None:
        raise BadInputError(f"nothing planned for {cluster!r}: {problem}")


def _given(
    seen: _Seen,
    asked: Callable[..., Plan | Refused],
    waves: Sequence[Sequence[Target]],
    limits: Limits | None,
    sizes: Sizes | None,
) -> Plan | Refused:
    """Targets that somebody else chose, one wave cut under `limits`, with what the controller's rules make of them."""
    made = asked(waves)
    if isinstance(made, Refused) or not made.steps:
        return made
    if limits is not None:
        shorter, remarks = cut(seen.observed, waves[0], limits, sizes)
        again = asked(shorter, left_out=made.left_out, remarks=remarks)
        if isinstance(again, Refused):
            return again
        made = again
    steps = [effect.targets for effect in made.effects if isinstance(effect, CreateReassignPartitions)]
    return replace(made, risks=(prediction(seen.observed, steps, dialect=seen.dialect), *made.risks))


def _electable(seen: _Seen, topics: Sequence[str]) -> tuple[list[TopicPartition], list[LeftOut]]:
    """The partitions to elect, most imbalanced brokers first, and the imbalanced ones that cannot be elected."""
    unmatched = [pattern for pattern in topics if not any(fnmatchcase(name, pattern) for name in seen.observed.topics)]
    if unmatched:
        raise BadInputError(
            f"nothing planned for {seen.origin.cluster!r}: a topic for each pattern expected, none of "
            f"{len(seen.observed.topics)} found for {listed(unmatched)}; change the patterns"
        )
    electable: list[TopicPartition] = []
    left_out: list[LeftOut] = []
    imbalance = leader_imbalance(_context(seen))
    for _, found in sorted(imbalance.items(), key=lambda item: (-item[1].ratio, item[0])):
        left_out += [LeftOut(str(each), reason) for each, reason in found.not_electable if _matches(each.topic, topics)]
        for each in found.electable:
            if not _matches(each.topic, topics):
                continue
            reason = _why_not(each, seen.observed)
            if reason is None:
                electable.append(each)
            else:
                left_out.append(LeftOut(str(each), reason))
    return electable, left_out


def _why_not(partition: TopicPartition, observed: Observation) -> str | None:
    """What the automatic run of old versions tries all the same; a request would be in vain, or meets a reassignment."""
    assignment, state = observed.assignments[partition], observed.states.get(partition)
    if assignment.is_being_reassigned:
        return "is being reassigned"
    if state is not None and state.leader not in observed.brokers:
        return "has no live leader"
    return None if state is not None and assignment.replicas[0] in state.isr else NOT_IN_ISR


def _seen(
    store: ObjectStore,
    cluster: str,
    manifest: str | None,
    zookeeper: ClusterAddress | ZooKeeper | None,
    kafka_version: str | None,
    now: datetime | None,
) -> _Seen:
    if manifest is None and zookeeper is not None:
        with session(zookeeper) as opened_session:
            observed = observe(opened_session)
        day = (now or datetime.now(UTC)).astimezone(UTC).date()
        folder = f"v1/cluster={cluster}/date={day}/live/"
        return _Seen(observed, Origin(cluster), folder, _dialect(observed, kafka_version))
    return _seen_in_snapshot(store, cluster, manifest, kafka_version)


def _dialect(observed: Observation, kafka_version: str | None) -> Dialect:
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


def _context(seen: _Seen, *, with_requests: bool = False) -> ControllerContext:
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


def _seen_in_snapshot(store: ObjectStore, cluster: str, address: str | None, kafka_version: str | None) -> _Seen:
    manifest = _manifest(store, cluster, address)
    tables = {name: read_table(store, manifest, name) for name in _TABLES}
    observed = observe_tables(tables)
    origin = Origin(cluster, SnapshotReference(manifest.uri, manifest.digest))
    doubt = None
    if not manifest.consistent:
        doubt = f"The snapshot is not of one moment ({manifest.reason}); what differs is refused when it is applied."
    return _Seen(observed, origin, f"{manifest.prefix}/", _dialect(observed, kafka_version), doubt)


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


def _stored(
    store: ObjectStore, made: Plan | Refused, seen: _Seen, *, proof: Mapping[str, Any] | None = None
) -> StoredPlan | None:
    if isinstance(made, Refused):
        raise RefusedError(f"nothing planned for {seen.origin.cluster!r}: {listed(made.reasons)}")
    if not made.steps:
        return None
    unreadable = tuple(
        LeftOut(path, f"cannot be read: {what}") for path, what in sorted(seen.observed.unreadable.items())
    )
    made = replace(made, left_out=(*made.left_out, *unreadable))
    if seen.doubt is not None:
        made = replace(made, risks=(seen.doubt, *made.risks))
    return store_plan(store, made, seen.folder, proof=proof)


def _matches(topic: str, patterns: Iterable[str]) -> bool:
    wanted = tuple(patterns)
    return not wanted or any(fnmatchcase(topic, pattern) for pattern in wanted)


def _joined(texts: Sequence[str]) -> str:
    shown = "; ".join(texts[:_REASONS_SHOWN_MAX])
    return shown if len(texts) <= _REASONS_SHOWN_MAX else f"{shown}; and {len(texts) - _REASONS_SHOWN_MAX} more reasons"


__all__ = [
    "BrokersAsked",
    "StoredPlan",
    "load_plan",
    "plan_deletions",
    "plan_drain",
    "plan_elections",
    "plan_reassignment",
]
