"""Where Kafka keeps what: the paths of the tree, below the chroot.

Source: Kafka 3.9 `ZkData`.
"""

from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import BrokerId, TopicPartition

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE_ID = "/brokers/seqid"
TOPICS = "/brokers/topics"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION = "/log_dir_event_notification"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CLUSTER_ID = "/cluster/id"
LATEST_PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"
MIGRATION = "/migration"
DELEGATION_TOKENS = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES = "/delegation_token/token_changes"  # noqa: S105 -- a path, no secret
ACL = "/kafka-acl"
ACL_CHANGES = "/kafka-acl-changes"
EXTENDED_ACL = "/kafka-acl-extended"
EXTENDED_ACL_CHANGES = "/kafka-acl-extended-changes"
CONSUMERS = "/consumers"

ISR_CHANGE_PREFIX = "isr_change_"
LOG_DIR_EVENT_PREFIX = "log_dir_event_"
CONFIG_CHANGE_PREFIX = "config_change_"
TOKEN_CHANGE_PREFIX = "token_change_"  # noqa: S105 -- a path, no secret
ACL_CHANGE_PREFIX = "acl_changes_"

ROOTS = frozenset(
    [
        "/admin",
        "/brokers",
        "/cluster",
        "/config",
        "/consumers",
        "/controller",
        "/controller_epoch",
        "/delegation_token",
        "/feature",
        "/isr_change_notification",
        "/kafka-acl",
        "/kafka-acl-changes",
        "/kafka-acl-extended",
        "/kafka-acl-extended-changes",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
        "/migration",
    ]
)
"""All that Kafka keeps directly below its chroot."""
SENSITIVE_ROOTS = ("/config/users", "/config/brokers", DELEGATION_TOKENS)
"""Trees that hold credentials; a secured cluster lets nobody but its brokers read them."""
TOPIC_CONFIGS = "topics"
BROKER_CONFIGS = "brokers"
DEFAULT_ENTITY = "<default>"
CONFIG_TYPES = ("topics", "clients", "users", "brokers", "ips")


def broker_path(broker: int) -> str:
    """Registration of a broker."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """Assignment of a topic."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """Parent of a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(partition: TopicPartition) -> str:
    """Parent of a partition's state."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}"


def state_path(partition: TopicPartition) -> str:
    """Leader, ISR and epochs of a partition."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}/state"


def delete_topic_path(topic: str) -> str:
    """Request to delete a topic."""
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity_type: str, entity_name: str) -> str:
    """Overrides of an entity; `entity_type` is one of `CONFIG_TYPES`, names are sanitized as Kafka does."""
    return f"{CONFIG}/{entity_type}/{entity_name}"


def isr_change_path(sequence: str) -> str:
    """An ISR-change notification; `sequence` is its ten digits."""
    return f"{ISR_CHANGE_NOTIFICATION}/{ISR_CHANGE_PREFIX}{sequence}"


def log_dir_event_path(sequence: str) -> str:
    """A log-dir notification; `sequence` is its ten digits."""
    return f"{LOG_DIR_EVENT_NOTIFICATION}/{LOG_DIR_EVENT_PREFIX}{sequence}"


def sequence_number(path_or_name: str, prefix: str) -> str:
    """The digits of a sequential child; they may be negative after 2,147,483,647 children.

    Raises:
        MalformedZnodeError: the name does not start with `prefix` or has no digits.
    """
    name = path_or_name.rpartition("/")[2]
    digits = name.removeprefix(prefix)
    if not name.startswith(prefix) or not digits.removeprefix("-").isdecimal():
        raise MalformedZnodeError(path_or_name, f"name: expected {prefix!r} and a number, found {name!r}")
    return digits


def broker_id_of(path: str) -> BrokerId:
    """The broker id at the end of a path below `/brokers/ids`.

    Raises:
        MalformedZnodeError: it is no decimal number that fits 32 bits, or written otherwise than Kafka writes and reads it.
    """
    read = registration_read(path)
    if read != path:
        raise MalformedZnodeError(
            path, f"name: expected a broker id without leading zeros; brokers read {read} instead"
        )
    return BrokerId(int(read.rpartition("/")[2]))


def registration_read(path: str) -> str:
    """The registration that Kafka reads when it has listed this one: for `01` that of broker 1, whether it is there or not.

    Raises:
        MalformedZnodeError: the name is no decimal number that fits 32 bits; Kafka throws.
    """
    parent, _, name = path.rpartition("/")
    if not (name.isascii() and name.isdecimal() and len(name) <= len("2147483647") and int(name) < 1 << 31):
        raise MalformedZnodeError(path, f"name: expected a broker id, found {name!r}")
    return f"{parent}/{int(name)}"


def state_partition_of(path: str) -> TopicPartition:
    """The partition whose state znode stands at `path`.

    Raises:
        MalformedZnodeError: `path` is not `/brokers/topics/<t>/partitions/<p>/state`.
    """
    match path.split("/"):
        case ["", "brokers", "topics", topic, "partitions", number, "state"] if number.isascii() and number.isdecimal():
            return TopicPartition(topic, int(number))
        case _:
            raise MalformedZnodeError(path, "path: expected /brokers/topics/<topic>/partitions/<number>/state")
