"""Carries out an approved plan of leader moves: checks everything, becomes the active controller, verifies, records.

Off unless the cluster's own switch is on. One time as controller per call; the record says how far it came.
Source: docs/operations.md, "A few seconds as active controller"; docs/adr/0013.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from queue import Queue
from secrets import token_hex
from typing import Any, Final

from controller_core.adapters.brokers.access import PLAIN_ACCESS, BrokerAccess
from controller_core.adapters.brokers.channels import BrokerAnswered, ChannelSettings, TcpChannels
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import ZooKeeperError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.checks import check
from controller_core.plans.conditions import LedBy
from controller_core.plans.kinds.leaders import ACTIVE_S
from controller_core.plans.observation import Observation
from controller_core.plans.plan import Plan, PlanKind, open_conditions
from controller_core.plans.request_znodes import LeaderMove, MoveLeaders
from controller_core.plans.verdicts import differing
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.act_as_controller.controllership import (
    Controllership,
    NotActiveError,
    Outcome,
    Point,
)
from kafka_maintenance.operations.act_as_controller.prepare import prepare
from kafka_maintenance.operations.act_as_controller.refusals import refusals
from kafka_maintenance.operations.act_as_controller.verified import VERIFY_TIMEOUT_S, await_verified
from kafka_maintenance.operations.apply.checks import refuse_beside, refuse_ended, refuse_foreign
from kafka_maintenance.operations.apply.cluster_lock import Holder, cluster_lock
from kafka_maintenance.operations.apply.plan import read_approved
from kafka_maintenance.operations.apply.ready import closed_window
from kafka_maintenance.operations.apply.receipt import Receipt, receipt_of
from kafka_maintenance.operations.cluster.observe import SESSION_TIMEOUT_S, ZOOKEEPER_TIMEOUT_S, observe, session
from kafka_maintenance.operations.errors import NotFinishedError, PlanStaleError, RefusedError, listed
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog
from kafka_maintenance.operations.record.state_changes import AFTER, BEFORE, states_of

CONTROLLER_SESSION_S: Final = 6.0
"""How long the cluster is without a controller when this process dies: two ticks of a slow ZooKeeper, and no more."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What lets us act at all.

    Attributes:
        may_act: the cluster's own switch, `may_act_as_controller` of its connection.
        confirmed_unfenced: the second confirmation, for brokers of Kafka 2.0 or older.
        access: as whom brokers are reached, and at which listener.
    """

    may_act: bool = False
    confirmed_unfenced: bool = False
    access: BrokerAccess = PLAIN_ACCESS


def act_as_controller(
    *,
    store: ObjectStore,
    plan_uri: str,
    approved_digest: str,
    approver: str,
    address: ClusterAddress,
    permission: Permission,
    now: datetime,
    run_id: str | None = None,
    comment: str | None = None,
    approval: Mapping[str, Any] | None = None,
    permit: Callable[[], object] = lambda: None,
    window: Callable[[], str | None] = lambda: None,
    deadline_s: float = ACTIVE_S,
    verify_timeout_s: float = VERIFY_TIMEOUT_S,
    at: Callable[[Point], None] = lambda _: None,
) -> Receipt:
    """Moves the leaders that were approved, by a few seconds as active controller; or says why not.

    Args:
        store: where the plan lies and the receipt goes.
        plan_uri: address of the stored plan.
        approved_digest: the 64 hex digits that the approver saw.
        approver: who approved.
        address: of the cluster.
        permission: the cluster's switch, the second confirmation, and how brokers are reached.
        now: the time, with zone, for the record.
        run_id: names this run in lock and receipt; None makes one up.
        comment: what the approver wrote, for the record.
        approval: who asked and answered, and what was shown, for the record.
        permit: raises where the approval does not count any more; called under the lock, before the first write.
        window: why nothing may be asked for now; looked at before we become active controller, and not where nothing is left to move.
        deadline_s: for how long at most we are active.
        verify_timeout_s: how long the end is waited for afterwards.
        at: for tests; called at each point.

    Returns:
        The receipt; also when the leaders are where they should be already.

    Raises:
        PlanChangedError: another plan than the approved one, or nobody approved; nothing was written.
        RefusedError: the switch is off, or the cluster is not fit for it; nothing was written.
        PlanStaleError: the cluster is not as the plan assumes, or the change window is closed; nothing was written.
        ClusterBusyError: another run is at work; nothing was written.
        NotActiveError: another controller was faster; nothing was moved.
        NotFinishedError: moved, but the end was not seen in time; a second call verifies.
    """
    if not permission.may_act:
        raise RefusedError(
            f"plan {plan_uri} not applied: acting as controller is switched off for this cluster; read docs/operations.md on what it "
            "costs, and set may_act_as_controller (command: --may-act-as-controller) if you want it"
        )
    plan = read_approved(store, plan_uri, approved_digest, approver)
    if plan.kind is not PlanKind.MOVE_LEADERS or len(plan.steps) != 1:
        raise RefusedError(
            f"plan {plan_uri} not applied: expected one of {PlanKind.MOVE_LEADERS} in one step, found {plan.kind} in {len(plan.steps)}; "
            "an active controller does nothing else for us; apply it in the usual way"
        )
    run = run_id or token_hex(4)
    record = ReceiptLog(store, cluster=plan.cluster, digest=approved_digest, run=run, approver=approver, now=now)
    if record.has(EventKind.DONE):
        return receipt_of(record, plan, approver, already=True)
    refuse_ended(record)
    store.probe()
    holder = Holder(approved_digest, run, approver, now.isoformat(timespec="seconds"))
    with session(address) as zookeeper:
        refuse_foreign(plan, observe(zookeeper, partitions=()))
        with cluster_lock(zookeeper, holder, wait_s=2 * SESSION_TIMEOUT_S) as fence:
            refuse_beside(zookeeper, fence, plan.cluster, approved_digest, store)
            permit()
            record.append(
                EventKind.STARTED,
                plan=plan_uri,
                kind=plan.kind,
                steps=1,
                comment=comment,
                approval=approval,
                principal=address.principal,
            )
            run_once = _Run(plan, zookeeper, record, permission, window, deadline_s, verify_timeout_s, at)
            run_once.carry_out(address, now)
    return receipt_of(record, plan, approver, already=False)


@dataclass(frozen=True, slots=True)
class _Run:
    """One call of `act_as_controller`, under the lock."""

    plan: Plan
    zookeeper: ZooKeeper
    record: ReceiptLog
    permission: Permission
    window: Callable[[], str | None]
    deadline_s: float
    verify_timeout_s: float
    at: Callable[[Point], None]

    @property
    def name(self) -> str:
        return f"plan {self.record.digest[:12]} on {self.plan.cluster!r}"

    @property
    def moves(self) -> tuple[LeaderMove, ...]:
        return tuple(move for effect in self.plan.effects if isinstance(effect, MoveLeaders) for move in effect.moves)

    def carry_out(self, address: ClusterAddress, now: datetime) -> None:
        """Checks, moves, verifies."""
        observed = observe(self.zookeeper)
        open_moves, left_out = self._open_moves(observed)
        if not open_moves:  # an earlier run moved them, and was killed before it could look
            leaders = {each.partition: each.leader for each in self.moves if each.partition not in left_out}
            self._conclude((observed.controller_epoch or 0) - 1, leaders, left_out)
            return
        with _channels(self.permission.access) as (channels, answers):
            found = prepare(self.zookeeper, observed, channels, answers, move_count=len(open_moves))
            reasons = refusals(found, confirmed_unfenced=self.permission.confirmed_unfenced)
            if reasons:
                self._refuse([str(reason) for reason in reasons])
                raise RefusedError(
                    f"{self.name}: we do not become active controller: {listed(reasons)}; nothing was written"
                )
            self._refuse_outside_window()
            with address.session(
                timeout_s=ZOOKEEPER_TIMEOUT_S, session_timeout_s=CONTROLLER_SESSION_S
            ) as controller_session:
                controllership = Controllership(
                    controller_session,
                    channels,
                    answers,
                    observed,
                    access=self.permission.access,
                    deadline_s=self.deadline_s,
                    at=self.at,
                )
                controller_session.when_suspended(lambda: controllership.stop("the ZooKeeper session is suspended"))
                self.record.append(
                    EventKind.INTENDED,
                    step=0,
                    leaders=len(open_moves),
                    **_rows("left_out", left_out),
                    **{BEFORE: states_of(self.plan.steps[0], observed)},
                )
                try:
                    outcome = controllership.run(open_moves, now_ms=int(now.timestamp() * 1000))
                except NotActiveError as error:
                    self._refuse([str(error)])
                    raise
        self._requested(outcome)
        leaders = {partition: state.leader for partition, state in outcome.moved.items()}
        self._conclude(outcome.epoch or 0, leaders, {**left_out, **outcome.skipped})

    def _refuse_outside_window(self) -> None:
        reason = closed_window(self.window)
        if reason is None:
            return
        self._refuse([str(reason)])
        raise PlanStaleError(
            f"{self.name}: we do not become active controller: {reason}; nothing was written", (reason,)
        )

    def _open_moves(self, observed: Observation) -> tuple[tuple[LeaderMove, ...], dict[TopicPartition, str]]:
        """What is still to do, and what is left out because it is no more as planned; what is done already is neither."""
        partitions = frozenset(move.partition for move in self.moves)
        own, common = differing(open_conditions(self.plan), partitions, observed)
        if common:
            self._refuse([str(reason) for reason in common])
            raise PlanStaleError(f"{self.name}: not as planned: {listed(common)}; nothing was written", common)
        done = {
            move.partition for move in self.moves if check(LedBy(*move.partition, leader=move.leader), observed) is None
        }
        left_out = {partition: str(reason) for partition, reason in own.items() if partition not in done}
        return tuple(move for move in self.moves if move.partition not in own), left_out

    def _requested(self, outcome: Outcome) -> None:
        self.record.append(
            EventKind.REQUESTED,
            step=0,
            controller_epoch=outcome.epoch,
            active_s=round(outcome.active_s, 3),
            moved=len(outcome.moved),
            ended_early=outcome.ended_early,
            silent={str(broker): why for broker, why in outcome.silent.items()},
        )
        log.info(
            "%s: active controller for %.2f s with epoch %s, %d leader(s) moved%s",
            self.name,
            outcome.active_s,
            outcome.epoch,
            len(outcome.moved),
            f"; ended early: {outcome.ended_early}" if outcome.ended_early else "",
        )

    def _conclude(
        self, epoch: int, leaders: Mapping[TopicPartition, BrokerId], left_out: Mapping[TopicPartition, str]
    ) -> None:
        """Waits until everything is verified, and records it."""
        problems = self._problems(epoch, leaders) if leaders else ()
        if problems:
            self.record.append(EventKind.UNFINISHED, step=0, reasons=list(problems[:100]))
            raise NotFinishedError(
                f"{self.name}: {len(leaders)} leader(s) moved, and not everybody agrees yet: {listed(problems)}; a broker is, or becomes, "
                "the active controller and tells all of them; run again to verify"
            )
        if len(left_out) == len(self.moves):
            reasons = [f"{partition}: {why}" for partition, why in sorted(left_out.items())]
            self.record.append(EventKind.UNFINISHED, step=0, reasons=reasons[:100])
            raise NotFinishedError(
                f"{self.name}: no leader was moved: {listed(reasons)}; run again, a minute from now at the earliest, or plan again"
            )
        observed = observe(self.zookeeper, partitions=[move.partition for move in self.moves])
        states = {AFTER: states_of(self.plan.steps[0], observed)}
        self.record.append(
            EventKind.VERIFIED, step=0, conditions=len(leaders), **_rows("differing", left_out), **states
        )
        self.record.append(EventKind.DONE, steps=1)

    def _problems(self, epoch: int, leaders: Mapping[TopicPartition, BrokerId]) -> Sequence[str]:
        access, timeout_s = self.permission.access, self.verify_timeout_s
        try:
            return await_verified(self.zookeeper, epoch, leaders, access, timeout_s=timeout_s)
        except ZooKeeperError as error:  # the session of the whole run broke, too, as where a network is cut
            return (f"ZooKeeper: {error}",)

    def _refuse(self, reasons: list[str]) -> None:
        self.record.append(EventKind.REFUSED, step=0, reasons=reasons[:100])


@contextmanager
def _channels(access: BrokerAccess) -> Iterator[tuple[TcpChannels, "Queue[BrokerAnswered]"]]:
    """Channels that give up after one attempt: there is no time for another."""
    answers: Queue[BrokerAnswered] = Queue()
    settings = ChannelSettings(access=access, attempts_max=1, request_timeout_s=ACTIVE_S)
    with TcpChannels(answers.put, settings) as channels:
        yield channels, answers


def _rows(name: str, left_out: Mapping[TopicPartition, str]) -> dict[str, Any]:
    rows = [{**partition._asdict(), "reason": why} for partition, why in sorted(left_out.items())]
    return {name: rows} if rows else {}
