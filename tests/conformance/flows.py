"""Operations of the conformance contract that are flows of the controller: brokers, deletions, ISR changes, sequences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from controller_core.controller.brokers import OnBrokerFailure, OnBrokerStartup, OnReplicasBecomeOffline
from controller_core.controller.leader_elections import RebalanceLeaders
from controller_core.controller.partition_state_machine import initial_partition_entries
from controller_core.controller.topic_deletion import (
    CompleteReplicaDeletion,
    EnqueueTopicsForDeletion,
    FailReplicaDeletion,
    InitTopicDeletion,
    MarkTopicsIneligible,
    ResumeDeletionForTopics,
    TryTopicDeletion,
    deletion_eligibility,
    is_eligible_to_start,
)
from controller_core.controller.topics import OnNewPartitionCreation
from controller_core.engine.batch import AddStopReplica
from controller_core.messages import answers, events
from controller_core.messages import effects as e
from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import BrokerId, LeaderAndIsr, LeaderRecoveryState, TopicPartition
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState
from controller_core.znodes import decode_isr_change_notification, decode_state
from tests.conformance.core import imbalance_report, machine_task, perform_machine_step
from tests.conformance.placement import OPS as PLACEMENT_OPS
from tests.conformance.vector import (
    Document,
    Operation,
    UnsupportedError,
    Vector,
    assignment_of,
    brokers_of,
    leadership_of,
    partition_of,
    replica_of,
)
from tests.conformance.world import World, broker_of, context_of, put_replica_states, report

DELETION_PATHS: Mapping[type, str] = {
    e.DeleteTopicNode: "/brokers/topics/{} (recursively)",
    e.DeleteTopicConfig: "/config/topics/{}",
}


def _world(vector: Vector) -> World:
    return World(vector.given, vector.controller_dialect)


def _outcome(world: World) -> Document:
    out = report(world)
    if world.moved:
        out["error"] = "ControllerMoved"
    out["zk_writes_per_partition"] = dict(Counter(write["partition"] for write in out["zk_writes"]))
    told: dict[str, set[str]] = defaultdict(set)
    for effect in world.seen.effects:
        if isinstance(effect, e.SendLeaderAndIsr):
            told[str(effect.broker)].update(str(row.partition) for row in effect.partition_states)
    out["leader_and_isr_to"] = {broker: sorted(partitions) for broker, partitions in told.items()}
    updated = {effect.broker for effect in world.seen.effects if isinstance(effect, e.SendUpdateMetadata)}
    out["update_metadata_to_all"] = updated >= set(world.context.brokers)
    return out


# ---- brokers ---------------------------------------------------------------------------------------------------------


def on_broker_failure(vector: Vector) -> Document:
    world, brokers = _world(vector), brokers_of(vector.action["brokers"])
    world.context = world.context.without_brokers(brokers)
    world.perform(OnBrokerFailure(brokers))
    return _outcome(world)


def on_broker_startup(vector: Vector) -> Document:
    world = _world(vector)
    told = vector.action["brokers"]
    world.context = world.context.with_brokers(broker_of(record) for record in told if isinstance(record, dict))
    brokers = brokers_of([record["id"] if isinstance(record, dict) else record for record in told])
    world.perform(OnBrokerStartup(brokers))
    return _outcome(world)


def on_replicas_become_offline(vector: Vector) -> Document:
    world = _world(vector)
    world.perform(OnReplicasBecomeOffline(tuple(map(replica_of, vector.action["replicas"]))))
    return _outcome(world)


def on_new_partition_creation(vector: Vector) -> Document:
    world = _world(vector)
    world.perform(OnNewPartitionCreation(tuple(map(partition_of, vector.action["partitions"]))))
    return _outcome(world)


def controlled_shutdown(vector: Vector) -> Document:
    world = _world(vector)
    world.command(events.ControlledShutdown(BrokerId(vector.action["broker"]), vector.action.get("broker_epoch")))
    out = _outcome(world)
    for effect in world.seen.effects:
        if isinstance(effect, e.ReplyControlledShutdown):
            if effect.error:
                return out | {"error": effect.error}
            out["partitions_still_led"] = sorted(map(str, effect.partitions_still_led))
    return out


def rebalance_leaders(vector: Vector) -> Document:
    world = _world(vector)
    if "partition_states" not in vector.given["context"]:  # a controller that rebalances has started its machines
        world.context = world.context.with_partitions(initial_partition_entries(world.context))
    before = {p: x.leadership for p, x in world.context.partitions.items() if x.leadership is not None}
    world.perform(RebalanceLeaders())
    after = {p: x.leadership for p, x in world.context.partitions.items() if x.leadership is not None}
    return _outcome(world) | {
        "leaders_after": {str(p): x.leader for p, x in after.items()},
        "leader_epochs_after": {str(p): x.leader_epoch for p, x in after.items()},
        "isr_changed": any(after[p].isr != x.isr for p, x in before.items()),
        "imbalance_after": imbalance_report(world.context),
    }


# ---- deletions -------------------------------------------------------------------------------------------------------


def _deletes(world: World) -> list[str]:
    paths = []
    for effect in world.seen.effects:
        if isinstance(effect, e.DeleteTopicDeletions):
            paths += [f"/admin/delete_topics/{topic}" for topic in effect.topics]
        elif type(effect) in DELETION_PATHS:
            paths.append(DELETION_PATHS[type(effect)].format(effect.topic))  # type: ignore[union-attr]
    return paths


def resume_deletions(vector: Vector) -> Document:
    world = _world(vector)
    before = world.context
    world.perform(TryTopicDeletion())
    deleting = {
        broker
        for record in world.seen.batches
        for add in record.batch.adds()
        if isinstance(add, AddStopReplica) and add.delete_partition
        for broker in add.brokers
    }
    return _outcome(world) | {
        "stop_replica_delete_to": sorted(deleting),
        "zk_deletes_in_order": _deletes(world),
        "unchanged": world.context == before,
    }


def evaluate_deletion_eligibility(vector: Vector) -> Document:
    context = context_of(vector.given, vector.controller_dialect)
    requested = vector.action.get("at") == "deletion request"
    found = deletion_eligibility(context, vector.action["topic"], when_requested=requested)
    return {"eligible": found.eligible, "reasons": sorted({reason.kind.value for reason in found.reasons})}


def is_topic_eligible(vector: Vector) -> Document:
    return {
        "eligible": is_eligible_to_start(context_of(vector.given, vector.controller_dialect), vector.action["topic"])
    }


def mark_topics_ineligible(vector: Vector) -> Document:
    world = _world(vector)
    world.perform(MarkTopicsIneligible(tuple(vector.action["topics"])))
    return _outcome(world)


def on_delete_topics_children(vector: Vector) -> Document:
    world = _world(vector)
    world.unscripted.deletions = tuple(vector.action["children"])
    world.command(events.DeletionsChanged())
    return _outcome(world) | {"zk_deletes_in_order": _deletes(world)}


# ---- ISR changes -----------------------------------------------------------------------------------------------------


class _Notifications(World):
    """Notifications under short names, as the contract's ISR operation gives them."""

    def __init__(self, vector: Vector) -> None:
        super().__init__({k: v for k, v in vector.given.items() if k != "zk"}, vector.controller_dialect)
        self.nodes: Document = dict(vector.given["zk"])
        self.names = tuple(self.nodes.get("/isr_change_notification", []))
        self.late = tuple(vector.given.get("created_after_listing", []))
        self.real_version = self.nodes.get("/controller_epoch version", self.context.epoch_zk_version)
        self.deleted: list[str] = []
        self.order: list[str] = []

    def answer(self, effect: e.AnsweredEffect) -> answers.Answer:
        match effect:
            case e.ListIsrNotifications():
                self.order.append("list")
                return answers.NotificationsListed(effect, self.names)
            case e.ReadIsrNotifications(names=names):
                self.order.append("read notifications")
                return answers.IsrNotificationsRead(effect, tuple(p for name in names for p in self._named_in(name)))
            case e.ReadPartitionStates(partitions=partitions):
                self.order.append("read states")
                found = {p: state for p in partitions if (state := self._state(p)) is not None}
                return answers.StatesRead(
                    effect, found, {p: answers.ReadProblem("NONODE") for p in partitions if p not in found}
                )
            case e.DeleteIsrNotifications(names=names):
                self.order.append("delete listed notifications")
                if effect.controller_epoch_version not in {None, self.real_version}:
                    return answers.Failed(effect, answers.CONTROLLER_MOVED)
                self.deleted += names
        return super().answer(effect)

    def _named_in(self, name: str) -> tuple[TopicPartition, ...]:
        data = self.nodes.get(name)
        return () if data is None else decode_isr_change_notification(data.encode(), path=name)

    def _state(self, partition: TopicPartition) -> LeaderAndIsr | None:
        node = self.nodes.get(f"state {partition}")
        if node is None:
            return None
        try:
            return decode_state(node["data"].encode(), path=str(partition), version=node["version"])
        except MalformedZnodeError:
            return None

    def notice(self, effect: e.Effect) -> None:
        if isinstance(effect, e.SendUpdateMetadata) and self.order[-1] != "send UpdateMetadata":
            self.order += ["update cache", "send UpdateMetadata"]
        super().notice(effect)


