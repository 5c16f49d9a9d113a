"""How the clusters of a fleet stand before a migration: by distance to ready, and what to work on first.

Source: docs/kraft.md, "Fleet".
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spark_jobs.kraft.phase import PhaseId
from spark_jobs.kraft.rules import RULES


class Standing(NamedTuple):
    """A cluster with its phase (the value of a `PhaseId`), and the ids of the rules that are not met or to be decided first."""

    cluster: str
    phase: str
    not_met: tuple[str, ...]
    decide_first: tuple[str, ...]

    @property
    def ready(self) -> bool:
        """No rule is broken, and no migration has begun."""
        return not self.not_met and self.phase == PhaseId.ZOOKEEPER.value


def by_distance(standings: Iterable[Standing]) -> list[Standing]:
    """The nearest to ready first: by rules that are not met, then by decisions; a migration that has begun comes last."""

    def distance(one: Standing) -> tuple[bool, int, int, str]:
        return one.phase != PhaseId.ZOOKEEPER.value, len(one.not_met), len(one.decide_first), one.cluster

    return sorted(standings, key=distance)


def in_the_way(standings: Sequence[Standing]) -> list[tuple[str, tuple[str, ...]]]:
    """Rule → clusters in which it is not met: the rule that the most clusters break first, which is the order of work."""
    found = [(rule.id, tuple(one.cluster for one in standings if rule.id in one.not_met)) for rule in RULES]
    return sorted((each for each in found if each[1]), key=lambda each: -len(each[1]))
