"""Bytes per broker as a second goal: exchanges of replicas that keep every count, and so every bound of the plan.

A broker that holds too many bytes gives a large replica to one of its rack that holds too few, and takes a smaller one of
the same topic back. Exchanges between replicas that are copied anyway cost nothing and come first. The exact problem is
number partitioning (NP-hard), so the result is printed beside a lower bound.
Source: planner design §2, "What breaks integrality".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.model import Ints

_EXCHANGES_MAX = 20_000
_PARTNERS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evened:
    """Replica lists after the exchanges. Ratios are the largest bytes per broker over the mean of its rack."""

    lists: Ints  # [P, F]
    exchanges: int
    ratio_before: float
    ratio: float
    ratio_bound: float  # no plan is below


def even_bytes(problem: Problem, lists: Ints, tolerance: float) -> Evened:
    """Exchanges followers until every broker is within (1 + tolerance) of the mean, or no exchange helps.

    Args:
        problem: with sizes.
        lists: [P, F] valid lists of the plan.
        tolerance: wanted max / mean - 1, at least 0.

    Returns:
        Lists with the same counts per broker, topic, rack and leader.
    """
    assert problem.size is not None
    size, brokers = problem.size, problem.broker_count
    new = lists.copy()
    there = new >= 0
    load = np.bincount(new[there], weights=np.repeat(size, there.sum(1)).astype(float), minlength=brokers)
    mean = np.zeros(brokers)
    for of_rack in problem.rack_brokers:
        mean[of_rack] = load[of_rack].mean()
    safe = np.maximum(mean, 1.0)
    before = float((load / safe)[problem.eligible].max())
    blocked = np.zeros(brokers, bool)
    exchanges = 0
    members: list[set[int]] = [set() for _ in range(brokers)]
    for p, b in zip(*(x.tolist() for x in (np.nonzero(there[:, 1:])[0], new[:, 1:][there[:, 1:]])), strict=True):
        members[b].add(p)
    while exchanges < _EXCHANGES_MAX:
        excess = np.where(blocked | ~problem.eligible, -np.inf, load / safe)
        giver = int(np.argmax(excess))
        if not excess[giver] > 1 + tolerance:
            break
        rack = problem.rack_brokers[int(problem.rack[giver])]
        takers = rack[np.argsort(load[rack], kind="stable")][:_PARTNERS]
        done = any(
            _exchange(problem, new, load, members, giver, int(taker)) for taker in takers.tolist() if taker != giver
        )
        if done:
            exchanges += 1
            blocked[:] = False
        else:
            blocked[giver] = True
    return Evened(
        lists=new,
        exchanges=exchanges,
        ratio_before=before,
        ratio=float((load / safe)[problem.eligible].max()),
        ratio_bound=max(1.0, float(size.max(initial=0) / max(1.0, mean[problem.eligible].max()))),
    )


def _exchange(problem: Problem, new: Ints, load: Ints, members: list[set[int]], giver: int, taker: int) -> bool:
    """Makes the best exchange between two brokers; False when none brings them closer."""
    assert problem.size is not None
    half = (load[giver] - load[taker]) / 2
    if half <= 0:
        return False
    gives = np.array(sorted(members[giver] - members[taker]), np.int64)
    takes = np.array(sorted(members[taker] - members[giver]), np.int64)
    gives = gives[~(new[gives] == taker).any(1)]
    takes = takes[~(new[takes] == giver).any(1)]
    if not len(gives) or not len(takes):
        return False
    size = problem.size
    topic = problem.topic if problem.topic_spread else np.zeros_like(problem.topic)
    takes = takes[np.lexsort((size[takes], topic[takes]))]
    # Keys sort by topic, then size; the partner wanted is smaller by half of the difference.
    span = float(size.max()) * 4 + 1
    key = topic[takes] * span + size[takes]
    at = np.searchsorted(key, topic[gives] * span + np.maximum(size[gives] - half, 0))
    best: tuple[float, int, int] | None = None
    copied_give = ~(problem.replicas[gives] == giver).any(1)
    for shift in (0, -1):
        partner = np.clip(at + shift, 0, len(takes) - 1)
        other = takes[partner]
        gain = (size[gives] - size[other]).astype(float)
        fits = (topic[other] == topic[gives]) & (gain > 0) & (gain < 2 * half)
        if not fits.any():
            continue
        # Closeness to the ideal exchange; one that costs no extra copy is preferred.
        free = copied_give & ~(problem.replicas[other] == taker).any(1)
        score = np.where(fits, np.abs(gain - half) + np.where(free, 0, half / 4), np.inf)
        index = int(np.argmin(score))
        if best is None or score[index] < best[0]:
            best = float(score[index]), int(gives[index]), int(other[index])
    if best is None:
        return False
    _, p, q = best
    new[p, int(np.argmax(new[p] == giver))] = taker
    new[q, int(np.argmax(new[q] == taker))] = giver
    members[giver].remove(p)
    members[taker].add(p)
    members[taker].remove(q)
    members[giver].add(q)
    moved = float(size[p] - size[q])
    load[giver] -= moved
    load[taker] += moved
    return True
