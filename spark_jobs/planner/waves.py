"""A plan cut into ordered batches that a cluster can bear, with a lower bound on their number.

The unit is one added replica: it is copied from the partition's leader, so it loads that broker's output and the
receiver's input. Each addition is paired with the replica it replaces (in the same rack where possible), and Kafka drops
that one only after the new one is in sync: no partition ever has fewer in-sync replicas than before the wave.
Source: planner design §3 (6.) and §4 "Waves"; Koenig's theorem on edge colouring of bipartite graphs.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.planner.bounds import UNLIMITED
from spark_jobs.planner.errors import ImpossibleGoalError
from spark_jobs.planner.model import ClusterState, Ints
from spark_jobs.planner.result import ReassignmentPlan

REQUEST_BYTES_MAX = 900_000
"""ZooKeeper's server refuses packets above 1,048,575 bytes; this leaves room for the path and the header."""
_ENTRY_BYTES = len('{"topic":"","partition":,"replicas":[]},')


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one wave may load; None means no limit."""

    in_max: int | None = 20  # replicas a broker receives
    out_max: int | None = 20  # replicas a broker sends, as leader
    broker_bytes_max: int | None = None  # bytes a broker receives, and bytes it sends
    partitions_max: int | None = 5_000
    request_bytes_max: int = REQUEST_BYTES_MAX  # of the JSON in /admin/reassign_partitions
    bandwidth: int | None = None  # bytes per second and broker that a copy may use, for the estimates


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

    @property
    def gap(self) -> int:
        """Waves above the lower bound; 0 means proven fewest."""
        return len(self.waves) - self.lower_bound

    def seconds(self, wave: Wave) -> float | None:
        """Estimated duration: bytes through the busiest broker over the bandwidth."""
        if self.limits.bandwidth is None or wave.bytes_busiest is None:
            return None
        return wave.bytes_busiest / self.limits.bandwidth

    def throttle(self, wave: Wave, window_s: float) -> int | None:
        """Bytes per second each broker needs to finish the wave within a window; None when sizes are unknown."""
        return None if wave.bytes_busiest is None else -(-wave.bytes_busiest // max(1, int(window_s)))

    def to_json(self, state: ClusterState) -> list[dict[str, Any]]:
        """Kafka's reassignment JSON of each wave."""
        return [_reassignment(state, wave) for wave in self.waves]

    def summary(self) -> dict[str, Any]:
        """Small figures: counts, bound, durations."""
        seconds = [self.seconds(wave) for wave in self.waves]
        known = [s for s in seconds if s is not None]
        return {
            "waves": len(self.waves),
            "lower_bound": self.lower_bound,
            "bound_reason": self.bound_reason,
            "gap": self.gap,
            "partitions": [len(wave.rows) for wave in self.waves],
            "replicas_added": [wave.added for wave in self.waves],
            "bytes_busiest_broker": [wave.bytes_busiest for wave in self.waves],
            "seconds_estimated": round(sum(known), 1) if len(known) == len(seconds) else None,
            "waiting": list(self.waiting),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Copies:
    """The additions of a plan, one row each. Shapes: N additions."""

    partition: Ints  # [N] chosen partition of the problem
    source: Ints  # [N] leader position, -1 when there is none
    target: Ints  # [N] position of the new replica
    size: Ints | None  # [N]
    per_wave: Ints  # [N] additions of that partition that one wave may hold


def schedule(plan: ReassignmentPlan, limits: Limits | None = None) -> Schedule:
    """Cuts a plan into waves.

    Args:
        plan: the plan.
        limits: what a wave may load.

    Returns:
        Waves that together end at the plan's lists; a partition that gains several replicas may be in several.

    Raises:
        ImpossibleGoalError: a limit is below one.
    """
    caps = limits or Limits()
    _check(caps)
    copies = _copies(plan)
    offline = np.zeros(plan.problem.partition_count, bool)
    offline[np.nonzero(np.isin(plan.problem.rows, plan.state.without_live_replica()))[0]] = True
    movable = np.nonzero(~offline[copies.partition])[0]
    bound, reason = _lower_bound(plan, copies, movable, caps, offline)
    wave = _assigned(plan, copies, movable, caps, bound)
    waves = _waves(plan, copies, wave, caps, offline)
    waiting = tuple(plan.state.partition_name(int(row)) for row in plan.problem.rows[offline & _in(plan)])
    return Schedule(
        waves=tuple(waves),
        lower_bound=bound + (1 if waiting else 0),
        bound_reason=reason,
        limits=caps,
        waiting=waiting,
    )


def _check(caps: Limits) -> None:
    for name in ("in_max", "out_max", "broker_bytes_max", "partitions_max", "request_bytes_max", "bandwidth"):
        value = getattr(caps, name)
        if value is not None and value < 1:
            raise ImpossibleGoalError(f"waves cut with {name} {value}: 1 or more expected; raise it or leave it out")


def _in(plan: ReassignmentPlan) -> np.ndarray[Any, np.dtype[np.bool_]]:
    changed = np.zeros(plan.problem.partition_count, bool)
    changed[plan.changed] = True
    return changed


def _copies(plan: ReassignmentPlan) -> _Copies:
    problem, state = plan.problem, plan.state
    new = plan.lists
    fresh = (new >= 0) & ~(new[:, :, None] == problem.replicas[:, None, :]).any(2)
    partition, column = np.nonzero(fresh)
    rows = problem.rows[partition]
    in_sync = state.in_sync[problem.rows].sum(1)
    held = (problem.replicas >= 0).sum(1)
    # More copies at once than this, and the in-sync replicas are no majority of all that are there.
    at_once = np.maximum(1, 2 * in_sync - held - 1)
    return _Copies(
        partition=partition,
        source=state.leader[rows].astype(np.int64),
        target=new[partition, column],
        size=None if problem.size is None else problem.size[partition],
        per_wave=at_once[partition],
    )


def _lower_bound(
    plan: ReassignmentPlan, copies: _Copies, movable: Ints, caps: Limits, offline: np.ndarray[Any, np.dtype[np.bool_]]
) -> tuple[int, str]:
    """The largest of the simple bounds, and which one it is."""
    brokers = plan.problem.broker_count
    target, source = copies.target[movable], copies.source[movable]
    counts_in = np.bincount(target, minlength=brokers)
    counts_out = np.bincount(source[source >= 0], minlength=brokers)
    changed = np.nonzero(_in(plan) & ~offline)[0]
    bounds = [(1 if len(changed) else 0, "there is something to do")]
    for counts, cap, what in ((counts_in, caps.in_max, "receives"), (counts_out, caps.out_max, "sends")):
        if cap is not None and len(movable):
            busiest = int(np.argmax(counts))
            broker = plan.state.broker_ids[busiest]
            bounds.append((-(-int(counts[busiest]) // cap), f"broker {broker} {what} {counts[busiest]} replicas"))
    if len(movable):
        per_partition = np.bincount(copies.partition[movable], minlength=1)
        at_once = np.ones(len(per_partition), np.int64)
        at_once[copies.partition[movable]] = copies.per_wave[movable]
        bounds.append((int((-(-per_partition // at_once)).max()), "a partition keeps its in-sync majority"))
    if caps.partitions_max is not None:
        bounds.append((-(-len(changed) // caps.partitions_max), f"{len(changed)} partitions change"))
    total = int(_entry_bytes(plan, changed).sum())
    bounds.append((-(-total // caps.request_bytes_max), f"the requests hold {total} bytes"))
    if caps.broker_bytes_max is not None and copies.size is not None and len(movable):
        size = copies.size[movable].astype(float)
        for at, what in ((target, "receives"), (source, "sends")):
            volume = np.bincount(at[at >= 0], weights=size[at >= 0], minlength=brokers)
            busiest = int(np.argmax(volume))
            broker = plan.state.broker_ids[busiest]
            waves = -(-int(volume[busiest]) // caps.broker_bytes_max)
            bounds.append((waves, f"broker {broker} {what} {int(volume[busiest])} bytes"))
            large = size > caps.broker_bytes_max / 2
            most = np.bincount(at[(at >= 0) & large], minlength=1)
            bounds.append((int(most.max(initial=0)), "replicas of more than half the byte limit do not share a wave"))
    return max(bounds, key=lambda bound: bound[0])


def _entry_bytes(plan: ReassignmentPlan, partitions: Ints) -> Ints:
    """[N] bytes of each partition in a request, at most."""
    state, problem = plan.state, plan.problem
    names = np.array([len(json.dumps(topic)) - 2 for topic in problem.topic_names] or [0], np.int64)
    digits = np.char.str_len(state.broker_ids.astype(str)) + 1
    wide = plan.lists[partitions]
    listed = np.where(wide >= 0, digits[np.maximum(wide, 0)], 0).sum(1)
    number = np.char.str_len(state.number[problem.rows[partitions]].astype(str))
    return np.asarray(_ENTRY_BYTES + names[problem.topic[partitions]] + listed + number, np.int64)


def _assigned(plan: ReassignmentPlan, copies: _Copies, movable: Ints, caps: Limits, bound: int) -> Ints:
    """[N] wave of each copy, -1 for those of partitions without a live replica."""
    wave = np.full(len(copies.partition), -1, np.int64)
    if not len(movable):
        return wave
    fitted = _first_fit(plan, copies, movable, caps)
    if fitted.max() + 1 > bound and caps.broker_bytes_max is None:
        coloured = _edge_coloured(plan, copies, movable, caps)
        if coloured is not None and coloured.max() < fitted.max():
            fitted = coloured
    wave[movable] = fitted
    return wave


def _first_fit(plan: ReassignmentPlan, copies: _Copies, movable: Ints, caps: Limits) -> Ints:
    """[M] first wave with room at both ends, busiest ends first."""
    brokers = plan.problem.broker_count
    partition, source, target = copies.partition[movable], copies.source[movable], copies.target[movable]
    size = np.zeros(len(movable), np.int64) if copies.size is None else copies.size[movable]
    pressure_in = np.bincount(target, minlength=brokers) / (caps.in_max or UNLIMITED)
    pressure_out = np.bincount(np.maximum(source, 0), minlength=brokers) / (caps.out_max or UNLIMITED)
    pressure = np.maximum(pressure_in[target], pressure_out[np.maximum(source, 0)])
    order = np.lexsort((np.arange(len(movable)), -pressure, -size if caps.broker_bytes_max else np.zeros_like(size)))
    entry = _entry_bytes(plan, partition)
    room = _Room(caps, brokers)
    out = np.zeros(len(movable), np.int64)
    rows = zip(
        order.tolist(),
        partition[order].tolist(),
        source[order].tolist(),
        target[order].tolist(),
        size[order].tolist(),
        entry[order].tolist(),
        copies.per_wave[movable][order].tolist(),
        strict=True,
    )
    for index, p, leader, receiver, weight, length, at_once in rows:
        out[index] = room.take(p, leader, receiver, weight, length, at_once)
    return out


class _Room:
    """What the waves still have room for; bit sets of the full waves of each broker make the search quick."""

    def __init__(self, caps: Limits, brokers: int) -> None:
        self.caps = caps
        self.in_max, self.out_max = caps.in_max or UNLIMITED, caps.out_max or UNLIMITED
        self.partitions_max = caps.partitions_max or UNLIMITED
        self.full_in, self.full_out, self.full = [0] * brokers, [0] * brokers, 0
        self.count_in: Counter[tuple[int, int]] = Counter()
        self.count_out: Counter[tuple[int, int]] = Counter()
        self.bytes_in: Counter[tuple[int, int]] = Counter()
        self.bytes_out: Counter[tuple[int, int]] = Counter()
        self.of_partition: Counter[tuple[int, int]] = Counter()
        self.partitions: Counter[int] = Counter()
        self.request: Counter[int] = Counter()

    def take(self, p: int, leader: int, receiver: int, weight: int, length: int, at_once: int) -> int:
        """The first wave that can hold one more copy, which it then does."""
        taken = self.full_in[receiver] | self.full | (self.full_out[leader] if leader >= 0 else 0)
        free = ~taken & (taken + 1)
        while not self._fits(free.bit_length() - 1, p, leader, receiver, weight, length, at_once):
            taken |= free
            free = ~taken & (taken + 1)
        wave = free.bit_length() - 1
        if (p, wave) not in self.of_partition:
            self.partitions[wave] += 1
            self.request[wave] += length
            if self.partitions[wave] >= self.partitions_max:
                self.full |= free
        self.of_partition[p, wave] += 1
        self.count_in[receiver, wave] += 1
        self.bytes_in[receiver, wave] += weight
        if self.count_in[receiver, wave] >= self.in_max:
            self.full_in[receiver] |= free
        if leader >= 0:
            self.count_out[leader, wave] += 1
            self.bytes_out[leader, wave] += weight
            if self.count_out[leader, wave] >= self.out_max:
                self.full_out[leader] |= free
        return wave

    def _fits(self, wave: int, p: int, leader: int, receiver: int, weight: int, length: int, at_once: int) -> bool:
        already = self.of_partition.get((p, wave), 0)
        if already >= at_once:
            return False
        request = self.request.get(wave, 0)
        if not already and request and _HEADER + request + length > self.caps.request_bytes_max:
            return False
        if self.caps.broker_bytes_max is None:
            return True
        # A replica larger than the limit has a wave of its broker to itself.
        received, sent = self.bytes_in.get((receiver, wave), 0), self.bytes_out.get((leader, wave), 0)
        most = self.caps.broker_bytes_max - weight
        return (not received or received <= most) and (leader < 0 or not sent or sent <= most)


_HEADER = len('{"version":1,"partitions":[]}')


def _edge_coloured(plan: ReassignmentPlan, copies: _Copies, movable: Ints, caps: Limits) -> Ints | None:
    """[M] waves by Koenig's theorem: exactly as many as the busiest end needs; None when another limit is broken.

    A broker with d copies and K waves is split into ceil(d / K) ends of degree at most K; a proper colouring with K
    colours then uses every broker at most ceil(d / K) times per wave, which is within its limit.
    """
    brokers = plan.problem.broker_count
    source, target = copies.source[movable], copies.target[movable]
    if (source < 0).any():
        return None
    degree_in, degree_out = np.bincount(target, minlength=brokers), np.bincount(source, minlength=brokers)
    colours = max(
        -(-int(degree_in.max()) // (caps.in_max or UNLIMITED)), -(-int(degree_out.max()) // (caps.out_max or UNLIMITED))
    )
    left = _split(source, degree_out, colours)
    right = _split(target, degree_in, colours)
    wave = _colour(left.tolist(), right.tolist(), colours)
    partition = copies.partition[movable]
    pair, counts = np.unique(partition * colours + wave, return_counts=True)
    at_once = np.ones(plan.problem.partition_count, np.int64)
    at_once[partition] = copies.per_wave[movable]
    if (counts > at_once[pair // colours]).any():
        return None
    per_wave = np.bincount(pair % colours, minlength=colours)
    request = np.bincount(pair % colours, weights=_entry_bytes(plan, pair // colours), minlength=colours)
    too_many = per_wave.max() > (caps.partitions_max or UNLIMITED)
    return None if too_many or request.max() + _HEADER > caps.request_bytes_max else wave


def _split(ends: Ints, degree: Ints, colours: int) -> Ints:
    """[M] the copy of each end: the i-th edge of a broker is at copy i // colours."""
    copies = -(-degree // colours)
    first = np.cumsum(copies) - copies
    order = np.argsort(ends, kind="stable")
    rank = np.empty(len(ends), np.int64)
    rank[order] = np.arange(len(ends)) - np.searchsorted(ends[order], ends[order])
    return np.asarray(first[ends] + rank // colours, np.int64)


def _colour(left: list[int], right: list[int], colours: int) -> Ints:
    """A proper edge colouring of a bipartite multigraph of degree at most `colours`, by alternating paths."""
    everything = (1 << colours) - 1
    at_left: list[dict[int, int]] = [{} for _ in range(max(left) + 1)]
    at_right: list[dict[int, int]] = [{} for _ in range(max(right) + 1)]
    used_left, used_right = [0] * len(at_left), [0] * len(at_right)
    colour = [-1] * len(left)
    for edge, (u, v) in enumerate(zip(left, right, strict=True)):
        common = everything & ~(used_left[u] | used_right[v])
        if common:
            a = (common & -common).bit_length() - 1
        else:
            free_u, free_v = everything & ~used_left[u], everything & ~used_right[v]
            a = (free_u & -free_u).bit_length() - 1
            b = (free_v & -free_v).bit_length() - 1
            # Swap a and b along the path that leaves v by a; it cannot end in u, as u has no a.
            path, node, sides, wanted = [], v, (at_right, at_left), a
            side = 0
            while wanted in sides[side][node]:
                step = sides[side][node][wanted]
                path.append(step)
                node = left[step] if side == 0 else right[step]
                side, wanted = 1 - side, b if wanted == a else a
            for step in path:
                del at_left[left[step]][colour[step]], at_right[right[step]][colour[step]]
                used_left[left[step]] &= ~(1 << colour[step])
                used_right[right[step]] &= ~(1 << colour[step])
            for step in path:
                colour[step] = b if colour[step] == a else a
                at_left[left[step]][colour[step]] = step
                at_right[right[step]][colour[step]] = step
                used_left[left[step]] |= 1 << colour[step]
                used_right[right[step]] |= 1 << colour[step]
        colour[edge] = a
        at_left[u][a] = edge
        at_right[v][a] = edge
        used_left[u] |= 1 << a
        used_right[v] |= 1 << a
    return np.asarray(colour, np.int64)


def _waves(
    plan: ReassignmentPlan,
    copies: _Copies,
    wave: Ints,
    caps: Limits,
    offline: np.ndarray[Any, np.dtype[np.bool_]],
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
    quiet = np.nonzero(_in(plan) & (last < 0) & ~offline)[0]
    _spread(plan, quiet, steps, caps)
    waiting = np.nonzero(_in(plan) & offline)[0]
    if len(waiting):
        steps.append([(p, plan.lists[p]) for p in waiting.tolist()])
        wave = np.where(wave < 0, len(steps) - 1, wave)
    return [_wave(plan, copies, np.nonzero(wave == w)[0], batch, width) for w, batch in enumerate(steps)]


def _stages(plan: ReassignmentPlan, p: int, targets: Ints, waves: Ints) -> list[tuple[int, Ints]]:
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


def _spread(plan: ReassignmentPlan, quiet: Ints, steps: list[list[tuple[int, Ints]]], caps: Limits) -> None:
    """Partitions that copy nothing (fewer replicas, another order) go where requests have room, from the front."""
    if not len(quiet):
        return
    cap = caps.partitions_max or UNLIMITED
    lengths = _entry_bytes(plan, quiet)
    sizes = [_HEADER + int(_entry_bytes(plan, np.array([p for p, _ in batch], np.int64)).sum()) for batch in steps]
    w = 0
    for p, length in zip(quiet.tolist(), lengths.tolist(), strict=True):
        while w < len(steps) and (len(steps[w]) >= cap or (steps[w] and sizes[w] + length > caps.request_bytes_max)):
            w += 1
        if w == len(steps):
            steps.append([])
            sizes.append(_HEADER)
        steps[w].append((p, plan.lists[p]))
        sizes[w] += length


def _wave(plan: ReassignmentPlan, copies: _Copies, mine: Ints, batch: list[tuple[int, Ints]], width: int) -> Wave:
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
