"""Whether anybody uses a topic, as its cluster's brokers say: size, newest record, consumer groups, ACLs.

Asked before topics are deleted, and shown to whoever approves that. A group counts whose members read the topic, or whose
offsets of it Kafka still keeps (`offsets.retention.minutes` after its last member left: 7 days by default).
Source: Kafka protocol guide, DescribeLogDirs, ListOffsets, ListGroups, DescribeGroups, OffsetFetch, DescribeAcls; KIP-734 (newest
timestamp, Kafka 3.0); kafka-python `KafkaAdminClient`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from controller_core.model.partitions import TopicPartition
from controller_core.model.words import counted, first_names
from controller_core.plans.observation import Observation
from kafka_maintenance.operations.cluster.brokers_asked import ANSWER_TIMEOUT_S, BrokersAsked, admin_client, said
from kafka_maintenance.operations.errors import OperationError
from kafka_maintenance.operations.plans.sizes import sizes_from_log_dirs

UNUSED_DAYS = 30
"""How long nobody may have written to a topic that counts as unused."""
_SHOWN_MAX = 5


NOBODY_ASKED = (
    "The brokers were not asked whether these topics are used (no bootstrap servers were given): size, newest record, consumer "
    "groups and ACLs are not known."
)


class UseUnknownError(OperationError):
    """The brokers did not say whether a topic is used; nothing is planned on half of an answer."""


class GroupUse(NamedTuple):
    """A consumer group that reads the topic, or has committed offsets of it that Kafka still keeps."""

    name: str
    member_count: int
    has_offsets: bool


class TopicUse(NamedTuple):
    """What the brokers say of a topic.

    `byte_count` is that of one replica of each partition. `newest` is the time of the newest record, None where there is none
    or the brokers cannot say; `written_since` whether any record is younger than the days asked about. `acls` are those that
    match the topic, None where nobody may ask or the cluster has none.
    """

    byte_count: int
    newest: datetime | None
    written_since: bool
    groups: tuple[GroupUse, ...]
    acls: tuple[str, ...] | None


def ask_use(
    observed: Observation,
    topics: Iterable[str],
    brokers: BrokersAsked | None,
    *,
    unused_days: int = UNUSED_DAYS,
    now: datetime | None = None,
) -> dict[str, TopicUse]:
    """`use_of_topics` of those of `topics` that exist; empty where nobody is to be asked.

    Args:
        observed: the cluster as it was read.
        topics: their names.
        brokers: asked; None: nobody is.
        unused_days: written to within so many days is in use.
        now: the time for the record, UTC; None: the clock's.
    """
    counts = {topic: observed.topics[topic].partition_count for topic in topics if topic in observed.topics}
    return use_of_topics(brokers, counts, unused_days=unused_days, now=now) if brokers is not None and counts else {}


def use_of_topics(
    brokers: BrokersAsked,
    topics: Mapping[str, int],
    *,
    unused_days: int = UNUSED_DAYS,
    now: datetime | None = None,
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> dict[str, TopicUse]:
    """What the brokers say of `topics`, topic by topic.

    Args:
        brokers: who is asked.
        topics: topic → number of its partitions.
        unused_days: how far back a record counts as recent.
        now: the time, with zone; None: the clock's.
        timeout_s: how long one answer may take.

    Raises:
        UseUnknownError, SizesUnknownError: no broker answers, or one does not allow it.
        BadInputError: an argument that the client does not have.
    """
    from kafka.errors import KafkaError  # noqa: PLC0415 - only who asks brokers loads their client

    asked = f"use of {counted(len(topics), 'topic')} asked of the brokers at {brokers.bootstrap_servers}"
    since = (now or datetime.now(UTC)) - timedelta(days=unused_days)
    partitions_of = {topic: [TopicPartition(topic, number) for number in range(topics[topic])] for topic in topics}
    partitions = [*chain.from_iterable(partitions_of.values())]
    with admin_client(asked, brokers, timeout_s, UseUnknownError) as admin:
        try:
            newest, recent = _newest(admin, partitions), _written_since(admin, partitions, since)
            groups = _groups(admin, partitions)
            acls = {topic: _acls(admin, topic) for topic in topics}
        except (KafkaError, OSError) as error:
            raise UseUnknownError(
                f"{asked}: an answer expected, found: {said(error)}; allow this user to describe topics and groups, or plan "
                "without bootstrap servers"
            ) from error
    sizes = sizes_from_log_dirs(brokers, timeout_s=timeout_s)
    return {
        topic: TopicUse(
            byte_count=sum(sizes.get(each, 0) for each in own),
            newest=max((newest[each] for each in own if each in newest), default=None),
            written_since=not recent.isdisjoint(own),
            groups=tuple(sorted(groups.get(topic, ()))),
            acls=acls[topic],
        )
        for topic, own in partitions_of.items()
    }


def why_in_use(use: TopicUse, *, unused_days: int = UNUSED_DAYS) -> str:
    """Why the topic counts as used; empty where nothing says so."""
    living = [each.name for each in use.groups if each.member_count]
    kept = [each.name for each in use.groups if not each.member_count]
    found = []
    if living:
        found.append(f"members of {_named(living)} read it")
    if kept:
        found.append(f"{_named(kept)} committed offsets of it that are still kept")
    if use.written_since:
        found.append(f"was written to within {counted(unused_days, 'day')}{_at(use.newest)}")
    return "; ".join(found)


def in_words(use: TopicUse) -> str:
    """All that was found, for the person who approves."""
    newest = "no record whose time is known" if use.newest is None else f"newest record of {_when(use.newest)}"
    groups = [f"{each.name} ({each.member_count} members)" for each in use.groups]
    acls = "ACLs not known" if use.acls is None else f"ACLs: {first_names(use.acls, _SHOWN_MAX) or 'none'}"
    return f"{use.byte_count} bytes in one replica of each, {newest}, groups: {first_names(groups, _SHOWN_MAX) or 'none'}, {acls}"


def _newest(admin: Any, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, datetime]:
    """The time of the newest record of each partition that has one; nothing before Kafka 3.0."""
    from kafka.admin import OffsetSpec  # noqa: PLC0415 - as above
    from kafka.errors import IncompatibleBrokerVersion, UnsupportedVersionError  # noqa: PLC0415 - as above

    try:
        found = admin.list_partition_offsets({_client_side(each): OffsetSpec.MAX_TIMESTAMP for each in partitions})
    except (IncompatibleBrokerVersion, UnsupportedVersionError):
        return {}
    return {
        TopicPartition(each.topic, each.partition): datetime.fromtimestamp(entry.timestamp / 1000, UTC)
        for each, entry in found.items()
        if entry.timestamp >= 0
    }


def _written_since(admin: Any, partitions: Sequence[TopicPartition], since: datetime) -> set[TopicPartition]:
    """The partitions with a record of `since` or later."""
    milliseconds = int(since.timestamp() * 1000)
    found = admin.list_partition_offsets({_client_side(each): milliseconds for each in partitions})
    return {TopicPartition(each.topic, each.partition) for each, entry in found.items() if entry.offset >= 0}


def _groups(admin: Any, partitions: Sequence[TopicPartition]) -> dict[str, list[GroupUse]]:
    """Topic → the groups that read it, or have offsets of it."""
    names = [row["group_id"] for row in admin.list_groups() if row["protocol_type"] in {"consumer", ""}]
    wanted = {each.topic for each in partitions}
    described = admin.describe_groups(names) if names else {}
    found: dict[str, list[GroupUse]] = {topic: [] for topic in wanted}
    for name in names:
        read = [topic for member in described[name]["members"] for topic in set(_topics_of(member)) & wanted]
        offsets = admin.list_group_offsets({name: [_client_side(each) for each in partitions]})[name]
        kept = {each.topic for each, entry in offsets.items() if entry.offset >= 0}
        for topic in wanted & {*read, *kept}:
            found[topic].append(GroupUse(name, read.count(topic), topic in kept))
    return found


def _topics_of(member: Mapping[str, Any]) -> Iterator[str]:
    """The topics that a member of a group subscribed to, or was assigned."""
    subscription, assignment = member["member_metadata"], member["member_assignment"]
    if isinstance(subscription, Mapping):
        yield from subscription["topics"]
    if isinstance(assignment, Mapping):
        yield from (row["topic"] for row in assignment["assigned_partitions"])


def _acls(admin: Any, topic: str) -> tuple[str, ...] | None:
    from kafka import admin as kafka_admin  # noqa: PLC0415 - as above
    from kafka.errors import AuthorizationError, SecurityDisabledError, UnsupportedVersionError  # noqa: PLC0415 - as above

    pattern = kafka_admin.ResourcePatternFilter(
        kafka_admin.ResourceType.TOPIC, topic, kafka_admin.ACLResourcePatternType.MATCH
    )
    wanted = kafka_admin.ACLFilter(None, None, kafka_admin.ACLOperation.ANY, kafka_admin.ACLPermissionType.ANY, pattern)
    try:
        found, _ = admin.describe_acls(wanted)
    except (AuthorizationError, SecurityDisabledError, UnsupportedVersionError):
        return None  # this user may not look, or there is no authorizer, or the brokers are older than 0.11
    return tuple(
        sorted(f"{each.principal} {each.permission_type.name} {each.operation.name} from {each.host}" for each in found)
    )


def _client_side(partition: TopicPartition) -> Any:
    from kafka import TopicPartition as ClientPartition  # noqa: PLC0415 - as above

    return ClientPartition(partition.topic, partition.partition)


def _named(groups: Sequence[str]) -> str:
    return f"group{'s' if len(groups) > 1 else ''} {first_names(groups, _SHOWN_MAX)}"


def _at(newest: datetime | None) -> str:
    return "" if newest is None else f", at {_when(newest)} last"


def _when(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
