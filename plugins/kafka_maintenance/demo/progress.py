"""What a demo has done so far, and the line that ends it."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kafka_maintenance.demo import sample_history


@dataclass(slots=True)
class Progress:
    """What has happened so far: counts, seconds by part, and what went wrong, in words.

    `plans` are put to a person, and the move is put twice; `remark` stands in the closing line, where a version cannot do what others can.
    """

    plans: int = 5
    cancels: bool = True
    remark: str = ""
    started_s: float = field(default_factory=time.monotonic)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"{time.monotonic() - self.started_s:6.1f} s  {text}", flush=True)

    def fault(self, text: str) -> None:
        """Print and remember a part that did not happen."""
        self.faults.append(text)
        self.say(f"NOT DONE: {text}")

    @contextlib.contextmanager
    def part(self, title: str) -> Iterator[None]:
        """Time a part of the demo under its title."""
        print(f"\n== {title}", flush=True)
        before_s = time.monotonic()
        try:
            yield
        finally:
            self.seconds[title] = time.monotonic() - before_s

    def closing_line(self) -> str:
        """The line that ends the demo, counted."""
        counts = self.counts
        rejected = f" {counts['rejected']} rejected," if counts["rejected"] else ""
        return (
            f"demo: {counts['snapshots']} snapshots, {counts['report']} report, {counts['approved']} plans approved,"
            f"{rejected} {counts['applied']} applied, {counts['verified']} verified, "
            f"{self._move()}, {counts['dates']} dates backfilled{self.remark}"
        )

    def _move(self) -> str:
        """What was done to the move under a throttle."""
        if self.counts["moves_rejected"]:
            return "1 throttled move rejected"
        ending = "its second wave cancelled" if self.cancels else "finished"
        done = [
            text
            for name, text in (
                ("moves_stopped", "stopped in mid-wave"),
                ("moves_resumed", "resumed"),
                (self._last, ending),
            )
            if self.counts[name]
        ]
        return f"1 throttled move {', '.join(done)}" if done else "no throttled move"

    @property
    def _last(self) -> str:
        return "waves_cancelled" if self.cancels else "moves_finished"

    @property
    def expected(self) -> dict[str, int]:
        """The counts of a whole demo; a plan that a person rejects is not carried out."""
        carried_out = self.plans - self.counts["rejected"]
        return {
            "snapshots": 2,
            "report": 1,
            "approved": carried_out,
            "applied": carried_out,
            "verified": carried_out,
            **({} if self.counts["moves_rejected"] else {"moves_stopped": 1, "moves_resumed": 1, self._last: 1}),
            "dates": len(sample_history.DAYS),
        }

    def missing(self) -> list[str]:
        """What was expected and did not happen."""
        return [
            f"{name}: expected {expected}, found {self.counts[name]}"
            for name, expected in self.expected.items()
            if self.counts[name] != expected
        ]
