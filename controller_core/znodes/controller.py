"""Who is the active controller and what the cluster is: `/controller`, `/controller_epoch`, `/cluster/id`, `/feature`, `/migration`, …

Source: Kafka 3.9 `ControllerZNode`, `ControllerEpochZNode`, `ClusterIdZNode`,
`ProducerIdBlockZNode`, `FeatureZNode`, `MigrationZNode`.
"""

from dataclasses import dataclass

from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import BrokerId
from controller_core.znodes import paths
from controller_core.znodes.json_text import (
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    Fields,
    decimal,
    encode_object,
    mismatch,
    parse,
    parse_object,
)

NO_KRAFT_CONTROLLER = -1
CONTROLLER_VERSION_FIRST, CONTROLLER_VERSION_KRAFT = 1, 2
FEATURE_VERSION_MIN_MAX, FEATURE_VERSION_MAX_ONLY = 1, 2
FEATURES_DISABLED, FEATURES_ENABLED = 0, 1
_EPOCH_DIGITS_MAX = 11
_MIGRATION_KEYS = (
    "version", "kraft_metadata_offset", "kraft_controller_id", "kraft_metadata_epoch", "kraft_controller_epoch",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerZnode:
    """Who holds `/controller`; `timestamp` is milliseconds as text.

    `kraft_controller_epoch` is -1 (or None: not written, Kafka before 3.4) for a ZooKeeper controller; with 0 or more
    ZooKeeper is no longer the source of truth.
    """

    broker_id: BrokerId
    timestamp: str = "-1"
    version: int = CONTROLLER_VERSION_KRAFT
    kraft_controller_epoch: int | None = NO_KRAFT_CONTROLLER
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def is_kraft(self) -> bool:
        """A KRaft controller has claimed the cluster."""
        return (self.kraft_controller_epoch or NO_KRAFT_CONTROLLER) > NO_KRAFT_CONTROLLER or (
            self.kraft_controller_epoch == 0
        )


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The ids a broker took last, first and last included."""

    broker: BrokerId
    block_start: int
    block_end: int


@dataclass(frozen=True, slots=True)
class FeatureZnode:
    """Finalised features: name → (minimum or None, maximum) version level; `status` is 0 disabled or 1 enabled."""

    features: tuple[tuple[str, tuple[int | None, int]], ...]
    status: int = FEATURES_ENABLED
    version: int = FEATURE_VERSION_MAX_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationZnode:
    """How far a migration to KRaft is; -1 everywhere while it is only prepared."""

    kraft_metadata_offset: int = -1
    kraft_controller_id: int = -1
    kraft_metadata_epoch: int = -1
    kraft_controller_epoch: int = -1
    version: int = 0


def decode_controller(data: bytes | None, *, path: str = paths.CONTROLLER) -> ControllerZnode:
    """Who is the controller; a bare integer, as Kafka 0.8.0 wrote it, is read too.

    Raises:
        MalformedZnodeError: no JSON, or no integer `brokerid`; Kafka's brokers throw.
    """
    value = parse(data, path)
    if type(value) is int:
        if not -1 <= value <= INT_MAX:
            raise mismatch(path, "(document)", "an object, or a 32-bit broker id", value)
        return ControllerZnode(broker_id=BrokerId(value), version=0, kraft_controller_epoch=None)
    document = parse_object(data, path)
    return ControllerZnode(
        broker_id=BrokerId(document.integer("brokerid")),
        timestamp=_timestamp(document),
        version=document.integer("version") if document.has("version") else CONTROLLER_VERSION_FIRST,
        kraft_controller_epoch=(
            document.integer("kraftControllerEpoch") if document.has("kraftControllerEpoch") else None
        ),
        extra=document.unknown_fields(("version", "brokerid", "timestamp", "kraftControllerEpoch")),
    )


def encode_controller(controller: ControllerZnode) -> bytes:
    """Version 1 (up to Kafka 3.3) or 2, as `controller.version` says."""
    fields: list[tuple[str, object]] = [
        ("version", controller.version), ("brokerid", controller.broker_id), ("timestamp", controller.timestamp),
    ]  # fmt: skip
    if controller.version >= CONTROLLER_VERSION_KRAFT:
        epoch = controller.kraft_controller_epoch
        fields.append(("kraftControllerEpoch", NO_KRAFT_CONTROLLER if epoch is None else epoch))
    return encode_object(fields, controller.extra)


def decode_controller_epoch(data: bytes | None, *, path: str = paths.CONTROLLER_EPOCH) -> int:
    """The epoch, bare decimal text.

    Raises:
        MalformedZnodeError: anything else; Kafka throws.
    """
    return decimal(path, "offset 0", (data or b"")[: _EPOCH_DIGITS_MAX + 1].decode("ascii", "backslashreplace"))


def encode_controller_epoch(epoch: int) -> bytes:
    """The epoch as text."""
    return str(epoch).encode()


def decode_cluster_id(data: bytes | None, *, path: str = paths.CLUSTER_ID) -> str:
    """The cluster's id.

    Raises:
        MalformedZnodeError: no JSON or no `id`; brokers refuse to start.
    """
    return parse_object(data, path).text("id")


def encode_cluster_id(cluster_id: str) -> bytes:
    """The id; `version` is a string here."""
    return encode_object([("version", "1"), ("id", cluster_id)])


def decode_producer_id_block(
    data: bytes | None, *, path: str = paths.LATEST_PRODUCER_ID_BLOCK
) -> ProducerIdBlock | None:
    """The last block of producer ids; None before the first use."""
    if not data:
        return None
    document = parse_object(data, path)
    start, end = (
        decimal(path, f"field {name!r}", document.text(name), low=LONG_MIN, high=LONG_MAX)
        for name in ("block_start", "block_end")
    )
    return ProducerIdBlock(BrokerId(document.integer("broker")), start, end)


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """The block; its bounds are strings."""
    fields = [("version", 1), ("broker", block.broker)]
    return encode_object([*fields, ("block_start", str(block.block_start)), ("block_end", str(block.block_end))])


def decode_feature(data: bytes | None, *, path: str = paths.FEATURE) -> FeatureZnode:
    """Finalised features.

    Raises:
        MalformedZnodeError: no JSON, a version other than 1 and 2, a status other than 0 and 1; Kafka's failover stops.
    """
    document = parse_object(data, path)
    version = document.integer("version", low=FEATURE_VERSION_MIN_MAX, high=FEATURE_VERSION_MAX_ONLY)
    status = document.integer("status", low=FEATURES_DISABLED, high=FEATURES_ENABLED)
    levels = document.child("features")
    features = []
    for name in levels.values:
        level = levels.child(name)
        low = level.integer("min_version_level") if version == FEATURE_VERSION_MIN_MAX else None
        features.append((name, (low, level.integer("max_version_level"))))
    return FeatureZnode(tuple(features), status, version)


def encode_feature(znode: FeatureZnode) -> bytes:
    """Version 1 (IBP before 3.3) or 2, as `znode.version` says; keys in the order of Scala 2.13."""
    features: dict[str, object] = {}
    for name, (low, high) in znode.features:
        level: dict[str, object] = {"max_version_level": high}
        features[name] = {"min_version_level": low, **level} if znode.version == FEATURE_VERSION_MIN_MAX else level
    return encode_object([("features", features), ("version", znode.version), ("status", znode.status)])


def decode_migration(data: bytes | None, *, path: str = paths.MIGRATION) -> MigrationZnode:
    """The state of a migration to KRaft; its mere existence warns a tool off."""
    document = parse_object(data, path)
    return MigrationZnode(
        kraft_metadata_offset=document.integer("kraft_metadata_offset", low=LONG_MIN, high=LONG_MAX),
        kraft_controller_id=document.integer("kraft_controller_id"),
        kraft_metadata_epoch=document.integer("kraft_metadata_epoch"),
        kraft_controller_epoch=(
            document.integer("kraft_controller_epoch") if document.has("kraft_controller_epoch") else -1
        ),
        version=document.integer("version", low=0),
    )


def encode_migration(znode: MigrationZnode) -> bytes:
    """The state of a migration, keys in the order of Scala 2.13."""
    return encode_object([(name, getattr(znode, name)) for name in _MIGRATION_KEYS])


def _timestamp(document: Fields) -> str:
    """Informational, so whatever stands there is taken: text, or a number of milliseconds."""
    value = document.values.get("timestamp", "-1")
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    raise MalformedZnodeError(document.path, f"field 'timestamp': expected milliseconds as text, found {value!r}")
