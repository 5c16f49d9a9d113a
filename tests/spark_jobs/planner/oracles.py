"""Slow and obvious answers to the planner's question: how few replicas must move?"""

from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp


def legal_sets(problem, p):
    """Every replica set of one partition that its replication factor and the rack quota allow."""
    rf = problem.factors[problem.factor[p]]
    least, most = problem.rack_min[problem.factor[p]], problem.rack_max[problem.factor[p]]
    for brokers in combinations(np.nonzero(problem.eligible)[0].tolist(), rf):
        held = np.bincount(problem.rack[list(brokers)], minlength=len(least))
        if ((held >= least) & (held <= most)).all():
            yield brokers


def brute_force(problem):
    """The optimum by dynamic programming over all loads; None when nothing meets the bounds."""
    spread = problem.topic_spread
    low, high = problem.cell_bounds() if spread else (None, None)
    best = {((0,) * problem.broker_count, (0,) * problem.broker_count): 0}
    topics = problem.topic.tolist()
    for p, topic in enumerate(topics):
        old = {b for b in problem.replicas[p].tolist() if b >= 0}
        options = [(brokers, len(set(brokers) - old)) for brokers in legal_sets(problem, p)]
        last = p + 1 == len(topics) or topics[p + 1] != topic
        then = {}
        for (load, cell), moves in best.items():
            for brokers, cost in options:
                more = tuple(n + (b in brokers) for b, n in enumerate(load))
                inside = tuple(n + (b in brokers) for b, n in enumerate(cell))
                if any(n > h for n, h in zip(more, problem.high, strict=True)):
                    continue
                if (
                    last
                    and spread
                    and not all(a <= n <= z for a, n, z in zip(low[topic], inside, high[topic], strict=True))
                ):
                    continue
                key = more, (0,) * len(inside) if last or not spread else inside
                then[key] = min(then.get(key, moves + cost), moves + cost)
        best = then
    fits = [moves for (load, _), moves in best.items() if all(n >= w for n, w in zip(load, problem.low, strict=True))]
    return min(fits, default=None)


def integer_programme(problem):
    """The optimum by HiGHS over one binary variable per (partition, broker)."""
    count, brokers = problem.partition_count, problem.broker_count
    cost = np.ones((count, brokers))
    for p, replicas in enumerate(problem.replicas.tolist()):
        cost[p, [b for b in replicas if b >= 0]] = 0
    rows, lower, upper = [], [], []

    def constrain(mask, least, most):
        rows.append(mask.ravel().astype(float))
        lower.append(least)
        upper.append(most)

    for p in range(count):
        mask = np.zeros((count, brokers))
        mask[p] = 1
        rf = problem.factors[problem.factor[p]]
        constrain(mask, rf, rf)
        for g, members in enumerate(problem.rack_brokers):
            mask = np.zeros((count, brokers))
            mask[p, members] = 1
            constrain(mask, problem.rack_min[problem.factor[p], g], problem.rack_max[problem.factor[p], g])
    for b in range(brokers):
        mask = np.zeros((count, brokers))
        mask[:, b] = 1
        constrain(mask, problem.low[b], problem.high[b])
    if problem.topic_spread:
        low, high = problem.cell_bounds()
        for t in range(len(problem.topic_names)):
            for b in range(brokers):
                mask = np.zeros((count, brokers))
                mask[problem.topic == t, b] = 1
                constrain(mask, low[t, b], high[t, b])
    solved = milp(
        cost.ravel(),
        constraints=LinearConstraint(np.array(rows), lower, upper),
        integrality=np.ones(count * brokers),
        bounds=Bounds(0, np.broadcast_to(problem.eligible, cost.shape).ravel().astype(float)),
    )
    return round(solved.fun) if solved.success else None


def fractional_placement(problem):
    """[P][B] every partition spread evenly inside its rack shares, by filling racks in tiny equal steps of exact size."""
    sizes = [len(members) for members in problem.rack_brokers]
    out = []
    for p in range(problem.partition_count):
        rf = problem.factors[problem.factor[p]]
        least = [int(n) for n in problem.rack_min[problem.factor[p]]]
        most = [int(n) for n in problem.rack_max[problem.factor[p]]]
        share = [Fraction(n) for n in least]
        while (rest := rf - sum(share)) > 0:
            # Raise the racks with the lowest share per broker together, to the next event.
            open_racks = [g for g in range(len(sizes)) if share[g] < most[g]]
            level = min(share[g] / sizes[g] for g in open_racks)
            lowest = [g for g in open_racks if share[g] / sizes[g] == level]
            width = sum(sizes[g] for g in lowest)
            steps = [rest / width, *((most[g] - share[g]) / sizes[g] for g in lowest)]
            steps += [share[g] / sizes[g] - level for g in open_racks if g not in lowest]
            step = min(steps)
            for g in lowest:
                share[g] += step * sizes[g]
        out.append([share[g] / sizes[g] if g >= 0 else Fraction(0) for g in problem.rack.tolist()])
    return out


def evenest(problem):
    """Bytes on the broker with the most, where these are fewest, over all placements within the bounds."""
    spread = problem.topic_spread
    nothing = (0,) * problem.broker_count
    topics = problem.topic.tolist()
    found = {(nothing, nothing, nothing)}
    for p, topic in enumerate(topics):
        size = int(problem.size[p])
        then = set()
        for brokers in legal_sets(problem, p):
            into = [b in brokers for b in range(problem.broker_count)]
            for count, cell, held in found:
                more = tuple(n + b for n, b in zip(count, into, strict=True))
                inside = tuple(n + b for n, b in zip(cell, into, strict=True))
                if any(n > high for n, high in zip(more, problem.high, strict=True)):
                    continue
                if p + 1 == len(topics) or topics[p + 1] != topic:
                    if spread and not within(inside, problem.cell_low[topic], problem.cell_high[topic]):
                        continue
                    inside = nothing
                then.add((more, inside, tuple(n + size * b for n, b in zip(held, into, strict=True))))
        found = then
    return min(max(held) for count, _, held in found if within(count, problem.low, problem.high))


def within(counts, low, high):
    return all(least <= n <= most for least, n, most in zip(low, counts, high, strict=True))
