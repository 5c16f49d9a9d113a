"""What a plan must be that was read from a store: whoever can write there can write any document with a right digest.

The rules of planning are checked again, kind by kind; what a plan of the kind always has must be there.
Source: docs/operations.md, "The plan".
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, assert_never

from controller_core.model.errors import InvalidPlanError
from controller_core.model.partitions import BrokerId, TopicPartition, is_topic_name
from controller_core.model.words import counted, first_reasons
from controller_core.plans.conditions import (
    AssignedTo,
    BrokersRegistered,
    CaughtUp,
    Condition,
    ControllerIs,
    ElectedAfter,
    InSync,
    KafkaClusterIs,
    LedBy,
    NotificationsGone,
    NotificationsLinger,
    RequestAbandoned,
    RequestAbsent,
    RequestIdle,
    TopicCreatedAt,
    TopicGone,
    TopicIs,
    ZooKeeperControllerRules,
)
from controller_core.plans.kinds import KindRecord, kind_record
from controller_core.plans.kinds.elections import ELECTIONS_PER_STEP
from controller_core.plans.kinds.leaders import LEADERS_PER_RUN
from controller_core.plans.kinds.moves import REASSIGNMENTS_PER_STEP
from controller_core.plans.plan import Plan, PlanStep
from controller_core.plans.request_znodes import (
    REQUEST_BYTES_MAX,
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    MoveLeaders,
    Request,
    named_once,
    request_brokers,
    request_data,
    request_path,
)
from controller_core.plans.rules import rates_of
from controller_core.plans.step_throttle import step_throttle
from controller_core.plans.topic_owners import INTERNAL_TOPICS
from controller_core.znodes.configs import ConfigZnode, encode_config
from controller_core.znodes.paths import CONFIG, PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS

STEPS_MAX: Final = 10_000
_SHOWN_MAX: Final = 5
_SHOWN_LETTERS_MAX: Final = 80


def check_plan(plan: Plan, where: str) -> None:
    """Refuses a plan that no planner of this version makes.

    Args:
        plan: as it was read.
        where: its address, for the message.

    Raises:
        InvalidPlanError: an effect of another kind, a rule of planning that is broken, or an expectation that is missing.
    """
    if problems := plan_problems(plan):
        raise InvalidPlanError(
            f"plan {where} not taken: expected what is planned for {plan.kind}, found: {problems}; make the plan again"
        )


def plan_problems(plan: Plan) -> str:
    """What `check_plan` refuses a plan for; empty where it takes it."""
    return first_reasons(tuple(_problems(plan)), _SHOWN_MAX)


def _problems(plan: Plan) -> Iterator[str]:
    record = kind_record(plan.kind)
    identity = () if plan.kafka_cluster_id is None else (KafkaClusterIs(cluster_id=plan.kafka_cluster_id),)
    yield from _missing((*identity, ZooKeeperControllerRules()), frozenset(plan.expectations))
    named = {each.cluster_id for each in plan.expectations if isinstance(each, KafkaClusterIs)}
    if named - {plan.kafka_cluster_id}:
        yield f"expectations for the cluster ids {_shown(sorted(named))}, it names {plan.kafka_cluster_id!r}"
    if len(plan.steps) > STEPS_MAX:
        yield f"{counted(len(plan.steps), 'step')}, expected at most {STEPS_MAX}"
    registered = {
        broker for each in plan.expectations if isinstance(each, BrokersRegistered) for broker in each.brokers
    }
    unregistered = {broker for effect in plan.effects for broker in request_brokers(effect)} - registered
    if unregistered:
        yield f"no expectation that the brokers {_shown(sorted(unregistered))} are registered"
    rates = rates_of(plan.rules.throttle_bytes_per_s)
    for number, step in enumerate(plan.steps, start=1):
        yield from (f"step {number}: {problem}" for problem in _of_step(record, step))
        if rates:
            yield from (f"step {number}: {problem}" for problem in _of_throttle(step, rates[-1]))
    named_by_all = Counter(name for effect in plan.effects for name in named_once(effect))
    again = [name for name, count in named_by_all.items() if count > 1]
    if again:
        yield f"{_shown(again)} more than once"
    if plan.rollback.steps and record.not_undone is not None:
        yield "a way back by requests, which this kind has not"
    for number, step in enumerate(plan.rollback.steps, start=1):
        yield from (f"way back, step {number}: {problem}" for problem in _of_step(record, step))


def _of_step(record: KindRecord, step: PlanStep) -> Iterator[str]:
    foreign = sorted({type(effect).__name__ for effect in step.effects if not isinstance(effect, record.request)})
    if foreign:
        yield f"{', '.join(foreign)}, which is no effect of this kind"
        return
    if not 1 <= len(step.effects) <= record.requests_per_step:
        yield f"{len(step.effects)} effects, expected 1 to {record.requests_per_step}"
    deleted = [effect.topic for effect in step.effects if isinstance(effect, CreateDeleteTopic)]
    yield from _others({each.topic for each in step.expectations if isinstance(each, TopicIs)}, deleted)
    for effect in step.effects:
        yield from _of_effect(effect, step)
        if len(request_data(effect)) > REQUEST_BYTES_MAX:
            yield f"a request of more than {REQUEST_BYTES_MAX} bytes at {request_path(effect)}"


def _of_throttle(step: PlanStep, bytes_per_s: int) -> Iterator[str]:
    """A config is one znode, too: where all moves are of one topic, its lists may be longer than the request."""
    for entity, overrides in step_throttle(step, bytes_per_s).items():
        if len(encode_config(ConfigZnode(overrides))) > REQUEST_BYTES_MAX:
            yield f"a throttle of more than {REQUEST_BYTES_MAX} bytes at {CONFIG}/{entity}: plan smaller waves, or without a throttle"


def _of_effect(effect: Request, step: PlanStep) -> Iterator[str]:
    match effect:
        case CreatePreferredReplicaElection(partitions=partitions):
            yield from _names(partitions, ELECTIONS_PER_STEP)
            yield from _missing((RequestAbsent(path=request_path(effect)),), frozenset(step.expectations))
            yield from _of_elections(partitions, step)
        case CreateReassignPartitions():
            targets = [(target.partition, target.replicas) for target in effect.targets]
            yield from _names([partition for partition, _ in targets], REASSIGNMENTS_PER_STEP)
            yield from _missing((RequestAbsent(path=request_path(effect)),), frozenset(step.expectations))
            yield from _of_moves(targets, step)
        case CreateDeleteTopic(topic=topic):
            yield from _of_deletion(topic, step)
        case DeleteController():
            yield from _of_re_election(effect, step)
        case MoveLeaders():
            yield from _names([move.partition for move in effect.moves], LEADERS_PER_RUN)
            yield from _of_leader_moves(effect, step)
        case _:
            assert_never(effect)


def _names(partitions: Collection[TopicPartition], most: int) -> Iterator[str]:
    if not 1 <= len(partitions) <= most:
        yield f"{counted(len(partitions), 'partition')} in a request, expected 1 to {most}"
    again = [each for each, count in Counter(partitions).items() if count > 1]
    if again:
        yield f"{_shown(again)} more than once"
    yield from _no_topics({each.topic for each in partitions})
    negative = [each for each in partitions if each.partition < 0]
    if negative:
        yield f"the partitions {_shown(negative)}, expected numbers from 0 on"


def _of_elections(partitions: Iterable[TopicPartition], step: PlanStep) -> Iterator[str]:
    replicas = {each.partition: each.replicas for each in step.expectations if isinstance(each, AssignedTo)}
    in_sync = {each.partition for each in step.expectations if isinstance(each, InSync)}
    created = {each.topic for each in step.expectations if isinstance(each, TopicCreatedAt)}
    outcomes = frozenset(step.outcomes)
    yield from _others({each.partition for each in outcomes if isinstance(each, LedBy)}, partitions)
    for each in partitions:
        if not replicas.get(each) or each not in in_sync or each.topic not in created:
            yield f"no expectation of topic, replicas and ISR of {_shown([each])}"
        else:
            yield from _missing((LedBy(*each, leader=replicas[each][0]),), outcomes)


def _of_moves(targets: Sequence[tuple[TopicPartition, tuple[BrokerId, ...]]], step: PlanStep) -> Iterator[str]:
    before = {each.partition: each for each in step.expectations if isinstance(each, AssignedTo)}
    created = {each.topic for each in step.expectations if isinstance(each, TopicCreatedAt)}
    outcomes = frozenset(step.outcomes)
    assigned = {each.partition for each in outcomes if isinstance(each, AssignedTo)}
    yield from _others(assigned, [partition for partition, _ in targets])
    for partition, replicas in targets:
        if not replicas or len(set(replicas)) < len(replicas) or min(replicas) < 0:
            yield f"the replicas {_shown(list(replicas))} for {_shown([partition])}, expected each broker once, and one at least"
        if partition not in before or partition.topic not in created:
            yield f"no expectation of topic and replicas of {_shown([partition])}"
        elif (there := before[partition]).is_being_reassigned and replicas != there.assignment.origin:
            yield f"the replicas {_shown(list(replicas))} for {_shown([partition])} while it is moved, expected its former ones"
        yield from _missing(
            (AssignedTo(*partition, replicas=replicas), CaughtUp(*partition, replicas=replicas)), outcomes
        )


def _of_deletion(topic: str, step: PlanStep) -> Iterator[str]:
    yield from _no_topics({topic})
    if topic in INTERNAL_TOPICS:
        yield f"the deletion of {topic}, which the cluster needs"
    identity = {each.topic: each.czxid for each in step.expectations if isinstance(each, TopicIs)}
    if topic not in identity:
        yield f"no expectation of which topic {_shown([topic])} is"
    else:
        yield from _missing((TopicGone(topic=topic, czxid=identity[topic]),), frozenset(step.outcomes))


def _of_leader_moves(effect: MoveLeaders, step: PlanStep) -> Iterator[str]:
    replicas = {each.partition: each.replicas for each in step.expectations if isinstance(each, AssignedTo)}
    in_sync = {each.partition: each for each in step.expectations if isinstance(each, InSync)}
    created = {each.topic for each in step.expectations if isinstance(each, TopicCreatedAt)}
    absent = tuple(RequestAbsent(path=path) for path in (REASSIGN_PARTITIONS, PREFERRED_REPLICA_ELECTION))
    yield from _missing(absent, frozenset(step.expectations))
    moved = [move.partition for move in effect.moves]
    yield from _others({each.partition for each in step.outcomes if isinstance(each, LedBy)}, moved)
    for move in effect.moves:
        partition, leader = move.partition, move.leader
        state = in_sync.get(partition)
        if not replicas.get(partition) or state is None or partition.topic not in created:
            yield f"no expectation of topic, replicas and ISR of {_shown([partition])}"
        elif leader not in state.isr or leader not in replicas[partition] or leader == state.leader:
            yield f"{leader} as the new leader of {_shown([partition])}, expected another in-sync replica"
        else:
            yield from _missing((LedBy(*partition, leader=leader),), frozenset(step.outcomes))


def _of_re_election(effect: DeleteController, step: PlanStep) -> Iterator[str]:
    active = [each for each in step.expectations if isinstance(each, ControllerIs)]
    lingering = [each for each in step.expectations if isinstance(each, NotificationsLinger)]
    requests = [each for each in step.expectations if isinstance(each, RequestAbandoned | RequestIdle)]
    same = [
        each
        for each in active
        if (each.controller_id, each.epoch_version) == (effect.controller_id, effect.epoch_version)
    ]
    if not same or same != active or not (lingering or requests):
        yield f"no expectation that broker {effect.controller_id} is the controller and something waits for another one"
        return
    reached: tuple[Condition, ...] = (
        *(ElectedAfter(epoch=each.epoch) for each in active),
        *(NotificationsGone(names=each.names) for each in lingering),
        *(
            RequestAbsent(path=each.path)
            for each in requests
            if isinstance(each, RequestAbandoned) or each.path != REASSIGN_PARTITIONS
        ),
    )
    yield from _missing(reached, frozenset(step.outcomes))


def _others(named: Collection[object], asked: Iterable[object]) -> Iterator[str]:
    """What the text of the plan would show beside what is asked for."""
    others = set(named) - set(asked)
    if others:
        yield f"conditions of {_shown(sorted(others, key=str))}, which nothing is asked for"


def _missing(wanted: Iterable[Condition], found: frozenset[Condition]) -> Iterator[str]:
    for condition in wanted:
        if condition not in found:
            yield f"no condition {_shown([condition])}"


def _no_topics(names: Iterable[str]) -> Iterator[str]:
    for name in sorted(names):
        if not is_topic_name(name):
            yield f"{_shown([name])}, which is no name of a topic"


def _shown(values: Collection[object]) -> str:
    text = ", ".join(
        ascii(value) if isinstance(value, str) else ascii(str(value))[1:-1] for value in list(values)[:_SHOWN_MAX]
    )
    text = text if len(text) <= _SHOWN_LETTERS_MAX * _SHOWN_MAX else f"{text[: _SHOWN_LETTERS_MAX * _SHOWN_MAX]}…"
    return text + (f" and {len(values) - _SHOWN_MAX} more" if len(values) > _SHOWN_MAX else "")
