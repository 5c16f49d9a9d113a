"""What a plan is to achieve, as parameters; the planner derives all bounds from them and from the state.

Source: issue §2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from spark_jobs import json_values
from spark_jobs.json_values import Reader, one, one_or_null, several
from spark_jobs.planner.errors import ImpossibleGoalError


class Aim(StrEnum):
    """How far a plan goes.

    BALANCE repairs and balances replicas and leaders; REPAIR makes only the moves that racks, replication factor and
    leaving brokers force, as evenly as these allow; LEADERS moves no replica and changes only who leads.
    """

    BALANCE = "balance"
    REPAIR = "repair"
    LEADERS = "leaders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """By how many replicas each bound is widened on both sides of floor and ceiling of its mean."""

    replicas: int = 0
    leaders: int = 0
    topic: int = 1

    @staticmethod
    def uniform(width: int) -> Tolerance:
        """The same width for replicas, leaders and topics."""
        return Tolerance(replicas=width, leaders=width, topic=width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """The parameters of a plan; the default balances everything, each topic within one replica of its mean.

    Patterns are shell patterns (`fnmatch`), matched against whole topic names, case-sensitive. Excluded topics keep
    their replicas, and the bounds are those of the chosen topics alone.
    """

    aim: Aim = Aim.BALANCE
    topic_spread: bool = True
    tolerance: Tolerance = field(default_factory=Tolerance)
    drain: frozenset[int] = frozenset()  # broker ids to empty, beside those the state marks
    replace: Mapping[int, int] = field(default_factory=dict)  # leaving broker id → its heir; nobody else moves
    replication_factor: int | None = None  # for all chosen topics; None keeps what the state wants
    include_topics: tuple[str, ...] = ("*",)
    exclude_topics: tuple[str, ...] = ()
    moves_max: int | None = None  # replicas added at most; the tolerance is widened until they suffice
    bytes_max: int | None = None  # bytes copied at most; likewise
    bytes_tolerance: float | None = None  # wanted (max / mean - 1) of bytes per broker, reached by count-keeping swaps
    curve_tolerances: tuple[int, ...] = (0, 1, 2, 5)

    @staticmethod
    def from_json(parameters: Mapping[str, Any]) -> Goals:
        """The goals whose fields `parameters` names, as `to_json` writes them; the others keep their defaults.

        Raises:
            ImpossibleGoalError: a field that there is not, or a value of another kind.
        """
        try:
            return Goals(**json_values.fields(parameters, _READERS))
        except ValueError as error:
            raise ImpossibleGoalError(
                f"goals not read: {error}; correct them, docs/planning.md has the fields"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """All parameters as JSON values, in the order of the fields."""
        return {
            "aim": str(self.aim),
            "topic_spread": self.topic_spread,
            "tolerance": {
                "replicas": self.tolerance.replicas,
                "leaders": self.tolerance.leaders,
                "topic": self.tolerance.topic,
            },
            "drain": sorted(self.drain),
            "replace": {str(old): new for old, new in sorted(self.replace.items())},
            "replication_factor": self.replication_factor,
            "include_topics": list(self.include_topics),
            "exclude_topics": list(self.exclude_topics),
            "moves_max": self.moves_max,
            "bytes_max": self.bytes_max,
            "bytes_tolerance": self.bytes_tolerance,
            "curve_tolerances": list(self.curve_tolerances),
        }


def _aim(value: Any) -> Aim:
    if value not in list(Aim):
        raise ValueError(f"expected one of {[str(aim) for aim in Aim]}, found {value!r}")
    return Aim(value)


def _heirs(value: Any) -> dict[int, int]:
    return {_NATURAL(int(old)): _NATURAL(new) for old, new in one(dict)(value).items()}


def _tolerance(value: Any) -> Tolerance:
    if isinstance(value, dict):
        return Tolerance(**json_values.fields(value, dict.fromkeys(("replicas", "leaders", "topic"), _NATURAL)))
    return Tolerance.uniform(_NATURAL(value))


_NATURAL = one(int, 0)
_READERS: dict[str, Reader] = {
    "aim": _aim,
    "topic_spread": one(bool),
    "tolerance": _tolerance,
    "drain": several(_NATURAL, frozenset),
    "replace": _heirs,
    "replication_factor": one_or_null(int, 1),
    "include_topics": several(one(str), tuple),
    "exclude_topics": several(one(str), tuple),
    "moves_max": one_or_null(int, 0),
    "bytes_max": one_or_null(int, 0),
    "bytes_tolerance": one_or_null(float, 0),
    "curve_tolerances": several(_NATURAL, tuple),
}
