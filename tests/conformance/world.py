"""The controller core set up as a vector says, on a ZooKeeper that follows the vector's script."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from immutables import Map

from controller_core.context.context import ControllerContext
from controller_core.context.partition_entries import PartitionEntry, with_replica_state
from controller_core.controller.step import Command, Step, step
from controller_core.engine.batch import AddLeaderAndIsr, AddStopReplica, BatchFault, BatchRecord
from controller_core.engine.turn import RunTasks, Task, UnderWay
from controller_core.messages import answers
from controller_core.messages import effects as e
from controller_core.model.config import config_from
from controller_core.model.dialect import Dialect
from controller_core.model.partitions import Broker, BrokerId, Endpoint, LeaderAndIsr, TopicPartition
from controller_core.model.refusals import Refusal, RefusalKind
from controller_core.model.states import PartitionState, ReplicaState
from controller_core.runtime.simulated.answers import SimulatedAnswers
from tests.conformance.request_fields import request_fields
from tests.conformance.vector import (
    Document,
    assignment_of,
    assignment_record,
    leadership_of,
    leadership_record,
    partition_of,
    replica_of,
)

NONODE, OK = "NONODE", "OK"


def broker_of(record: Mapping[str, Any]) -> Broker:
    broker = BrokerId(record["id"])
    listed = record.get("endpoints") or [record]
    endpoints = tuple(
        Endpoint(
            point.get("host", "localhost"),
            point.get("port", 9092),
            point.get("listener", "PLAINTEXT"),
            point.get("security_protocol", "PLAINTEXT"),
        )
        for point in listed
    )
    return Broker(broker, record.get("epoch", 0), endpoints, record.get("rack"))


def context_of(given: Mapping[str, Any], dialect: Dialect) -> ControllerContext:
    """The context that `given` describes; deletions are queued before leaderships are put, so counters are recounts."""
    told = given.get("context", {})
    brokers = [broker_of(record) for record in told.get("live_brokers", [])]
    controller = BrokerId(told.get("controller_id", brokers[0].id if brokers else 0))
    config = config_from(given.get("broker_config", {}), controller_id=controller, dialect=dialect)
    context = ControllerContext(
        dialect=dialect,
        config=config,
        epoch=told.get("controller_epoch", 1),
        epoch_zk_version=told.get("epoch_zk_version", 0),
        active_controller_id=controller,
        shutting_down=frozenset(told.get("shutting_down_brokers", [])),
        offline_dirs=Map(
            {BrokerId(int(b)): frozenset(map(partition_of, ps)) for b, ps in told.get("offline_dirs", {}).items()}
        ),
        broker_order=tuple(given.get("broker_order", [])),
        partitions_in_preferred_election=frozenset(map(partition_of, told.get("partitions_in_preferred_election", []))),
    )
    context = context.with_brokers(brokers)
    assignments = {partition_of(p): assignment_of(record) for p, record in told.get("assignments", {}).items()}
    ids = told.get("topic_ids", {})
    topics = {p.topic for p in assignments} | set(told.get("topics", [])) | set(ids)
    context = context.with_topics({topic: _topic_id(topic, ids.get(topic)) for topic in sorted(topics)})
    context = context.with_partitions({p: PartitionEntry(assignment) for p, assignment in assignments.items()})
    context = context.queue_topic_deletion(told.get("topics_to_be_deleted", []))
    context = context.begin_topic_deletion(told.get("topics_with_deletion_started", []))
    context = replace(context, topics_ineligible_for_deletion=frozenset(told.get("topics_ineligible_for_deletion", [])))
    for partition, record in told.get("leadership", {}).items():
        context = context.with_entry(partition_of(partition), leadership=leadership_of(record))
    for partition, state in told.get("partition_states", {}).items():
        context = context.with_entry(partition_of(partition), state=PartitionState(state))
    context = put_replica_states(context, told.get("replica_states", {}))
    moving = {partition_of(p): None for p in told.get("partitions_being_reassigned", [])}
    if dialect.adding_and_removing_replicas:
        return replace(context, partitions_being_reassigned=Map(moving))
    return replace(context, reassignment_targets=Map({p: context.assignment(p) for p in moving}))


def put_replica_states(context: ControllerContext, states: Mapping[str, str]) -> ControllerContext:
    for name, state in states.items():
        partition, broker = replica_of(name)
        after = with_replica_state(context.entry(partition).replica_states, broker, ReplicaState(state))
        context = context.with_entry(partition, replica_states=after)
    return context


def _fault(batch: Mapping[str, Any]) -> BatchFault | None:
    if batch.get("new_batch_raises"):
        return BatchFault.NEW_BATCH
    return BatchFault.SEND if batch.get("send_raises") else None


def _topic_id(topic: str, told: str | None) -> str | None:
    return f"id-of-{topic}" if told is not None and " " in told else told


class ScriptedZooKeeper:
    """State znodes that live on between scripted reads and writes (contract 3.5, and the oracle's additions)."""

    def __init__(self, given: Mapping[str, Any], context: ControllerContext) -> None:
        self._given = given
        self._script = given.get("zk", {})
        self._nodes: dict[TopicPartition, tuple[LeaderAndIsr | str, int]] = {}
        for partition, entry in context.partitions.items():
            if entry.leadership is not None:
                self._nodes[partition] = (entry.leadership, entry.leadership.partition_epoch)
        self._reads = self._queues("state_reads")
        self._creates = self._queues("create_responses")
        self._updates = self._queues("update_responses")
        self.epoch_version = self._script.get("controller_epoch_zk_version", context.epoch_zk_version)
        self.dialect = context.dialect

    def _queues(self, name: str) -> dict[TopicPartition, deque[Any]]:
        told = self._script.get(name, {})
        return {partition_of(p): deque(x if isinstance(x, list) else [x]) for p, x in told.items()}

    def put(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        self._nodes[partition] = (state, state.partition_epoch)

    def state(self, partition: TopicPartition) -> LeaderAndIsr | None:
        content, version = self._nodes.get(partition, (None, 0))
        return content._replace(partition_epoch=version) if isinstance(content, LeaderAndIsr) else None

    def delete_topic(self, topic: str) -> None:
        self._nodes = {p: node for p, node in self._nodes.items() if p.topic != topic}

    def _moved(self, version: int | None) -> bool:
        return version is not None and version != self.epoch_version

    def read(self, effect: e.ReadPartitionStates) -> answers.Answer:
        if "state_read_exception" in self._script:
            return answers.Failed(effect, self._script["state_read_exception"])
        found: dict[TopicPartition, LeaderAndIsr] = {}
        problems: dict[TopicPartition, answers.ReadProblem] = {}
        for partition in effect.partitions:
            answer = self._read_one(partition)
            if isinstance(answer, LeaderAndIsr):
                found[partition] = answer
            else:
                problems[partition] = answer
        return answers.StatesRead(effect, found, problems)

    def _read_one(self, partition: TopicPartition) -> LeaderAndIsr | answers.ReadProblem:
        if self._reads.get(partition):
            scripted = self._reads[partition].popleft()
            if scripted["code"] == OK:
                content = scripted["raw"] if "raw" in scripted else leadership_of(scripted["data"])
                self._nodes[partition] = (content, scripted["version"])
            elif scripted["code"] == NONODE:
                self._nodes.pop(partition, None)
            else:
                return answers.ReadProblem(scripted["code"])
        if partition not in self._nodes:
            return answers.ReadProblem(NONODE)
        content, version = self._nodes[partition]
        if isinstance(content, str):
            return answers.ReadProblem("MALFORMED", content, ends_kafkas_call=_is_json(content))
        return content._replace(partition_epoch=version)

    def create(self, effect: e.CreatePartitionStates) -> answers.Answer:
        if self._moved(effect.controller_epoch_version):
            return answers.Failed(effect, answers.CONTROLLER_MOVED)
        if "create_exception" in self._script:
            return answers.Failed(effect, self._script["create_exception"])
        problems: dict[TopicPartition, str] = {}
        for partition, state in effect.states:
            queue = self._creates.get(partition)
            code = queue.popleft() if queue else "NODEEXISTS" if partition in self._nodes else OK
            if code == OK:
                self._nodes[partition] = (state, 0)
            else:
                problems[partition] = code
        return answers.StatesCreated(effect, problems)

    def write(self, effect: e.WritePartitionStates) -> answers.Answer:
        if "update_exception" in self._script:
            return answers.Failed(effect, self._script["update_exception"])
        if self._moved(effect.controller_epoch_version):
            return answers.Failed(effect, answers.CONTROLLER_MOVED)
        versions: dict[TopicPartition, int] = {}
        problems: dict[TopicPartition, str] = {}
        for partition, state in effect.states:
            code, version = self._write_one(partition, state.partition_epoch)
            if code == OK:
                versions[partition] = version
                self._nodes[partition] = (state, version)
            else:
                problems[partition] = code
        return answers.StatesWritten(effect, versions, problems)

    def _write_one(self, partition: TopicPartition, expected: int) -> tuple[str, int]:
        if self._updates.get(partition):
            scripted = self._updates[partition].popleft()
            return scripted["result"], scripted.get("zk_version", expected + 1)
        if partition not in self._nodes:
            return NONODE, -1
        return (OK if self._nodes[partition][1] == expected else "BADVERSION"), expected + 1

    def configs(self, effect: e.ReadTopicConfigs) -> answers.Answer:
        if "config_read_exception" in self._script:
            return answers.Failed(effect, self._script["config_read_exception"])
        told, errors = self._given.get("topic_config", {}), self._given.get("topic_config_errors", {})
        configs = {t: {k: str(v) for k, v in told.get(t, {}).items()} for t in effect.topics if t not in errors}
        return answers.TopicConfigsRead(effect, configs, {t: errors[t] for t in effect.topics if t in errors})


def _is_json(text: str) -> bool:
    """Whether Kafka's parser takes the text, so that its decoder raises later; an empty text counts."""
    if not text:
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


class Recorded:
    """What was seen since the last reset."""

    def __init__(self) -> None:
        self.effects: list[e.Effect] = []
        self.refusals: list[Refusal] = []
        self.batches: list[BatchRecord] = []

    def take(self, done: Step) -> None:
        self.effects.extend(done.effects)
        self.refusals.extend(done.refusals)
        self.batches.extend(done.batches)

    def of_kind(self, kind: RefusalKind) -> list[str]:
        return sorted({str(refusal.subject) for refusal in self.refusals if refusal.kind is kind})


class World:
    """A context and its ZooKeeper, driven until nothing is awaited."""

    def __init__(self, given: Mapping[str, Any], dialect: Dialect) -> None:
        self.context = context_of(given, dialect)
        self.under_way = UnderWay(batch_fault=_fault(given.get("batch", {})))
        self.zk = ScriptedZooKeeper(given, self.context)
        self.unscripted = SimulatedAnswers(found=self.context)
        self.seen, self.total = Recorded(), Recorded()
        self.topics = sorted({p.topic for p in self.context.partitions})
        self.unclean_before = self.context.unclean_election_count

    def reset(self) -> None:
        self.seen = Recorded()
        self.unclean_before = self.context.unclean_election_count

    def perform(self, *tasks: Task) -> None:
        self.command(RunTasks(tasks))

    def command(self, command: Command) -> None:
        done = step(self.context, command, self.under_way)
        while True:
            self.context, self.under_way = done.context, done.under_way
            self.seen.take(done)
            self.total.take(done)
            for effect in done.effects:
                self.notice(effect)
            if done.awaiting is None or self.moved:
                return
            answer = self.answer(done.awaiting)
            if isinstance(answer, answers.Failed):
                self._not_attempted(answer)
            done = step(self.context, answer, self.under_way)

    def _not_attempted(self, answer: answers.Failed) -> None:
        """A client exception ends a pipelined call: no update was attempted, of creations only the first."""
        effect = answer.effect
        for seen in (self.seen, self.total):
            seen.effects.remove(effect)
            if isinstance(effect, e.CreatePartitionStates):
                seen.effects.append(replace(effect, states=effect.states[:1]))

    @property
    def moved(self) -> bool:
        return any(refusal.kind is RefusalKind.CONTROLLER_MOVED for refusal in self.seen.refusals)

    def notice(self, effect: e.Effect) -> None:
        if isinstance(effect, e.DeleteTopicNode):
            self.zk.delete_topic(effect.topic)

    def answer(self, effect: e.AnsweredEffect) -> answers.Answer:
        """What the vector's script says of states and configs; nobody disturbs the rest."""
        match effect:
            case e.ReadPartitionStates():
                return self.zk.read(effect)
            case e.CreatePartitionStates():
                return self.zk.create(effect)
            case e.WritePartitionStates():
                return self.zk.write(effect)
            case e.ReadTopicConfigs():
                return self.zk.configs(effect)
            case _:
                return self.unscripted.answer(effect)


# ---- reports ---------------------------------------------------------------------------------------------------------


def report(world: World, seen: Recorded | None = None) -> Document:
    """Everything of contract 3.8: the context as it is, and what was seen."""
    seen = seen or world.seen
    context = world.context
    entries = sorted(context.partitions.items())
    out: Document = {
        "partition_states": {str(p): entry.state.value for p, entry in entries if entry.state is not None},
        "replica_states": {f"{p}-{b}": s.value for p, entry in entries for b, s in entry.replica_states},
        "leadership": {str(p): leadership_record(x.leadership) for p, x in entries if x.leadership is not None},
        "assignments": {str(p): assignment_record(x.assignment) for p, x in entries if x.assignment is not None},
        "offline_partition_count": context.offline_partition_count,
        "preferred_replica_imbalance_count": context.preferred_replica_imbalance_count,
        "live_broker_ids": list(context.live_broker_ids),
        "shutting_down_brokers": sorted(context.shutting_down),
        "topics_to_be_deleted": sorted(context.topics_to_be_deleted),
        "topics_with_deletion_started": sorted(context.topics_with_deletion_started),
        "topics_ineligible_for_deletion": sorted(context.topics_ineligible_for_deletion),
        "unclean_election_counter_increment": context.unclean_election_count - world.unclean_before,
    }
    failed = seen.of_kind(RefusalKind.FAILED_TRANSITION)
    out |= {
        "illegal_transitions": seen.of_kind(RefusalKind.ILLEGAL_TRANSITION),
        "failed_partitions": failed,
        "failed_replicas": failed,
        "failed_transitions": failed,
        "zk_writes": writes_of(seen.effects),
        "batch": batch_of(seen.batches),
        "requests": requests_of(seen.effects),
        "partitions_of_topic": {t: [str(p) for p in context.partitions_for_topic(t)] for t in world.topics},
        "replica_states_of_topic": {
            t: {f"{p}-{b}": s.value for p, entry in entries if p.topic == t for b, s in entry.replica_states}
            for t in world.topics
        },
    }
    return out | deletions_of(seen)


def deletions_of(seen: Recorded) -> Document:
    deleted = [effect.topic for effect in seen.effects if isinstance(effect, e.DeleteTopicNode)]
    dropped = [t for effect in seen.effects if isinstance(effect, e.DeleteTopicDeletions) for t in effect.topics]
    muted = [x for effect in seen.effects if isinstance(effect, e.Unwatch) for x in effect.names if _is_topic(effect)]
    updates = [
        sorted(
            str(p)
            for add in record.batch.adds()
            if not isinstance(add, AddStopReplica | AddLeaderAndIsr)
            for p in add.partitions
        )
        for record in seen.batches
        if record.batch.owner == "topic deletion"
    ]
    return {
        "deleted_topics": deleted,
        "muted_topics": muted,
        "discarded_deletion_requests": [topic for topic in dropped if topic not in deleted],
        "metadata_updates_sent": updates,
    }


def _is_topic(effect: e.Unwatch) -> bool:
    return effect.kind is e.WatchKind.TOPIC


def writes_of(effects: Iterable[e.Effect]) -> list[Document]:
    writes: list[Document] = []
    for effect in effects:
        if isinstance(effect, e.CreatePartitionStates | e.WritePartitionStates):
            created = isinstance(effect, e.CreatePartitionStates)
            for partition, state in effect.states:
                write: Document = {
                    "op": "create_state" if created else "update_state",
                    "partition": str(partition),
                    "leadership": leadership_record(state),
                    "expected_controller_epoch_zk_version": effect.controller_epoch_version,
                }
                writes.append(write if created else write | {"expected_zk_version": state.partition_epoch})
    return writes


def batch_of(records: Iterable[BatchRecord]) -> Document:
    own = [record for record in records if record.batch.owner != "topic deletion"]
    out: Document = {
        "new_batch_calls": len(own),
        "send_calls": sum(record.sent_with_controller_epoch is not None for record in own),
        "sent_with_controller_epoch": next(
            (r.sent_with_controller_epoch for r in reversed(own) if r.sent_with_controller_epoch is not None), None
        ),
        "add_leader_and_isr": [],
        "add_stop_replica": [],
        "add_update_metadata": [],
    }
    for add in (add for record in own for add in record.batch.adds()):
        if isinstance(add, AddLeaderAndIsr):
            out["add_leader_and_isr"].append(
                {
                    "brokers": list(add.brokers),
                    "partition": str(add.partition),
                    "leadership": leadership_record(add.leadership),
                    "assignment": assignment_record(add.assignment),
                    "is_new": add.is_new,
                }
            )
        elif isinstance(add, AddStopReplica):
            out["add_stop_replica"].append(
                {
                    "brokers": list(add.brokers),
                    "partition": str(add.partition),
                    "delete_partition": add.delete_partition,
                }
            )
        else:
            out["add_update_metadata"].append(
                {
                    "brokers": sorted(add.brokers),
                    "partitions": sorted(str(p) for p in add.partitions),
                }
            )
    return out


def requests_of(effects: Iterable[e.Effect]) -> Document:
    requests: dict[str, list[Document]] = defaultdict(list)
    for effect in effects:
        if isinstance(effect, e.SendLeaderAndIsr | e.SendUpdateMetadata | e.SendStopReplica):
            fields = request_fields(effect)
            if fields["api"] == "LeaderAndIsr":
                fields["topic_id"] = "present" if "topic_ids" in fields else "absent"
            requests[str(effect.broker)].append(fields)
    return dict(requests)
