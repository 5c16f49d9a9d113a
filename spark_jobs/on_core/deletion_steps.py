"""What the controller does with a topic that is queued for deletion, step by step, by the core's own state machines.

The brokers are imagined to obey at once: those that are live delete what they are told to; the others are waited for.
Runs on executors through `bridge.per_snapshot`.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, assert_never

from controller_core.context.context import ControllerContext
from controller_core.controller.deletion_eligibility import IneligibilityKind, IneligibilityReason, deletion_eligibility
from controller_core.controller.topic_deletion import CompleteReplicaDeletion, InitTopicDeletion, TryTopicDeletion
from controller_core.messages.effects import (
    DeleteTopicConfig,
    DeleteTopicDeletions,
    DeleteTopicNode,
    Effect,
    SendStopReplica,
    SendUpdateMetadata,
    WritePartitionStates,
)
from controller_core.model.partitions import BrokerId, PartitionAndReplica
from controller_core.model.words import counted, first_names
from spark_jobs.on_core.bridge import SnapshotRows, context_of
from spark_jobs.on_core.simulate import outcome

TOPICS_MAX = 100
"""Topics of a cluster that are followed to their end, by name; the others are in the eligibility table only."""
_ROUNDS_MAX = 5
_SHOWN = 5
_WAITS_FOR = (IneligibilityKind.DEAD_REPLICA, IneligibilityKind.REASSIGNMENT, IneligibilityKind.PREFERRED_ELECTION)
"""What a controller that finds a request when it starts waits for (Kafka 3.9 `KafkaController.fetchTopicDeletionsInProgress`)."""
_NOT_BEGUN = (IneligibilityKind.DELETION_DISABLED, IneligibilityKind.UNREADABLE, IneligibilityKind.UNKNOWN_TOPIC)

ZnodesOfTopic = DeleteTopicNode | DeleteTopicConfig | DeleteTopicDeletions
"""What ends a deletion in ZooKeeper."""


class Prediction(NamedTuple):
    """What becomes of a topic: in words, in order, and as data.

    `told` ends with the topic's end, or with what is waited for. `deleted` are the replicas that brokers deleted on the way.
    """

    told: tuple[str, ...]
    deleted: frozenset[PartitionAndReplica]
    is_complete: bool


def predict_deletions(rows: SnapshotRows) -> Iterator[dict[str, Any]]:
    """Rows of schemas.DELETION_PREDICTION for the topics queued in one snapshot."""
    context, unreadable = context_of(rows, with_queue=False).context, rows.unreadable()
    for topic in sorted(rows.facts["queued_topics"])[:TOPICS_MAX]:
        for number, text in enumerate(predict(context, topic, unreadable.get(topic), asked=True).told, start=1):
            yield {"topic": topic, "step": number, "effect": text}


def predict(
    context: ControllerContext, topic: str, unreadable: str | None = None, *, asked: bool = False
) -> Prediction:
    """What happens to `topic` until it is gone, or until somebody has to help.

    Args:
        context: the cluster, with no topic queued.
        topic: the one whose deletion is asked for.
        unreadable: what of its metadata could not be read, and why; None: nothing.
        asked: the request stood when `context` was read. A running controller begins at once, and takes the leaders first:
            where something stands against the deletion and the topic is led, its controller found the request when it
            started, and waits. A topic that had no leader before cannot be told apart from one whose deletion has begun.
            False: the request arrives at a running controller now.
    """
    reasons = deletion_eligibility(context, topic, unreadable=unreadable).reasons
    kinds = {reason.kind for reason in reasons}
    if kinds.intersection(_NOT_BEGUN):
        return Prediction(tuple(reason.text for reason in reasons), frozenset(), is_complete=False)
    waits = asked and bool(kinds.intersection(_WAITS_FOR)) and _is_led(context, topic)
    begin = InitTopicDeletion(frozenset({topic}), frozenset({topic} if waits else ()))
    result = outcome(context, (begin, TryTopicDeletion()))
    told, deleted = _in_words(result.effects), _deleted_replicas(result.effects)
    gone = frozenset(deleted)
    for _ in range(_ROUNDS_MAX):
        if not deleted:
            break
        brokers = sorted({replica.replica for replica in deleted})
        told.append(f"brokers {_listed(brokers)} answer that {counted(len(deleted), 'replica', 'are')} deleted")
        result = outcome(result.context, (CompleteReplicaDeletion(deleted),))
        told, deleted = told + _in_words(result.effects), _deleted_replicas(result.effects)
        gone |= frozenset(deleted)
    is_complete = topic not in result.context.topics_to_be_deleted
    told += _end(context, topic, reasons, gone, is_complete=is_complete, asked=asked)
    return Prediction(tuple(told), gone, is_complete)


def _is_led(context: ControllerContext, topic: str) -> bool:
    leaderships = map(context.leadership, context.partitions_for_topic(topic))
    return any(leadership is not None and leadership.leader >= 0 for leadership in leaderships)


def _end(
    context: ControllerContext,
    topic: str,
    reasons: Sequence[IneligibilityReason],
    gone: frozenset[PartitionAndReplica],
    *,
    is_complete: bool,
    asked: bool,
) -> Iterator[str]:
    """How it ends, or what is waited for and what is gone by then."""
    if is_complete:
        yield f"the deletion of {topic} is complete"
        left = sorted(each for each in context.reassignment_targets if each.topic == topic)
        if left:
            yield (
                f"/admin/reassign_partitions still names {first_names(left, _SHOWN)}: where nothing else is left in it, only a "
                "new controller removes it"
            )
        return
    if never_led := [str(reason.partition) for reason in reasons if reason.kind is IneligibilityKind.NEVER_LED]:
        yield f"the deletion of {topic} never ends: {first_names(never_led, _SHOWN)} never had a leader (KAFKA-6650)"
        return
    missing = sorted({broker for reason in reasons for broker in reason.brokers})
    brokers = sorted({replica.replica for replica in gone})
    awaited = f"brokers {_listed(missing)}" if missing else "its reassignments and elections to end"
    yield f"the deletion of {topic} waits for {awaited}, and goes on by itself then"
    if not brokers:
        yield f"nothing of {topic} is deleted before"
        return
    verb = "is" if len(gone) == 1 else "are"
    so_far = f"{verb} gone already, unless it had no leader before" if asked else f"{verb} gone by then"
    yield f"{counted(len(gone), 'replica')} of {topic} on brokers {_listed(brokers)} {so_far}; nobody can read it"


def _deleted_replicas(effects: tuple[Effect, ...]) -> tuple[PartitionAndReplica, ...]:
    """What the live brokers are told to delete in `effects`."""
    return tuple(
        PartitionAndReplica(stopped.partition, effect.broker)
        for effect in effects
        if isinstance(effect, SendStopReplica)
        for stopped in effect.partition_states
        if stopped.delete_partition
    )


def _in_words(effects: tuple[Effect, ...]) -> list[str]:
    """One line for each run of effects of a kind; those that only the controller itself sees are left out."""
    lines = []
    for kind, run in groupby(effects, key=_kind):
        found = list(run)
        if kind:
            lines.append(_line(kind, found))
    return lines


def _kind(effect: Effect) -> str:
    if isinstance(effect, WritePartitionStates):
        return "states"
    if isinstance(effect, SendStopReplica):
        return "delete" if any(one.delete_partition for one in effect.partition_states) else "stop"
    if isinstance(effect, SendUpdateMetadata) and effect.partition_states:
        return "metadata"
    return "znodes" if isinstance(effect, ZnodesOfTopic) else ""


def _line(kind: str, effects: list[Effect]) -> str:
    if kind == "states":
        count = sum(len(effect.states) for effect in effects if isinstance(effect, WritePartitionStates))
        return f"ZooKeeper: the ISR shrinks of {counted(count, 'partition')}"
    if kind == "znodes":
        deleted = [effect for effect in effects if isinstance(effect, ZnodesOfTopic)]
        return "ZooKeeper: delete " + ", ".join(path for effect in deleted for path in _paths(effect))
    sent = [effect for effect in effects if isinstance(effect, SendStopReplica | SendUpdateMetadata)]
    brokers = _listed(sorted({effect.broker for effect in sent}))
    if kind == "metadata":
        partitions = max(len(effect.partition_states) for effect in sent)
        return f"brokers {brokers} are told that {counted(partitions, 'partition', 'are')} being deleted"
    count = sum(len(effect.partition_states) for effect in sent)
    return f"brokers {brokers} are told to {'delete' if kind == 'delete' else 'stop'} {counted(count, 'replica')}"


def _paths(effect: ZnodesOfTopic) -> list[str]:
    match effect:
        case DeleteTopicNode(topic=topic):
            return [f"/brokers/topics/{topic}"]
        case DeleteTopicConfig(topic=topic):
            return [f"/config/topics/{topic}"]
        case DeleteTopicDeletions(topics=topics):
            return [f"/admin/delete_topics/{topic}" for topic in topics]
        case _:
            assert_never(effect)


def _listed(brokers: list[BrokerId]) -> str:
    return ", ".join(map(str, brokers))
