"""What waits in Airflow's triggerer, so that no worker slot is held meanwhile."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from controller_core.model.errors import ControllerCoreError
from controller_core.plans.plan import Plan
from kafka_maintenance import hooks
from kafka_maintenance.operations.record.receipts import Event

LOOK_EVERY_S: Final = 10.0
"""How often the cluster is looked at."""
WAKE_AFTER_S: Final = 900.0
"""So often the run looks itself all the same: it records how far the step is, and says when it is stuck."""

log = logging.getLogger(__name__)


class ExecutionTrigger(BaseTrigger):
    """Waits until a step that Kafka works at, or that waits for its change window, wants its run again. Names only: plan, store and cluster are looked up here.

    Args:
        cluster: connection id.
        kind: of the plan.
        digest: of the plan, 64 hex digits.
        step: its number from 0 on.
        look_every_s: how often the cluster is looked at.
        wake_after_s: when the run is woken in any case.
    """

    def __init__(
        self,
        *,
        cluster: str,
        kind: str,
        digest: str,
        step: int,
        look_every_s: float = LOOK_EVERY_S,
        wake_after_s: float = WAKE_AFTER_S,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cluster, self.kind, self.digest, self.step = cluster, kind, digest, step
        self.look_every_s, self.wake_after_s = look_every_s, wake_after_s
        self._left: tuple[Plan, Sequence[Event]] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class, and the arguments that make the same trigger elsewhere."""
        names = ("cluster", "kind", "digest", "step", "look_every_s", "wake_after_s")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, with the reason."""
        until_s, reason = monotonic() + self.wake_after_s, await sync_to_async(self._look)()
        while reason is None and monotonic() < until_s:
            await asyncio.sleep(self.look_every_s)
            reason = await sync_to_async(self._look)()
        yield TriggerEvent(reason or "time to record how far the step is")  # type: ignore[no-untyped-call]

    def _look(self) -> str | None:
        """Why the run is wanted; None where it is not, or where nobody answers: the next look may tell."""
        from kafka_maintenance.operations.apply.parked import wants_its_run
        from kafka_maintenance.operations.gate.policy import policy_of
        from kafka_maintenance.operations.plans.store import find_plan, read_plan
        from kafka_maintenance.operations.record.receipts import read_events

        try:
            store = hooks.store()
            if self._left is None:
                found = find_plan(store, cluster=self.cluster, kind=self.kind, digest=self.digest)
                self._left = read_plan(store, found.uri), read_events(store, self.cluster, self.digest)
            plan, events = self._left
            policy, address = policy_of(self.cluster), hooks.cluster(self.cluster).address
            return wants_its_run(
                store, plan, self.step, address, events, window=lambda: policy.closed(self.kind, datetime.now(UTC))
            )
        except ControllerCoreError as error:
            log.warning("step %s of plan %s on %r not looked at: %s", self.step + 1, self.digest, self.cluster, error)
            return None
