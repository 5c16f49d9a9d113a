"""Makes plans: from a snapshot in the store or from a fresh read of the cluster, by the rules of `controller_core`.

A plan is stored beside the snapshot it was made from. Making one writes nothing to a cluster.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial

from msgspec import structs

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.controller.deletion_eligibility import deletion_eligibility
from controller_core.controller.leader_imbalance import NOT_IN_ISR, leader_imbalance
from controller_core.model.partitions import TopicPartition, is_topic_name
from controller_core.model.words import first_reasons
from controller_core.plans.headroom import Headroom
from controller_core.plans.kinds import (
    Refused,
    cancel_plan,
    deletions_plan,
    drain_plan,
    elections_plan,
    reassignment_plan,
)
from controller_core.plans.kinds.elections import ELECTIONS_PER_MINUTE
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut, Plan
from controller_core.plans.progress import copy_seconds
from controller_core.plans.request_znodes import Target
from controller_core.plans.rules import Throttle, rates_of
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.plans.planner import cut, propose, with_prediction
from kafka_maintenance.operations.plans.seen import Seen, context_of, require_topics, see, store_made
from kafka_maintenance.operations.plans.sizes import Sizes
from kafka_maintenance.operations.plans.store import StoredPlan, load_plan
from kafka_maintenance.operations.plans.topic_use import (
    NOBODY_ASKED,
    UNUSED_DAYS,
    ask_use,
    in_words,
    why_in_use,
)
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.waves import Limits

_REASONS_SHOWN_MAX = 5


def plan_elections(
    store: ObjectStore,
    cluster: str,
    *,
    manifest: str | None = None,
    zookeeper: ClusterAddress | ZooKeeper | None = None,
    election_count_max: int | None = None,
    elections_per_minute: int = ELECTIONS_PER_MINUTE,
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
        elections_per_minute: so many in one step; where there are several, a minute passes between two.
        topics: only topics that match one of these shell patterns; empty: all.
        kafka_version: of the brokers; None: the oldest that explains what is seen.
        now: the time, for a live read's folder; None: the clock's.

    Returns:
        The stored plan, or None when there is nothing to elect.

    Raises:
        RefusedError: the cluster may not be asked, with the reasons.
        BadInputError: no snapshot, no Kafka tree, or a pattern that no topic matches.
    """
    seen = see(store, cluster, manifest, zookeeper, kafka_version, now)
    electable, left_out = _electable(seen, topics)
    made = elections_plan(
        seen.observed,
        seen.origin,
        electable,
        left_out=left_out,
        election_count_max=election_count_max,
        elections_per_minute=elections_per_minute,
    )
    return store_made(store, made, seen)


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
    throttle_bytes_per_s: Throttle | Headroom = None,
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

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        manifest: address of the snapshot it is made from; None: the newest, or a live read.
        zookeeper: the living cluster; None: none.
        waves: the targets, wave by wave; None: the planner chooses.
        goals: of the planner.
        move_count_max: at most so many copies; None: no limit.
        limits: of one wave.
        sizes: bytes of a replica of each partition; None: unknown.
        may_change_replication_factor: a given target may be longer or shorter than the present list.
        throttle_bytes_per_s: what each broker may send, and receive, of what is copied, a band, or what each can spare; None: no limit.
        kafka_version: of the brokers; None: as the snapshot shows.
        now: the time for the record, UTC; None: the clock's.

    Returns:
        The stored plan, or None when everything is where it should be.

    Raises:
        RefusedError: a target must not be asked for, or the cluster may not be asked; with the reasons.
        BadInputError: no snapshot, no Kafka tree, `sizes` lack a partition, a pattern that no topic matches, a broker that there is not,
            or an argument would have no effect.
    """
    _require_effect(cluster, waves, goals, move_count_max, limits, sizes, may_differ=may_change_replication_factor)
    seen = see(store, cluster, manifest, zookeeper, kafka_version, now)
    if waves is not None:
        asked = partial(
            reassignment_plan,
            seen.observed,
            seen.origin,
            may_change_replication_factor=may_change_replication_factor,
            throttle_bytes_per_s=throttle_bytes_per_s,
        )
        made = _with_duration(_given(seen, asked, waves, limits, sizes), seen, sizes)
        return store_made(store, made, seen)
    wanted = goals or Goals()
    if seen.observed.topics:  # without any there is nothing to do, whatever the patterns
        require_topics(cluster, seen.observed, wanted.include_topics)
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
        remarks=(*wanted.without_effect(seen.observed.topics), *proposal.remarks),
        why=proposal.why,
        throttle_bytes_per_s=throttle_bytes_per_s,
    )
    return store_made(store, _with_duration(planned, seen, sizes), seen, proof=proposal.proof)


def plan_cancel(
    store: ObjectStore,
    cluster: str,
    *,
    manifest: str | None = None,
    zookeeper: ClusterAddress | ZooKeeper | None = None,
    kafka_version: str | None = None,
    now: datetime | None = None,
) -> StoredPlan | None:
    """Back to the former replicas with all that Kafka (2.4 or newer) moves now, whoever asked for it.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        manifest: address of the snapshot it is made from; None: the newest, or a live read.
        zookeeper: the living cluster; None: none.
        kafka_version: of the brokers; None: as the snapshot shows.
        now: the time for the record, UTC; None: the clock's.

    Returns:
        The stored plan, or None when nothing is moved.

    Raises:
        RefusedError: the cluster may not be asked, or the request that stands is not begun; with the reasons.
        BadInputError: no snapshot, or no Kafka tree.
    """
    seen = see(store, cluster, manifest, zookeeper, kafka_version, now)
    return store_made(store, cancel_plan(seen.observed, seen.origin), seen)


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

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        topics: exact names.
        manifest: address of the snapshot it is made from; None: the newest, or a live read.
        zookeeper: the living cluster; None: none.
        brokers: asked who uses the topics; None: nobody is asked.
        unused_days: written to within so many days is in use.
        even_if_used: also what is in use.
        kafka_version: of the brokers; None: as the snapshot shows.
        now: the time for the record, UTC; None: the clock's.

    Returns:
        The stored plan, or None when no topic was named.

    Raises:
        RefusedError: a topic does not exist, none is eligible, or the cluster may not be asked; with the reasons.
        UseUnknownError, SizesUnknownError: the brokers do not say who uses the topics.
        BadInputError: no snapshot, or no Kafka tree.
    """
    if not topics:
        return None
    seen = see(store, cluster, manifest, zookeeper, kafka_version, now)
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
        made = structs.replace(made, risks=(*([NOBODY_ASKED] if brokers is None else []), *warned, *made.risks))
    if isinstance(made, Plan) and not made.steps:
        reasons = [f"{each.subject}: {each.reason}" for each in made.left_out]
        raise RefusedError(f"no deletion planned for {cluster!r}: no topic is eligible: {listed(reasons)}")
    return store_made(store, made, seen)


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
    seen = see(store, cluster, None, zookeeper, kafka_version, moment)
    made = drain_plan(
        seen.observed,
        seen.origin,
        now_ms=int(moment.timestamp() * 1000),
        linger_age_ms=int(age_min_s * 1000),
        failover_deletes_notifications=seen.dialect.failover_deletes_notifications,
    )
    return store_made(store, made, seen)


