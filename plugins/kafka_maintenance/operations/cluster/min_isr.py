"""What topics say of min.insync.replicas, in ZooKeeper and in a snapshot of it.

Source: Kafka 3.9 `DynamicBrokerConfig`, `TopicConfig.MIN_IN_SYNC_REPLICAS_CONFIG`.
"""

from collections.abc import Collection, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.model.errors import MalformedZnodeError
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.znodes.configs import decode_config, positive_setting
from controller_core.znodes.paths import BROKER_CONFIGS, DEFAULT_ENTITY, TOPIC_CONFIGS, config_path

_KEY: Final = "min.insync.replicas"


def min_insync_replicas(zookeeper: ZooKeeper, topics: Collection[str]) -> dict[str, int]:
    """The setting of each topic: its own, else the one that all brokers got at run time; what stands nowhere in ZooKeeper, or is what
    Kafka refuses, is left out, so that a value of `server.properties` is not known.

    Args:
        zookeeper: a session on the cluster's chroot.
        topics: whose.
    """
    if not topics:
        return {}
    names = sorted(topics)
    paths = [config_path(BROKER_CONFIGS, DEFAULT_ENTITY), *(config_path(TOPIC_CONFIGS, each) for each in names)]
    common, *own = (
        None if entry is None else _setting(entry[0], path)
        for path, entry in zip(paths, zookeeper.get_many(paths), strict=True)
    )
    return _of_topics(dict(zip(names, own, strict=True)), common)


def recorded_min_insync_replicas(configs: pa.Table, topics: Collection[str]) -> dict[str, int]:
    """As `min_insync_replicas`, of the table `configs` of a snapshot."""
    rows = configs.filter(pc.field("key") == _KEY).to_pylist()
    found = {(row["entity_type"], row["entity_name"]): positive_setting(row["value"]) for row in rows}
    own = {topic: found.get((TOPIC_CONFIGS, topic)) for topic in topics}
    return _of_topics(own, found.get((BROKER_CONFIGS, DEFAULT_ENTITY)))


def _of_topics(own: Mapping[str, int | None], common: int | None) -> dict[str, int]:
    found = {topic: common if setting is None else setting for topic, setting in own.items()}
    return {topic: setting for topic, setting in found.items() if setting is not None}


def _setting(data: bytes, path: str) -> int | None:
    try:
        text = decode_config(data, path=path).config.get(_KEY, "")
    except MalformedZnodeError:  # also what Kafka cannot parse
        return None
    return positive_setting(text)
