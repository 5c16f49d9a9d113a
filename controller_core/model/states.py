"""Partition and replica states, and which transitions are legal.

Source: Kafka 3.9 `PartitionState`, `ReplicaState`.
"""

from collections.abc import Mapping
from enum import Enum


class PartitionState(Enum):
    """The four states of a partition, by Kafka's names."""

    __hash__ = object.__hash__  # members are singletons; Enum's own hash of the name costs in hot loops

    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    NON_EXISTENT = "NonExistentPartition"


class ReplicaState(Enum):
    """The seven states of a replica, by Kafka's names."""

    __hash__ = object.__hash__

    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    NON_EXISTENT = "NonExistentReplica"


_P = PartitionState
_R = ReplicaState

VALID_PREVIOUS_PARTITION_STATES: Mapping[PartitionState, frozenset[PartitionState]] = {
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
}

VALID_PREVIOUS_REPLICA_STATES: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.DELETION_STARTED, _R.OFFLINE}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}
"""The table since Kafka 2.3; before, Offline → Ineligible is illegal (`Dialect.ineligible_from_offline`)."""


def previous_replica_states(target: ReplicaState, *, ineligible_from_offline: bool) -> frozenset[ReplicaState]:
    """States from which a replica may go to `target`, with the one cell that Kafka 2.3 added."""
    previous = VALID_PREVIOUS_REPLICA_STATES[target]
    if target is _R.DELETION_INELIGIBLE and not ineligible_from_offline:
        return previous - {_R.OFFLINE}
    return previous
