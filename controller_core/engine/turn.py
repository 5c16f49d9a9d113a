"""One step under way: the workspace of the tasks that run in it. It never leaves `step`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from controller_core.context.context import ControllerContext
from controller_core.engine import request_batch
from controller_core.engine.pending import (
    NO_RESULTS,
    STATE_MACHINES,
    Add,
    BatchFault,
    BatchRecord,
    RequestBatch,
    Task,
)
from controller_core.messages.commands import Answer, MoveController
from controller_core.messages.effects import Effect
from controller_core.model.partitions import PartitionAndReplica, TopicPartition
from controller_core.model.refusals import Refusal, RefusalKind

_MACHINE_STAYS_BROKEN = (
    "the rest of the batch stays in it, and every later call of this state machine fails until another controller takes "
    "over"
)


class Turn:
    """What the tasks of one step have done so far. `answer` is what the outside said to the last question."""

    __slots__ = ("answer", "awaiting", "batches", "context", "effects", "refusals", "stack")

    def __init__(self, context: ControllerContext, answer: Answer | None = None) -> None:
        self.context = context
        self.answer = answer
        self.stack: list[Task] = list(reversed(context.agenda))
        self.awaiting: Effect | None = None
        self.effects: list[Effect] = []
        self.refusals: list[Refusal] = []
        self.batches: list[BatchRecord] = []

    def push(self, *tasks: Task) -> None:
        """Puts tasks in front of everything that is still to be done, in this order."""
        self.stack.extend(reversed(tasks))

    def unwind_to(self, marker: type[Task]) -> None:
        """Gives up everything in front of the next task of that class."""
        while self.stack and not isinstance(self.stack[-1], marker):
            self.stack.pop()

    def tell(self, *effects: Effect) -> None:
        """Asks for effects whose answers nobody waits for."""
        self.effects.extend(effects)

    def ask(self, effect: Effect, then: Task) -> None:
        """Asks for an effect and stops; `then` runs with the answer."""
        self.effects.append(effect)
        self.stack.append(then)
        self.awaiting = effect

    def refuse(
        self,
        kind: RefusalKind,
        subject: TopicPartition | PartitionAndReplica | str,
        reason: str,
        *,
        kafka: str = "",
        error: str = "",
    ) -> None:
        """Notes what is not done, and why."""
        self.refusals.append(Refusal(kind=kind, subject=subject, reason=reason, kafka=kafka, error=error))

    def defer(self, refusals: Sequence[Refusal]) -> None:
        """Notes failures that are told at the end of the running round, unless another controller ends it."""
        if refusals:
            self.change(deferred=(*self.context.deferred, *refusals))

    def tell_deferred(self) -> None:
        """Tells what was deferred."""
        if self.context.deferred:
            self.refusals.extend(self.context.deferred)
            self.change(deferred=())

    def change(self, **fields: object) -> None:
        """Changes plain fields of the context."""
        self.context = replace(self.context, **fields)  # type: ignore[arg-type]  # the names are ControllerContext's

    # The request batch of the running call

    def open_batch(self, owner: str = "controller") -> bool:
        """Starts a batch; false, with a refusal, where the batch is broken (see `_refuse_batch`)."""
        if self.context.batch_fault is BatchFault.NEW_BATCH:
            self._refuse_batch(owner, "an earlier call left requests in it")
            return False
        self.change(batch=RequestBatch(owner=owner))
        return True

    def add(self, adds: Iterable[Add]) -> None:
        """Adds to the open batch."""
        chunk = tuple(adds)
        if chunk:
            batch = self.context.batch or request_batch.EMPTY
            self.change(batch=RequestBatch((*batch.chunks, chunk), batch.owner))

    def send_batch(self) -> bool:
        """Sends the open batch; false, with a refusal, where not all of it could be sent (see `_refuse_batch`)."""
        batch = self.context.batch or request_batch.EMPTY
        epoch = self.context.epoch
        sent = request_batch.send(self.context, batch, epoch)
        self.effects.extend(sent.requests)
        self.change(batch=None)
        self.batches.append(BatchRecord(batch, None if sent.fault else epoch))
        if sent.fault:
            self._refuse_batch(batch.owner, sent.fault, kafka=_MACHINE_STAYS_BROKEN)
        return not sent.fault

    def _refuse_batch(self, owner: str, fault: str, *, kafka: str = "") -> None:
        """A state machine's batch fails its call. With any other the controller is broken: `handleIllegalState`.

        Then everything that is under way is given up, and the office goes before anything else is done.
        """
        if owner in STATE_MACHINES:
            self.refuse(RefusalKind.BROKEN_BATCH, "request batch", fault, kafka=kafka)
            return
        reason = f"{fault}; the controller drops it, gives up what was under way, and moves to another broker"
        self.refuse(RefusalKind.BROKEN_BATCH, "request batch", reason)
        self.stack.clear()
        self.change(results=NO_RESULTS, deferred=(), inbox=(MoveController(), *self.context.inbox))

    def drop_batch(self) -> None:
        """Gives up the open batch, if there is one."""
        if self.context.batch is not None:
            self.batches.append(BatchRecord(self.context.batch, None))
            self.change(batch=None)