def process_isr_change_notifications(vector: Vector) -> Document:
    world = _Notifications(vector)
    world.command(events.IsrNotificationsChanged(world.names))
    sent = [effect for effect in world.seen.effects if isinstance(effect, e.SendUpdateMetadata)]
    update = None
    if sent:
        partitions = sorted(str(row.partition) for row in sent[0].partition_states)
        update = {"partitions": partitions, "to": sorted(effect.broker for effect in sent)}
    remaining = [name for name in (*world.names, *world.late) if name not in world.deleted]
    return _outcome(world) | {
        "update_metadata": update,
        "deleted_notifications": world.deleted,
        "remaining_notifications": remaining,
        "order": world.order,
    }


def alter_partition(vector: Vector) -> Document:
    given, asked = vector.given, vector.action["request"]
    numbers = {"e": 10, "p": 20, "b": 300}

    def number(told: Any) -> int:
        if not isinstance(told, str):
            return int(told)
        return numbers[told[0]] + (int(told[1:]) if told[1:] else 0)

    topics = {p: list(replicas) for p, replicas in given["topics"].items()}
    partition = partition_of(asked.get("partition") or next(iter(topics)))
    current = {**given["current"], "leader_epoch": number(given["current"]["leader_epoch"])}
    current["zk_version"] = number(given["current"]["partition_epoch"])
    told = {
        "controller_id": given["controller"],
        "live_brokers": [{"id": broker, "epoch": numbers["b"]} for broker in given["live_brokers"]],
        "assignments": {p: {"replicas": replicas} for p, replicas in topics.items()},
        "leadership": {next(iter(topics)): current | {"controller_epoch": 1}},
    }
    world = World({"context": told}, vector.controller_dialect)
    change = events.IsrChange(
        "an unknown id" if asked.get("topic_id") == "random" else partition,
        number(asked["leader_epoch"]),
        number(asked["partition_epoch"]),
        brokers_of(asked["new_isr"]),
        LeaderRecoveryState[asked.get("recovery", "RECOVERED")],
    )
    version = asked.get("api_version", 3)
    world.command(
        events.AlterPartition(BrokerId(asked["broker_id"]), number(asked["broker_epoch"]), (change,), version)
    )
    reply = next(effect for effect in world.seen.effects if isinstance(effect, e.ReplyAlterPartition))
    after = world.context.leadership(partition_of(next(iter(topics))))
    assert after is not None
    return {
        "top_level_error": reply.error or None,
        "partition_error": next((error for _, error in reply.errors), None),
        "leader": after.leader,
        "leader_epoch": _relative(after.leader_epoch, "e", numbers),
        "isr": list(after.isr),
        "partition_epoch": _relative(after.partition_epoch, "p", numbers),
        "state_changed": any(isinstance(effect, e.WritePartitionStates) for effect in world.seen.effects),
    }


