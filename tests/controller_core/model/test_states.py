"""The transition tables, drawn a second time by hand: a forbidden cell is tested like an allowed one."""

import pytest

from controller_core.context.partition_entries import with_replica_state
from controller_core.controller.elections import OFFLINE
from controller_core.controller.partition_state_machine import ChangePartitionStates
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.model.partitions import BrokerId, PartitionAndReplica
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState, ReplicaState
from tests.controller_core.clusters import cluster, partition, perform

PARTITIONS = """
from \\ to     NonExistent  New  Online  Offline
NonExistent    .            x    .       .
New            .            .    x       x
Online         .            .    x       x
Offline        x            .    x       x
"""
REPLICAS = """
from \\ to    NonExistent  New  Online  Offline  Started  Successful  Ineligible
NonExistent   .            x    .       .        .        .           .
New           .            .    x       x        .        .           .
Online        .            .    x       x        .        .           .
Offline       .            .    x       x        x        .           2.3
Started       .            .    .       .        .        x           x
Successful    x            .    .       .        .        .           .
Ineligible    .            .    x       x        .        .           .
"""
P, R = PartitionState, ReplicaState
PARTITION_STATES = {"NonExistent": P.NON_EXISTENT, "New": P.NEW, "Online": P.ONLINE, "Offline": P.OFFLINE}
REPLICA_STATES = {
    "NonExistent": R.NON_EXISTENT, "New": R.NEW, "Online": R.ONLINE, "Offline": R.OFFLINE, "Started": R.DELETION_STARTED,
    "Successful": R.DELETION_SUCCESSFUL, "Ineligible": R.DELETION_INELIGIBLE,
}  # fmt: skip
ONE = PartitionAndReplica(partition("t-0"), BrokerId(2))


def cells(drawn):
    head, *lines = drawn.strip().splitlines()
    targets = head.split()[3:]
    for line in lines:
        origin, *marks = line.split()
        for target, mark in zip(targets, marks, strict=True):
            yield pytest.param(origin, target, mark, id=f"{origin} to {target}")


@pytest.mark.parametrize(("origin", "target", "mark"), cells(PARTITIONS))
def test_a_partition_changes_as_drawn(origin, target, mark):
    context = cluster({"t-0": (1, 2)}).with_entry(partition("t-0"), state=PARTITION_STATES[origin])
    found = perform(context, ChangePartitionStates((partition("t-0"),), PARTITION_STATES[target], OFFLINE))
    refused = [r for r in found.refusals if r.kind is RefusalKind.ILLEGAL_TRANSITION]
    assert bool(refused) is (mark == ".")
    if refused:
        assert found.context.partition_state(partition("t-0")) is PARTITION_STATES[origin]


@pytest.mark.parametrize("version", ["2.2", "2.3", "3.9"])
@pytest.mark.parametrize(("origin", "target", "mark"), cells(REPLICAS))
def test_a_replica_changes_as_drawn(origin, target, mark, version):
    context = cluster({"t-0": (1, 2)}, version=version)
    states = with_replica_state((), BrokerId(2), REPLICA_STATES[origin])
    context = context.with_entry(partition("t-0"), replica_states=states)
    found = perform(context, ChangeReplicaStates((ONE,), REPLICA_STATES[target]))
    legal = mark == "x" or (mark == "2.3" and version != "2.2")
    refused = [r for r in found.refusals if r.kind is RefusalKind.ILLEGAL_TRANSITION]
    assert bool(refused) is not legal
    if refused:
        assert found.context.replica_state(ONE) is REPLICA_STATES[origin]
