"""The real brokers of a restore drill, on the restored tree."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from controller_core import znodes
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.model.words import counted
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.servers import KafkaCluster, ZooKeeperServer
from kafka_maintenance.servers.kafka_jars import known_release
from kafka_maintenance.servers.process import wait_until

_LEADERS_TIMEOUT_S: Final = 120.0
_HIGHEST_ID: Final = 16
_IDS_PER_BROKER: Final = 4


@dataclass(frozen=True, slots=True)
class DrillBrokers:
    """Those of `ids`, which the topics (topic → replicas of its partitions, in order) name, of a version line."""

    version: str
    topics: Mapping[str, list[tuple[BrokerId, ...]]]
    ids: tuple[BrokerId, ...]

    def come_up(self, server: ZooKeeperServer, chroot: str, auth: ZooKeeperAuth | None) -> tuple[str, list[str]]:
        """Starts them; they must register, elect leaders and keep the topics. What they did, and what differs."""
        if not self.ids:
            return "no brokers started: the snapshot has no topics", []
        login = (auth.username, auth.password) if auth else None
        cluster = KafkaCluster(
            self.version, server, brokers=self.ids[-1], chroot=chroot, mode="shared_jvm", name="drill", login=login
        )
        paths = [
            znodes.state_path(TopicPartition(topic, number))
            for topic, replicas in self.topics.items()
            for number in range(len(replicas))
        ]
        with cluster, connect(f"{server.hosts}{chroot}", auth=auth) as session:

            def all_led() -> bool:
                return all(
                    state is not None and znodes.decode_state(state[0], path=path, version=0).leader >= 0
                    for path, state in zip(paths, session.get_many(paths), strict=True)
                )

            wait_until(all_led, what="every partition has a leader", timeout_s=_LEADERS_TIMEOUT_S)
            there = set(session.children(znodes.TOPICS))
        missing = [f"topic {topic} is gone after the brokers started" for topic in sorted(self.topics.keys() - there)]
        return (
            f"{counted(len(self.ids), 'broker')} of Kafka {self.version} came up with {counted(len(self.topics), 'topic')}, every partition led",
            missing,
        )


def drill_brokers(raw: pa.Table, version: str) -> DrillBrokers:
    """The brokers that the assignments of a snapshot name; nothing is started.

    Raises:
        VersionRefusedError: brokers of this version cannot be started.
        RefusedError: brokers 1 to the highest id are too many to start.
    """
    known_release(version)
    topics = {}
    for path, data in zip(raw["path"].to_pylist(), raw["data"].to_pylist(), strict=True):
        parent, _, name = path.rpartition("/")
        if parent == znodes.TOPICS:
            topic = znodes.decode_topic(data, path=path)
            topics[name] = [topic.assignments[number].replicas for number in sorted(topic.assignments)]
    ids = sorted({broker for replicas in topics.values() for each in replicas for broker in each})
    most = max(_HIGHEST_ID, _IDS_PER_BROKER * len(ids))
    if ids and ids[-1] > most:
        raise RefusedError(
            f"restore drill with brokers not started: expected broker ids up to {most}, because all from 1 on are started, "
            f"found {ids[-1]}; drill without brokers"
        )
    return DrillBrokers(version, topics, tuple(ids))
