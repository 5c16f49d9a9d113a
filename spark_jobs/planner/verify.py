"""Checks a plan without any solver: replica lists, rack quotas, bounds, and the lower bound its certificate proves.

Every plan passes here before it is stored, and again before it is applied.
Source: docs/planning.md, "Goals" and "Why the number is minimal".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller_core.model.words import counted
from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.certificate import Certificate
from spark_jobs.planner.columns import Bools, Ints
from spark_jobs.planner.errors import PlanRejectedError

_FORBIDDEN = np.int64(1) << 40
_PRICE_MAX = 1 << 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found out about a plan; `problems` is empty when it may be used."""

    problems: tuple[str, ...]
    moves: int  # replicas added
    moves_bound: int  # no plan within the bounds adds fewer
    leader_changes: int  # partitions whose first replica changes
    leader_changes_bound: int  # no choice of leaders for these replica sets changes fewer

    @property
    def gap(self) -> int:
        """Moves above the proven minimum; 0 means that no plan moves less."""
        return self.moves - self.moves_bound


def verify(
    problem: Problem, replicas: npt.NDArray[np.integer], certificate: Certificate, *, leaders_bounded: bool = True
) -> Verdict:
    """Judges new replica lists against the problem.

    Args:
        problem: the chosen partitions and the bounds.
        replicas: [P, V] broker positions, preferred first, -1 padded at the end.
        certificate: prices; any numbers are acceptable, bad ones give a weak bound.
        leaders_bounded: hold the plan to the leader bounds as well.

    Returns:
        The verdict; never raises for a bad plan.
    """
    new = np.asarray(replicas, np.int64)
    found = list(_list_problems(problem, new))
    if found:
        return Verdict(problems=tuple(found), moves=0, moves_bound=0, leader_changes=0, leader_changes_bound=0)
    found.extend(_bound_problems(problem, new, leaders_bounded=leaders_bounded))
    moves = int(added(problem, new).sum())
    bound = max(moves_bound(problem, certificate), int(forced_adds(problem).sum()))
    changes = int((new[:, 0] != problem.replicas[:, 0]).sum())
    changes_bound = leader_changes_bound(problem, new, certificate) if leaders_bounded else 0
    if bound > moves and not found:
        found.append(
            f"certificate proves {counted(bound, 'move')} for a plan of {moves}: the verifier itself is wrong, report it"
        )
    return Verdict(
        problems=tuple(found),
        moves=moves,
        moves_bound=bound,
        leader_changes=changes,
        leader_changes_bound=changes_bound,
    )


def require(verdict: Verdict, what: str) -> Verdict:
    """The verdict, or PlanRejectedError with all problems when there is one."""
    if verdict.problems:
        raise PlanRejectedError(
            f"{what} verified: no broken rule expected, {len(verdict.problems)} found: {'; '.join(verdict.problems)}; "
            "the plan is not used: plan again from a fresh snapshot"
        )
    return verdict


def added(problem: Problem, new: Ints) -> Ints:
    """[P] replicas that are new."""
    kept = (new[:, :, None] == problem.replicas[:, None, :]) & (new >= 0)[:, :, None]
    return np.asarray((new >= 0).sum(1) - kept.any(2).sum(1), np.int64)


def forced_adds(problem: Problem) -> Ints:
    """[P] replicas each partition must gain whatever the balance: wanted minus the most it can keep."""
    held = held_per_rack(problem)
    least, most = problem.rack_min[problem.factor], problem.rack_max[problem.factor]
    wanted = np.asarray(problem.factors, np.int64)[problem.factor]
    base = np.minimum(held, least).sum(1)
    extra = np.minimum(np.minimum(held, most) - np.minimum(held, least), 1).sum(1)
    return np.asarray(wanted - base - np.minimum(extra, wanted - least.sum(1)), np.int64)


def held_per_rack(problem: Problem) -> Ints:
    """[P, R] replicas now on eligible brokers of each rack."""
    racks = _racks(problem, problem.replicas)
    return np.stack([(racks == g).sum(1) for g in range(len(problem.rack_brokers))], 1)


