"""What a session may read of a Kafka tree, path by path, and what each missing right costs. Writes nothing.

Source: the paths of Kafka 3.9 `ZkData`; `zookeeper.set.acl` gives `SensitiveRootPaths` no right for the world.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller_core.model.errors import NoAuthError, NoNodeError
from controller_core.ports.zookeeper import ZooKeeper

BROKER_IDS: Final = "/brokers/ids"
READ_FOR: Final[Mapping[str, str]] = {
    "/cluster/id": "which cluster this is",
    "/controller": "which broker is the controller",
    "/controller_epoch": "the controller epoch",
    BROKER_IDS: "which brokers are registered",
    "/brokers/topics": "topics, replicas, leaders and in-sync replicas",
    "/config": "configs of topics and brokers",
    "/config/users": "SCRAM credentials and quotas of users: snapshots lack them otherwise",
    "/admin/delete_topics": "topics that are queued for deletion",
    "/isr_change_notification": "ISR-change notifications",
    "/kafka-acl": "Kafka's own ACLs: snapshots lack them otherwise",
}
"""Path → what is read there. One that does not exist lacks no right: Kafka makes some of them when it first needs them."""


@dataclass(frozen=True, slots=True)
class ReadRights:
    """The registered brokers, and the paths of `READ_FOR` that the session may not read."""

    brokers: tuple[str, ...]
    denied: tuple[str, ...]
    is_kafka: bool

    @property
    def complete(self) -> bool:
        """Whether this is a Kafka tree of which nothing is hidden."""
        return self.is_kafka and not self.denied

    @property
    def text(self) -> str:
        """One paragraph for the person who made the connection."""
        if not self.is_kafka:
            return (
                f"connected, but there is no {BROKER_IDS} below this chroot: no broker of this cluster ever registered here; "
                "correct the chroot"
            )
        brokers = f"{len(self.brokers)} brokers are registered: {', '.join(self.brokers) or 'none'}"
        if not self.denied:
            return f"{brokers}. Everything that Kafka keeps may be read. Rights to write are not tried: a test writes nothing."
        lines = "; ".join(f"{path} ({READ_FOR[path]})" for path in self.denied)
        return f"{brokers}. These paths may not be read, give this login the right to read them: {lines}."


def read_rights(zookeeper: ZooKeeper) -> ReadRights:
    """What this session may read of the tree below its chroot.

    Raises:
        ZooKeeperError: the connection or the session was lost.
    """
    denied = []
    brokers: tuple[str, ...] = ()
    is_kafka = False
    for path in READ_FOR:
        try:
            zookeeper.get(path)
            children = zookeeper.children(path)
        except NoAuthError:
            denied.append(path)
        except NoNodeError:
            continue
        else:
            if path == BROKER_IDS:
                is_kafka, brokers = True, tuple(sorted(children, key=lambda name: (len(name), name)))
    return ReadRights(brokers, tuple(denied), is_kafka or BROKER_IDS in denied)
