"""Clocks, windows, stops and sessions for runs that wait."""

from typing import Any

from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.record.receipts import read_events

CLOSED = "expected a time in 02:00-03:00 UTC, found 03:00"


class Clock:
    """Seconds that pass when they are told to."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Waits(Stop):
    """Each wait does the next of the actions, without waiting."""

    def __init__(self, *actions) -> None:
        super().__init__()
        self.actions = list(actions)

    def wait(self, seconds: float) -> None:
        if self.actions:
            self.actions.pop(0)()


class AfterFirst(MemoryZooKeeper):
    """Disturbs the cluster as soon as the first step is over."""

    def __init__(self, world, disturb) -> None:
        super().__init__(world.server)
        self.world, self.disturb = world, disturb

    def multi(self, operations):
        found = super().multi(operations)
        if self.disturb and any(each.path == znode.REASSIGN_PARTITIONS for each in operations):
            self.disturb(self.world)
            self.disturb = None
        return found


class Window:
    """Open for the first step; then closed until somebody opens it."""

    def __init__(self, *, opens_at: int = 1) -> None:
        self.calls, self.is_open, self.opens_at = 0, False, opens_at

    def __call__(self) -> str | None:
        self.calls += 1
        return None if self.is_open or self.calls <= self.opens_at else CLOSED

    def open(self) -> None:
        self.is_open = True


def waits_recorded(store: Any, plan: Any) -> list[Any]:
    """The events that say what a run waits for."""
    return [each for each in read_events(store, "demo", plan.digest) if each.event == "waiting"]