def _deletable(seen: Seen, topics: Iterable[str]) -> tuple[list[str], list[LeftOut]]:
    """The topics against whose deletion nothing stands, and the others with every reason."""
    context, unreadable = context_of(seen, with_requests=True), _unreadable_of_topics(seen.observed)
    eligible: list[str] = []
    left_out: list[LeftOut] = []
    for topic in sorted(set(topics)):
        found = deletion_eligibility(context, topic, unreadable=unreadable.get(topic))
        if found.eligible or topic not in seen.observed.topics.keys() | unreadable.keys():
            eligible.append(topic)  # an unknown one is refused by name
        else:
            left_out.append(
                LeftOut(topic, first_reasons([reason.text for reason in found.reasons], _REASONS_SHOWN_MAX))
            )
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
    seen: Seen,
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
    return with_prediction(made, seen)


def _with_duration(made: Plan | Refused, seen: Seen, sizes: Sizes | None) -> Plan | Refused:
    """The plan with how long its copies take under its throttle, where sizes are known."""
    if isinstance(made, Refused) or sizes is None or (throttle := made.rules.throttle_bytes_per_s) is None:
        return made
    rates, leaders = rates_of(throttle), seen.observed.leaders
    lasts = [[copy_seconds(step, leaders, sizes, rate) for step in made.steps] for rate in rates]
    words = " to ".join(f"{sum(seconds):,.0f} s at {rate:,}" for seconds, rate in zip(lasts, rates, strict=True))
    longest = max(lasts[-1], default=0.0)
    told = (
        f"The copies take about {words} bytes per second and broker, the longest step {longest:,.0f} s of it: as long as the broker "
        "that sends or receives most. What is written meanwhile comes on top."
    )
    return structs.replace(made, risks=(told, *made.risks))


def _electable(seen: Seen, topics: Sequence[str]) -> tuple[list[TopicPartition], list[LeftOut]]:
    """The partitions to elect, most imbalanced brokers first, and the imbalanced ones that cannot be elected."""
    require_topics(seen.origin.cluster, seen.observed, topics)
    electable: list[TopicPartition] = []
    left_out: list[LeftOut] = []
    imbalance = leader_imbalance(context_of(seen))
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
    if not is_topic_name(partition.topic):
        return "its topic has a name that Kafka does not allow"
    if assignment.is_being_reassigned:
        return "is being reassigned"
    if state is not None and state.leader not in observed.brokers:
        return "has no live leader"
    return None if state is not None and assignment.replicas[0] in state.isr else NOT_IN_ISR


def _matches(topic: str, patterns: Iterable[str]) -> bool:
    wanted = tuple(patterns)
    return not wanted or any(fnmatchcase(topic, pattern) for pattern in wanted)


__all__ = [
    "StoredPlan",
    "load_plan",
    "plan_cancel",
    "plan_deletions",
    "plan_drain",
    "plan_elections",
    "plan_reassignment",
]
