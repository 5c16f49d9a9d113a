"""Which copy goes in which wave: first fit, and an edge colouring where that needs more waves than proven.

Source: docs/planning.md; Koenig's theorem on edge colouring of bipartite graphs.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from spark_jobs.planner.bounds import UNLIMITED
from spark_jobs.planner.columns import Ints
from spark_jobs.planner.copies import REQUEST_HEADER, Change, Copies, Limits, entry_bytes


def assigned(plan: Change, copies: Copies, movable: Ints, caps: Limits, bound: int) -> Ints:
    """[N] wave of each copy, -1 for those of partitions without a live replica.

    Args:
        plan: the plan.
        copies: what is copied.
        movable: rows of `copies` that can be made.
        caps: the limits of a wave.
        bound: waves at least.
    """
    wave = np.full(len(copies.partition), -1, np.int64)
    if not len(movable):
        return wave
    fitted = _first_fit(plan, copies, movable, caps)
    if fitted.max() + 1 > bound and caps.broker_bytes_max is None:
        coloured = _edge_coloured(plan, copies, movable, caps, bound)
        if coloured is not None and coloured.max() < fitted.max():
            fitted = coloured
    wave[movable] = fitted
    return wave


def _first_fit(plan: Change, copies: Copies, movable: Ints, caps: Limits) -> Ints:
    """[M] first wave with room at both ends, busiest ends first."""
    brokers = plan.problem.broker_count
    partition, source, target = copies.partition[movable], copies.source[movable], copies.target[movable]
    size = np.zeros(len(movable), np.int64) if copies.size is None else copies.size[movable]
    pressure_in = np.bincount(target, minlength=brokers) / (caps.in_max or UNLIMITED)
    pressure_out = np.bincount(np.maximum(source, 0), minlength=brokers) / (caps.out_max or UNLIMITED)
    pressure = np.maximum(pressure_in[target], pressure_out[np.maximum(source, 0)])
    order = np.lexsort((np.arange(len(movable)), -pressure, -size if caps.broker_bytes_max else np.zeros_like(size)))
    entry = entry_bytes(plan, partition)
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
        """The first wave that can hold one more copy, which it then does.

        Args:
            p: partition.
            leader: broker that sends.
            receiver: broker that receives.
            weight: bytes, or 1.
            length: replicas of the list meanwhile.
            at_once: copies of the partition in one wave.
        """
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
        if not already and request and REQUEST_HEADER + request + length > self.caps.request_bytes_max:
            return False
        if self.caps.broker_bytes_max is None:
            return True
        # A replica larger than the limit has a wave of its broker to itself.
        received, sent = self.bytes_in.get((receiver, wave), 0), self.bytes_out.get((leader, wave), 0)
        most = self.caps.broker_bytes_max - weight
        return (not received or received <= most) and (leader < 0 or not sent or sent <= most)


def _edge_coloured(plan: Change, copies: Copies, movable: Ints, caps: Limits, colours: int) -> Ints | None:
    """[M] waves by Koenig's theorem: exactly as many as the busiest end needs; None when another limit is broken.

    A broker with d copies and K waves is split into ceil(d / K) ends of degree at most K; a proper colouring with K
    colours then uses every broker at most ceil(d / K) times per wave, which is within its limit. The copies of one
    partition share their source, and as far as it goes the same end of it: then they are in different waves.
    """
    brokers = plan.problem.broker_count
    source, target, partition = copies.source[movable], copies.target[movable], copies.partition[movable]
    # A partition that nobody leads now is sent by whoever is elected: it counts as a source of its own.
    source = np.where(source < 0, brokers + partition, source)
    degree_in, degree_out = np.bincount(target, minlength=brokers), np.bincount(source)
    left = _split_together(source, partition, degree_out, colours)
    right = _split(target, degree_in, colours)
    wave = _colour(left.tolist(), right.tolist(), colours)
    pair, counts = np.unique(partition * colours + wave, return_counts=True)
    at_once = np.ones(plan.problem.partition_count, np.int64)
    at_once[partition] = copies.per_wave[movable]
    if (counts > at_once[pair // colours]).any():
        return None
    per_wave = np.bincount(pair % colours, minlength=colours)
    request = np.bincount(pair % colours, weights=entry_bytes(plan, pair // colours), minlength=colours)
    too_many = per_wave.max() > (caps.partitions_max or UNLIMITED)
    return None if too_many or request.max() + REQUEST_HEADER > caps.request_bytes_max else wave


def _split_together(ends: Ints, partition: Ints, degree: Ints, colours: int) -> Ints:
    """[M] the copy of each end, those of one partition together: first fit of the largest groups first."""
    copies = -(-degree // colours)
    first = (np.cumsum(copies) - copies).tolist()
    room = [[colours] * int(count) for count in copies]
    size = np.bincount(partition)
    out = np.empty(len(ends), np.int64)
    order = np.lexsort((partition, -size[partition]))
    held: dict[int, int] = {}
    for edge, end, p in zip(order.tolist(), ends[order].tolist(), partition[order].tolist(), strict=True):
        space = room[end]
        copy = held.get(p, -1)
        if copy < 0 or not space[copy]:
            needed = int(size[p]) if copy < 0 else 1
            fitting = (c for c, left in enumerate(space) if left >= needed)
            copy = held[p] = next(fitting, max(range(len(space)), key=space.__getitem__))
        space[copy] -= 1
        out[edge] = first[end] + copy
    return out


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
