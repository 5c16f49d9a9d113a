"""What was predicted of a plan: the figures of each wave, where partitions stand in the end, and what speaks against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from controller_core.context.context import ControllerContext
from controller_core.engine.state_changes import ChangeKind, counts_text
from spark_jobs.planner.columns import shorten
from spark_jobs.planner.errors import PlanRejectedError

ZNODE_BYTES_MAX: Final = 1_000_000
_AnyPrediction = TypeVar("_AnyPrediction", "Prediction", "PlanPrediction")


@dataclass(frozen=True, slots=True, kw_only=True)
class WavePrediction:
    """What one wave makes the controller do."""

    partitions: int
    effects: Mapping[str, int]  # class of the effect → how many
    request_bytes: int  # of /admin/reassign_partitions
    topic_bytes: int  # of the largest topic znode that is written
    unfinished: tuple[str, ...]  # partitions that are not at their list in the end, e.g. for want of a live leader
    endangered: tuple[str, ...]  # partitions that lose their in-sync majority, or in-sync replicas when they lack it
    refusals: tuple[str, ...] = ()  # what the controller would refuse or fail at
    changes: Mapping[ChangeKind, int] = field(default_factory=dict)  # transitions, by kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """All waves, and the cluster as it stands after the last."""

    waves: tuple[WavePrediction, ...]
    context: ControllerContext

    @property
    def problems(self) -> tuple[str, ...]:
        """What speaks against the plan; empty as a rule."""
        return tuple(_problems(self.waves))


class Stand(NamedTuple):
    """Where one partition stands: broker ids (or the numbers that stand for them in a walk)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPrediction:
    """All waves of a plan, and where each changed partition stands in the end (row of the state → stand)."""

    waves: tuple[WavePrediction, ...]
    stands: Mapping[int, Stand]

    @property
    def problems(self) -> tuple[str, ...]:
        """What speaks against the plan; empty as a rule."""
        return tuple(_problems(self.waves))

    @property
    def text(self) -> str:
        """What was found, in one or two sentences for the approver."""
        if not self.waves:
            return "There is nothing for the controller to do."
        counts: Counter[str] = Counter()
        changes: Counter[ChangeKind] = Counter()
        for wave in self.waves:
            counts.update(wave.effects)
            changes.update(wave.changes)
        said = (
            f"Run through the controller's rules, wave by wave: {sum(counts.values())} effects, among them "
            f"{counts['WritePartitionStates']} writes of partition states; the largest request has "
            f"{max(wave.request_bytes for wave in self.waves)} bytes, the largest topic znode "
            f"{max(wave.topic_bytes for wave in self.waves)}; "
            + ("; ".join(self.problems) or "every partition keeps its in-sync majority")
            + "."
        )
        said += f" State changes: {counts_text(changes)}." if changes else ""
        waiting = [partition for wave in self.waves for partition in wave.unfinished]
        return f"{said} These are not done until a broker returns: {shorten(waiting)}." if waiting else said


def require_safe(prediction: _AnyPrediction) -> _AnyPrediction:
    """The prediction, or PlanRejectedError when a wave endangers a partition or does not fit into its znode."""
    _refuse("plan", prediction.problems, "plan again with smaller waves")
    return prediction


def require_possible(prediction: PlanPrediction) -> PlanPrediction:
    """The prediction, or PlanRejectedError when the controller cannot carry the plan out, however safe it is."""
    _refuse("targets", tuple(_impossible(prediction.waves)), "move fewer partitions of a topic in one wave")
    return prediction


def _refuse(what: str, found: Sequence[str], advice: str) -> None:
    if found:
        raise PlanRejectedError(
            f"{what} run through the controller's rules: no problem expected, {len(found)} found: {shorten(found)}; {advice}"
        )


def _problems(waves: Sequence[WavePrediction]) -> Iterator[str]:
    yield from _impossible(waves)
    for number, wave in enumerate(waves, start=1):
        if wave.endangered:
            yield f"wave {number} leaves {shorten(wave.endangered)} with too few in-sync replicas"


def _impossible(waves: Sequence[WavePrediction]) -> Iterator[str]:
    for number, wave in enumerate(waves, start=1):
        if wave.request_bytes > ZNODE_BYTES_MAX:
            yield f"wave {number} asks with {wave.request_bytes} bytes, at most {ZNODE_BYTES_MAX} fit"
        if wave.topic_bytes > ZNODE_BYTES_MAX:
            yield f"wave {number} writes a topic znode of {wave.topic_bytes} bytes, at most {ZNODE_BYTES_MAX} fit"
        if wave.refusals:
            yield f"wave {number} meets refusals of the controller: {shorten(wave.refusals)}"
