"""Bytes per broker as a second goal: exchanges of replicas that keep every count, and so every bound of the plan.

A broker that holds too many bytes gives a large replica to one of its rack that holds too few, and takes a smaller one of
the same topic back. Exchanges between replicas that are copied anyway cost nothing and come first. The exact problem is
number partitioning (NP-hard), so the result is printed beside a lower bound.
Source: docs/planning.md, "Limits".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.columns import Ints

Floats = npt.NDArray[np.float64]
_EXCHANGES_MAX = 20_000
_PARTNERS = 8


class Spare(NamedTuple):
    """What exchanges may cost beside the plan; with nothing left they are made where they cost nothing."""

    moves: float = math.inf
    bytes: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evened:
    """Replica lists after the exchanges. Ratios are the largest bytes per broker over the mean of its rack."""

    lists: Ints  # [P, F]
    exchanges: int
    ratio_before: float
    ratio: float
    ratio_bound: float  # no plan is below
    refused: bool  # an exchange that would have helped was dearer than what was left


def even_bytes(problem: Problem, lists: Ints, tolerance: float, spare: Spare | None = None) -> Evened:
    """Exchanges followers until every broker is within (1 + tolerance) of the mean, or no exchange helps.

    Args:
        problem: with sizes.
        lists: [P, F] valid lists of the plan.
        tolerance: wanted max / mean - 1, at least 0.
        spare: what the exchanges may cost beside the plan, not below zero; None for any price.

    Returns:
        Lists with the same counts per broker, topic, rack and leader.
    """
    assert problem.size is not None
    size, brokers = problem.size, problem.broker_count
    books = _opened(problem, lists, spare or Spare())
    load = books.load
    mean = np.zeros(brokers)
    for of_rack in problem.rack_brokers:
        mean[of_rack] = load[of_rack].mean()
    safe = np.maximum(mean, 1.0)
    before = float((load / safe)[problem.eligible].max())
    blocked = np.zeros(brokers, bool)
    exchanges = 0
    while exchanges < _EXCHANGES_MAX:
        excess = np.where(blocked | ~problem.eligible, -np.inf, load / safe)
        giver = int(np.argmax(excess))
        if not excess[giver] > 1 + tolerance:
            break
        rack = problem.rack_brokers[int(problem.rack[giver])]
        takers = rack[np.argsort(load[rack], kind="stable")][:_PARTNERS]
        if any(_exchange(problem, books, giver, int(taker)) for taker in takers.tolist() if taker != giver):
            exchanges += 1
            blocked[:] = books.refused = False
        else:
            blocked[giver] = True
    return Evened(
        lists=books.lists,
        exchanges=exchanges,
        ratio_before=before,
        ratio=float((load / safe)[problem.eligible].max()),
        ratio_bound=max(1.0, float(size.max(initial=0) / max(1.0, mean[problem.eligible].max()))),
        refused=books.refused,
    )


@dataclass(slots=True, kw_only=True, eq=False)
class _Books:
    """What exchanges change as they go."""

    lists: Ints  # [P, F]
    load: Floats  # [B] bytes
    members: list[set[int]]  # [B] partitions that a broker follows
    spare: Spare
    refused: bool = False  # an exchange was too dear since the last one that was made


def _opened(problem: Problem, lists: Ints, spare: Spare) -> _Books:
    assert problem.size is not None
    new, brokers = lists.copy(), problem.broker_count
    there = new >= 0
    weights = np.repeat(problem.size, there.sum(1)).astype(float)
    load = np.asarray(np.bincount(new[there], weights=weights, minlength=brokers), float)
    members: list[set[int]] = [set() for _ in range(brokers)]
    for p, b in zip(*(x.tolist() for x in (np.nonzero(there[:, 1:])[0], new[:, 1:][there[:, 1:]])), strict=True):
        members[b].add(p)
    return _Books(lists=new, load=load, members=members, spare=spare)


def _exchange(problem: Problem, books: _Books, giver: int, taker: int) -> bool:
    """Makes the best exchange between two brokers that is not too dear; False when none brings them closer."""
    assert problem.size is not None
    new, load, members, size = books.lists, books.load, books.members, problem.size
    half = (load[giver] - load[taker]) / 2
    if half <= 0:
        return False
    gives = np.array(sorted(members[giver] - members[taker]), np.int64)
    takes = np.array(sorted(members[taker] - members[giver]), np.int64)
    gives = gives[~(new[gives] == taker).any(1)]
    takes = takes[~(new[takes] == giver).any(1)]
    best, too_dear = _best(problem, gives, takes, (giver, taker), half, books.spare)
    if best is None and too_dear:
        books.refused = True
        gives = gives[_copies(problem, gives, giver, taker) <= 0]
        takes = takes[_copies(problem, takes, taker, giver) <= 0]
        best, _ = _best(problem, gives, takes, (giver, taker), half, books.spare)
    if best is None:
        return False
    p, q, cost = best
    new[p, int(np.argmax(new[p] == giver))] = taker
    new[q, int(np.argmax(new[q] == taker))] = giver
    members[giver].remove(p)
    members[taker].add(p)
    members[taker].remove(q)
    members[giver].add(q)
    moved = float(size[p] - size[q])
    load[giver] -= moved
    load[taker] += moved
    books.spare = Spare(books.spare.moves - cost.moves, books.spare.bytes - cost.bytes)
    return True


def _best(
    problem: Problem, gives: Ints, takes: Ints, pair: tuple[int, int], half: float, spare: Spare
) -> tuple[tuple[int, int, Spare] | None, bool]:
    """The partition given, the one taken back and what that costs; and whether one that fits was too dear.

    Args:
        problem: with sizes.
        gives: [N] partitions of the giver that the taker does not hold.
        takes: [M] likewise of the taker.
        pair: giver and taker.
        half: the bytes whose way from giver to taker would make them equal.
        spare: what the exchange may cost.
    """
    assert problem.size is not None
    if not len(gives) or not len(takes):
        return None, False
    size, (giver, taker) = problem.size, pair
    topic = problem.topic if problem.topic_spread else np.zeros_like(problem.topic)
    takes = takes[np.lexsort((size[takes], topic[takes]))]
    # Keys sort by topic, then size; the partner wanted is smaller by half of the difference.
    span = float(size.max()) * 4 + 1
    key = topic[takes] * span + size[takes]
    at = np.searchsorted(key, topic[gives] * span + np.maximum(size[gives] - half, 0))
    best: tuple[float, int, int, Spare] | None = None
    too_dear = False
    copied_give = ~(problem.replicas[gives] == giver).any(1)
    for shift in (0, -1):
        partner = np.clip(at + shift, 0, len(takes) - 1)
        other = takes[partner]
        gain = (size[gives] - size[other]).astype(float)
        fits = (topic[other] == topic[gives]) & (gain > 0) & (gain < 2 * half)
        there, back = _copies(problem, gives, giver, taker), _copies(problem, other, taker, giver)
        moves, volume = there + back, there * size[gives] + back * size[other]
        affordable = (moves <= spare.moves) & (volume <= spare.bytes)
        too_dear |= bool((fits & ~affordable).any())
        fits &= affordable
        if not fits.any():
            continue
        # Closeness to the ideal exchange; one that costs no extra copy is preferred.
        free = copied_give & ~(problem.replicas[other] == taker).any(1)
        score = np.where(fits, np.abs(gain - half) + np.where(free, 0, half / 4), np.inf)
        index = int(np.argmin(score))
        if best is None or score[index] < best[0]:
            cost = Spare(int(moves[index]), int(volume[index]))
            best = float(score[index]), int(gives[index]), int(other[index]), cost
    return None if best is None else best[1:], too_dear


def _copies(problem: Problem, partitions: Ints, source: int, target: int) -> Ints:
    """[N] copies that a plan makes more, or fewer, when a replica of each goes to `target` instead of `source`."""
    held = problem.replicas[partitions]
    return np.asarray((held == source).any(1), np.int64) - np.asarray((held == target).any(1), np.int64)