def _relative(value: int, name: str, numbers: Mapping[str, int]) -> str:
    offset = value - numbers[name]
    return f"{name}{offset:+d}" if offset else name


# ---- sequences -------------------------------------------------------------------------------------------------------


def _context_step(world: World, told: Document) -> bool:
    """Updates of the context and nothing else; false where the step is none of them."""
    context = world.context
    updates: dict[str, Callable[[], Any]] = {
        "set_assignment": lambda: context.with_entry(
            partition_of(told["partition"]), assignment=assignment_of(told["assignment"])
        ),
        "set_replicas_only": lambda: context.with_entry(
            partition_of(told["partition"]),
            assignment=context.full_assignment(partition_of(told["partition"]))._replace(
                replicas=brokers_of(told["replicas"])
            ),
        ),
        "put_leadership": lambda: context.with_entry(
            partition_of(told["partition"]), leadership=leadership_of(told["leadership"])
        ),
        "put_replica_states": lambda: put_replica_states(context, told["replica_states"]),
        "put_partition_states": lambda: context.with_partitions(
            {
                partition_of(p): context.entry(partition_of(p))._replace(state=PartitionState(state))
                for p, state in told["partition_states"].items()
            }
        ),
        "put_partition_state_if_absent": lambda: (
            context
            if context.entry(partition_of(told["partition"])).state is not None
            else context.with_entry(partition_of(told["partition"]), state=PartitionState(told["state"]))
        ),
        "queue_topic_deletion": lambda: context.queue_topic_deletion(told["topics"]),
        "begin_topic_deletion": lambda: context.begin_topic_deletion(told["topics"]),
        "remove_topic": lambda: context.remove_topic(told["topic"]),
        "remove_live_brokers": lambda: replace(
            context.without_brokers(brokers_of(told["brokers"])),
            shutting_down=context.shutting_down.difference(told["brokers"]),
        ),
        "add_live_brokers": lambda: context.with_brokers(map(broker_of, told["brokers"])),
        "clear_recorded_state_changes": lambda: context,
    }
    if told["op"] not in updates:
        return False
    world.context = updates[told["op"]]()
    return True


