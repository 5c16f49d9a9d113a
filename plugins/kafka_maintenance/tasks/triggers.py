"""What waits in Airflow's triggerer, so that no worker slot is held meanwhile."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from controller_core.model.errors import ControllerCoreError
from controller_core.plans.plan import Plan
from kafka_maintenance import hooks
from kafka_maintenance.operations.record.receipts import Event
from kafka_maintenance.tasks.airflow_versions import TRANSIENT_ERRORS
from kafka_maintenance.tasks.settings import SETTINGS

if TYPE_CHECKING:
    from kafka_maintenance.operations.kraft.watch import Judgement, Watcher
    from spark_jobs.kraft.tree import Tree

WATCH_EVERY_S: Final = 30.0
"""How often a cluster on its way to KRaft is looked at."""
LOOK_EVERY_S: Final = 10.0
"""How often the cluster is looked at."""
WAKE_AFTER_S: Final = 900.0
"""When the watch of a migration is woken whatever it saw."""

log = logging.getLogger(__name__)


class LookingTrigger(BaseTrigger):
    """Looks at a cluster again and again until there is a reason to wake its task, or the time is over; what it looks at is a subclass's.

    Attributes:
        arguments: names of the arguments, each an attribute, that make the same trigger elsewhere.
        time_over: the reason when the time is over.
        nobody_answers: the last look found a server away: a worker that is woken now finds no more, and its tries are counted.
    """

    arguments: ClassVar[tuple[str, ...]]
    time_over: ClassVar[str]
    nobody_answers = False
    look_every_s: float
    wake_after_s: float

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class, and the arguments that make the same trigger elsewhere."""
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in self.arguments}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, with the reason."""
        until_s, reason = monotonic() + self.wake_after_s, await sync_to_async(self._look)()
        while reason is None and (self.nobody_answers or monotonic() < until_s):
            await asyncio.sleep(self.look_every_s)
            reason = await sync_to_async(self._look)()
        yield TriggerEvent(reason or self.time_over)  # type: ignore[no-untyped-call]

    def _look(self) -> str | None:
        """Why the task is wanted; None where it is not, or where nobody answers: the next look may tell."""
        raise NotImplementedError


class MigrationTrigger(LookingTrigger):
    """Waits until a cluster on its way to KRaft shows something else than when it began to look, or that the only way is back. Nothing is written.

    Args:
        cluster: connection id.
        date: of the snapshot of which nothing may be lost.
        snapshot: its id.
        wants_go: whether *go* ends it at once; false where the task compares with a metadata log or asks brokers, which is done on a worker.
        look_every_s: how often the tree is read; five seconds or more.
        wake_after_s: when the task is woken in any case.
    """

    arguments = ("cluster", "date", "snapshot", "wants_go", "look_every_s", "wake_after_s")
    time_over = "time to look at everything"

    def __init__(
        self,
        *,
        cluster: str,
        date: str,
        snapshot: str,
        wants_go: bool,
        look_every_s: float = WATCH_EVERY_S,
        wake_after_s: float = WAKE_AFTER_S,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cluster, self.date, self.snapshot, self.wants_go = cluster, date, snapshot, wants_go
        self.look_every_s, self.wake_after_s = look_every_s, wake_after_s
        self._watcher: Watcher | None = None
        self._first: Judgement | None = None

    def _look(self) -> str | None:
        """Why the task is wanted; None where it is not, or where nobody answers: the next look may tell."""
        from kafka_maintenance.operations.kraft.watch import Advice, Watcher, look

        try:
            seen = look(hooks.cluster(self.cluster).address, datetime.now(UTC))
            if self._watcher is None:
                self._watcher = Watcher(seen, None, tree_before(self.cluster, self.date, self.snapshot))
                return None
            found = self._watcher.judged(seen)
        except ControllerCoreError as error:
            log.warning("migration of %r not looked at: %s", self.cluster, error)
            return None
        self._first = self._first or found
        at_once = {Advice.GO_BACK, Advice.GO} if self.wants_go else {Advice.GO_BACK}
        if found.advice in at_once or (found.advice, found.phase.id) != (self._first.advice, self._first.phase.id):
            return f"{found.advice.value}: phase {found.phase.id.value}, {found.phase.text}"
        return None


def tree_before(cluster: str, date: str, snapshot: str) -> "Tree":
    """The tree of a snapshot that was taken before a phase."""
    from kafka_maintenance.operations.snapshots.catalog import read_raw
    from kafka_maintenance.tasks.snapshots import named_snapshot
    from spark_jobs.kraft.tree import tree_of

    store = hooks.store()
    return tree_of(read_raw(store, named_snapshot(store, cluster=cluster, date=date, snapshot=snapshot)))


class PlanTrigger(LookingTrigger):
    """Looks at a cluster for the run of a plan. Names only: plan, store and cluster are looked up here.

    Args:
        cluster: connection id.
        kind: of the plan.
        digest: of the plan, 64 hex digits.
        look_every_s: how often the cluster is looked at.
        wake_after_s: when the run is woken in any case.
    """

    arguments: ClassVar[tuple[str, ...]] = ("cluster", "kind", "digest", "look_every_s", "wake_after_s")
    _plan: Plan | None = None

    def __init__(
        self,
        *,
        cluster: str,
        kind: str,
        digest: str,
        look_every_s: float = LOOK_EVERY_S,
        wake_after_s: float = SETTINGS.wake_after_s,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cluster, self.kind, self.digest = cluster, kind, digest
        self.look_every_s, self.wake_after_s = look_every_s, wake_after_s

    def _look(self) -> str | None:
        """Why the run is wanted; None where it is not, or where nobody answers: the next look may tell."""
        from kafka_maintenance.operations.plans.store import plan_named

        self.nobody_answers = False
        try:
            self._plan = self._plan or plan_named(
                hooks.store(), cluster=self.cluster, kind=self.kind, digest=self.digest
            )
            return self._wanted(self._plan)
        except ControllerCoreError as error:
            self.nobody_answers = isinstance(error, TRANSIENT_ERRORS)
            log.warning("%s of plan %s on %r not looked at: %s", self._awaited(), self.digest, self.cluster, error)
            return None

    def _wanted(self, plan: Plan) -> str | None:
        """`_look` of the plan; raises where nobody answers."""
        raise NotImplementedError

    def _awaited(self) -> str:
        """What of the plan waits, for a line of the log."""
        raise NotImplementedError


class TurnTrigger(PlanTrigger):
    """Waits until another run or another tool is no longer at work on a cluster, or another one is.

    It wakes its run now and then: whether its approval still counts is said by the store, not by the cluster.
    """

    time_over = "time to see whether the cluster is still busy"
    _met: frozenset[tuple[str, bytes]] | None = None

    def _wanted(self, plan: Plan) -> str | None:
        from kafka_maintenance.operations.apply.parked import in_the_way

        found = in_the_way(plan, self.digest, hooks.cluster(self.cluster).address)
        self._met = found if self._met is None else self._met
        return "what was at work on the cluster is over" if not found or found != self._met else None

    def _awaited(self) -> str:
        return "the turn"


class ExecutionTrigger(PlanTrigger):
    """Waits until a step that Kafka works at, or that waits for its change window, wants its run again.

    It wakes its run now and then, once store and cluster answer: the run records how far the step is, and says when it is stuck.

    Args:
        step: its number from 0 on.
        names: see `PlanTrigger`.
    """

    arguments = (*PlanTrigger.arguments, "step")
    time_over = "time to record how far the step is"
    _events: Sequence[Event] | None = None

    def __init__(self, *, step: int, **names: Any) -> None:
        super().__init__(**names)
        self.step = step

    def _wanted(self, plan: Plan) -> str | None:
        from kafka_maintenance.operations.apply.parked import wants_its_run
        from kafka_maintenance.operations.gate.permission import window_closed
        from kafka_maintenance.operations.gate.policy import policy_of
        from kafka_maintenance.operations.record.receipts import read_events

        store = hooks.store()
        if self._events is None:
            self._events = read_events(store, self.cluster, self.digest)
        policy, address = policy_of(self.cluster), hooks.cluster(self.cluster).address
        run = self._events[-1].run if self._events else None
        return wants_its_run(
            store,
            plan,
            self.digest,
            self.step,
            address,
            self._events,
            window=lambda: window_closed(
                store, kind=self.kind, cluster=self.cluster, run=run, policy=policy, now=datetime.now(UTC)
            ),
        )

    def _awaited(self) -> str:
        return f"step {self.step + 1}"
