"""A plan cut into ordered batches that a cluster can bear, with a lower bound on their number.

The unit is one added replica: it is copied from the partition's leader, so it loads that broker's output and the
receiver's input. Each addition is paired with the replica it replaces (in the same rack where possible), and Kafka drops
that one only after the new one is in sync: no partition ever has fewer in-sync replicas than before the wave.
Source: docs/planning.md, "Limits" and "Why the number is minimal".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_jobs.planner.bounds import UNLIMITED, Problem, leaders_problem
from spark_jobs.planner.columns import Bools, Ints, wide
from spark_jobs.planner.copies import (
    REQUEST_HEADER,
    Change,
    Copies,
    Limits,
    changing,
    copies_of,
    entry_bytes,
    lower_bound,
    oversized,
)
from spark_jobs.planner.errors import ImpossibleGoalError
from spark_jobs.planner.goals import Aim, Goals
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.wave_fit import assigned

__all__ = ["GivenLists", "Limits", "Schedule", "Wave", "schedule"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wave:
    """One batch: rows of the state and the list each of them gets now."""

    rows: Ints  # [N] rows of the state, ascending
    lists: Ints  # [N, F] positions, -1 padded
    added: int  # replicas copied
    bytes_in_max: int | None  # of the broker that receives most; None when sizes are unknown
    bytes_out_max: int | None

    @property
    def bytes_busiest(self) -> int | None:
        """Bytes through the busiest broker in one direction."""
        if self.bytes_in_max is None or self.bytes_out_max is None:
            return None
        return max(self.bytes_in_max, self.bytes_out_max)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Waves in order, the least number that the limits allow, and why it is the least."""

    waves: tuple[Wave, ...]
    lower_bound: int
    bound_reason: str
    limits: Limits
    waiting: tuple[str, ...]  # partitions without a live replica: alone in the last wave, they wait for a broker
    oversized: tuple[str, ...] = ()  # partitions larger than the byte limit: their waves break it

    @property
    def gap(self) -> int:
        """Waves above the lower bound; 0 means proven fewest."""
        return len(self.waves) - self.lower_bound

    def seconds(self, wave: Wave) -> float | None:
        """Estimated duration: bytes through the busiest broker over the bandwidth."""
        if self.limits.bandwidth is None or wave.bytes_busiest is None:
            return None
        return wave.bytes_busiest / self.limits.bandwidth

    def throttle(self, wave: Wave) -> int | None:
        """Bytes per second and broker that finish the wave in the window; None without one, or without sizes."""
        if self.limits.window_s is None or wave.bytes_busiest is None:
            return None
        return -(-wave.bytes_busiest // self.limits.window_s)

    @property
    def seconds_estimated(self) -> float | None:
        """Of all waves, one after the other; None without bandwidth or sizes."""
        seconds = [self.seconds(wave) for wave in self.waves]
        known = [s for s in seconds if s is not None]
        return round(sum(known), 1) if len(known) == len(seconds) else None

    def to_json(self, state: ClusterState) -> list[dict[str, Any]]:
        """Kafka's reassignment JSON of each wave."""
        return [_reassignment(state, wave) for wave in self.waves]

    def summary(self) -> dict[str, Any]:
        """Small figures: counts, bound, durations."""
        return {
            "waves": len(self.waves),
            "lower_bound": self.lower_bound,
            "bound_reason": self.bound_reason,
            "gap": self.gap,
            "partitions": [len(wave.rows) for wave in self.waves],
            "replicas_added": [wave.added for wave in self.waves],
            "bytes_busiest_broker": [wave.bytes_busiest for wave in self.waves],
            "throttle_needed": [self.throttle(wave) for wave in self.waves],
            "seconds_estimated": self.seconds_estimated,
            "waiting": list(self.waiting),
            "oversized": list(self.oversized),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenLists:
    """Lists that somebody else chose, to be cut into waves: nothing is proven of them."""

    state: ClusterState
    problem: Problem
    lists: Ints  # [P, F] positions, -1 padded
    changed: Ints  # [N]

    @staticmethod
    def of(state: ClusterState, rows: Ints, lists: Ints) -> GivenLists:
        """The lists of some rows of the state, each with a live replica, that stay as they are elsewhere.

        Args:
            state: the cluster.
            rows: [N] rows of the state.
            lists: [N, F] positions that they are to have, -1 padded.
        """
        problem = replace(leaders_problem(state, Goals(aim=Aim.LEADERS)), rack=state.rack.astype(np.int64))
        width = max(problem.replicas.shape[1], lists.shape[1])
        now = wide(problem.replicas.astype(np.int64), width)
        wanted = now.copy()
        wanted[np.searchsorted(problem.rows, rows)] = wide(lists, width)
        return GivenLists(state=state, problem=problem, lists=wanted, changed=np.nonzero((now != wanted).any(1))[0])


def schedule(plan: Change, limits: Limits | None = None) -> Schedule:
    """Cuts a plan into waves.

    Args:
        plan: the plan, or lists that somebody else chose.
        limits: what a wave may load.

    Returns:
        Waves that together end at the plan's lists; a partition that gains several replicas may be in several. A replica
        larger than the byte limit has a wave of its brokers to itself, which breaks that limit.

    Raises:
        ImpossibleGoalError: a limit is below one, or in bytes where the sizes are unknown.
    """
    caps = limits or Limits()
    _check(caps)
    if caps.in_bytes and plan.problem.size is None:
        raise ImpossibleGoalError(
            f"waves cut with {', '.join(caps.in_bytes)}: the sizes of the partitions expected, none found; give sizes"
        )
    copies = copies_of(plan)
    offline = np.zeros(plan.problem.partition_count, bool)
    offline[np.nonzero(np.isin(plan.problem.rows, plan.state.without_live_replica()))[0]] = True
    movable = np.nonzero(~offline[copies.partition])[0]
    bound, reason = lower_bound(plan, copies, movable, caps, offline)
    wave = assigned(plan, copies, movable, caps, bound)
    waves = _waves(plan, copies, wave, caps, offline)
    waiting = _names(plan, offline & changing(plan))
    return Schedule(
        waves=tuple(waves),
        lower_bound=bound + (1 if waiting else 0),
        bound_reason=reason,
        limits=caps,
        waiting=waiting,
        oversized=_names(plan, oversized(copies, movable, caps)),
    )


def _names(plan: Change, partitions: Ints | Bools) -> tuple[str, ...]:
    return tuple(plan.state.partition_name(int(row)) for row in plan.problem.rows[partitions])


def _check(caps: Limits) -> None:
    for name in (
        "in_max",
        "out_max",
        "broker_bytes_max",
        "partitions_max",
        "request_bytes_max",
        "bandwidth",
        "window_s",
    ):
        value = getattr(caps, name)
        if value is not None and value < 1:
            raise ImpossibleGoalError(f"waves cut with {name} {value}: 1 or more expected; raise it or leave it out")


def _waves(
    plan: Change,
    copies: Copies,
    wave: Ints,
    caps: Limits,
    offline: Bools,
) -> list[Wave]:
    """Lists per wave: a partition gets its final list in its last wave, and steps towards it before."""
    width = max(plan.lists.shape[1], plan.problem.replicas.shape[1])
    count = int(wave.max(initial=-1)) + 1
    steps: list[list[tuple[int, Ints]]] = []
    partition, at = np.unique(np.stack([copies.partition[wave >= 0], wave[wave >= 0]]), axis=1)
    last = np.full(plan.problem.partition_count, -1, np.int64)
    np.maximum.at(last, partition, at)
    steps = [[] for _ in range(count)]
    final = at == last[partition]
    for p, w in zip(partition[final].tolist(), at[final].tolist(), strict=True):
        steps[w].append((p, plan.lists[p]))
    early = np.unique(partition[~final])
    by_partition = np.argsort(copies.partition, kind="stable")
    bounds = np.searchsorted(copies.partition[by_partition], [early, early + 1])
    for p, start, end in zip(early.tolist(), bounds[0].tolist(), bounds[1].tolist(), strict=True):
        mine = by_partition[start:end]
        for w, replicas in _stages(plan, p, copies.target[mine], wave[mine]):
            steps[w].append((p, replicas))
    quiet = np.nonzero(changing(plan) & (last < 0) & ~offline)[0]
    _spread(plan, quiet, steps, caps)
    waiting = np.nonzero(changing(plan) & offline)[0]
    if len(waiting):
        steps.append([(p, plan.lists[p]) for p in waiting.tolist()])
        wave = np.where(wave < 0, len(steps) - 1, wave)
    return [_wave(plan, copies, np.nonzero(wave == w)[0], batch, width) for w, batch in enumerate(steps)]


def _stages(plan: Change, p: int, targets: Ints, waves: Ints) -> list[tuple[int, Ints]]:
    """Lists of one partition before its last wave: each new replica takes the place of one that leaves."""
    problem = plan.problem
    current = [int(b) for b in problem.replicas[p] if b >= 0]
    wanted = {int(b) for b in plan.lists[p] if b >= 0}
    row = problem.rows[p]
    synced = {int(b) for b, ok in zip(plan.state.replicas[row], plan.state.in_sync[row], strict=True) if ok}
    leaving = [b for b in current if b not in wanted]
    out = []
    for w in np.unique(waves)[:-1].tolist():
        for new in targets[waves == w].tolist():
            # Those that are not in sync go first, then those of the newcomer's rack.
            choice = sorted(leaving, key=lambda b: (b in synced, problem.rack[b] != problem.rack[new], b))
            if choice:
                leaving.remove(choice[0])
                current[current.index(choice[0])] = new
            else:
                current.append(new)
        out.append((w, np.asarray(current, np.int64)))
    return out


def _spread(plan: Change, quiet: Ints, steps: list[list[tuple[int, Ints]]], caps: Limits) -> None:
    """Partitions that copy nothing (fewer replicas, another order) go where requests have room, from the front."""
    if not len(quiet):
        return
    cap = caps.partitions_max or UNLIMITED
    lengths = entry_bytes(plan, quiet)
    sizes = [
        REQUEST_HEADER + int(entry_bytes(plan, np.array([p for p, _ in batch], np.int64)).sum()) for batch in steps
    ]
    w = 0
    for p, length in zip(quiet.tolist(), lengths.tolist(), strict=True):
        while w < len(steps) and (len(steps[w]) >= cap or (steps[w] and sizes[w] + length > caps.request_bytes_max)):
            w += 1
        if w == len(steps):
            steps.append([])
            sizes.append(REQUEST_HEADER)
        steps[w].append((p, plan.lists[p]))
        sizes[w] += length


def _wave(plan: Change, copies: Copies, mine: Ints, batch: list[tuple[int, Ints]], width: int) -> Wave:
    batch.sort(key=lambda step: step[0])
    lists = np.full((len(batch), width), -1, np.int64)
    for at, (_, replicas) in enumerate(batch):
        lists[at, : len(replicas)] = replicas
    volume: tuple[int | None, int | None] = (None, None)
    if copies.size is not None:
        brokers = plan.problem.broker_count
        size = copies.size[mine].astype(float)
        source = copies.source[mine]
        volume = (
            int(np.bincount(copies.target[mine], weights=size, minlength=brokers).max()),
            int(np.bincount(source[source >= 0], weights=size[source >= 0], minlength=brokers).max()),
        )
    return Wave(
        rows=plan.problem.rows[[p for p, _ in batch]],
        lists=lists,
        added=len(mine),
        bytes_in_max=volume[0],
        bytes_out_max=volume[1],
    )


def _reassignment(state: ClusterState, wave: Wave) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {
                "topic": state.topics[state.topic[row]],
                "partition": int(state.number[row]),
                "replicas": state.ids(replicas),
            }
            for row, replicas in zip(wave.rows.tolist(), wave.lists.tolist(), strict=True)
        ],
    }
