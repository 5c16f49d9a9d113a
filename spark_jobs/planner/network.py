"""A minimum-cost flow network, and the prices that prove its flow optimal.

Source: ortools `SimpleMinCostFlow`, which gives flows but no prices; Bellman and Ford's shortest distances give those.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from ortools.graph.python import min_cost_flow

from spark_jobs.planner.columns import Ints
from spark_jobs.planner.errors import SolverFailedError

Column = npt.ArrayLike
Arcs = tuple[Ints, Ints, Ints, Ints]
"""(tail, head, capacity, cost) of arcs, all of one length."""


@dataclass(slots=True)
class Network:
    """Arcs and supplies, collected in blocks; `solve` and `flat` see them as flat arrays."""

    nodes: int = 0
    blocks: list[Arcs] = field(default_factory=list)
    arcs: int = 0
    supplies: list[tuple[Ints, Ints]] = field(default_factory=list)

    def add_nodes(self, count: int) -> int:
        """Reserves `count` nodes; returns the first."""
        first = self.nodes
        self.nodes += count
        return first

    def add_arcs(self, tail: Column, head: Column, capacity: Column, cost: Column) -> slice:
        """Adds arcs (arguments are broadcast against each other); returns where their flows will be.

        Args:
            tail: nodes.
            head: nodes.
            capacity: units of flow.
            cost: of one unit.
        """
        block = np.broadcast_arrays(*(np.asarray(a, np.int64) for a in (tail, head, capacity, cost)))
        flat = tuple(np.ascontiguousarray(a).ravel() for a in block)
        self.blocks.append((flat[0], flat[1], flat[2], flat[3]))
        span = slice(self.arcs, self.arcs + len(flat[0]))
        self.arcs = span.stop
        return span

    def supply(self, nodes: Column, amount: Column) -> None:
        """Adds to the supply of nodes (negative: demand); a node may be named several times."""
        at, much = np.broadcast_arrays(np.asarray(nodes, np.int64), np.asarray(amount, np.int64))
        self.supplies.append((at.ravel(), much.ravel()))

    def total_supply(self) -> Ints:
        """[nodes] net supply."""
        out = np.zeros(self.nodes, np.int64)
        for nodes, amount in self.supplies:
            out += np.bincount(nodes, weights=amount, minlength=self.nodes).astype(np.int64)
        return out

    def flat(self) -> Arcs:
        """(tail, head, capacity, cost) of all arcs."""
        columns = [np.concatenate([block[i] for block in self.blocks]) for i in range(4)]
        return columns[0], columns[1], columns[2], columns[3]

    def solve(self, what: str) -> Ints:
        """Flow of each arc at minimum cost; raises SolverFailedError when there is none."""
        flows = self.attempt()
        if flows is None:
            raise SolverFailedError(
                f"{what} solved over {self.nodes} nodes and {self.arcs} arcs: an optimal flow expected, none found; "
                "widen the tolerance, and report the state if it persists"
            )
        return flows

    def attempt(self) -> Ints | None:
        """Flow of each arc at minimum cost, or None when the supplies cannot be shipped."""
        tail, head, capacity, cost = self.flat()
        solver = min_cost_flow.SimpleMinCostFlow()
        solver.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
        solver.set_nodes_supplies(np.arange(self.nodes), self.total_supply())
        status = solver.solve()
        if status in {solver.INFEASIBLE, solver.UNBALANCED}:
            return None
        if status != solver.OPTIMAL:
            raise SolverFailedError(
                f"flow over {self.nodes} nodes and {self.arcs} arcs: status OPTIMAL expected, {status.name} found; report it"
            )
        return np.asarray(solver.flows(np.arange(self.arcs)), np.int64)


def distances(nodes: int, arcs: Arcs, flows: Ints, *, rounds_max: int | None = None) -> Ints | None:
    """Shortest distances in the residual graph of a flow (Bellman and Ford, over all arcs at once).

    Args:
        nodes: how many there are.
        arcs: all arcs of the network.
        flows: the flow of each arc.
        rounds_max: give up after so many rounds; default is never to.

    Returns:
        [nodes] distances that are prices of an optimal flow; None when the rounds did not suffice, as they never do for
        a flow that is not optimal.
    """
    tail, head, capacity, cost = arcs
    forward, backward = flows < capacity, flows > 0
    source = np.concatenate([tail[forward], head[backward]])
    target = np.concatenate([head[forward], tail[backward]])
    price = np.concatenate([cost[forward], -cost[backward]])
    if not len(target):
        return np.zeros(nodes, np.int64)
    order = np.argsort(target, kind="stable")
    source, price, target = source[order], price[order], target[order]
    first = np.nonzero(np.concatenate([[True], target[1:] != target[:-1]]))[0]
    reached = target[first]
    distance = np.zeros(nodes, np.int64)
    for _ in range(nodes + 1 if rounds_max is None else min(nodes + 1, rounds_max)):
        best = np.minimum(np.minimum.reduceat(distance[source] + price, first), distance[reached])
        if np.array_equal(best, distance[reached]):
            return distance
        distance[reached] = best
    return None
