"""A step in the words of Kafka's `state-change.log`, which operators read and search.

Source: Kafka 3.9 `StateChangeLogger`, `ZkPartitionStateMachine`, `ZkReplicaStateMachine`, `LeaderIsrAndControllerEpoch`. An ISR is
written as until Kafka 3.2, as ids without broker epochs. Kafka has the line on a replica that left the ISR since a version after
2.4.1 (2.8.2 has it); here every version has it.
"""

from collections.abc import Iterator
from typing import assert_never

from controller_core.context.partition_entries import PartitionEntry
from controller_core.controller.step import Step
from controller_core.engine.state_changes import StateChange
from controller_core.model.partitions import NO_ASSIGNMENT, BrokerId, PartitionAndReplica, TopicPartition
from controller_core.model.refusals import Refusal, RefusalKind
from controller_core.model.states import PartitionState, ReplicaState

_FAILURES = frozenset({RefusalKind.ILLEGAL_TRANSITION, RefusalKind.FAILED_TRANSITION})


def state_change_log(step: Step) -> Iterator[str]:
    """The lines of one step, without their time: its transitions in order, then what failed."""
    context = step.context
    prefix = f"[Controller id={context.config.controller_id} epoch={context.epoch}]"
    for change in step.transitions:
        yield f"{prefix} {_line(change)}"
    for refusal in step.refusals:
        if refusal.kind in _FAILURES:
            yield f"{prefix} Controller {context.config.controller_id} epoch {context.epoch} {_failure(refusal)}"


def _line(change: StateChange) -> str:
    subject = change.subject
    if isinstance(subject, PartitionAndReplica):
        return (
            f"Changed state of replica {subject.replica} for partition {subject.partition} "
            f"from {change.before.value} to {change.after.value}"
        )
    if change.left_isr is not None:
        return (
            f"Partition {subject} state changed to {_with_epoch(change.entry)} after removing replica {change.left_isr} "
            f"from the ISR as part of transition to {ReplicaState.OFFLINE.value}"
        )
    return _partition_line(subject, change)


def _partition_line(partition: TopicPartition, change: StateChange) -> str:
    before, after, entry = change.before.value, change.after, change.entry
    assert isinstance(after, PartitionState), f"{partition} cannot be {after}"
    match after:
        case PartitionState.NEW:
            replicas = (entry.assignment or NO_ASSIGNMENT).replicas
            return f"Changed partition {partition} state from {before} to {after.value} with assigned replicas {_ids(replicas)}"
        case PartitionState.ONLINE:
            return f"Changed partition {partition} from {before} to {after.value} with state {_leader_and_isr(entry)}"
        case PartitionState.OFFLINE | PartitionState.NON_EXISTENT:
            return f"Changed partition {partition} state from {before} to {after.value}"
        case _:
            assert_never(after)


def _failure(refusal: Refusal) -> str:
    subject = refusal.subject
    if isinstance(subject, PartitionAndReplica):
        what = f"failed to change state of replica {subject.replica} for partition {subject.partition}"
    else:
        what = f"failed to change state for partition {subject}"
    return f"{what}: {refusal.reason}"


def _leader_and_isr(entry: PartitionEntry) -> str:
    state = entry.leadership
    assert state is not None, "a partition is online without leadership"
    isr = ", ".join(map(str, state.isr))
    return (
        f"LeaderAndIsr(leader={state.leader}, leaderEpoch={state.leader_epoch}, isr=List({isr}), "
        f"leaderRecoveryState={state.recovery.name}, partitionEpoch={state.partition_epoch})"
    )


def _with_epoch(entry: PartitionEntry) -> str:
    state = entry.leadership
    assert state is not None, "a replica left the ISR of a partition without leadership"
    return (
        f"(Leader:{state.leader},ISR:{_ids(state.isr)},LeaderRecoveryState:{state.recovery.name},"
        f"LeaderEpoch:{state.leader_epoch},ZkVersion:{state.partition_epoch},ControllerEpoch:{state.controller_epoch})"
    )


def _ids(brokers: tuple[BrokerId, ...]) -> str:
    return ",".join(map(str, brokers))
