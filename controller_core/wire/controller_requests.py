"""What brokers and clients ask of a controller: which version has which fields.

Kafka 3.9 in ZooKeeper mode serves these versions. Source: the message definitions of Kafka 3.9; tests compare the bytes of every
version with a library made from the same.
"""

from typing import Final

from controller_core.wire.schema import ArrayOf, Field, Fixed, Message, Sized

_INTS: Final = ArrayOf(Fixed.INT32)
_THROTTLE: Final = Field("throttle_time_ms", Fixed.INT32)
_TIMEOUT: Final = Field("timeout_ms", Fixed.INT32)
_ERROR: Final = Field("error_code", Fixed.INT16)
_ERROR_MESSAGE: Final = Field("error_message", Sized.STRING)
_INDEX: Final = Field("partition_index", Fixed.INT32)
_TOPIC_BY_NAME_OR_ID: Final = (Field("topic_name", Sized.STRING, until=1), Field("topic_id", Sized.UUID, since=2))

CONTROLLED_SHUTDOWN: Final = Message(
    "ControlledShutdown",
    7,
    3,
    3,
    (Field("broker_id", Fixed.INT32), Field("broker_epoch", Fixed.INT64, since=2)),
)
CONTROLLED_SHUTDOWN_ANSWER: Final = Message(
    "ControlledShutdownResponse",
    7,
    3,
    3,
    (_ERROR, Field("remaining_partitions", ArrayOf((Field("topic_name", Sized.STRING), _INDEX)))),
)

