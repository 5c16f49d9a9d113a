"""What a run tells while it waits: a line in the log and the same figures in the record, seldom where nothing is new.

Source: docs/operations.md, "Applying".
"""

import logging
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, Final, NamedTuple

from controller_core.plans.observation import Observation
from controller_core.plans.plan import PlanStep
from controller_core.plans.progress import StepProgress, step_progress
from kafka_maintenance.operations.apply.copying import Copied, copying, in_bytes, log_dirs_of_step
from kafka_maintenance.operations.apply.run import Run, waited_s
from kafka_maintenance.operations.errors import listed
from kafka_maintenance.operations.record.receipts import EventKind

LINE_S: Final = 60.0
"""One line in this time at most."""
STUCK_S: Final = 1800.0
"""No outcome and no replica nearer for so long: the step is called stuck."""
_RECORD_GROWTH: Final = 1.02
"""Between two observations in the record the time grows by this factor, so that a month of waiting makes some hundred of them."""

COPIES_RECORDED_MAX: Final = 100
"""Replicas that an observation names, those first that lack most."""

_TOLD: Final = frozenset({EventKind.STARTED, EventKind.REQUESTED, EventKind.OBSERVED, EventKind.STUCK})

log = logging.getLogger(__name__)


class _Measured(NamedTuple):
    """Figures in bytes for the record, the words for the log, and each replica that is copied; empty where nobody tells them."""

    figures: dict[str, int]
    text: str
    replicas: tuple[Copied, ...] = ()


class Teller:
    """Tells of one step while it is waited for. It neither ends the wait nor changes anything."""

    def __init__(self, run: Run, number: int, step: PlanStep) -> None:
        self._run, self._number, self._step = run, number, step
        self._since_s = monotonic() - waited_s(run.log, number)
        self._line_s = -LINE_S
        self._measured = _Measured({}, "")
        told = _observations(run, number)
        self._recorded_s = told[-1]["seconds"] if told else 0.0
        self._first_in_sync: int | None = told[0]["replicas_in_sync"] if told else None
        self._best = _reached(told[-1]) if told else (-1, -1)
        alike = [each["seconds"] for each in told if _reached(each) == self._best]
        self._nearer_s = self._since_s + alike[0] if alike else monotonic()
        measured = [each for each in told if "bytes_copied" in each]
        self._bytes: tuple[float, int] | None = (
            (measured[-1]["seconds"], measured[-1]["bytes_copied"]) if measured else None
        )
        last = next((each.event for each in reversed(run.log.events) if each.event in _TOLD), None)
        self._stuck = last is EventKind.STUCK

    def see(self, observed: Observation) -> None:
        """Logs and records what was seen, where it is time to."""
        now_s = monotonic() - self._since_s
        progress = step_progress(self._step, observed)
        self._run.tell(self._number, len(self._run.plan.steps), progress)
        if self._first_in_sync is None:
            self._first_in_sync = progress.replicas_in_sync
        reached = (progress.outcomes_done, progress.replicas_in_sync)
        if reached > self._best:
            self._best, self._nearer_s, self._stuck = reached, monotonic(), False
        if now_s - self._line_s >= LINE_S:
            self._line_s = now_s
            self._measured = self._measure(observed, now_s)
            log.info("%s: %s", self._run.name(self._number), self._line(progress, now_s))
        if now_s - self._recorded_s >= max(LINE_S, now_s * (_RECORD_GROWTH - 1)):
            self._recorded_s = now_s
            names = ("outcomes_done", "outcomes", "replicas_in_sync", "replicas")
            figures = {name: getattr(progress, name) for name in names} | self._measured.figures
            lagging = _lagging(progress, self._measured.replicas)
            self._run.log.append(
                EventKind.OBSERVED,
                step=self._number,
                seconds=round(now_s),
                **figures,
                **({"lagging": lagging} if lagging else {}),
            )
        if not self._stuck and monotonic() - self._nearer_s >= STUCK_S:
            self._stuck = True
            text = _stuck_text(progress, monotonic() - self._nearer_s)
            log.warning("%s: %s; receipt %s", self._run.name(self._number), text, self._run.log.uri)
            self._run.log.append(EventKind.STUCK, step=self._number, reasons=[text])

    def _measure(self, observed: Observation, now_s: float) -> "_Measured":
        """Bytes, where brokers tell them, and how fast they came since the last time."""
        found = log_dirs_of_step(self._run, self._number, self._step, observed)
        if found is None:
            return _Measured({}, "")
        now, before, self._bytes = copying(self._step, found), self._bytes, None
        figures, text = (
            {"bytes_copied": now.copied, "bytes": now.total},
            f"{in_bytes(now.copied)} of {in_bytes(now.total)} copied",
        )
        self._bytes = (now_s, now.copied)
        if before is not None and now_s > before[0] and now.copied > before[1]:
            rate = (now.copied - before[1]) / (now_s - before[0])
            figures |= {"bytes_per_s": round(rate), "to_go_s": round((now.total - now.copied) / rate)}
            text += f", {in_bytes(rate)}/s, about {_clock(figures['to_go_s'])} to go"
        if now.farthest is not None:
            text += f", farthest behind: {now.farthest.partition} on broker {now.farthest.broker}, {in_bytes(now.farthest.lacks)}"
        return _Measured(figures, text, now.replicas)

    def _line(self, progress: StepProgress, now_s: float) -> str:
        parts = [str(progress), f"{_clock(now_s)} since it is waited for"]
        done = progress.replicas_in_sync - (self._first_in_sync or 0)
        if self._measured.text:
            parts.append(self._measured.text)
        elif done and progress.missing:
            parts.append(f"about {_clock(now_s / done * len(progress.missing))} to go at this rate")
        if progress.missing:
            parts.append(f"not in sync: {listed(progress.missing)}")
        return ", ".join(parts)


