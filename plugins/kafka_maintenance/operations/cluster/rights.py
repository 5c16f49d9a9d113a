"""What a session may read and write of a Kafka tree, right by right, and what each missing one costs. Writes nothing.

A right to write is tried in a transaction that ends with a check of a version which no znode has: ZooKeeper judges its operations in their
order, the rights of each before its version, so the one error tells whether the right is there, and nothing of it is ever carried out.

Source: the paths of Kafka 3.9 `ZkData`; `zookeeper.set.acl` gives `SensitiveRootPaths` no right for the world; ZooKeeper 3.4 to 3.9
`PrepRequestProcessor.pRequest2Txn`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller_core.model.errors import BadVersionError, NoAuthError, NoNodeError
from controller_core.model.words import counted
from controller_core.ports.zookeeper import Check, Create, Delete, Operation, Set, ZooKeeper

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


class WriteRight(NamedTuple):
    """A right that the kinds of plans `needed_for` need: `create` or `delete` of children of `path`, or `write` of itself."""

    path: str
    right: str
    needed_for: tuple[str, ...]

    @property
    def text(self) -> str:
        """`create on /admin (for …)`."""
        return f"{self.right} on {self.path} (for {', '.join(self.needed_for)})"


_ELECT, _MOVE, _DELETE, _DRAIN = (
    "elect_preferred_leaders",
    "reassign_partitions",
    "delete_topics",
    "drain_isr_notifications",
)
_THROTTLE: Final = f"{_MOVE} with a throttle"
WRITES: Final = (
    WriteRight("/admin", "create", (_ELECT, _MOVE, _DELETE, _DRAIN)),
    WriteRight("/admin", "delete", (_MOVE, _DELETE)),
    WriteRight("/config/topics/<topic>", "write", (_THROTTLE,)),
    WriteRight("/config/brokers/<broker>", "write", (_THROTTLE,)),
    WriteRight("/config/changes", "create", (_THROTTLE,)),
    WriteRight("/admin/delete_topics", "create", (_DELETE,)),
    WriteRight("/", "delete", (_DRAIN,)),
)
"""What approved plans need, as docs/zookeeper.md lists it. A restore and `move_leaders` write wherever brokers do."""
_CHILDREN: Final[Mapping[str, str]] = {"/admin": "/admin/delete_topics", "/": "/controller"}
_NO_VERSION: Final = 2**31 - 1
_TRIED: Final = "/kafka-maintenance-test-of-a-right"


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
        brokers = f"{counted(len(self.brokers), 'broker', 'are')} registered: {', '.join(self.brokers) or 'none'}"
        if not self.denied:
            return f"{brokers}. Everything that Kafka keeps may be read."
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


def missing_writes(zookeeper: ZooKeeper) -> tuple[WriteRight, ...]:
    """The rights of `WRITES` that this session lacks; of `<topic>` and `<broker>` the first one is tried. Writes nothing.

    A path that does not exist lacks no right: Kafka makes some of them when it first needs them.

    Raises:
        ZooKeeperError: the connection or the session was lost.
    """
    return tuple(named for named in WRITES if not _may(zookeeper, named))


def writes_text(missing: tuple[WriteRight, ...]) -> str:
    """A sentence for the person who made the connection."""
    if not missing:
        return "It may write what approved plans need; nothing was written to see that."
    return f"It may not write what some approved plans need: {'; '.join(each.text for each in missing)}. Nothing was written to see that."


def _may(zookeeper: ZooKeeper, named: WriteRight) -> bool:
    try:
        zookeeper.multi((_operation(zookeeper, named), Check(path="/", version=_NO_VERSION)))
    except NoAuthError:
        return False
    except (BadVersionError, NoNodeError):
        return True
    raise AssertionError("a transaction with a check that cannot hold was carried out")


def _operation(zookeeper: ZooKeeper, named: WriteRight) -> Operation:
    """What needs that right, of a version that no znode has."""
    if named.right == "create":
        return Create(path=named.path.rstrip("/") + _TRIED)
    if named.right == "delete":
        return Delete(path=_CHILDREN[named.path], version=_NO_VERSION)
    parent = named.path.rpartition("/")[0]
    first = next(iter(zookeeper.children(parent)), _TRIED.strip("/"))
    return Set(path=f"{parent}/{first}", data=b"", version=_NO_VERSION)
