"""Who leads: preferred leaders for given replica sets, by one exact flow, and the order of the lists.

The leader comes first, survivors keep their order, a newcomer takes the first vacated place.
Source: docs/planning.md, "Why the number is minimal".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.columns import Bools, Ints
from spark_jobs.planner.errors import SolverFailedError
from spark_jobs.planner.network import Network

_ANY = 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class Leaders:
    """Preferred leaders that change as few partitions as the bounds allow."""

    leader: Ints  # [P] position
    price: Ints  # [B] v of the certificate
    widened: int  # by how much the leader bounds had to be widened; 0 as a rule
    low: Ints  # [B] the bounds that are met
    high: Ints  # [B]


def choose_leaders(problem: Problem, sets: Ints) -> Leaders:
    """The fewest changes of preferred leader within the leader bounds.

    Args:
        problem: partitions and bounds.
        sets: [P, F] new replica sets, -1 padded.

    Raises:
        SolverFailedError: no choice of leaders is near the bounds.
    """
    solved = _solve(problem, sets, problem.leader_low, problem.leader_high)
    if solved is not None:
        return Leaders(*solved, widened=0, low=problem.leader_low, high=problem.leader_high)
    # First the least that the busiest may lead, then the most that the idlest need to: some may hold too few replicas.
    above, solved = _narrowest(problem, sets, lambda width: _widened(problem, _ANY, width))
    below, solved = _narrowest(problem, sets, lambda width: _widened(problem, width, above))
    low, high = _widened(problem, below, above)
    return Leaders(*solved, widened=max(below, above), low=low, high=high)


def _narrowest(
    problem: Problem, sets: Ints, bounds: Callable[[int], tuple[Ints, Ints]]
) -> tuple[int, tuple[Ints, Ints]]:
    """The smallest width with a solution, by doubling and halving, and that solution."""
    below, width = -1, 0
    while (solved := _solve(problem, sets, *bounds(width))) is None:
        if width > len(sets):
            raise SolverFailedError(
                f"leaders of {len(sets)} partitions chosen: a replica on a broker that may lead expected for each, some "
                "have none; leave those partitions out"
            )
        below, width = width, max(1, 2 * width)
    while width - below > 1:
        middle = (below + width) // 2
        tried = _solve(problem, sets, *bounds(middle))
        below, width, solved = (middle, width, solved) if tried is None else (below, middle, tried)
    return width, solved


def ordered_lists(problem: Problem, sets: Ints, leader: Ints) -> Ints:
    """[P, F] replica lists: leader first, survivors in their old order, newcomers at the vacated places."""
    old = problem.replicas
    width = old.shape[1]
    place = np.full(sets.shape, -1, np.int64)
    for column in range(width):
        place = np.where((sets >= 0) & (sets == old[:, column, None]), column, place)
    newcomer = (sets >= 0) & (place < 0)
    stays = np.zeros(old.shape, bool)
    rows, columns = np.nonzero(place >= 0)
    stays[rows, place[rows, columns]] = True
    # Places that are vacated come first, then those behind the end of the old list.
    vacant = np.sort(np.where(stays, width, np.arange(width)), 1)
    vacant = np.concatenate([vacant, np.full(sets.shape, width)], 1)
    nth = np.cumsum(newcomer, 1) - 1
    place = np.where(newcomer, np.take_along_axis(vacant, np.maximum(nth, 0), 1), place)
    # At equal places (behind the end) newcomers stay in the order they were dealt: broker order.
    key = place * (sets.shape[1] + 1) + np.maximum(nth, 0) * newcomer
    key = np.where(sets == leader[:, None], -1, key)
    key = np.where(sets < 0, np.int64(1) << 30, key)
    return np.take_along_axis(sets, np.argsort(key, 1, kind="stable"), 1)


def _widened(problem: Problem, below: int, above: int) -> tuple[Ints, Ints]:
    return (
        np.maximum(problem.leader_low - below, 0),
        np.where(problem.leader_high > 0, problem.leader_high + above, 0),
    )


def _solve(problem: Problem, sets: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints] | None:
    """Leaders and prices, or None when the bounds cannot be met."""
    if low.sum() > len(sets):
        return None
    rows, columns = np.nonzero(sets >= 0)
    chosen = sets[rows, columns]
    old = problem.replicas[:, 0].astype(np.int64)
    leader = _flow(rows, chosen, old, low, high)
    if leader is None:
        return None
    cost = (chosen != old[rows]).astype(np.int64)
    used = chosen == leader[rows]
    return leader, _prices(rows, chosen, cost, used, leader, low, high, problem.broker_count)


def _flow(rows: Ints, chosen: Ints, old: Ints, low: Ints, high: Ints) -> Ints | None:
    """[P] leaders with the fewest changes, None when no choice meets the bounds."""
    partitions, brokers = len(old), len(low)
    net = Network()
    sink = net.add_nodes(1)
    broker_node = net.add_nodes(brokers)
    node = net.add_nodes(partitions)
    net.supply(node + np.arange(partitions), 1)
    span = net.add_arcs(node + rows, broker_node + chosen, 1, (chosen != old[rows]).astype(np.int64))
    net.supply(broker_node + np.arange(brokers), -low)
    net.add_arcs(broker_node + np.arange(brokers), sink, np.minimum(high - low, partitions), 0)
    net.supply(sink, int(low.sum()) - partitions)
    flows = net.attempt()
    if flows is None:
        return None
    used = flows[span] > 0
    leader = np.empty(partitions, np.int64)
    leader[rows[used]] = chosen[used]
    return leader


def _prices(
    rows: Ints, chosen: Ints, cost: Ints, used: Bools, leader: Ints, low: Ints, high: Ints, brokers: int
) -> Ints:
    """Prices per broker: shortest distances over brokers alone, as each partition has one unit."""
    ground = brokers
    step = np.full((brokers + 1, brokers + 1), np.int64(1) << 40)
    now = np.empty(int(rows.max()) + 1, np.int64)
    now[rows[used]] = cost[used]
    # The unit of a partition can leave its leader for any other replica: a residual arc between brokers.
    np.minimum.at(step, (leader[rows], chosen), cost - now[rows])
    led = np.bincount(leader, minlength=brokers)
    step[np.nonzero(led < high)[0], ground] = 0
    step[ground, np.nonzero(led > low)[0]] = 0
    np.fill_diagonal(step, 0)
    distance = np.zeros(brokers + 1, np.int64)
    for _ in range(brokers + 2):
        nearer = (distance[:, None] + step).min(0)
        if np.array_equal(nearer, distance):
            break
        distance = nearer
    return np.asarray(distance[ground] - distance[:brokers], np.int64)