def _deletion_step(told: Document) -> Any:
    match told["op"]:
        case "deletion_init":
            return InitTopicDeletion(frozenset(told["to_be_deleted"]), frozenset(told["ineligible"]))
        case "enqueue_topics_for_deletion":
            return EnqueueTopicsForDeletion(tuple(told["topics"]))
        case "complete_replica_deletion":
            return CompleteReplicaDeletion(tuple(map(replica_of, told["replicas"])))
        case "fail_replica_deletion":
            return FailReplicaDeletion(tuple(map(replica_of, told["replicas"])))
        case "resume_deletion_for_topics":
            return ResumeDeletionForTopics(tuple(told["topics"]))
        case "mark_topics_ineligible":
            return MarkTopicsIneligible(tuple(told["topics"]))
        case "try_topic_deletion":
            return TryTopicDeletion()
    return None


def _sequence_step(world: World, told: Document) -> Document:
    if machine_task(told) is not None:
        return perform_machine_step(world, told)
    world.reset()
    if _context_step(world, told):
        return report(world)
    task = _deletion_step(told)
    if task is None:
        raise UnsupportedError(f"step {told['op']!r} is not known")
    world.perform(task)
    out = report(world)
    return out | {"error": "ControllerMoved"} if world.moved else out


def sequence(vector: Vector) -> Document:
    if any(told["op"] == "create_topic_with_assignment" for told in vector.action["steps"]):
        return _creations(vector)
    world = _world(vector)
    steps = [_sequence_step(world, told) for told in vector.action["steps"]]
    return report(world, world.total) | {"after_steps": steps}


def _creations(vector: Vector) -> Document:
    """Topics created one after the other on one ZooKeeper: each step starts from what the steps before left."""
    given, steps = dict(vector.given), []
    for told in vector.action["steps"]:
        out = PLACEMENT_OPS["create_topic_with_assignment"](replace(vector, given=given, action=told))
        given["assignments"] = out["assignments"]
        steps.append(out)
    return {"after_steps": steps}


def refused(world: World) -> bool:
    return any(refusal.kind is RefusalKind.INVALID_REQUEST for refusal in world.seen.refusals)


OPS: dict[str, Operation] = {
    "on_broker_failure": on_broker_failure,
    "on_broker_startup": on_broker_startup,
    "on_replicas_become_offline": on_replicas_become_offline,
    "on_new_partition_creation": on_new_partition_creation,
    "controlled_shutdown": controlled_shutdown,
    "rebalance_leaders": rebalance_leaders,
    "resume_deletions": resume_deletions,
    "evaluate_deletion_eligibility": evaluate_deletion_eligibility,
    "is_topic_eligible": is_topic_eligible,
    "mark_topics_ineligible": mark_topics_ineligible,
    "on_delete_topics_children": on_delete_topics_children,
    "process_isr_change_notifications": process_isr_change_notifications,
    "alter_partition": alter_partition,
    "sequence": sequence,
}