ALTER_PARTITION: Final = Message(
    "AlterPartition",
    56,
    3,
    0,
    (
        Field("broker_id", Fixed.INT32),
        Field("broker_epoch", Fixed.INT64),
        Field(
            "topics",
            ArrayOf(
                (
                    *_TOPIC_BY_NAME_OR_ID,
                    Field(
                        "partitions",
                        ArrayOf(
                            (
                                _INDEX,
                                Field("leader_epoch", Fixed.INT32),
                                Field("new_isr", _INTS, until=2),
                                Field(
                                    "new_isr_with_epochs",
                                    ArrayOf((Field("broker_id", Fixed.INT32), Field("broker_epoch", Fixed.INT64))),
                                    since=3,
                                ),
                                Field("leader_recovery_state", Fixed.INT8, since=1),
                                Field("partition_epoch", Fixed.INT32),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
ALTER_PARTITION_ANSWER: Final = Message(
    "AlterPartitionResponse",
    56,
    3,
    0,
    (
        _THROTTLE,
        _ERROR,
        Field(
            "topics",
            ArrayOf(
                (
                    *_TOPIC_BY_NAME_OR_ID,
                    Field(
                        "partitions",
                        ArrayOf(
                            (
                                _INDEX,
                                _ERROR,
                                Field("leader_id", Fixed.INT32),
                                Field("leader_epoch", Fixed.INT32),
                                Field("isr", _INTS),
                                Field("leader_recovery_state", Fixed.INT8, since=1),
                                Field("partition_epoch", Fixed.INT32),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

ALLOCATE_PRODUCER_IDS: Final = Message(
    "AllocateProducerIds", 67, 0, 0, (Field("broker_id", Fixed.INT32), Field("broker_epoch", Fixed.INT64))
)
ALLOCATE_PRODUCER_IDS_ANSWER: Final = Message(
    "AllocateProducerIdsResponse",
    67,
    0,
    0,
    (_THROTTLE, _ERROR, Field("producer_id_start", Fixed.INT64), Field("producer_id_len", Fixed.INT32)),
)

ELECT_LEADERS: Final = Message(
    "ElectLeaders",
    43,
    2,
    2,
    (
        Field("election_type", Fixed.INT8, since=1),
        Field("topic_partitions", ArrayOf((Field("topic", Sized.STRING), Field("partitions", _INTS)))),
        _TIMEOUT,
    ),
)
ELECT_LEADERS_ANSWER: Final = Message(
    "ElectLeadersResponse",
    43,
    2,
    2,
    (
        _THROTTLE,
        Field("error_code", Fixed.INT16, since=1),
        Field(
            "replica_election_results",
            ArrayOf(
                (
                    Field("topic", Sized.STRING),
                    Field(
                        "partition_result",
                        ArrayOf((Field("partition_id", Fixed.INT32), _ERROR, _ERROR_MESSAGE)),
                    ),
                )
            ),
        ),
    ),
)

ALTER_PARTITION_REASSIGNMENTS: Final = Message(
    "AlterPartitionReassignments",
    45,
    0,
    0,
    (
        _TIMEOUT,
        Field(
            "topics",
            ArrayOf((Field("name", Sized.STRING), Field("partitions", ArrayOf((_INDEX, Field("replicas", _INTS)))))),
        ),
    ),
)
ALTER_PARTITION_REASSIGNMENTS_ANSWER: Final = Message(
    "AlterPartitionReassignmentsResponse",
    45,
    0,
    0,
    (
        _THROTTLE,
        _ERROR,
        _ERROR_MESSAGE,
        Field(
            "responses",
            ArrayOf((Field("name", Sized.STRING), Field("partitions", ArrayOf((_INDEX, _ERROR, _ERROR_MESSAGE))))),
        ),
    ),
)

LIST_PARTITION_REASSIGNMENTS: Final = Message(
    "ListPartitionReassignments",
    46,
    0,
    0,
    (_TIMEOUT, Field("topics", ArrayOf((Field("name", Sized.STRING), Field("partition_indexes", _INTS))))),
)
LIST_PARTITION_REASSIGNMENTS_ANSWER: Final = Message(
    "ListPartitionReassignmentsResponse",
    46,
    0,
    0,
    (
        _THROTTLE,
        _ERROR,
        _ERROR_MESSAGE,
        Field(
            "topics",
            ArrayOf(
                (
                    Field("name", Sized.STRING),
                    Field(
                        "partitions",
                        ArrayOf(
                            (
                                _INDEX,
                                Field("replicas", _INTS),
                                Field("adding_replicas", _INTS),
                                Field("removing_replicas", _INTS),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

CREATE_TOPICS: Final = Message(
    "CreateTopics",
    19,
    7,
    5,
    (
        Field(
            "topics",
            ArrayOf(
                (
                    Field("name", Sized.STRING),
                    Field("num_partitions", Fixed.INT32),
                    Field("replication_factor", Fixed.INT16),
                    Field("assignments", ArrayOf((_INDEX, Field("broker_ids", _INTS)))),
                    Field("configs", ArrayOf((Field("name", Sized.STRING), Field("value", Sized.STRING)))),
                )
            ),
        ),
        _TIMEOUT,
        Field("validate_only", Fixed.BOOL, since=1),
    ),
)
CREATE_TOPICS_ANSWER: Final = Message(
    "CreateTopicsResponse",
    19,
    7,
    5,
    (
        Field("throttle_time_ms", Fixed.INT32, since=2),
        Field(
            "topics",
            ArrayOf(
                (
                    Field("name", Sized.STRING),
                    Field("topic_id", Sized.UUID, since=7),
                    _ERROR,
                    Field("error_message", Sized.STRING, since=1),
                    Field("num_partitions", Fixed.INT32, since=5),
                    Field("replication_factor", Fixed.INT16, since=5),
                    Field(
                        "configs",
                        ArrayOf(
                            (
                                Field("name", Sized.STRING),
                                Field("value", Sized.STRING),
                                Field("read_only", Fixed.BOOL),
                                Field("config_source", Fixed.INT8),
                                Field("is_sensitive", Fixed.BOOL),
                            )
                        ),
                        since=5,
                    ),
                )
            ),
        ),
    ),
)
