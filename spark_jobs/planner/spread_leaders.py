"""Leaders spread by bytes: the fewest that move to another of their choices, so that no broker leads much more than the mean.

Whom to move is number partitioning (NP-hard), so an exact solver gets a limited amount of work; what it cannot prove is said as a bound.
Source: ortools CP-SAT; docs/operations.md, "A few seconds as active controller".
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

from ortools.sat.python import cp_model

from spark_jobs.planner.errors import SolverFailedError

CONSIDERED_MAX: Final = 1_000
"""So many partitions may move, the largest of those that have a choice: one run moves a hundred."""
_WORK_MAX: Final = 10.0
"""Of the solver, in its own unit, so that the same question has the same answer; some seconds."""
_UNITS: Final = 1 << 60
"""The solver counts bytes up to here. Where there are more, it counts in this part of all of them, rounded up: its sums are of 64 bits."""

_MOST: Final = 2 * _UNITS
"""No broker leads as many units: the parts that are rounded up are fewer than the units."""


class Led(NamedTuple):
    """A partition: who leads it, who else could (its leader not among them), and its bytes."""

    leader: int
    others: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What moves, and what comes of it.

    Attributes:
        moves: place of a partition → its new leader.
        moves_least: no choice that does as well has fewer moves, of the partitions that were considered.
        within: no broker leads more than was wanted; else the one that leads most leads the least that was found.
    """

    moves: Mapping[int, int]
    moves_least: int
    within: bool


def spread_leaders(partitions: Sequence[Led], brokers: Collection[int], tolerance: float) -> Spread:
    """The fewest moves after which each broker leads at most (1 + tolerance) of the mean bytes, or of the least that is found where that cannot be.

    Args:
        partitions: all of the cluster; those without others stay.
        brokers: that are registered: the mean is theirs.
        tolerance: from 0 on.

    Raises:
        SolverFailedError: the solver found no choice at all.
    """
    question = _Question(partitions)
    # The decimal that was written: as a float, 1.15 times 200 bytes is below 230.
    limit = (1 + Fraction(str(tolerance))) * sum(each.size for each in partitions) / len(brokers)
    asked = question.fewest(min(int(limit) // question.unit, _MOST))
    solved = asked or question.fewest(question.least())
    if solved is None:
        raise SolverFailedError(
            f"leaders of {len(partitions):,} partitions spread by bytes: some choice expected, found none; name fewer topics"
        )
    moves, moves_least = solved
    within = max(bytes_led(partitions, moves).values(), default=0) <= limit
    proven = asked is not None or not within  # what the least found needs, the limit may not need
    return Spread(moves=moves, moves_least=moves_least if proven else 0, within=within)


def bytes_led(partitions: Sequence[Led], moves: Mapping[int, int]) -> Counter[int]:
    """Broker → bytes that it leads, once these moved."""
    led: Counter[int] = Counter()
    for number, each in enumerate(partitions):
        led[moves.get(number, each.leader)] += each.size
    return led


class _Question:
    """Who leads each partition that may move: one variable for each of its choices."""

    def __init__(self, partitions: Sequence[Led]) -> None:
        free = sorted(
            (number for number, each in enumerate(partitions) if each.others), key=lambda n: -partitions[n].size
        )
        considered = set(free[:CONSIDERED_MAX])
        self.unit = max(1, sum(each.size for each in partitions) // _UNITS)
        self._partitions = partitions
        self._model = cp_model.CpModel()
        self._chosen: dict[tuple[int, int], Any] = {}
        self._loads: defaultdict[int, Any] = defaultdict(int)
        for number, (leader, others, size) in enumerate(partitions):
            units = -(-size // self.unit)
            if number not in considered:
                self._loads[leader] += units
                continue
            variables = {broker: self._model.new_bool_var("") for broker in (leader, *others)}
            self._model.add_exactly_one(variables.values())
            for broker, variable in variables.items():
                self._chosen[number, broker] = variable
                self._loads[broker] += units * variable
        self._most = self._model.new_int_var(0, _MOST, "units of the broker that leads most")
        for load in self._loads.values():
            self._model.add(load <= self._most)

    def fewest(self, most: int) -> tuple[dict[int, int], int] | None:
        """The fewest moves after which no broker leads more units, and how few there can be; None: no such choice was found."""
        model = self._model.clone()
        model.add(self._most <= most)
        model.minimize(sum(each for (number, broker), each in self._chosen.items() if self._moves(number, broker)))
        solver = _solved(model)
        if solver is None:
            return None
        moves = {
            number: broker
            for (number, broker), each in self._chosen.items()
            if self._moves(number, broker) and solver.boolean_value(each)
        }
        return moves, round(solver.best_objective_bound)

    def least(self) -> int:
        """The fewest units that were found for the broker that leads most."""
        model = self._model.clone()
        model.minimize(self._most)
        solver = _solved(model)
        return _MOST if solver is None else solver.value(self._most)

    def _moves(self, number: int, broker: int) -> bool:
        return broker != self._partitions[number].leader


def _solved(model: cp_model.CpModel) -> cp_model.CpSolver | None:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = _WORK_MAX
    return solver if solver.solve(model) in {cp_model.OPTIMAL, cp_model.FEASIBLE} else None
