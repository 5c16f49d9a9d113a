"""Topics and partition states in ZooKeeper.

Source: Kafka 3.9 `KafkaZkClient`: `updateLeaderAndIsr`, `createTopicPartitionStatesRaw`, `setTopicAssignment`, …;
`ReplicationUtils.updateLeaderAndIsr`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from controller_core.messages.answers import BAD_VERSION
from controller_core.model.errors import MalformedZnodeError, ZooKeeperError
from controller_core.model.partitions import LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION, Set, ZnodeStat
from controller_core.runtime.kafka_zk.base import OK, KafkaZkBase, code_of
from controller_core.znodes import (
    TOPICS,
    TopicZnode,
    config_path,
    decode_config,
    decode_state,
    decode_topic,
    encode_state,
    encode_topic,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)


class StatesSet(NamedTuple):
    """Result code of each write, and the new version of those that happened."""

    codes: dict[TopicPartition, str]
    versions: dict[TopicPartition, int]


class StatesUpdated(NamedTuple):
    """Written (with the new version), lost to somebody faster, and failed with a result code."""

    updated: dict[TopicPartition, LeaderAndIsr]
    retry: tuple[TopicPartition, ...]
    failed: dict[TopicPartition, str]


class PartitionZnodes(KafkaZkBase):
    """`/brokers/topics` and all below it, and the overrides of topics."""

    # ---- states ----

    def get_states(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, LeaderAndIsr], dict[TopicPartition, MalformedZnodeError]]:
        """The states that exist and can be read, and what is wrong with those that cannot."""
        states: dict[TopicPartition, LeaderAndIsr] = {}
        problems: dict[TopicPartition, MalformedZnodeError] = {}
        paths = [state_path(partition) for partition in partitions]
        for partition, path, found in zip(partitions, paths, self.zookeeper.get_many(paths), strict=True):
            if found is None:
                continue
            data, stat = found
            try:
                states[partition] = decode_state(data, path=path, version=stat.version)
            except MalformedZnodeError as error:
                problems[partition] = error
        return states, problems

    def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr], epoch_version: int | None
    ) -> dict[TopicPartition, str]:
        """Create state znodes with their parents; a result code for each, NODEEXISTS where somebody was faster.

        Raises:
            ControllerMovedError: `/controller_epoch` has another version.
        """
        topics = dict.fromkeys(partition.topic for partition in states)
        self.create_codes([(partitions_path(topic), b"") for topic in topics], epoch_version)
        self.create_codes([(partition_path(partition), b"") for partition in states], epoch_version)
        codes = self.create_codes(
            [(state_path(partition), encode_state(state)) for partition, state in states.items()], epoch_version
        )
        return dict(zip(states, codes, strict=True))

    def set_states(self, states: Mapping[TopicPartition, LeaderAndIsr], epoch_version: int | None) -> StatesSet:
        """Compare-and-set of state znodes, each at its `partition_epoch`."""
        writes = [
            [Set(path=state_path(partition), data=encode_state(state), version=state.partition_epoch)]
            for partition, state in states.items()
        ]
        results = dict(zip(states, self.multi_all_if_epoch(writes, epoch_version), strict=True))
        versions = {
            partition: _stat(result[0]).version
            for partition, result in results.items()
            if not isinstance(result, ZooKeeperError)
        }
        return StatesSet({partition: code_of(result) for partition, result in results.items()}, versions)

    def update_leader_and_isr(
        self, states: Mapping[TopicPartition, LeaderAndIsr], epoch_version: int | None
    ) -> StatesUpdated:
        """As `set_states`, sorted as the controller wants it."""
        codes, versions = self.set_states(states, epoch_version)
        updated = {
            partition: states[partition]._replace(partition_epoch=version) for partition, version in versions.items()
        }
        retry = tuple(partition for partition, code in codes.items() if code == BAD_VERSION)
        failed = {partition: code for partition, code in codes.items() if code not in {OK, BAD_VERSION}}
        return StatesUpdated(updated, retry, failed)

    def leader_updates_isr(self, partition: TopicPartition, state: LeaderAndIsr) -> int | None:
        """The write of a partition's leader, without the epoch check: the new version, or None.

        Somebody else's version is success when the content is already what the leader wants: an answer was lost.
        """
        path = state_path(partition)
        (result,) = self.zookeeper.multi_all(
            [[Set(path=path, data=encode_state(state), version=state.partition_epoch)]]
        )
        code = code_of(result)
        if not isinstance(result, ZooKeeperError):
            return _stat(result[0]).version
        if code == BAD_VERSION:
            found, _ = self.get_states([partition])
            stored = found.get(partition)
            if stored is not None and stored == state._replace(partition_epoch=stored.partition_epoch):
                return stored.partition_epoch
        return None

    # ---- topics ----

    def list_topics(self) -> list[str]:
        """Names of all topics, sorted."""
        return self.children_or_none(TOPICS)

    def get_topics(self, topics: Sequence[str]) -> tuple[dict[str, TopicZnode], dict[str, MalformedZnodeError]]:
        """The topic znodes that exist and can be read, and what is wrong with those that cannot."""
        znodes: dict[str, TopicZnode] = {}
        problems: dict[str, MalformedZnodeError] = {}
        paths = [topic_path(topic) for topic in topics]
        for topic, path, found in zip(topics, paths, self.zookeeper.get_many(paths), strict=True):
            if found is None:
                continue
            try:
                znodes[topic] = decode_topic(found[0], path=path)
            except MalformedZnodeError as error:
                problems[topic] = error
        return znodes, problems

    def list_partitions(self, topic: str) -> list[str]:
        """Names of the partitions that were ever created, sorted as text."""
        return self.children_or_none(partitions_path(topic))

    def full_assignments(self, topic: str) -> dict[TopicPartition, ReplicaAssignment]:
        """The assignment of a topic; empty if it does not exist.

        Raises:
            MalformedZnodeError: the znode cannot be read.
        """
        znodes, problems = self.get_topics([topic])
        if topic in problems:
            raise problems[topic]
        if topic not in znodes:
            return {}
        return {TopicPartition(topic, number): each for number, each in znodes[topic].assignments.items()}

    def partition_count(self, topic: str) -> int | None:
        """Number of partitions; None if the topic does not exist."""
        return len(self.full_assignments(topic)) if self.exists(topic_path(topic)) else None

    def create_topic(
        self, topic: str, assignments: Mapping[int, ReplicaAssignment], topic_id: str | None = None
    ) -> None:
        """Create a topic's znode and its missing parents, without the epoch check.

        Raises:
            NodeExistsError: the topic exists.
        """
        self.create_recursive(topic_path(topic), self._encoded(assignments, topic_id, ()))

    def set_topic(
        self,
        topic: str,
        assignments: Mapping[int, ReplicaAssignment],
        topic_id: str | None,
        epoch_version: int | None,
        *,
        extra: tuple[tuple[str, str], ...] = (),
    ) -> str:
        """Write a topic's whole znode, whatever its version; a result code.

        Args:
            topic: its name.
            assignments: partition number → replicas, of all its partitions.
            topic_id: None where the version knows none.
            epoch_version: the version that `/controller_epoch` must have; None: not checked.
            extra: unknown fields of the znode as JSON text, which are kept.

        Raises:
            ControllerMovedError: `/controller_epoch` has another version.
        """
        write = Set(path=topic_path(topic), data=self._encoded(assignments, topic_id, extra), version=ANY_VERSION)
        (result,) = self.multi_all_if_epoch([[write]], epoch_version)
        return code_of(result)

    def delete_topic_znode(self, topic: str, epoch_version: int | None) -> None:
        """Delete a topic's znode with all below it."""
        self.delete_recursive(topic_path(topic), epoch_version)

    # ---- overrides ----

    def get_topic_configs(self, topics: Iterable[str]) -> tuple[dict[str, Mapping[str, str]], dict[str, str]]:
        """Overrides of each topic (none: an empty mapping), and what is wrong where they cannot be read."""
        configs: dict[str, Mapping[str, str]] = {}
        problems: dict[str, str] = {}
        for topic in topics:
            path = config_path("topics", topic)
            try:
                found = self.data_or_none(path)
                configs[topic] = decode_config(found[0], path=path).config if found else {}
            except ZooKeeperError as error:
                problems[topic] = code_of(error)
            except MalformedZnodeError as error:
                problems[topic] = str(error)
        return configs, problems

    def delete_topic_config(self, topic: str, epoch_version: int | None) -> None:
        """Delete the overrides of a topic; absent is fine."""
        self.delete_if_there(config_path("topics", topic), epoch_version)

    def _encoded(
        self, assignments: Mapping[int, ReplicaAssignment], topic_id: str | None, extra: tuple[tuple[str, str], ...]
    ) -> bytes:
        version = self.formats.topic_version
        return encode_topic(TopicZnode(assignments, topic_id, version, extra), scala=self.formats.scala)


def _stat(result: str | ZnodeStat | None) -> ZnodeStat:
    assert isinstance(result, ZnodeStat)
    return result
