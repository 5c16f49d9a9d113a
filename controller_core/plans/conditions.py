"""What must hold before a step of a plan is taken, and what must hold afterwards: data; `checks` has the one check of each.

Source: docs/operations.md, "The plan" and "Applying".
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from operator import methodcaller
from typing import Any, Final, assert_never

from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.plans.fields import PlanFields


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaClusterIs:
    """`/cluster/id` names this cluster."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperControllerRules:
    """A registered broker holds `/controller` in ZooKeeper mode, and no migration to KRaft has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerIs:
    """The same active controller: `/controller` with this id and czxid, `/controller_epoch` with this value and version."""

    controller_id: BrokerId
    czxid: int
    epoch: int
    epoch_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedAfter:
    """A registered broker holds `/controller`, and `/controller_epoch` is above `epoch`."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersRegistered:
    """These brokers are in `/brokers/ids`."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIs:
    """The topic is the one that was planned for: not deleted, not created again, no partition more."""

    topic: str
    czxid: int
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGone:
    """No topic of this name with this czxid exists, and none is queued for deletion; a new namesake does not count."""

    topic: str
    czxid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNotQueued:
    """The topic is not in `/admin/delete_topics`."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreatedAt:
    """The topic is the one that was planned for, whatever partitions it got since; a namesake is not."""

    topic: str
    czxid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNotReassigned:
    """No partition of the topic adds or removes replicas, and none stands in `/admin/reassign_partitions`."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNotInElection:
    """No partition of the topic stands in `/admin/preferred_replica_election`."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HasLiveLeader:
    """The partition is led by a registered broker."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTo:
    """The partition has exactly these replicas, in this order; with `adding` or `removing` it is being reassigned just so, else not at all."""

    partition: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def assignment(self) -> ReplicaAssignment:
        """All three lists."""
        return ReplicaAssignment(self.replicas, self.adding, self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class InSync:
    """The ISR consists of exactly these brokers, in any order; `leader` leads (-1: nobody)."""

    partition: TopicPartition
    leader: BrokerId
    isr: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """All of these brokers are in the ISR."""

    partition: TopicPartition
    replicas: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedBy:
    """This broker leads the partition."""

    partition: TopicPartition
    leader: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAbsent:
    """No request znode stands at this path."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAbandoned:
    """The request znode at this path names only partitions that are gone, so that no active controller finishes it."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestIdle:
    """The request znode at this path is still the one created at this czxid, and the controller moves nothing of what it names."""

    path: str
    czxid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationsLinger:
    """At least one of these children of `/isr_change_notification` is still there."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationsGone:
    """None of these children of `/isr_change_notification` is there any more; later ones do not count."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReadable:
    """The partition's `state` znode is there and can be read, or its topic is gone."""

    partition: TopicPartition


Condition = (
    KafkaClusterIs
    | ZooKeeperControllerRules
    | ControllerIs
    | ElectedAfter
    | BrokersRegistered
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


def condition_to_json(condition: Condition) -> dict[str, object]:
    """The condition as a JSON object; `condition_from_json` reads it back.

    What is as it is by default is not written: a plan of an older version keeps its digest.
    """
    kind = type(condition).__name__
    row: dict[str, object] = {"condition": kind}
    for name, default in _FIELDS[kind].items():
        value = getattr(condition, name)
        if name == "partition":
            row["topic"], row["partition"] = value
        elif value != default:
            row[name] = list(value) if type(value) is tuple else value
    return row


def condition_from_json(row: PlanFields) -> Condition:
    """The condition that `condition_to_json` wrote.

    Raises:
        InvalidPlanError: another shape; names the field and what was found.
    """
    name = row.text("condition")
    kind = _KINDS.get(name)
    if kind is None:
        raise row.refused("condition", "a condition that this version knows", name)
    given = {
        field: _READERS[field](row)
        for field, default in _FIELDS[name].items()
        if default is MISSING or field in row.values
    }
    condition: Condition = kind(**given)
    return condition


_KINDS: Final[Mapping[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        *(KafkaClusterIs, ZooKeeperControllerRules, ControllerIs, ElectedAfter, BrokersRegistered),
        *(RequestAbsent, RequestAbandoned, RequestIdle),
        *(TopicIs, TopicCreatedAt, TopicGone, TopicNotQueued, TopicNotReassigned, TopicNotInElection),
        *(AssignedTo, InSync, CaughtUp, LedBy, HasLiveLeader, StateReadable),
        *(NotificationsLinger, NotificationsGone),
    )
}
_FIELDS: Final = {name: {each.name: each.default for each in fields(kind)} for name, kind in _KINDS.items()}
"""Condition → its fields with their defaults, `MISSING` where there is none: a plan has hundreds of thousands of them."""
_READERS: Final[Mapping[str, Callable[[PlanFields], object]]] = {
    "partition": PlanFields.partition,
    **{name: methodcaller("text", name) for name in ("cluster_id", "topic", "path")},
    **{
        name: methodcaller("integer", name)
        for name in ("controller_id", "czxid", "epoch", "epoch_version", "partition_count", "leader")
    },
    **{name: methodcaller("brokers", name) for name in ("brokers", "replicas", "isr", "adding", "removing")},
    "names": methodcaller("texts", "names"),
}
