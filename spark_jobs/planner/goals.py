"""What a plan is to achieve, as parameters; the planner derives all bounds from them and from the state.

Source: docs/planning.md, "Goals".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from controller_core.model.words import counted
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
    their replicas, and the bounds are those of the chosen topics alone. Goals of which one would be dropped for another,
    and numbers that no plan can keep to, are refused with ImpossibleGoalError.
    """

    aim: Aim = Aim.BALANCE
    topic_spread: bool = True
    ignore_racks: bool = (
        False  # plan as if there were no racks; without it, brokers without a rack beside others postpone a plan
    )
    tolerance: Tolerance = field(default_factory=Tolerance)
    drain: frozenset[int] = frozenset()  # broker ids to empty, beside those the state marks
    replace: Mapping[int, int] = field(
        default_factory=dict
    )  # leaving broker id → its replacement broker; nobody else moves
    replication_factor: int | None = None  # for all chosen topics; None keeps what the state wants
    include_topics: tuple[str, ...] = ("*",)
    exclude_topics: tuple[str, ...] = ()
    moves_max: int | None = None  # replicas added at most; the tolerance is widened until they suffice
    bytes_max: int | None = None  # bytes copied at most; likewise
    bytes_tolerance: float | None = None  # wanted (max / mean - 1) of bytes per broker, by swaps that keep every bound
    curve_tolerances: tuple[int, ...] = (0, 1, 2, 5)

    def __post_init__(self) -> None:
        for problem in (*_out_of_range(self), *_exclusive(self)):
            raise ImpossibleGoalError(f"goals not read: {problem}; docs/planning.md has the fields")

    def chooses(self, topic: str) -> bool:
        """Whether the topic is included, and not excluded."""
        return _matches(topic, self.include_topics) and not _matches(topic, self.exclude_topics)

    def without_effect(self, topics: Collection[str]) -> list[str]:
        """A remark on each field with patterns that match none of the topics: one that is mistyped chooses, or spares, nothing."""
        found = {
            name: [pattern for pattern in patterns if not any(_matches(topic, [pattern]) for topic in topics)]
            for name, patterns in (("include_topics", self.include_topics), ("exclude_topics", self.exclude_topics))
        }
        return [
            f"{name} {', '.join(map(repr, patterns))}: none of {counted(len(topics), 'topic')} matches, so it has no effect; is it mistyped?"
            for name, patterns in found.items()
            if patterns
        ]

    @staticmethod
    def from_json(parameters: Mapping[str, Any]) -> Goals:
        """The goals whose fields `parameters` names, as `to_json` writes them; the others keep their defaults.

        Raises:
            ImpossibleGoalError: a field that there is not, a value of another kind, or goals that exclude each other.
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
            "ignore_racks": self.ignore_racks,
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


def _matches(topic: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in patterns)


def replacements(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """`replace` from (leaving broker, replacement broker); raises ImpossibleGoalError where one leaving broker is given two replacement brokers."""
    found: dict[int, int] = {}
    for old, new in pairs:
        if found.setdefault(old, new) != new:
            raise ImpossibleGoalError(
                f"goals not read: broker {old} is replaced by {found[old]} and by {new}; name one replacement broker"
            )
    return found


_INT_MAX = 2**31 - 1
_WITHOUT_EFFECT: Mapping[str, tuple[tuple[str, ...], str]] = {
    "aim 'leaders'": (("replace", "replication_factor", "bytes_tolerance"), "no replica moves"),
    "aim 'repair'": (("replace", "bytes_tolerance"), "only forced moves are made"),
    "replace": (
        ("bytes_tolerance", "tolerance"),
        "the replacement broker gets exactly what its broker holds, nobody else moves",
    ),
}
"""What excludes which fields, and why: beside it they could only be dropped."""


def _exclusive(goals: Goals) -> Iterator[str]:
    given = {
        f"aim '{goals.aim}'": True,
        "replace": bool(goals.replace),
        "replication_factor": goals.replication_factor is not None,
        "bytes_tolerance": goals.bytes_tolerance is not None,
        "tolerance": bool(goals.tolerance.replicas or goals.tolerance.leaders),
    }
    for first, (others, why) in _WITHOUT_EFFECT.items():
        for second in others:
            if given.get(first) and given[second]:
                yield f"{first} and {second} exclude each other ({why}); leave one of them out"


def _out_of_range(goals: Goals) -> Iterator[str]:
    width = goals.tolerance
    numbers = {
        "replication_factor": (1, (goals.replication_factor,)),
        "tolerance": (0, (width.replicas, width.leaders, width.topic, *goals.curve_tolerances)),
    }
    for name, (least, values) in numbers.items():
        for value in values:
            if value is not None and not least <= value <= _INT_MAX:
                yield f"{name}: expected a whole number from {least} to {_INT_MAX}, found {value}; correct it"
    excess = goals.bytes_tolerance
    if excess is not None and not (math.isfinite(excess) and excess >= 0):
        yield f"bytes_tolerance: expected a number from 0 on, e.g. 0.1, found {excess}; correct it"


def _aim(value: Any) -> Aim:
    if value not in list(Aim):
        raise ValueError(f"expected one of {[str(aim) for aim in Aim]}, found {value!r}")
    return Aim(value)


def _replacements(value: Any) -> dict[int, int]:
    return replacements((_NATURAL(int(old)), _NATURAL(new)) for old, new in one(dict)(value).items())


def _tolerance(value: Any) -> Tolerance:
    if isinstance(value, dict):
        return Tolerance(**json_values.fields(value, dict.fromkeys(("replicas", "leaders", "topic"), _NATURAL)))
    return Tolerance.uniform(_NATURAL(value))


_NATURAL = one(int, 0)
_READERS: dict[str, Reader] = {
    "aim": _aim,
    "topic_spread": one(bool),
    "ignore_racks": one(bool),
    "tolerance": _tolerance,
    "drain": several(_NATURAL, frozenset),
    "replace": _replacements,
    "replication_factor": one_or_null(int, 1),
    "include_topics": several(one(str), tuple),
    "exclude_topics": several(one(str), tuple),
    "moves_max": one_or_null(int, 0),
    "bytes_max": one_or_null(int, 0),
    "bytes_tolerance": one_or_null(float, 0),
    "curve_tolerances": several(_NATURAL, tuple),
}
