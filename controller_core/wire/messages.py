"""The messages between a controller and brokers: the one place that says which version has which fields.

LeaderAndIsr, UpdateMetadata and StopReplica are frozen: Kafka 4 dropped them. The rest is what a controller needs beside
them: who may connect, which versions a broker knows, what it believes. What brokers and clients ask of a controller:
`controller_requests.py`.
Source: the message definitions of Kafka 3.9; tests compare the bytes of every version with a library made from the same.
"""

from typing import Final

from controller_core.wire.schema import ArrayOf, Field, Fixed, Message, Sized

_NEVER: Final = 32_767
_INTS: Final = ArrayOf(Fixed.INT32)


def _leadership(epoch_name: str) -> tuple[Field, ...]:
    return (
        Field("partition_index", Fixed.INT32),
        Field("controller_epoch", Fixed.INT32),
        Field("leader", Fixed.INT32),
        Field("leader_epoch", Fixed.INT32),
        Field("isr", _INTS),
        Field(epoch_name, Fixed.INT32),
        Field("replicas", _INTS),
    )


def _ungrouped(row: tuple[Field, ...], until: int) -> Field:
    """Rows that name their topic each: what came before rows were grouped by topic."""
    rows = ArrayOf((Field("topic_name", Sized.STRING), *row))
    return Field("ungrouped_partition_states", rows, until=until)


_LEADER_AND_ISR_ROW: Final = (
    *_leadership("partition_epoch"),
    Field("adding_replicas", _INTS, since=3),
    Field("removing_replicas", _INTS, since=3),
    Field("is_new", Fixed.BOOL, since=1),
    Field("leader_recovery_state", Fixed.INT8, since=6),
)
LEADER_AND_ISR: Final = Message(
    "LeaderAndIsr",
    4,
    7,
    4,
    (
        Field("controller_id", Fixed.INT32),
        Field("is_kraft_controller", Fixed.BOOL, since=7),
        Field("controller_epoch", Fixed.INT32),
        Field("broker_epoch", Fixed.INT64, since=2),
        Field("type", Fixed.INT8, since=5),
        _ungrouped(_LEADER_AND_ISR_ROW, until=1),
        Field(
            "topic_states",
            ArrayOf(
                (
                    Field("topic_name", Sized.STRING),
                    Field("topic_id", Sized.UUID, since=5),
                    Field("partition_states", ArrayOf(_LEADER_AND_ISR_ROW)),
                )
            ),
            since=2,
        ),
        Field(
            "live_leaders",
            ArrayOf(
                (
                    Field("broker_id", Fixed.INT32),
                    Field("host_name", Sized.STRING),
                    Field("port", Fixed.INT32),
                )
            ),
        ),
    ),
)
_PARTITION_ERROR: Final = (
    Field("topic_name", Sized.STRING, until=4),
    Field("partition_index", Fixed.INT32),
    Field("error_code", Fixed.INT16),
)
LEADER_AND_ISR_ANSWER: Final = Message(
    "LeaderAndIsrResponse",
    4,
    7,
    4,
    (
        Field("error_code", Fixed.INT16),
        Field("partition_errors", ArrayOf(_PARTITION_ERROR), until=4),
        Field(
            "topics",
            ArrayOf((Field("topic_id", Sized.UUID), Field("partition_errors", ArrayOf(_PARTITION_ERROR)))),
            since=5,
        ),
    ),
)

