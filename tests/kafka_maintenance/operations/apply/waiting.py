"""Clocks, stops and sessions for runs that wait."""

from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply.stop import Stop


class Clock:
    """Seconds that pass when they are told to."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Waits(Stop):
    """Each wait does the next of the deeds, without waiting."""

    def __init__(self, *deeds) -> None:
        super().__init__()
        self.deeds = list(deeds)

    def wait(self, seconds: float) -> None:
        if self.deeds:
            self.deeds.pop(0)()


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
