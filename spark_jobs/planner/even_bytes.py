"""Bytes per broker as a second goal: exchanges of replicas that keep every bound of the plan.

A broker that holds too many bytes gives a large replica to one that holds fewer, and takes a smaller one back: both are
followers, or both preferred leaders, and both keep to their rack quota. With topic spread both are of one topic, or, where
no such exchange helps, of two topics that are within their bounds after it. Exchanges between replicas that are
copied anyway cost nothing and come first. The exact problem is number partitioning (NP-hard), so the result is printed beside
a lower bound.
Source: docs/planning.md, "Goals" and "Limits".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.planner.bounds import Problem, rack_share
from spark_jobs.planner.columns import Bools, Ints

Floats = npt.NDArray[np.float64]
_EXCHANGES_MAX = 20_000
_PARTNERS = 8


class Spare(NamedTuple):
    """What exchanges may cost beside the plan; with nothing left they are made where they cost nothing."""

    moves: float = math.inf
    bytes: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evened:
    """Replica lists after the exchanges. Ratios are the most bytes on one broker over the mean of all that may hold replicas."""

    lists: Ints  # [P, F]
    exchanges: int
    ratio_before: float
    ratio: float
    ratio_bound: float  # no plan is below
    refused: bool  # an exchange that would have helped was dearer than what was left


def even_bytes(problem: Problem, lists: Ints, tolerance: float, spare: Spare | None = None) -> Evened:
    """Exchanges replicas until no broker holds more than (1 + tolerance) times the mean, or no exchange helps.

    In a rack whose brokers must hold more than that, (1 + tolerance) times what they must hold is enough.

    Args:
        problem: with sizes.
        lists: [P, F] valid lists of the plan.
        tolerance: wanted max / mean - 1, at least 0.
        spare: what the exchanges may cost beside the plan, not below zero; None for any price.

    Returns:
        Lists with the same counts of replicas and leaders per broker, and each topic within its bounds.
    """
    assert problem.size is not None
    books = _opened(problem, lists, spare or Spare())
    load, forced = books.load, _forced(problem)
    mean = float(load[problem.eligible].mean()) or 1.0
    before = float(load.max()) / mean
    wanted = (1 + tolerance) * np.where(forced > (1 + tolerance) * mean, forced, mean)
    blocked = ~problem.eligible
    exchanges = 0
    while exchanges < _EXCHANGES_MAX:
        excess = np.where(blocked, -np.inf, load / wanted)
        giver = int(np.argmax(excess))
        if not excess[giver] > 1:
            break
        takers = _takers(problem, load, giver)
        if any(
            _exchange(problem, books, held, (giver, taker), across=across)
            for across in ((False, True) if problem.topic_spread else (True,))
            for held in (books.follows, books.leads)
            for taker in takers
        ):
            exchanges += 1
            blocked = ~problem.eligible
            books.refused = False
        else:
            blocked[giver] = True
    return Evened(
        lists=books.lists,
        exchanges=exchanges,
        ratio_before=before,
        ratio=float(load.max()) / mean,
        ratio_bound=max(float(forced.max()), float(problem.size.max(initial=0))) / mean,
        refused=books.refused,
    )


def _forced(problem: Problem) -> Floats:
    """[B] bytes on each broker if replicas could be divided: racks and brokers as even as the rack quotas allow.

    The largest of them is a lower bound: here the quotas hold for all partitions together, in a plan for each of them.
    """
    assert problem.size is not None
    of_factor = [int(problem.size[problem.factor == index].sum()) for index in range(len(problem.factors))]
    least, most = (
        [sum(bytes_ * n for bytes_, n in zip(of_factor, column, strict=True)) for column in quota.T.tolist()]
        for quota in (problem.rack_min, problem.rack_max)
    )
    total = sum(bytes_ * rf for bytes_, rf in zip(of_factor, problem.factors, strict=True))
    brokers = [len(members) for members in problem.rack_brokers]
    shares = [share / n for share, n in zip(rack_share(total, brokers, least, most), brokers, strict=True)]
    return np.where(problem.eligible, np.array(shares, float)[problem.rack], 0.0)


def _takers(problem: Problem, load: Floats, giver: int) -> list[int]:
    """Brokers with the fewest bytes: of the giver's rack, then of other racks where the quotas leave a choice of racks."""
    order = np.argsort(load, kind="stable")
    order = order[problem.eligible[order] & (order != giver)]
    same = problem.rack[order] == problem.rack[giver]
    choice = bool((problem.rack_min < problem.rack_max).any())
    return [*order[same][:_PARTNERS].tolist(), *order[~same][: _PARTNERS * choice].tolist()]


@dataclass(slots=True, kw_only=True, eq=False)
class _Books:
    """What exchanges change as they go."""

    lists: Ints  # [P, F]
    load: Floats  # [B] bytes
    leads: list[set[int]]  # [B] partitions whose preferred leader a broker is
    follows: list[set[int]]  # [B] its other partitions
    cells: Ints  # [T, B] replicas of a topic on a broker; no rows without topic spread
    spare: Spare
    refused: bool = False  # an exchange was too dear since the last one that was made