_UPDATE_METADATA_ROW: Final = (*_leadership("zk_version"), Field("offline_replicas", _INTS, since=4))
UPDATE_METADATA: Final = Message(
    "UpdateMetadata",
    6,
    8,
    6,
    (
        Field("controller_id", Fixed.INT32),
        Field("is_kraft_controller", Fixed.BOOL, since=8),
        Field("type", Fixed.INT8, since=8, tag=0),
        Field("controller_epoch", Fixed.INT32),
        Field("broker_epoch", Fixed.INT64, since=5),
        _ungrouped(_UPDATE_METADATA_ROW, until=4),
        Field(
            "topic_states",
            ArrayOf(
                (
                    Field("topic_name", Sized.STRING),
                    Field("topic_id", Sized.UUID, since=7),
                    Field("partition_states", ArrayOf(_UPDATE_METADATA_ROW)),
                )
            ),
            since=5,
        ),
        Field(
            "live_brokers",
            ArrayOf(
                (
                    Field("id", Fixed.INT32),
                    Field("v0_host", Sized.STRING, until=0),
                    Field("v0_port", Fixed.INT32, until=0),
                    Field(
                        "endpoints",
                        ArrayOf(
                            (
                                Field("port", Fixed.INT32),
                                Field("host", Sized.STRING),
                                Field("listener", Sized.STRING, since=3),
                                Field("security_protocol", Fixed.INT16),
                            )
                        ),
                        since=1,
                    ),
                    Field("rack", Sized.STRING, since=2),
                )
            ),
        ),
    ),
)
UPDATE_METADATA_ANSWER: Final = Message("UpdateMetadataResponse", 6, 8, 6, (Field("error_code", Fixed.INT16),))

STOP_REPLICA: Final = Message(
    "StopReplica",
    5,
    4,
    2,
    (
        Field("controller_id", Fixed.INT32),
        Field("is_kraft_controller", Fixed.BOOL, since=4),
        Field("controller_epoch", Fixed.INT32),
        Field("broker_epoch", Fixed.INT64, since=1),
        Field("delete_partitions", Fixed.BOOL, until=2),
        Field(
            "ungrouped_partitions",
            ArrayOf((Field("topic_name", Sized.STRING), Field("partition_index", Fixed.INT32))),
            until=0,
        ),
        Field(
            "topics",
            ArrayOf((Field("name", Sized.STRING), Field("partition_indexes", _INTS))),
            since=1,
            until=2,
        ),
        Field(
            "topic_states",
            ArrayOf(
                (
                    Field("topic_name", Sized.STRING),
                    Field(
                        "partition_states",
                        ArrayOf(
                            (
                                Field("partition_index", Fixed.INT32),
                                Field("leader_epoch", Fixed.INT32, since=3),
                                Field("delete_partition", Fixed.BOOL),
                            )
                        ),
                    ),
                )
            ),
            since=3,
        ),
    ),
)
STOP_REPLICA_ANSWER: Final = Message(
    "StopReplicaResponse",
    5,
    4,
    2,
    (
        Field("error_code", Fixed.INT16),
        Field(
            "partition_errors",
            ArrayOf(
                (
                    Field("topic_name", Sized.STRING),
                    Field("partition_index", Fixed.INT32),
                    Field("error_code", Fixed.INT16),
                )
            ),
        ),
    ),
)