def _observations(run: Run, number: int) -> list[Mapping[str, Any]]:
    """What was recorded of the step since it is waited for, the oldest first: a run that goes on tells on from there."""
    begun = [n for n, each in enumerate(run.log.events) if each.event in {EventKind.STARTED, EventKind.REQUESTED}]
    later = run.log.events[begun[-1] :] if begun else ()
    return [each.detail for each in later if each.event is EventKind.OBSERVED and each.step == number]


def _lagging(progress: StepProgress, replicas: Sequence[Copied]) -> list[dict[str, Any]]:
    """The replicas that are not in sync, as the record names them, those first that lack most; bytes where they are known."""
    known = {(each.partition, each.broker): each for each in replicas}
    rows = []
    for missing in progress.missing:
        found = known.get((missing.partition, missing.broker))
        sizes = {} if found is None else {"bytes_copied": found.copied, "bytes": found.total}
        rows.append({**missing.partition._asdict(), "broker": missing.broker, "is_live": missing.is_live, **sizes})
    rows.sort(key=lambda row: row.get("bytes_copied", 0) - row.get("bytes", 0))
    return rows[:COPIES_RECORDED_MAX]


def _reached(figures: Mapping[str, Any]) -> tuple[int, int]:
    return figures["outcomes_done"], figures["replicas_in_sync"]


def _stuck_text(progress: StepProgress, stuck_s: float) -> str:
    """What has not moved, and what to do about it."""
    away = sorted({each.broker for each in progress.missing if not each.is_live})
    live = sorted({each.broker for each in progress.missing if each.is_live})
    advice = []
    if away:
        advice.append(f"start broker(s) {away}, or cancel the step")
    if live:
        advice.append(
            f"look at broker(s) {live}: a throttle below the rate of produce, a log directory that failed or is full, "
            "ReplicaFetcherThread in their logs"
        )
    if not progress.missing:
        advice.append(
            "every replica is in sync: look at the controller's log; a forced re-election makes it read its requests again"
        )
    missing = f"; not in sync: {listed(progress.missing)}" if progress.missing else ""
    return f"stuck: nothing came nearer for {_clock(stuck_s)}: {progress}{missing}; {'; '.join(advice)}"


def _clock(seconds: float) -> str:
    minutes = round(seconds) // 60
    return f"{minutes // 60:02d}:{minutes % 60:02d}" if minutes else f"{round(seconds)} s"
