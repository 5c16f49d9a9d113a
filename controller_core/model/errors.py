"""What can go wrong in the core and its adapters: one base class, one subclass per thing a caller can handle."""


class ControllerCoreError(Exception):
    """Base of every error that `controller_core` raises on purpose."""


class MalformedZnodeError(ControllerCoreError):
    """A znode's data cannot be read; says path, field or offset, what was expected and what was found.

    Args:
        path: the znode's path.
        what: field or offset, what was expected there and what was found.
    """

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, what)
        self.path = path
        self.what = what

    def __str__(self) -> str:
        return f"{self.path} cannot be read: {self.what}"


class UnparsedZnodeError(MalformedZnodeError):
    """Kafka's parser refuses the document, and its readers go on as if the znode were empty.

    Other malformed data makes them throw.
    """


class InvalidPlanError(ControllerCoreError):
    """A plan document cannot be read, or its digest does not match its content."""


class PlanAlteredError(InvalidPlanError):
    """The content of a plan document does not match the digest that it names."""


class ZooKeeperError(ControllerCoreError):
    """Base of what a ZooKeeper port reports.

    Attributes:
        failed_operation: index of the operation of a transaction that failed; None outside of one.
    """

    failed_operation: int | None = None


class NoNodeError(ZooKeeperError):
    """The znode does not exist."""


class NodeExistsError(ZooKeeperError):
    """The znode exists already."""


class EphemeralParentError(ZooKeeperError):
    """An ephemeral znode cannot have children."""


class NotEmptyError(ZooKeeperError):
    """The znode has children."""


class BadVersionError(ZooKeeperError):
    """The znode's version is not the expected one."""


class NoAuthError(ZooKeeperError):
    """The session may not do this to the znode."""


class SessionExpiredError(ZooKeeperError):
    """The session is over; its ephemeral znodes are gone."""


class ConnectionLostError(ZooKeeperError):
    """The connection broke; whether the last write happened is unknown."""


class ZooKeeperUnreachableError(ZooKeeperError):
    """No server answered in time."""


class InvalidHostsError(ZooKeeperUnreachableError):
    """The hosts are no list of `host:port`: nothing was contacted."""


class TlsSettingsError(ZooKeeperError):
    """A file for TLS is missing, unreadable, or not what it should be."""


class ControllerMovedError(ZooKeeperError):
    """`/controller_epoch` is not at the version that this writer knows: another controller is active."""


class BrokerError(ControllerCoreError):
    """Base of what a connection to a broker reports."""


class BrokerUnreachableError(BrokerError):
    """The broker did not answer in time, or closed the connection; whether it obeyed the last request is unknown."""


class BrokerAccessDeniedError(BrokerError):
    """The broker refused our certificate or credentials, or they do not permit what was asked."""


class InvalidAccessError(BrokerError):
    """How brokers are reached is described in a way that cannot be used."""


class MalformedMessageError(BrokerError):
    """Bytes that are no message of Kafka's protocol, or one of another version."""


class UnsupportedRequestError(BrokerError):
    """The broker knows no version of a request that can say what shall be said."""


class ZooKeeperFileError(ControllerCoreError):
    """A file of a ZooKeeper server is damaged, is none, or does not hold what was asked of it."""


class ObjectStoreError(ControllerCoreError):
    """Base of what an object store reports."""


class StoreAddressError(ObjectStoreError):
    """An address that names no store."""


class ObjectMissingError(ObjectStoreError):
    """No object has this key."""


class ObjectExistsError(ObjectStoreError):
    """An object with this key exists already; nothing was overwritten."""


class ObjectDamagedError(ObjectStoreError):
    """The object's bytes do not match the recorded checksum or size."""


class InvalidKeyError(ObjectDamagedError):
    """No object of ours has this key, or its path leads out of the store: what lies there is neither read nor written."""


class MisplacedSnapshotError(ObjectDamagedError):
    """A manifest lies elsewhere than it says: it was copied or moved, and counts for nothing."""


class StoreUnwritableError(ObjectStoreError):
    """The store refused a write: no permission, read-only or full."""


class StoreUnreachableError(ObjectStoreError):
    """The store did not answer, or does not exist."""


class StoreAccessDeniedError(ObjectStoreError):
    """The store refused the credentials, or they do not permit what was asked."""


class UnknownVersionError(ControllerCoreError):
    """A Kafka version, or an inter.broker.protocol.version, that no dialect exists for."""


class NotSettledError(ControllerCoreError):
    """The driver's bound was reached while there was still work to do."""


class InvalidMetadataError(ControllerCoreError):
    """Metadata contradicts itself, so that no context can be built from it."""


class UnexpectedAnswerError(ControllerCoreError):
    """An answer came for an effect that nobody waits for."""


class UnknownFormatError(ControllerCoreError):
    """A stored document is of a format version that this program does not know."""


class SnapshotKeyError(ControllerCoreError):
    """The key of a snapshot's secrets is missing, unreadable or not the right one."""


class NotKafkaTreeError(ControllerCoreError):
    """What was found below the chroot is not the tree of a Kafka cluster in ZooKeeper mode."""


class MigratingClusterError(ControllerCoreError):
    """The cluster is on its way to KRaft, or there: ZooKeeper is not, or not for long, its source of truth."""


class RestoreConflictError(ControllerCoreError):
    """A znode to restore exists with other data."""


class TooLargeZnodeError(ZooKeeperError):
    """A znode does not fit one request, or one reply, of this server."""


class PlacementError(ControllerCoreError):
    """Replicas cannot be placed as asked; `kafka_name` is the exception that Kafka's own tools throw."""

    kafka_name = "AdminOperationException"


class InvalidPartitionsError(PlacementError):
    """The number of partitions is not positive."""

    kafka_name = "InvalidPartitionsException"


class InvalidReplicationFactorError(PlacementError):
    """The replication factor is not positive, or larger than the number of brokers."""

    kafka_name = "InvalidReplicationFactorException"


class RackMissingError(PlacementError):
    """Some brokers have a rack and some have none."""


class InvalidReplicaAssignmentError(PlacementError):
    """The replica lists of a new topic do not fit together."""

    kafka_name = "InvalidReplicaAssignmentException"


class InvalidTopicError(PlacementError):
    """The name of a new topic is none, or collides with that of another."""

    kafka_name = "InvalidTopicException"


class TopicExistsError(PlacementError):
    """A topic of this name exists, or waits for its deletion."""

    kafka_name = "TopicExistsException"
