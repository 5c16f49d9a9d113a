"""The seconds as active controller: take `/controller`, move leaders, resign; in that order, within a deadline.

Every write to ZooKeeper has the epoch check; a row of a request holds only what such a write has returned. A timer of its
own resigns at the deadline; a process that dies loses `/controller` with its session. What is half done the next controller heals.
Source: docs/adr/0013; Kafka 3.9 `KafkaController`, `ZkPartitionStateMachine`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from queue import Empty, Queue
from threading import Event, Lock, Timer
from time import monotonic
from typing import Final

from controller_core.adapters.brokers.access import BrokerAccess
from controller_core.adapters.brokers.channels import BrokerAnswered, TcpChannels
from controller_core.context.builder import build_context
from controller_core.context.context import ControllerContext
from controller_core.engine.batch import Add, RequestBatch
from controller_core.engine.request_batch import leader_and_isr, send, update_metadata
from controller_core.messages.effects import BrokerRequest, SendLeaderAndIsr
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import NEWEST, dialect_for
from controller_core.model.errors import ConnectionLostError, ControllerMovedError, NoNodeError, ZooKeeperError
from controller_core.model.partitions import BrokerId, LeaderAndIsr, TopicPartition
from controller_core.plans.kinds.leaders import ACTIVE_S
from controller_core.plans.observation import Observation
from controller_core.plans.request_znodes import LeaderMove
from controller_core.ports.zookeeper import ANY_VERSION, Check, Create, Delete, Operation, Set, WatchEvent, ZooKeeper
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.znodes import (
    BROKER_IDS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    ControllerZnode,
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from kafka_maintenance.operations.act_as_controller.refusals import CONTROLLER_ID
from kafka_maintenance.operations.errors import OperationError

log = logging.getLogger(__name__)
PARTITIONS_AT_ONCE: Final = 25
"""Leaders that move together; between two such groups is looked whether the time is up."""
GROUP_S: Final = 1.0
"""No group begins when less is left."""


class Point(StrEnum):
    """The points at which a test kills, stops or slows a run; nothing else depends on them."""

    PREPARED = "prepared"
    TAKEN = "taken"
    ANNOUNCED = "announced"
    READ = "read"
    WRITTEN = "written"
    LEADERS_TOLD = "leaders told"
    METADATA_TOLD = "metadata told"
    RESIGNED = "resigned"


class NotActiveError(OperationError):
    """We are not, or no longer, the active controller; what was done stands, the next controller goes on from there."""


@dataclass(slots=True)
class Outcome:
    """What became of the seconds as active controller.

    Attributes:
        epoch: our controller epoch; None: we never became active.
        moved: partitions whose new leader was written, with what was written.
        skipped: partitions that were left as they were, and why.
        silent: brokers that did not answer a request, and why; the next controller tells them.
        ended_early: why it ended before everything was done; None: it did not.
        active_s: from just before the beginning until the end was known, in seconds.
    """

    epoch: int | None = None
    moved: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    skipped: dict[TopicPartition, str] = field(default_factory=dict)
    silent: dict[BrokerId, str] = field(default_factory=dict)
    ended_early: str | None = None
    active_s: float = 0.0


class Controllership:
    """One time as active controller; used once.

    `zookeeper` is a session of its own, whose timeout is how long the cluster is without a controller when this process dies;
    `channels` are open, authenticated, and put what brokers answer into `answers`. `at` is called at each `Point`.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        channels: TcpChannels,
        answers: "Queue[BrokerAnswered]",
        observed: Observation,
        *,
        access: BrokerAccess,
        deadline_s: float = ACTIVE_S,
        at: Callable[[Point], None] = lambda _: None,
    ) -> None:
        self._kafka = KafkaZk(zookeeper, formats_of(dialect_for(NEWEST)))
        self._zookeeper = zookeeper
        self._channels = channels
        self._answers = answers
        self._observed = observed
        self._access = access
        self._deadline_s = deadline_s
        self._at = at
        self._lock = Lock()
        self._stop = Event()
        self._why = ""
        self._epoch_version: int | None = None
        self._ends_s = 0.0
        self._over_s: float | None = None
        self.outcome = Outcome()

    def run(self, moves: Sequence[LeaderMove], *, now_ms: int) -> Outcome:
        """Becomes the active controller, moves these leaders, resigns.

        A partition that is no more as planned is skipped. Whatever ends it early, the next controller, a broker, goes on from what stands
        in ZooKeeper.

        Args:
            moves: what to do; each leader is in sync as far as was known.
            now_ms: milliseconds since 1970-01-01 UTC, for `/controller`.

        Raises:
            NotActiveError: another controller is active than when this was prepared, or the answer to the beginning was lost; nothing
                was moved.
        """
        self._at(Point.PREPARED)
        begun_s = monotonic()
        self._ends_s = begun_s + self._deadline_s
        timer = Timer(self._deadline_s, self._end, ["the time is up"])
        timer.daemon = True
        timer.start()
        try:
            self._take(now_ms)
            self._at(Point.TAKEN)
            self._act(moves)
        except _Ended as ended:
            self.outcome.ended_early = str(ended)
        except ControllerMovedError as error:
            self.outcome.ended_early = f"another controller is active: {error}"
        except ZooKeeperError as error:
            self.outcome.ended_early = f"ZooKeeper: {error}"
        finally:
            self._end(self.outcome.ended_early or "done")
            timer.cancel()
            self.outcome.active_s = (self._over_s or monotonic()) - begun_s
        self._at(Point.RESIGNED)
        for move in moves:
            if move.partition not in self.outcome.moved:
                self.outcome.skipped.setdefault(move.partition, self.outcome.ended_early or "not begun")
        return self.outcome

    def stop(self, why: str) -> None:
        """Asks for the end at the next safe point: for a session that is suspended, or a signal."""
        self._why = self._why or why
        self._stop.set()

    # ---- the beginning and the end ----

    def _take(self, now_ms: int) -> None:
        """One transaction: epoch + 1, the old `/controller` away, ours in its place."""
        expected = self._observed.active_controller
        epoch_data, epoch_stat = self._zookeeper.get(CONTROLLER_EPOCH)
        data, stat = self._zookeeper.get(CONTROLLER)
        epoch = decode_controller_epoch(epoch_data)
        if expected is None or stat.czxid != expected.czxid or epoch != self._observed.controller_epoch:
            raise NotActiveError(
                f"not begun: expected {CONTROLLER} and epoch {self._observed.controller_epoch} as when this was prepared, found another "
                f"controller or epoch {epoch}; nothing was written; wait a minute and run again"
            )
        self._watch_brokers()
        ours = ControllerZnode(
            broker_id=CONTROLLER_ID, timestamp=str(now_ms), version=max(1, decode_controller(data).version)
        )
        operations: list[Operation] = [
            Set(path=CONTROLLER_EPOCH, data=encode_controller_epoch(epoch + 1), version=epoch_stat.version),
            Delete(path=CONTROLLER, version=stat.version),
            Create(path=CONTROLLER, data=encode_controller(ours), ephemeral=True),
        ]
        with self._lock:
            self._require_time()
            self._epoch_version = epoch_stat.version + 1
            try:
                self._zookeeper.multi(operations)
            except ConnectionLostError as error:
                raise NotActiveError(
                    f"the answer to the beginning was lost ({error}); {CONTROLLER} is given back, and vanishes with our session; run "
                    "again in a minute"
                ) from error
            except ZooKeeperError as error:
                self._epoch_version = None
                raise NotActiveError(
                    f"not begun: {CONTROLLER} or {CONTROLLER_EPOCH} changed at the last moment ({error}); nothing was written; run again "
                    "in a minute"
                ) from error
        self.outcome.epoch = epoch + 1
        log.info("active controller with epoch %d, for at most %g s", epoch + 1, self._deadline_s)

    def _end(self, why: str) -> None:
        """Resigns, once: by one transaction that only the holder of our epoch can make. By the timer, or at the end of `run`."""
        self.stop(why)
        with self._lock:
            if self._epoch_version is None or self._over_s is not None:
                return
            try:
                if not is_ours(self._zookeeper):
                    raise NoNodeError(f"{CONTROLLER} is not ours any more")
                self._zookeeper.multi(
                    [
                        Check(path=CONTROLLER_EPOCH, version=self._epoch_version),
                        Delete(path=CONTROLLER, version=ANY_VERSION),
                    ]
                )
                log.info("resigned: %s", why)
            except (
                ZooKeeperError
            ) as error:  # another one is active already, or our session ends, and with it /controller
                log.warning("not resigned by ourselves (%s): %s", why, error)
            self._over_s = monotonic()

    def _watch_brokers(self) -> None:
        known = {str(broker) for broker in self._observed.brokers}

        def changed(_: WatchEvent) -> None:
            self.stop("the brokers changed, and the cluster needs a controller of its own")

        if set(self._zookeeper.children(BROKER_IDS, watch=changed)) != known:
            raise NotActiveError(
                f"not begun: expected the brokers {sorted(known)} in {BROKER_IDS} as when this was prepared, found others; run again"
            )

    def _require_time(self) -> None:
        if self._stop.is_set():
            raise _Ended(self._why)
        if monotonic() >= self._ends_s or self._over_s is not None:
            raise _Ended("the time is up")

    # ---- in between ----

    def _act(self, moves: Sequence[LeaderMove]) -> None:
        self._tell(self._announcement())
        self._at(Point.ANNOUNCED)
        for start in range(0, len(moves), PARTITIONS_AT_ONCE):
            if self._ends_s - monotonic() < GROUP_S and start:
                raise _Ended("the time is nearly up")
            self._move(moves[start : start + PARTITIONS_AT_ONCE])

    def _move(self, moves: Sequence[LeaderMove]) -> None:
        """Read again, compare, write, and tell brokers of exactly what was written."""
        wanted = self._wanted(moves)
        self._at(Point.READ)
        if not wanted:
            return
        with self._lock:
            self._require_time()
            written = self._kafka.update_leader_and_isr(wanted, self._epoch_version)
        self.outcome.moved |= written.updated
        lost = dict.fromkeys(written.retry, "its state changed at the last moment")
        self.outcome.skipped |= {**lost, **written.failed}
        self._at(Point.WRITTEN)
        leaders, metadata = self._requests(written.updated)
        self._tell(leaders)
        self._at(Point.LEADERS_TOLD)
        self._tell(metadata)
        self._at(Point.METADATA_TOLD)

    def _wanted(self, moves: Sequence[LeaderMove]) -> dict[TopicPartition, LeaderAndIsr]:
        """The states to write, of the partitions that are still as planned."""
        partitions = [move.partition for move in moves]
        states, unreadable = self._kafka.get_states(partitions)
        topics, _ = self._kafka.get_topics(sorted({partition.topic for partition in partitions}))
        wanted = {}
        for move in moves:
            partition, leader = move.partition, move.leader
            state, before = states.get(partition), self._observed.states[partition]
            topic = topics.get(partition.topic)
            now = None if topic is None else topic.assignments.get(partition.partition)
            if state is None:
                self.outcome.skipped[partition] = str(unreadable.get(partition, "its state is gone"))
            elif now != self._observed.assignments[partition]:
                self.outcome.skipped[partition] = "its replicas are no more those of the plan"
            elif state.leader != before.leader or leader not in state.isr:
                self.outcome.skipped[partition] = f"leader {state.leader}, ISR {list(state.isr)} by now"
            else:
                epoch = self.outcome.epoch or 0
                wanted[partition] = state.new_leader_and_isr(leader, state.isr, state.recovery, epoch)
        return wanted

    def _announcement(self) -> tuple[BrokerRequest, ...]:
        """No partitions: brokers keep what they know, and refuse the former controller from now on."""
        context = self._context({})
        return self._folded(context, [update_metadata(context, self._observed.brokers, ())])

    def _requests(
        self, updated: Mapping[TopicPartition, LeaderAndIsr]
    ) -> tuple[tuple[BrokerRequest, ...], tuple[BrokerRequest, ...]]:
        """LeaderAndIsr to the replicas, then UpdateMetadata to all brokers: the core's own batch."""
        context = self._context(updated)
        adds = []
        for partition, state in updated.items():
            assignment = self._observed.assignments[partition]
            adds.append(leader_and_isr(context, assignment.replicas, partition, state, assignment, is_new=False))
        requests = self._folded(context, adds)
        leaders = tuple(each for each in requests if isinstance(each, SendLeaderAndIsr))
        return leaders, tuple(each for each in requests if not isinstance(each, SendLeaderAndIsr))

    def _folded(self, context: ControllerContext, adds: Iterable[Add]) -> tuple[BrokerRequest, ...]:
        return send(context, RequestBatch((tuple(adds),)), self.outcome.epoch or 0).requests

    def _context(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> ControllerContext:
        """What the core needs to know for the requests about these partitions."""
        brokers = self._observed.brokers
        listener = next(iter(self._access.endpoint(broker).listener for broker in brokers.values()))
        topics = {partition.topic for partition in states}
        return build_context(
            dialect=dialect_for(NEWEST),
            config=ControllerConfig(controller_id=CONTROLLER_ID, inter_broker_listener=listener),
            brokers=brokers.values(),
            assignments={partition: self._observed.assignments[partition] for partition in states},
            states=states,
            topic_ids={topic: found for topic in topics if (found := self._observed.topics[topic].topic_id)},
            epoch=self.outcome.epoch or 0,
            epoch_zk_version=self._epoch_version or 0,
        )

    def _tell(self, requests: Sequence[BrokerRequest]) -> None:
        """Sends requests to their brokers at once, and waits for all answers, as long as there is time.

        A broker that does not answer, or is another run by now, is told nothing more: the next controller does.
        """
        asked = [request for request in requests if request.broker not in self.outcome.silent]
        for request in asked:
            self._require_time()
            self._channels.send(request)
        waiting = {request.broker for request in asked}
        while waiting:
            self._require_time()
            try:
                answered = self._answers.get(timeout=min(0.05, max(0.001, self._ends_s - monotonic())))
            except Empty:
                continue
            broker = answered.request.broker
            if answered.error == "STALE_CONTROLLER_EPOCH":
                raise _Ended(f"broker {broker} obeys a newer controller")
            for partition, error in answered.partition_errors.items():
                log.warning(
                    "broker %d answered %s for %s; its metadata is verified afterwards", broker, error, partition
                )
            if answered.error != "NONE":
                self.outcome.silent[broker] = f"{answered.error} {answered.detail}".strip()
            waiting.discard(broker)


class _Ended(Exception):  # noqa: N818 - the end, not an error
    """It is time to resign."""


def is_ours(zookeeper: ZooKeeper) -> bool:
    """Whether the session holds `/controller`."""
    try:
        _, stat = zookeeper.get(CONTROLLER)
    except NoNodeError:
        return False
    return stat.ephemeral_owner == zookeeper.session_id
