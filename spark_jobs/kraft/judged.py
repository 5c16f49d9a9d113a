"""What a rule of the certificate answers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from controller_core.model.words import first_lines
from spark_jobs.kraft.tree import Tree

EVIDENCE_MAX = 20


class Verdict(Enum):
    """`ASK`: a snapshot cannot tell; the evidence says what to ask."""

    MET = "met"
    NOT_MET = "not met"
    DECIDE = "decide first"
    ASK = "ask"


class Judged(NamedTuple):
    """A verdict with what it rests on: `path: what is there`, or a question; `found` is all of it where `evidence` is cut."""

    verdict: Verdict
    evidence: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One precondition. `ignored` is what happens where it does not hold, `mend` what to do; `id` as in docs/kraft.md."""

    id: str
    title: str
    ignored: str
    mend: str
    judge: Callable[[Tree], Judged]


def against(found: Iterable[str], otherwise: Verdict = Verdict.NOT_MET) -> Judged:
    """Met where nothing was found; else `otherwise` with what was found, cut and counted."""
    listed = tuple(found)
    if not listed:
        return Judged(Verdict.MET)
    return Judged(otherwise, first_lines(listed, EVIDENCE_MAX), listed if len(listed) > EVIDENCE_MAX else ())