def moves_bound(problem: Problem, certificate: Certificate) -> int:
    """The least number of moves that the prices prove; at least 0."""
    prices = (certificate.broker_price, certificate.cell_price)
    if not 1 <= certificate.scale <= _PRICE_MAX or any(np.abs(p).max(initial=0) > _PRICE_MAX for p in prices):
        return 0  # such prices would overflow, and prove nothing
    value = placement_value(problem, certificate)
    return max(0, -(-value // certificate.scale))


def placement_value(problem: Problem, certificate: Certificate) -> int:
    """The Lagrangian bound in price units: scale * moves - rewarded leaders kept is never below it."""
    brokers, old = problem.broker_count, problem.replicas
    u = certificate.broker_price
    reward = None
    if certificate.kept_leader_reward is not None and certificate.scale > problem.partition_count:
        reward = (certificate.kept_leader_reward > 0).astype(np.int64)  # a negative reward would fake a bound
    if problem.topic_spread:
        w = certificate.cell_prices(len(problem.topic_names), brokers)
        price, row = w + u[None, :], problem.topic
    else:
        w, price, row = None, u[None, :], np.zeros(problem.partition_count, np.int64)
    own_rack = _racks(problem, old)
    own_price = price[row[:, None], np.maximum(old, 0)]
    if reward is not None:
        own_price[:, 0] -= np.where(own_rack[:, 0] >= 0, reward[np.maximum(old[:, 0], 0)], 0)
    total = 0
    for index in range(len(problem.factors)):
        chosen = np.nonzero(problem.factor == index)[0]
        total += _cheapest_sets(problem, certificate.scale, price, row, own_rack, own_price, chosen, index)
    total -= int(np.maximum(u * problem.low, u * problem.high)[problem.eligible].sum())
    if w is not None:
        low, high = problem.cell_bounds()
        total -= int(np.maximum(w * low, w * high)[:, problem.eligible].sum())
    return total


def leader_changes_bound(problem: Problem, new: Ints, certificate: Certificate) -> int:
    """The least number of leader changes for the given sets that the prices v prove; at least 0."""
    v = certificate.leader_price
    if np.abs(v).max(initial=0) > _PRICE_MAX:
        return 0
    cost = np.where(new >= 0, (new != problem.replicas[:, :1]) + v[np.maximum(new, 0)], _FORBIDDEN)
    earned = np.maximum(v * problem.leader_low, v * problem.leader_high)[problem.eligible].sum()
    return max(0, int(cost.min(1).sum() - earned))


def _cheapest_sets(
    problem: Problem, scale: int, price: Ints, row: Ints, own_rack: Ints, own_price: Ints, chosen: Ints, index: int
) -> int:
    """Sum over the chosen partitions of the cheapest replica set that keeps to the rack quota."""
    least, most = problem.rack_min[index], problem.rack_max[index]
    old, at = problem.replicas[chosen], row[chosen]
    total, optional = 0, []
    for g, brokers in enumerate(problem.rack_brokers):
        if most[g] == 0:
            continue
        keep = min(len(brokers), int(most[g]) + old.shape[1])
        of_rack = price[:, brokers]
        order = np.argpartition(of_rack, keep - 1, 1)[:, :keep] if keep < len(brokers) else None
        cheap = np.broadcast_to(brokers, of_rack.shape) if order is None else brokers[order]
        cheap_price = of_rack if order is None else np.take_along_axis(of_rack, order, 1)
        candidate, cost = cheap[at], cheap_price[at] + scale
        held = np.zeros(candidate.shape, bool)
        for place in range(old.shape[1]):
            held |= candidate == old[:, place, None]
        options = np.concatenate(
            [np.where(held, _FORBIDDEN, cost), np.where(own_rack[chosen] == g, own_price[chosen], _FORBIDDEN)], 1
        )
        if most[g] == 1:  # noqa: SIM108 - the comment needs its line
            best = options.min(1, keepdims=True)  # a sort would cost ten times as much
        else:
            best = np.sort(options, 1)[:, : int(most[g])]
        total += int(best[:, : int(least[g])].sum())
        if most[g] > least[g]:
            optional.append(best[:, int(least[g]) :])
    rest = problem.factors[index] - int(least.sum())
    if rest:
        total += int(np.sort(np.concatenate(optional, 1), 1)[:, :rest].sum())
    return total


def _racks(problem: Problem, positions: npt.NDArray[np.integer]) -> Ints:
    return np.where(positions >= 0, problem.rack[np.maximum(positions, 0)], -1)


def _list_problems(problem: Problem, new: Ints) -> list[str]:
    if new.ndim != 2 or len(new) != problem.partition_count:  # noqa: PLR2004 - two dimensions
        return [f"{problem.partition_count} replica lists expected, an array of shape {new.shape} found"]
    if (new >= problem.broker_count).any() or (new < -1).any():
        return ["a replica on an unknown broker"]
    there = new >= 0
    found: list[str] = []
    wanted = np.asarray(problem.factors, np.int64)[problem.factor]
    _count(found, there.sum(1) != wanted, "lists with a wrong number of replicas")
    _count(found, (there[:, 1:] & ~there[:, :-1]).any(1), "lists with a hole")
    ordered = np.sort(new, 1)
    _count(found, ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(1), "lists with a broker twice")
    _count(found, (there & ~problem.eligible[np.maximum(new, 0)]).any(1), "lists with a dead or leaving broker")
    return found


def _bound_problems(problem: Problem, new: Ints, *, leaders_bounded: bool) -> list[str]:
    found: list[str] = []
    racks = _racks(problem, new)
    least, most = problem.rack_min[problem.factor], problem.rack_max[problem.factor]
    wrong = np.zeros(len(new), bool)
    for g in range(len(problem.rack_brokers)):
        held = (racks == g).sum(1)
        wrong |= (held < least[:, g]) | (held > most[:, g])
    _count(found, wrong, "partitions against their rack quota")
    there = new >= 0
    load = np.bincount(new[there], minlength=problem.broker_count)
    _count(found, (load < problem.low) | (load > problem.high), "brokers outside their replica bounds")
    if leaders_bounded:
        led = np.bincount(new[:, 0], minlength=problem.broker_count)
        _count(found, (led < problem.leader_low) | (led > problem.leader_high), "brokers outside their leader bounds")
    if problem.topic_spread:
        topics = len(problem.topic_names)
        cell = (problem.topic[:, None] * problem.broker_count + new)[there]
        held = np.bincount(cell, minlength=topics * problem.broker_count).reshape(topics, -1)
        low, high = problem.cell_bounds()
        _count(found, ((held < low) | (held > high)).ravel(), "(topic, broker) pairs outside their bounds")
    return found


def _count(found: list[str], broken: Bools | np.bool_, what: str) -> None:
    if np.any(broken):
        found.append(f"{int(np.sum(broken))} {what}")
