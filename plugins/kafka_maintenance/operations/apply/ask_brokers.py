"""Asking the brokers for a step instead of creating its request znode: an answer per partition, and no request that blocks the next one.

Reassignments (Kafka 2.4 or newer) and elections (2.2) go this way where brokers may be asked. A deletion and a throttle never do: their
transactions check the version of what they change, which no request of the Admin API can.

The fence is checked right before each request. The execution znode is created before it, so that it says only that the brokers may have
heard. Whether they did is seen in the versions of the topics' znodes, which are recorded with the intention: a controller that accepts a
reassignment writes them before it answers. What was not heard is asked for again, which changes nothing where it was heard after all.
Source: Kafka 3.9 `KafkaController.processApiPartitionReassignment`; docs/adr/0017.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, assert_never

from controller_core.model.errors import BadVersionError, NodeExistsError, NoNodeError
from controller_core.model.partitions import TopicPartition
from controller_core.plans.checks import check
from controller_core.plans.conditions import AssignedTo, Condition, RequestAbsent, TopicCreatedAt
from controller_core.plans.observation import Observation
from controller_core.plans.plan import Plan, PlanStep
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    MoveLeaders,
)
from controller_core.plans.rules import OnDifference
from controller_core.plans.verdicts import request_partitions, without
from controller_core.znodes.paths import REASSIGN_PARTITIONS
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.execution import Execution, Road, begin_execution, end_execution
from kafka_maintenance.operations.apply.run import Run, is_asked_once, look_at
from kafka_maintenance.operations.cluster.admin_requests import (
    BrokersCannotError,
    UnansweredError,
    alter_reassignments,
    elect_preferred_leaders,
)
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import ClusterBusyError, LockLostError, NotFinishedError, RefusedError, listed
from kafka_maintenance.operations.record.receipts import EventKind

ASK_TIMEOUT_S: Final = 60.0
"""How long brokers that do not answer are asked again."""
AGAIN_S: Final = 2.0
_NOT_HEARD: Final = "the brokers had not heard of it when its run ended"

log = logging.getLogger(__name__)


def may_ask_brokers(run: Run, step: PlanStep) -> bool:
    """Whether there are brokers to ask, and every request of the step may be made of them."""
    kinds = CreateReassignPartitions | CreatePreferredReplicaElection
    return run.brokers is not None and bool(step.effects) and all(isinstance(each, kinds) for each in step.effects)


def binding(run: Run, step: PlanStep, conditions: Iterable[Condition], observed: Observation) -> tuple[Condition, ...]:
    """The conditions without those that bind request znodes alone.

    A request whose topics are gone blocks nobody who asks brokers, nor does one for nothing but what the plan takes back.

    Args:
        run: the run that carries the plan out.
        step: that is to be asked for.
        conditions: of plan and step.
        observed: what they are checked on.
    """
    if not may_ask_brokers(run, step):
        return tuple(conditions)
    free = set(observed.abandoned_requests)
    if observed.reassign_requests and observed.reassign_requests.keys() <= _taken_back(run.plan):
        free.add(REASSIGN_PARTITIONS)
    return tuple(each for each in conditions if not (isinstance(each, RequestAbsent) and each.path in free))


def _taken_back(plan: Plan) -> frozenset[TopicPartition]:
    """The partitions that Kafka moves, as the plan expects, and that it sends back."""
    expected = (each for step in plan.steps for each in step.expectations)
    return frozenset(each.partition for each in expected if isinstance(each, AssignedTo) and each.is_being_reassigned)


def topic_versions(step: PlanStep, observed: Observation) -> dict[str, int]:
    """The version of the znode of each topic that the step moves, as the step was checked."""
    topics = {each.topic for effect in step.effects for each in request_partitions(effect)}
    return {topic: observed.topics[topic].version for topic in sorted(topics) if topic in observed.topics}


def ask_brokers(run: Run, number: int, step: PlanStep) -> PlanStep:
    """Asks for the step, recorded; returns what the brokers accepted.

    Raises:
        BrokersCannotError: nothing was asked, and nothing of the asking is left; the request znode may be created.
        RefusedError: they refused every partition, recorded.
        LockLostError, ClusterBusyError: nothing was asked, recorded.
        NotFinishedError: nobody answered; the next run finds out what became of it.
    """
    _begin(run, number, step)
    try:
        refused = _answers(run, number, _partitions(step), may_turn_back=True)
    except BrokersCannotError:
        end_execution(run.zookeeper, run.fence, run.digest)
        raise
    if len(refused) == len(_partitions(step)):
        end_execution(run.zookeeper, run.fence, run.digest)
        told = [f"{each}: {error}" for each, error in refused.items()]
        run.log.append(EventKind.REFUSED, step=number, reasons=told[:100])
        raise RefusedError(f"{run.name(number)}: nothing of it was accepted: {listed(told)}; receipt {run.log.uri}")
    return _requested(run, number, step, refused)


def was_heard(run: Run, number: int, step: PlanStep) -> bool:
    """Whether the brokers heard of a step whose run ended before it recorded their answer; a part that they did not hear is asked for.

    `step` is without what was left out when it was intended.
    """
    partitions = _partitions(step)
    left = unheard(run, number, partitions)
    if len(left) == len(partitions):
        return False
    refused = (
        dict.fromkeys(left, _NOT_HEARD) if run.brokers is None else _answers(run, number, left, may_turn_back=False)
    )
    _requested(run, number, step, refused)
    return True


def unheard(run: Run, number: int, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Those of `partitions` whose topic's znode nobody has written since the step was intended; that of a namesake is another one."""
    intended = [each for each in run.log.events if each.event is EventKind.INTENDED and each.step == number]
    versions: Mapping[str, int] = intended[-1].detail.get("topic_versions", {}) if intended else {}
    conditions = run.plan.steps[number].conditions
    observed = look_at(run.zookeeper, conditions)
    created = [each for each in conditions if isinstance(each, TopicCreatedAt)]
    now = {topic: found.version for topic, found in observed.topics.items()}
    for namesake in (each.topic for each in created if check(each, observed) is not None):
        now.pop(namesake, None)
    return [each for each in partitions if each.topic in now and now[each.topic] == versions.get(each.topic)]


