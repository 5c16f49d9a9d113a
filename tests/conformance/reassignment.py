"""Operations of the conformance contract on reassignments: one run, a resumed run, the whole walk, a cancellation."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from controller_core.controller.reassignment.kip_455 import OnPartitionReassignment
from controller_core.engine.batch import AddLeaderAndIsr, AddStopReplica
from controller_core.messages import answers, events
from controller_core.messages import effects as e
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import ReplicaState
from tests.conformance.vector import (
    Document,
    Operation,
    Vector,
    assignment_of,
    assignment_record,
    brokers_of,
    partition_of,
)
from tests.conformance.world import World, report


def _world(vector: Vector, partition: TopicPartition) -> World:
    world = World(vector.given, vector.controller_dialect)
    if "isr_in_zk" in vector.given:
        state = world.zk.state(partition)
        if state is not None:
            world.zk.put(partition, state._replace(isr=brokers_of(vector.given["isr_in_zk"])))
    return world


def reassign(vector: Vector) -> Document:
    partition, target = partition_of(vector.action["partition"]), brokers_of(vector.action["target"])
    world = _world(vector, partition)
    before, isr = world.context, _isr(world, partition)
    world.unscripted.targets = {partition: target}
    world.command(events.ReassignmentRequested())
    return _run_report(world, partition, before, all_in_isr=set(target) <= isr)


def resume_reassignment(vector: Vector) -> Document:
    partition = partition_of(vector.action["partition"])
    world = _world(vector, partition)
    before, isr = world.context, _isr(world, partition)
    assignment = before.full_assignment(partition)
    world.perform(OnPartitionReassignment(partition, assignment))
    return _run_report(world, partition, before, all_in_isr=set(assignment.target) <= isr)


def _isr(world: World, partition: TopicPartition) -> set[BrokerId]:
    state = world.zk.state(partition)
    return set() if state is None else set(state.isr)


def _run_report(world: World, partition: TopicPartition, before: Any, *, all_in_isr: bool) -> Document:
    context = world.context
    known = before.leadership(partition)
    state = context.leadership(partition)
    new: list[int] = []
    for broker, found in context.entry(partition).replica_states:
        if found is ReplicaState.NEW and (broker, found) not in before.entry(partition).replica_states:
            new.append(broker)
    is_new: dict[str, bool] = defaultdict(bool)
    deleted: list[str] = []
    for add in (add for record in world.seen.batches for add in record.batch.adds()):
        if isinstance(add, AddLeaderAndIsr):
            for broker in add.brokers:
                is_new[str(broker)] |= add.is_new
        elif isinstance(add, AddStopReplica) and add.delete_partition:
            deleted += [f"{add.partition}-{broker}" for broker in add.brokers]
    requested = world.unscripted.targets
    refused = any(refusal.kind is RefusalKind.INVALID_REQUEST for refusal in world.seen.refusals)
    out = report(world) | {
        "refused": refused,
        "complete": not refused and partition not in context.partitions_under_reassignment(),
        "all_target_in_isr": all_in_isr,
        "assignment": list(context.assignment(partition)),
        "new_replicas": sorted(new),
        "stopped_and_deleted_replicas": deleted,
        "leader_and_isr_is_new": dict(is_new),
        "request_node_entry_removed": requested is None or partition not in requested,
        "request_node_deleted_when_last": requested is None,
    }
    if state is not None:
        out |= {"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": list(state.isr)}
        out["leader_epoch_increase"] = state.leader_epoch - (0 if known is None else known.leader_epoch)
    if world.moved:
        out["error"] = "ControllerMoved"
    return out


def cancel_reassignment(vector: Vector) -> Document:
    before = assignment_of(vector.given["assignment"])
    after = before.reassign_to(before.origin)
    stopped = [broker for broker in before.replicas if broker not in after.replicas]
    return {"assignment": assignment_record(after), "stopped_and_deleted_replicas": stopped}


class _Walk(World):
    """Notes every row that ZooKeeper passes through."""

    def __init__(self, vector: Vector, partition: TopicPartition) -> None:
        super().__init__(vector.given, vector.controller_dialect)
        self.partition = partition
        self.assignment = self.context.assignment(partition)
        self.rows: list[tuple[tuple[BrokerId, ...], int, tuple[BrokerId, ...]]] = []
        self.note()

    def note(self) -> None:
        state = self.zk.state(self.partition)
        assert state is not None
        row = (self.assignment, state.leader, state.isr)
        if self.rows and row == self.rows[-1]:
            return
        if len(self.rows) > 1 and self._shrinks(self.rows[-2], self.rows[-1]) and self._shrinks(self.rows[-1], row):
            self.rows.pop()
        self.rows.append(row)

    @staticmethod
    def _shrinks(before: Any, after: Any) -> bool:
        return before[:2] == after[:2] and set(after[2]) < set(before[2])

    def answer(self, effect: e.AnsweredEffect) -> answers.Answer:
        answer = super().answer(effect)
        if isinstance(effect, e.WriteTopicAssignment) and effect.topic == self.partition.topic:
            self.assignment = dict(effect.assignments)[self.partition.partition].replicas
        self.note()
        return answer

    def catch_up(self) -> None:
        """Every replica is in the ISR, and the controller learns of it as the version does."""
        state = self.zk.state(self.partition)
        assert state is not None
        missing = tuple(broker for broker in self.assignment if broker not in state.isr)
        isr = (*state.isr, *missing)
        if self.context.dialect.isr_through_controller:
            change = events.IsrChange(self.partition, state.leader_epoch, state.partition_epoch, isr, state.recovery)
            epoch = self.context.brokers[state.leader].epoch
            self.command(events.AlterPartition(state.leader, epoch, (change,)))
        else:
            self.zk.put(self.partition, state._replace(isr=isr, partition_epoch=state.partition_epoch + 1))
            self.note()
            self.command(events.PartitionStateChanged(self.partition))


def reassign_walk(vector: Vector) -> Document:
    partition, target = partition_of(vector.action["partition"]), brokers_of(vector.action["target"])
    walk = _Walk(vector, partition)
    walk.unscripted.targets = {partition: target}
    walk.command(events.ReassignmentRequested())
    if partition in walk.context.partitions_under_reassignment():
        walk.catch_up()
    rows = [{"assignment": list(a), "leader": leader, "isr": list(isr)} for a, leader, isr in walk.rows]
    return {"zk_rows": rows}


OPS: dict[str, Operation] = {
    "reassign": reassign,
    "resume_reassignment": resume_reassignment,
    "reassign_walk": reassign_walk,
    "cancel_reassignment": cancel_reassignment,
}
