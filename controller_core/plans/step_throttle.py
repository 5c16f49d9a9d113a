"""The replication throttle of one step: exactly what it moves, at the rate of its plan; set, and taken back, beside what others set.

Source: Kafka 3.9 `ReassignPartitionsCommand`, KIP-73; `controller_core.admin.throttles`.
"""

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from controller_core.admin.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    follower_throttles,
    leader_throttles,
    move_map,
    reassigning_brokers,
)
from controller_core.plans.conditions import AssignedTo
from controller_core.plans.plan import PlanStep
from controller_core.plans.request_znodes import request_targets
from controller_core.plans.rules import ThrottleBand

Overrides = Mapping[str, str]


class Throttled(NamedTuple):
    """One override that a run sets: of which entity (`topics/orders`, `brokers/4`), its key, our value, and what was there.

    `before` is None where nothing was. An entity whose throttled replicas somebody else named is left as it is.
    """

    entity: str
    key: str
    value: str
    before: str | None


def step_throttle(step: PlanStep, bytes_per_s: int) -> dict[str, dict[str, str]]:
    """What a throttle of the step overrides, by entity; empty where the step copies nothing.

    A partition that gains no replica is in no list; a broker is limited when it may send or receive.
    """
    current = {each.partition: each.replicas for each in step.expectations if isinstance(each, AssignedTo)}
    proposed = {
        target.partition: target.replicas
        for effect in step.effects
        for target in request_targets(effect)
        if target.partition in current and not set(target.replicas) <= set(current[target.partition])
    }
    moves = move_map({}, proposed, current)
    leaders, followers = leader_throttles(moves), follower_throttles(moves)
    rates = {LEADER_RATE: str(bytes_per_s), FOLLOWER_RATE: str(bytes_per_s)}
    topics = {
        f"topics/{topic}": {LEADER_REPLICAS: leaders[topic], FOLLOWER_REPLICAS: followers[topic]} for topic in leaders
    }
    return {**topics, **{f"brokers/{broker}": dict(rates) for broker in reassigning_brokers(moves)}}


def rate_of_step(
    throttle: int | ThrottleBand, before: int | None, *, was_calm: bool, written_bytes_per_s: float = 0.0
) -> int:
    """The rate of a step: the given one, or one of the band.

    Args:
        throttle: of the plan.
        before: the rate of the step before; None: this is the first.
        was_calm: nothing stood still then, and the rest of the cluster was well.
        written_bytes_per_s: what is written to the partitions that the busiest broker gets.
    """
    if isinstance(throttle, int):
        return throttle
    wanted = throttle.least if before is None else before * 2 if was_calm else before // 2
    return min(throttle.most, max(throttle.least, wanted, ceil(2 * written_bytes_per_s)))


def to_set(wanted: Mapping[str, Overrides], found: Mapping[str, Overrides]) -> tuple[Throttled, ...]:
    """What is set of `wanted`, given the overrides that were `found`: rates always, replicas where nobody else named some."""
    return tuple(
        Throttled(entity, key, value, found.get(entity, {}).get(key))
        for entity, overrides in sorted(wanted.items())
        for key, value in overrides.items()
        if entity.startswith("brokers/") or key not in found.get(entity, {})
    )


def overridden(entity: str, overrides: Overrides, throttled: tuple[Throttled, ...]) -> dict[str, str]:
    """The overrides of the entity with ours; what was changed since it was looked at stays."""
    ours = {
        each.key: each.value for each in throttled if each.entity == entity and overrides.get(each.key) == each.before
    }
    return {**overrides, **ours}


def taken_back(entity: str, overrides: Overrides, throttled: tuple[Throttled, ...]) -> dict[str, str]:
    """The overrides of the entity without ours: the former value where there was one; what was changed since stays.

    A list of nothing but our replicas is ours, in whatever order and if some are missing: Kafka's tool (2.6) writes the lists of every
    topic that is moved when it throttles its own, names what is still under way, and removes only those of its own topics.
    Source: Kafka 3.9 `ReassignPartitionsCommand.modifyReassignmentThrottle`, `clearTopicLevelThrottles`.
    """
    kept = dict(overrides)
    for each in throttled:
        if each.entity != entity or not _is_ours(each, kept.get(each.key)):
            continue
        if each.before is None:
            del kept[each.key]
        else:
            kept[each.key] = each.before
    return kept


def _is_ours(override: Throttled, found: str | None) -> bool:
    return found is not None and set(found.split(",")) <= set(override.value.split(","))
