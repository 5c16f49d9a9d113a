"""What must hold before a step of a plan is taken, and what must hold afterwards: data; `checks` has the one check of each.

In a stored plan a condition is an object of its fields, with its name as `condition`; a field that is as by default is not written.
Source: docs/operations.md, "The plan" and "Applying"; docs/adr/0020.
"""

from collections.abc import Iterable
from typing import assert_never

from msgspec import Struct

from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.plans.document import PartitionRow


class _Stored(Struct, frozen=True, tag_field="condition", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A condition as a stored plan has it; a plan has hundreds of thousands of them."""


class _OfPartition(PartitionRow, frozen=True, tag_field="condition", omit_defaults=True):
    """What is about one partition: `AssignedTo(*partition, replicas=…)`."""


class KafkaClusterIs(_Stored, frozen=True, kw_only=True):
    """`/cluster/id` names this cluster."""

    cluster_id: str


class ZooKeeperControllerRules(_Stored, frozen=True, kw_only=True):
    """A registered broker holds `/controller` in ZooKeeper mode, and no migration to KRaft has begun."""


class ControllerIs(_Stored, frozen=True, kw_only=True):
    """The same active controller: `/controller` with this id and czxid, `/controller_epoch` with this value and version."""

    controller_id: BrokerId
    czxid: int
    epoch: int
    epoch_version: int


class ElectedAfter(_Stored, frozen=True, kw_only=True):
    """A registered broker holds `/controller`, and `/controller_epoch` is above `epoch`."""

    epoch: int


class BrokersRegistered(_Stored, frozen=True, kw_only=True):
    """These brokers are in `/brokers/ids`."""

    brokers: tuple[BrokerId, ...]


class BrokerInRack(_Stored, frozen=True, kw_only=True):
    """The broker, where it is registered, is in this rack."""

    broker: BrokerId
    rack: str


class TopicIs(_Stored, frozen=True, kw_only=True):
    """The topic is the one that was planned for: not deleted, not created again, no partition more."""

    topic: str
    czxid: int
    partition_count: int


class TopicGone(_Stored, frozen=True, kw_only=True):
    """No topic of this name with this czxid exists, and none is queued for deletion; a new namesake does not count."""

    topic: str
    czxid: int


class TopicNotQueued(_Stored, frozen=True, kw_only=True):
    """The topic is not in `/admin/delete_topics`."""

    topic: str


class TopicCreatedAt(_Stored, frozen=True, kw_only=True):
    """The topic is the one that was planned for, whatever partitions it got since; a namesake is not."""

    topic: str
    czxid: int


class TopicNotReassigned(_Stored, frozen=True, kw_only=True):
    """No partition of the topic adds or removes replicas, and none stands in `/admin/reassign_partitions`."""

    topic: str


class TopicNotInElection(_Stored, frozen=True, kw_only=True):
    """No partition of the topic stands in `/admin/preferred_replica_election`."""

    topic: str


class HasLiveLeader(_OfPartition, frozen=True, kw_only=True):
    """The partition is led by a registered broker."""


class AssignedTo(_OfPartition, frozen=True, kw_only=True):
    """The partition has exactly these replicas, in this order; with `adding` or `removing` it is being reassigned just so, else not at all."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        """Whether it adds or removes replicas."""
        return bool(self.adding or self.removing)

    @property
    def assignment(self) -> ReplicaAssignment:
        """All three lists."""
        return ReplicaAssignment(self.replicas, self.adding, self.removing)


class InSync(_OfPartition, frozen=True, kw_only=True):
    """The ISR consists of exactly these brokers, in any order; `leader` leads (-1: nobody)."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]


class CaughtUp(_OfPartition, frozen=True, kw_only=True):
    """All of these brokers are in the ISR."""

    replicas: tuple[BrokerId, ...]


class LedBy(_OfPartition, frozen=True, kw_only=True):
    """This broker leads the partition."""

    leader: BrokerId


class RequestAbsent(_Stored, frozen=True, kw_only=True):
    """No request znode stands at this path."""

    path: str


class RequestAbandoned(_Stored, frozen=True, kw_only=True):
    """The request znode at this path names only partitions that are gone, so that no active controller finishes it."""

    path: str


class RequestIdle(_Stored, frozen=True, kw_only=True):
    """The request znode at this path is still the one created at this czxid, and the controller moves nothing of what it names."""

    path: str
    czxid: int


class NotificationsLinger(_Stored, frozen=True, kw_only=True):
    """At least one of these children of `/isr_change_notification` is still there."""

    names: tuple[str, ...]


class NotificationsGone(_Stored, frozen=True, kw_only=True):
    """None of these children of `/isr_change_notification` is there any more; later ones do not count."""

    names: tuple[str, ...]


class StateReadable(_OfPartition, frozen=True, kw_only=True):
    """The partition's `state` znode is there and can be read, or its topic is gone."""


Condition = (
    KafkaClusterIs
    | ZooKeeperControllerRules
    | ControllerIs
    | ElectedAfter
    | BrokersRegistered
    | BrokerInRack
    | TopicIs
    | TopicGone
    | TopicNotQueued
    | TopicCreatedAt
    | TopicNotReassigned
    | TopicNotInElection
    | AssignedTo
    | InSync
    | CaughtUp
    | LedBy
    | HasLiveLeader
    | RequestAbsent
    | RequestAbandoned
    | RequestIdle
    | NotificationsLinger
    | NotificationsGone
    | StateReadable
)


def subject(condition: Condition) -> str:
    """What the condition is about: a partition, a topic, a path or the cluster, as text."""
    match condition:
        case AssignedTo() | InSync() | CaughtUp() | LedBy() | HasLiveLeader() | StateReadable():
            return str(condition.partition)
        case (
            TopicIs() | TopicCreatedAt() | TopicGone() | TopicNotQueued() | TopicNotReassigned() | TopicNotInElection()
        ):
            return f"topic {condition.topic}"
        case KafkaClusterIs():
            return "/cluster/id"
        case ZooKeeperControllerRules() | ControllerIs() | ElectedAfter():
            return "/controller"
        case BrokersRegistered():
            return "/brokers/ids"
        case BrokerInRack():
            return f"/brokers/ids/{condition.broker}"
        case RequestAbsent(path=path) | RequestAbandoned(path=path) | RequestIdle(path=path):
            return path
        case NotificationsLinger() | NotificationsGone():
            return "/isr_change_notification"
        case _:
            assert_never(condition)


def named_partitions(conditions: Iterable[Condition]) -> frozenset[TopicPartition]:
    """The partitions that the conditions are about."""
    about = (AssignedTo, InSync, CaughtUp, LedBy, HasLiveLeader, StateReadable)
    return frozenset(condition.partition for condition in conditions if isinstance(condition, about))


def named_topics(conditions: Iterable[Condition]) -> frozenset[str]:
    """The topics that the conditions are about; not those of partitions."""
    about = (TopicIs, TopicCreatedAt, TopicGone, TopicNotQueued, TopicNotReassigned, TopicNotInElection)
    return frozenset(condition.topic for condition in conditions if isinstance(condition, about))