def _opened(problem: Problem, lists: Ints, spare: Spare) -> _Books:
    assert problem.size is not None
    new, brokers = lists.copy(), problem.broker_count
    there = new >= 0
    weights = np.repeat(problem.size, there.sum(1)).astype(float)
    load = np.asarray(np.bincount(new[there], weights=weights, minlength=brokers), float)
    leads: list[set[int]] = [set() for _ in range(brokers)]
    follows: list[set[int]] = [set() for _ in range(brokers)]
    for p, (leader, *followers) in enumerate(new.tolist()):
        leads[leader].add(p)
        for b in followers:
            if b >= 0:
                follows[b].add(p)
    cells = np.zeros((len(problem.topic_names) if problem.topic_spread else 0, brokers), np.int64)
    if problem.topic_spread:
        np.add.at(cells, (np.repeat(problem.topic, there.sum(1)), new[there]), 1)
    return _Books(lists=new, load=load, leads=leads, follows=follows, cells=cells, spare=spare)


def _exchange(problem: Problem, books: _Books, members: list[set[int]], pair: tuple[int, int], *, across: bool) -> bool:
    """Makes the best exchange between two brokers that is not too dear; False when none brings them closer.

    Args:
        problem: with sizes.
        books: what changes.
        members: which replicas of each broker are exchanged: `leads` or `follows` of the books.
        pair: the giver, which holds too many bytes, and the taker, which holds fewer.
        across: between topics whose bounds allow it, and not only inside one.
    """
    assert problem.size is not None
    giver, taker = pair
    new, load, size = books.lists, books.load, problem.size
    half = (load[giver] - load[taker]) / 2
    if half <= 0:
        return False
    gives = np.array(sorted(members[giver] - members[taker]), np.int64)
    takes = np.array(sorted(members[taker] - members[giver]), np.int64)
    gives = gives[_may_go(problem, new[gives], problem.factor[gives], giver, taker)]
    takes = takes[_may_go(problem, new[takes], problem.factor[takes], taker, giver)]
    if across and problem.topic_spread:
        gives = gives[_topic_allows(problem, books.cells, gives, giver, taker)]
        takes = takes[_topic_allows(problem, books.cells, takes, taker, giver)]
    topic = np.zeros_like(problem.topic) if across else problem.topic
    best, too_dear = _best(problem, gives, takes, pair, half, books.spare, topic)
    if best is None and too_dear:
        books.refused = True
        gives = gives[_copies(problem, gives, giver, taker) <= 0]
        takes = takes[_copies(problem, takes, taker, giver) <= 0]
        best, _ = _best(problem, gives, takes, pair, half, books.spare, topic)
    if best is None:
        return False
    p, q, cost = best
    new[p, int(np.argmax(new[p] == giver))] = taker
    new[q, int(np.argmax(new[q] == taker))] = giver
    members[giver].remove(p)
    members[taker].add(p)
    members[taker].remove(q)
    members[giver].add(q)
    if problem.topic_spread:
        for partition, source, target in ((p, giver, taker), (q, taker, giver)):
            books.cells[problem.topic[partition], source] -= 1
            books.cells[problem.topic[partition], target] += 1
    moved = float(size[p] - size[q])
    load[giver] -= moved
    load[taker] += moved
    books.spare = Spare(books.spare.moves - cost.moves, books.spare.bytes - cost.bytes)
    return True


def _best(
    problem: Problem, gives: Ints, takes: Ints, pair: tuple[int, int], half: float, spare: Spare, topic: Ints
) -> tuple[tuple[int, int, Spare] | None, bool]:
    """The partition given, the one taken back and what that costs; and whether one that fits was too dear.

    Args:
        problem: with sizes.
        gives: [N] partitions of the giver that the taker does not hold.
        takes: [M] likewise of the taker.
        pair: giver and taker.
        half: the bytes whose way from giver to taker would make them equal.
        spare: what the exchange may cost.
        topic: [P] partitions of the same number may be exchanged.
    """
    assert problem.size is not None
    if not len(gives) or not len(takes):
        return None, False
    size, (giver, taker) = problem.size, pair
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


def _topic_allows(problem: Problem, cells: Ints, partitions: Ints, source: int, target: int) -> Bools:
    """[N] of which partitions a replica may go from `source` to `target` with their topic's bounds kept on both.

    Args:
        problem: with topic spread.
        cells: [T, B] replicas of each topic on each broker.
        partitions: [N].
        source: a broker that holds them.
        target: another one.
    """
    low, high = problem.cell_bounds()
    topic = problem.topic[partitions]
    return np.asarray((cells[topic, source] > low[topic, source]) & (cells[topic, target] < high[topic, target]), bool)


def _may_go(problem: Problem, lists: Ints, factor: Ints, source: int, target: int) -> Bools:
    """[N] which lists may name `target` instead of `source`: not those that name it, and none against its rack quota.

    Args:
        problem: with the quotas.
        lists: [N, F] that name `source`.
        factor: [N] of their partitions.
        source: a broker.
        target: another one.
    """
    here, there = int(problem.rack[source]), int(problem.rack[target])
    racks = np.where(lists >= 0, problem.rack[lists], -1)
    spares = (racks == here).sum(1) > problem.rack_min[factor, here]
    lacks = (racks == there).sum(1) < problem.rack_max[factor, there]
    return np.asarray(~(lists == target).any(1) & ((here == there) | (spares & lacks)), bool)