API_VERSIONS: Final = Message("ApiVersions", 18, 0, _NEVER, ())
API_VERSIONS_ANSWER: Final = Message(
    "ApiVersionsResponse",
    18,
    0,
    _NEVER,
    (
        Field("error_code", Fixed.INT16),
        Field(
            "api_keys",
            ArrayOf(
                (
                    Field("api_key", Fixed.INT16),
                    Field("min_version", Fixed.INT16),
                    Field("max_version", Fixed.INT16),
                )
            ),
        ),
    ),
)
SASL_HANDSHAKE: Final = Message("SaslHandshake", 17, 1, _NEVER, (Field("mechanism", Sized.STRING),))
SASL_HANDSHAKE_ANSWER: Final = Message(
    "SaslHandshakeResponse",
    17,
    1,
    _NEVER,
    (Field("error_code", Fixed.INT16), Field("mechanisms", ArrayOf(Sized.STRING))),
)
SASL_AUTHENTICATE: Final = Message("SaslAuthenticate", 36, 0, _NEVER, (Field("auth_bytes", Sized.BYTES),))
SASL_AUTHENTICATE_ANSWER: Final = Message(
    "SaslAuthenticateResponse",
    36,
    0,
    _NEVER,
    (
        Field("error_code", Fixed.INT16),
        Field("error_message", Sized.STRING),
        Field("auth_bytes", Sized.BYTES),
    ),
)
METADATA: Final = Message(
    "Metadata",
    3,
    12,
    9,
    (
        Field("topics", ArrayOf((Field("topic_id", Sized.UUID, since=10), Field("name", Sized.STRING)))),
        Field("allow_auto_topic_creation", Fixed.BOOL, since=4),
        Field("include_cluster_authorized_operations", Fixed.BOOL, since=8, until=10),
        Field("include_topic_authorized_operations", Fixed.BOOL, since=8),
    ),
)
METADATA_ANSWER: Final = Message(
    "MetadataResponse",
    3,
    12,
    9,
    (
        Field("throttle_time_ms", Fixed.INT32, since=3),
        Field(
            "brokers",
            ArrayOf(
                (
                    Field("node_id", Fixed.INT32),
                    Field("host", Sized.STRING),
                    Field("port", Fixed.INT32),
                    Field("rack", Sized.STRING, since=1),
                )
            ),
        ),
        Field("cluster_id", Sized.STRING, since=2),
        Field("controller_id", Fixed.INT32, since=1),
        Field(
            "topics",
            ArrayOf(
                (
                    Field("error_code", Fixed.INT16),
                    Field("name", Sized.STRING),
                    Field("topic_id", Sized.UUID, since=10),
                    Field("is_internal", Fixed.BOOL, since=1),
                    Field(
                        "partitions",
                        ArrayOf(
                            (
                                Field("error_code", Fixed.INT16),
                                Field("partition_index", Fixed.INT32),
                                Field("leader_id", Fixed.INT32),
                                Field("leader_epoch", Fixed.INT32, since=7),
                                Field("replica_nodes", _INTS),
                                Field("isr_nodes", _INTS),
                                Field("offline_replicas", _INTS, since=5),
                            )
                        ),
                    ),
                    Field("topic_authorized_operations", Fixed.INT32, since=8),
                )
            ),
        ),
        Field("cluster_authorized_operations", Fixed.INT32, since=8, until=10),
    ),
)

ERROR_NAMES: Final = {
    -1: "UNKNOWN_SERVER_ERROR", 0: "NONE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 5: "LEADER_NOT_AVAILABLE",
    7: "REQUEST_TIMED_OUT", 8: "BROKER_NOT_AVAILABLE", 9: "REPLICA_NOT_AVAILABLE", 11: "STALE_CONTROLLER_EPOCH",
    17: "INVALID_TOPIC_EXCEPTION", 29: "TOPIC_AUTHORIZATION_FAILED", 31: "CLUSTER_AUTHORIZATION_FAILED", 33: "UNSUPPORTED_SASL_MECHANISM",
    34: "ILLEGAL_SASL_STATE", 35: "UNSUPPORTED_VERSION",
    36: "TOPIC_ALREADY_EXISTS", 37: "INVALID_PARTITIONS", 38: "INVALID_REPLICATION_FACTOR", 39: "INVALID_REPLICA_ASSIGNMENT", 41: "NOT_CONTROLLER",
    42: "INVALID_REQUEST", 55: "OPERATION_NOT_ATTEMPTED", 56: "KAFKA_STORAGE_ERROR", 58: "SASL_AUTHENTICATION_FAILED",
    74: "FENCED_LEADER_EPOCH", 76: "UNKNOWN_LEADER_EPOCH", 77: "STALE_BROKER_EPOCH",
    80: "PREFERRED_LEADER_NOT_AVAILABLE", 83: "ELIGIBLE_LEADERS_NOT_AVAILABLE", 84: "ELECTION_NOT_NEEDED",
    85: "NO_REASSIGNMENT_IN_PROGRESS", 95: "INVALID_UPDATE_VERSION", 100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID", 107: "INELIGIBLE_REPLICA", 124: "NEW_LEADER_ELECTED",
}  # fmt: skip
"""Error code → Kafka's name, of what brokers answer to a controller, and a controller to brokers."""


def error_name(code: int) -> str:
    """Kafka's name of an error code; of an unknown one the number as text."""
    return ERROR_NAMES.get(code, str(code))


def error_code(name: str) -> int:
    """The code of Kafka's name of an error; that of UNKNOWN_SERVER_ERROR for a name that is not known here."""
    return _ERROR_CODES.get(name, -1)


_ERROR_CODES: Final = {name: code for code, name in ERROR_NAMES.items()}
