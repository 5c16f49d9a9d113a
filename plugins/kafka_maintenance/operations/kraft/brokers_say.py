"""What brokers answer their clients while ZooKeeper and the quorum both live, against the tree: topics, their ids, replicas, leaders.

Nothing is changed. Source: Kafka protocol guide, Metadata; kafka-python `KafkaAdminClient.describe_topics`; docs/kraft.md, "Watch".
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from controller_core.model.words import counted
from kafka_maintenance.operations.cluster.brokers_asked import ANSWER_TIMEOUT_S, BrokersAsked, admin_client, said
from kafka_maintenance.operations.kraft.asked import NoBrokerAnsweredError
from spark_jobs.kraft.tree import Tree

_NO_ID: Final = UUID(int=0)


class Told(NamedTuple):
    """What clients are told of one partition; leader -1: none."""

    leader: int
    replicas: tuple[int, ...]


class Topic(NamedTuple):
    """What clients are told of a topic. `id` as ZooKeeper writes it; None where the broker names none."""

    id: str | None
    partitions: Mapping[int, Told]


def ask_topics(brokers: BrokersAsked) -> Mapping[str, Topic]:
    """Name → what a broker tells its clients of the topic.

    Raises:
        NoBrokerAnsweredError: there is none.
        BadInputError: an argument that the client does not have.
    """
    from kafka.errors import KafkaError  # noqa: PLC0415 - only who asks brokers loads their client

    asked = f"topics asked of the brokers at {brokers.bootstrap_servers}"
    with admin_client(asked, brokers, ANSWER_TIMEOUT_S, NoBrokerAnsweredError) as admin:
        silent: list[str] = []
        for broker in sorted(each.node_id for each in admin._manager.cluster.brokers()):  # noqa: SLF001 - as in `described_by`
            try:
                described = described_by(admin, broker)
            except (KafkaError, OSError) as error:  # one is restarted while brokers are rolled
                silent.append(f"{broker}: {said(error)}")
                continue
            return {each["name"]: Topic(_id_of(each.get("topic_id")), _partitions_of(each)) for each in described}
    raise NoBrokerAnsweredError(f"{asked}: expected their metadata, found {'; '.join(silent)}; are the brokers up?")


def described_by(admin: Any, broker: int) -> list[Mapping[str, Any]]:
    """Every topic as exactly this broker describes it to clients. Errors: those of the client."""
    from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415 - only who asks brokers loads their client

    async def ask() -> Any:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return await admin._manager.send(request, node_id=broker)  # noqa: SLF001 - `describe_topics` would ask any broker

    found: list[Mapping[str, Any]] = admin._manager.run(ask).to_dict()["topics"]  # noqa: SLF001 - as above
    return found


def contradictions(tree: Tree, told: Mapping[str, Topic]) -> Iterator[str]:
    """Where brokers and ZooKeeper say different things of a topic. Each may only be late: what counts stands twice."""
    for name in sorted(tree.topics.keys() | told.keys()):
        topic, there = tree.topics.get(name), told.get(name)
        if name in tree.queued or isinstance(topic, str):
            continue
        if topic is None or there is None:
            yield f"{name}: only {'the brokers tell' if topic is None else 'ZooKeeper knows'} of it"
            continue
        if topic.topic_id and there.id and topic.topic_id.rstrip("=") != there.id:
            yield f"{name}: id {topic.topic_id} in ZooKeeper, {there.id} on the brokers"
        for number in sorted(topic.assignments.keys() | there.partitions.keys()):
            assigned, partition = topic.assignments.get(number), there.partitions.get(number)
            if assigned is None or partition is None:
                where = "the brokers tell" if assigned is None else "ZooKeeper knows"
                yield f"{name}-{number}: only {where} of it"
                continue
            if tuple(assigned.replicas) != partition.replicas:
                yield f"{name}-{number}: replicas {list(assigned.replicas)} in ZooKeeper, {list(partition.replicas)} on the brokers"
            state = tree.state(name, number)
            if state is not None and state.leader != partition.leader:
                yield f"{name}-{number}: leader {state.leader} in ZooKeeper, {partition.leader} on the brokers"


def cut_off(tree: Tree, told: Mapping[str, Topic]) -> str | None:
    """Why clients are without their topics: the quorum rules, and serves none of those of the tree; None where they are not."""
    wanted = [name for name, topic in tree.topics.items() if not isinstance(topic, str) and name not in tree.queued]
    if not wanted or told.keys() & set(wanted):
        return None
    return f"the brokers tell clients of none of {counted(len(wanted), 'topic')}: nothing can be produced or consumed"


def _id_of(value: object) -> str | None:
    found = UUID(str(value)) if value else _NO_ID
    return None if found == _NO_ID else urlsafe_b64encode(found.bytes).decode().rstrip("=")


def _partitions_of(topic: Mapping[str, Any]) -> Mapping[int, Told]:
    return {
        each["partition_index"]: Told(each["leader_id"], tuple(each["replica_nodes"])) for each in topic["partitions"]
    }
