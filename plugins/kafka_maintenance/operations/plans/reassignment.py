"""Plans of moves of replicas, given or chosen by the planner, and plans that take moves back; nothing is written to a cluster.

A plan is stored beside the snapshot it was made from. Source: docs/operations.md, "The plan".
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Unpack

from msgspec import structs

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.plans.headroom import Headroom
from controller_core.plans.kinds import Refused, cancel_plan, reassignment_plan
from controller_core.plans.plan import Plan
from controller_core.plans.progress import copy_seconds
from controller_core.plans.request_znodes import Target
from controller_core.plans.rules import Throttle, rates_of
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.plans.planner import cut, propose, with_prediction
from kafka_maintenance.operations.plans.seen import Seen, Source, require_topics, see, store_made
from kafka_maintenance.operations.plans.sizes import Sizes
from kafka_maintenance.operations.plans.store import StoredPlan
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.waves import Limits


def plan_reassignment(
    store: ObjectStore,
    cluster: str,
    *,
    waves: Sequence[Sequence[Target]] | None = None,
    goals: Goals | None = None,
    move_count_max: int | None = None,
    limits: Limits | None = None,
    sizes: Sizes | None = None,
    may_change_replication_factor: bool = False,
    throttle_bytes_per_s: Throttle | Headroom = None,
    **source: Unpack[Source],
) -> StoredPlan | None:
    """Moves of replicas, wave by wave: the next one starts when the former one is in sync.

    Of given targets the plan says what the controller's rules make of them. Without targets the planner chooses the fewest
    moves that reach the goals; its certificate is stored beside the plan, with all that is needed to verify it again.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        waves: the targets, wave by wave; None: the planner chooses.
        goals: of the planner; None: replicas and leaders balanced over brokers and racks.
        move_count_max: at most so many copies; None: no limit.
        limits: of one wave; they cut what the planner chose, or the one given wave.
        sizes: bytes of a replica of each partition, which limits and goals in bytes need; None: unknown.
        may_change_replication_factor: a given target may be longer or shorter than the present list.
        throttle_bytes_per_s: what each broker may send, and receive, of what is copied, a band, or what each can spare; None: as fast as it can.
        **source: what the plan is made from, see `see`.

    Returns:
        The stored plan, or None when everything is where it should be.

    Raises:
        RefusedError: a target must not be asked for, or the cluster may not be asked; with the reasons.
        BadInputError: no snapshot, no Kafka tree, `sizes` lack a partition, a pattern that no topic matches, a broker that there is not,
            or an argument would have no effect.
    """
    _require_effect(cluster, waves, goals, move_count_max, limits, sizes, may_differ=may_change_replication_factor)
    seen = see(store, cluster, **source)
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
        placed_by_rack=not wanted.ignore_racks,
    )
    return store_made(store, _with_duration(planned, seen, sizes), seen, proof=proposal.proof)


def plan_cancel(
    store: ObjectStore,
    cluster: str,
    **source: Unpack[Source],
) -> StoredPlan | None:
    """Back to the former replicas with all that Kafka (2.4 or newer) moves now, whoever asked for it.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        **source: what the plan is made from, see `see`.

    Returns:
        The stored plan, or None when nothing is moved.

    Raises:
        RefusedError: the cluster may not be asked, or the request that stands is not begun; with the reasons.
        BadInputError: no snapshot, or no Kafka tree.
    """
    seen = see(store, cluster, **source)
    return store_made(store, cancel_plan(seen.observed, seen.origin), seen)


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