def _partitions(step: PlanStep) -> list[TopicPartition]:
    return [each for effect in step.effects for each in request_partitions(effect)]


def _requested(run: Run, number: int, step: PlanStep, refused: Mapping[TopicPartition, str]) -> PlanStep:
    """Records what was asked for; what was refused is left out, or, under the rule to stop, ends the plan as undone."""
    detail: dict[str, Any] = {"road": Road.ADMIN_API.value}
    leaves_out = run.plan.rules.on_difference is OnDifference.GO_ON
    if refused:
        rows = [{**each._asdict(), "reason": why} for each, why in sorted(refused.items())]
        detail["left_out" if leaves_out else "refused"] = rows
    run.log.append(EventKind.REQUESTED, step=number, **detail)
    accepted = len(_partitions(step)) - len(refused)
    log.info("%s: asked of the brokers, %d partition(s) accepted", run.name(number), accepted)
    if refused:
        told = [f"{each}: {why}" for each, why in sorted(refused.items())]
        log.warning("%s: %s", run.name(number), listed(told))
    return without(step, refused.keys()) if leaves_out else step


def _begin(run: Run, number: int, step: PlanStep) -> None:
    if not is_asked_once(step):
        return
    execution = Execution(run.digest, number, run.log.run, run.log.approver, run.log.now(), Road.ADMIN_API.value)
    try:
        run.zookeeper.multi([run.fence, begin_execution(execution)])
    except NodeExistsError as error:
        run.log.append(EventKind.REFUSED, step=number, reasons=[str(error)])
        raise ClusterBusyError(
            f"{run.name(number)}: not asked: another plan began a step ({error}); nothing was written; receipt {run.log.uri}; run again"
        ) from None
    except (NoNodeError, BadVersionError) as error:
        run.log.append(EventKind.REFUSED, step=number, reasons=[str(error)])
        raise _lock_lost(run, number) from None


def _answers(
    run: Run, number: int, partitions: Sequence[TopicPartition], *, may_turn_back: bool
) -> Mapping[TopicPartition, str]:
    """What the brokers refused of `partitions`; who does not answer is asked again for what was not heard."""
    deadline_s, left = monotonic() + ASK_TIMEOUT_S, list(partitions)
    while left:
        try:
            run.zookeeper.multi([run.fence])
        except (NoNodeError, BadVersionError):
            raise _lock_lost(run, number) from None
        try:
            return _call(run, number, left)
        except (UnansweredError, BrokersCannotError) as error:
            if may_turn_back and isinstance(error, BrokersCannotError):
                raise
            may_turn_back = False
            left = unheard(run, number, left)
            if left and (monotonic() >= deadline_s or run.stop.reason is not None):
                run.log.append(EventKind.UNFINISHED, step=number, reasons=[str(error)])
                raise NotFinishedError(
                    f"{run.name(number)}: {error}; receipt {run.log.uri}; run again, which finds out whether they heard it"
                ) from error
            log.warning("%s: %s; %d partition(s) not heard", run.name(number), error, len(left))
            run.stop.wait(AGAIN_S)
    return {}


def _call(run: Run, number: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str]:
    brokers, wanted, what = _brokers(run), set(partitions), run.name(number)
    effects = run.plan.steps[number].effects
    refused: dict[TopicPartition, str] = {}
    for effect in effects:
        match effect:
            case CreateReassignPartitions(targets=targets):
                lists = {each.partition: each.replicas for each in targets if each.partition in wanted}
                refused |= alter_reassignments(brokers, lists, what)
            case CreatePreferredReplicaElection(partitions=elected):
                refused |= elect_preferred_leaders(brokers, [each for each in elected if each in wanted], what)
            case CreateDeleteTopic() | DeleteController() | MoveLeaders():
                raise AssertionError(f"{type(effect).__name__} is asked of no broker, as `may_ask_brokers` says")
            case _:
                assert_never(effect)
    return {each: f"refused by the brokers: {why}" for each, why in refused.items()}


def _brokers(run: Run) -> BrokersAsked:
    assert run.brokers is not None  # by `may_ask_brokers`
    return run.brokers


def _lock_lost(run: Run, number: int) -> LockLostError:
    return LockLostError(
        f"{run.name(number)}: nothing was asked, since the session and with it the lock {LOCK_PATH} was lost; "
        f"receipt {run.log.uri}; run again"
    )
