"""How one step runs: tasks, what of them is under way between two steps, and the workspace of a step.

Kafka keeps what is under way on the stack of its event thread and in fields of `KafkaController`. Here it is data
(docs/adr/0003): a crash between two effects is a pair of context and `UnderWay` that nobody continues.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller_core.context.context import ControllerContext
from controller_core.engine import request_batch
from controller_core.engine.batch import EMPTY, STATE_MACHINES, Add, BatchFault, BatchRecord, RequestBatch
from controller_core.engine.state_changes import Changed
from controller_core.messages.answers import Answer, Failed
from controller_core.messages.effects import AnsweredEffect, Effect
from controller_core.messages.events import Event, MoveController
from controller_core.model.partitions import BrokerId, LeaderAndIsr, PartitionAndReplica, TopicPartition
from controller_core.model.refusals import Refusal, RefusalKind

_MACHINE_STAYS_BROKEN = (
    "the rest of the batch stays in it, and every later call of this state machine fails until another controller takes "
    "over"
)


class Task(ABC):
    """One piece of a flow, named after Kafka's method. A frozen dataclass, so that the agenda is plain data."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, turn: "Turn") -> None:
        """Does the piece: changes the turn's context, asks for effects, puts further tasks in front."""


@dataclass(frozen=True, slots=True)
class RunTasks:
    """A command that runs these tasks: single methods of Kafka's controller, to ask what they would do."""

    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class CallResults:
    """What the last call of the partition machine returned: elected partitions, and failures with their reason."""

    elected: Mapping[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    failed: Mapping[TopicPartition, str] = field(default_factory=dict)


NO_RESULTS = CallResults()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """What a step left for the next one.

    Attributes:
        agenda: tasks still to run, the next one first.
        awaiting: the effect whose answer goes on with the agenda; None: nothing is under way.
        cause: name of the command whose tasks these are; empty where nothing is under way.
        inbox: commands that came meanwhile, oldest first.
        batch: the request batch of the running call.
        results: of the last call of the partition machine.
        deferred: failures that count only if no other controller ends the running round.
        reassignment_errors: Kafka's errors of the running reassignment request.
        reassignments_started: by the running reassignment request.
        batch_fault: where the batch fails, for tests of a broken batch.
    """

    agenda: tuple[Task, ...] = ()
    awaiting: AnsweredEffect | None = None
    cause: str = ""
    inbox: tuple[Event | RunTasks, ...] = ()
    batch: RequestBatch | None = None
    results: CallResults = NO_RESULTS
    deferred: tuple[Refusal, ...] = ()
    reassignment_errors: Mapping[TopicPartition, str] = field(default_factory=dict)
    reassignments_started: frozenset[TopicPartition] = frozenset()
    batch_fault: BatchFault | None = None


NOTHING_UNDER_WAY = UnderWay()


class Turn:
    """What the tasks of one step have done so far. `answer` is what the outside said to the last question.

    The other attributes are those of the context and of `UnderWay`, while they change.
    """

    __slots__ = (
        "answer",
        "awaiting",
        "batch",
        "batch_fault",
        "batches",
        "cause",
        "changes",
        "context",
        "deferred",
        "effects",
        "inbox",
        "reassignment_errors",
        "reassignments_started",
        "refusals",
        "results",
        "stack",
    )

    def __init__(self, context: ControllerContext, under_way: UnderWay, answer: Answer | None = None) -> None:
        self.context = context
        self.answer = answer
        self.stack: list[Task] = list(reversed(under_way.agenda))
        self.awaiting: AnsweredEffect | None = None
        self.cause = under_way.cause
        self.inbox = under_way.inbox
        self.batch = under_way.batch
        self.results = under_way.results
        self.deferred = under_way.deferred
        self.reassignment_errors = under_way.reassignment_errors
        self.reassignments_started = under_way.reassignments_started
        self.batch_fault = under_way.batch_fault
        self.effects: list[Effect] = []
        self.refusals: list[Refusal] = []
        self.batches: list[BatchRecord] = []
        self.changes: list[Changed] = []

    def under_way(self) -> UnderWay:
        """What is left for the next step."""
        return UnderWay(
            agenda=tuple(reversed(self.stack)),
            awaiting=self.awaiting,
            cause=self.cause if self.awaiting is not None else "",
            inbox=self.inbox,
            batch=self.batch,
            results=self.results,
            deferred=self.deferred,
            reassignment_errors=self.reassignment_errors,
            reassignments_started=self.reassignments_started,
            batch_fault=self.batch_fault,
        )

    def forget_all_but_inbox(self) -> None:
        """Forgets the running call and request; tasks on the agenda and waiting commands stay."""
        self.batch = None
        self.results = NO_RESULTS
        self.deferred = ()
        self.reassignment_errors = {}
        self.reassignments_started = frozenset()
        self.batch_fault = None

    def push(self, *tasks: Task) -> None:
        """Puts tasks in front of everything that is still to be done, in this order."""
        self.stack.extend(reversed(tasks))

    def unwind_to(self, marker: type[Task]) -> None:
        """Gives up everything in front of the next task of that class."""
        while self.stack and not isinstance(self.stack[-1], marker):
            self.stack.pop()

    def send(self, *effects: Effect) -> None:
        """Asks for effects whose answers nobody waits for."""
        self.effects.extend(effects)

    def ask(self, effect: AnsweredEffect, then: Task) -> None:
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
        """Notes what is not done, and why.

        Args:
            kind: what sort of refusal.
            subject: partition, replica, topic, znode or request.
            reason: a sentence on this library's behaviour.
            kafka: what Kafka does instead, where that differs.
            error: Kafka's name of the error, where a client or broker gets one.
        """
        self.refusals.append(Refusal(kind=kind, subject=subject, reason=reason, kafka=kafka, error=error))

    def defer(self, refusals: Sequence[Refusal]) -> None:
        """Notes failures that are reported at the end of the running round, unless another controller ends it."""
        self.deferred = (*self.deferred, *refusals)

    def report_deferred(self) -> None:
        """Reports what was deferred."""
        self.refusals.extend(self.deferred)
        self.deferred = ()

    def change(self, **fields: object) -> None:
        """Changes plain fields of the context."""
        self.context = replace(self.context, **fields)  # type: ignore[arg-type]  # the names are ControllerContext's

    def change_states(
        self, context: ControllerContext, partitions: Collection[TopicPartition], *, left_isr: BrokerId | None = None
    ) -> None:
        """Takes the context that a state machine made, and remembers the transitions of these partitions and their replicas.

        Args:
            context: after the transitions.
            partitions: whose entries differ.
            left_isr: the broker whose replicas left the ISR of them, on their way to Offline.
        """
        if partitions:
            before, after = self.context.partitions, context.partitions
            self.changes.append(Changed(before, after, partitions, self.cause, left_isr))
        self.context = context

    # The request batch of the running call

    def open_batch(self, owner: str = "controller") -> bool:
        """Starts a batch; false, with a refusal, where the batch is broken (see `_refuse_batch`)."""
        if self.batch_fault is BatchFault.NEW_BATCH:
            self._refuse_batch(owner, "an earlier call left requests in it")
            return False
        self.batch = RequestBatch(owner=owner)
        return True

    def add(self, adds: Iterable[Add]) -> None:
        """Adds to the open batch."""
        chunk = tuple(adds)
        if chunk:
            batch = self.batch or EMPTY
            self.batch = RequestBatch((*batch.chunks, chunk), batch.owner)

    def send_batch(self) -> bool:
        """Sends the open batch; false, with a refusal, where not all of it could be sent (see `_refuse_batch`)."""
        batch = self.batch or EMPTY
        epoch = self.context.epoch
        if self.batch_fault is BatchFault.SEND:
            sent = request_batch.Sent((), batch, "a test lets the batch fail")
        else:
            sent = request_batch.send(self.context, batch, epoch)
        self.effects.extend(sent.requests)
        self.batch = None
        self.batches.append(BatchRecord(batch, None if sent.fault else epoch))
        if sent.fault:
            self._refuse_batch(batch.owner, sent.fault, kafka=_MACHINE_STAYS_BROKEN)
        return not sent.fault

    def _refuse_batch(self, owner: str, fault: str, *, kafka: str = "") -> None:
        """A state machine's batch fails its call. With any other the controller is broken: `handleIllegalState`.

        Then everything that is under way is given up, and the controller resigns before anything else is done.
        """
        if owner in STATE_MACHINES:
            self.refuse(RefusalKind.BROKEN_BATCH, "request batch", fault, kafka=kafka)
            return
        reason = f"{fault}; the controller drops it, gives up what was under way, and moves to another broker"
        self.refuse(RefusalKind.BROKEN_BATCH, "request batch", reason)
        self.stack.clear()
        self.results = NO_RESULTS
        self.deferred = ()
        self.inbox = (MoveController(), *self.inbox)

    def drop_batch(self) -> None:
        """Gives up the open batch, if there is one."""
        if self.batch is not None:
            self.batches.append(BatchRecord(self.batch, None))
            self.batch = None


@dataclass(frozen=True, slots=True)
class Acknowledge(Task):
    """Takes an answer that decides nothing; a failure is reported."""

    def __call__(self, turn: Turn) -> None:
        if isinstance(turn.answer, Failed):
            what = type(turn.answer.effect).__name__
            turn.refuse(RefusalKind.FAILED_TRANSITION, what, f"ZooKeeper answered {turn.answer.error}")
