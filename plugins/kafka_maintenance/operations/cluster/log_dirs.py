"""What brokers say of their log directories: how much each replica holds, and how much room is left.

Brokers answer DescribeLogDirs since Kafka 1.0, and tell their room since 3.3; the client library speaks the forms of 2.0 and later.
Source: Kafka protocol guide, DescribeLogDirs; KIP-113, KIP-827; kafka-python `KafkaAdminClient`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from controller_core.model.partitions import BrokerId, TopicPartition
from kafka_maintenance.operations.cluster.brokers_asked import ANSWER_TIMEOUT_S, BrokersAsked, admin_client, said
from kafka_maintenance.operations.errors import OperationError


class SizesUnknownError(OperationError):
    """A broker did not say how much its replicas hold; nothing is planned on half the sizes."""


class BrokerTooOldError(SizesUnknownError):
    """A broker is older than the question."""


class LogDirs(NamedTuple):
    """The healthy log directories of one broker: bytes of each replica, and the room of each directory; None: it does not tell."""

    broker: BrokerId
    sizes: Mapping[TopicPartition, int]
    usable_bytes: tuple[int, ...] | None


def log_dirs_of(
    brokers: BrokersAsked, asked: str, *, only: Collection[int] | None = None, timeout_s: float = ANSWER_TIMEOUT_S
) -> tuple[LogDirs, ...]:
    """The log directories of `only`, or of all brokers of the cluster.

    Args:
        brokers: through which all brokers of the cluster are found.
        asked: what is asked of whom, for messages.
        only: ids of brokers; None: all.
        timeout_s: how long one broker may take; the first that answers may take three times as long.

    Raises:
        SizesUnknownError: no broker, or not every one, answers; one is too old for it, or does not allow it.
        BadInputError: an argument that the client does not have.
    """
    answers, silent = answers_of(brokers, asked, only=only, timeout_s=timeout_s)
    for broker, reason in sorted(silent.items()):
        raise SizesUnknownError(
            f"{asked}: the log directories of broker {broker} expected, found: {reason}; start it, or give the sizes in a file"
        )
    return tuple(_log_dirs(broker, found) for broker, found in answers.items())


def answers_of(
    brokers: BrokersAsked, asked: str, *, only: Collection[int] | None = None, timeout_s: float = ANSWER_TIMEOUT_S
) -> tuple[dict[BrokerId, list[Mapping[str, Any]]], dict[int, str]]:
    """Every log directory of each broker as the client gives it, offline ones too; and why the other brokers did not answer.

    Args:
        brokers: through which all brokers of the cluster are found.
        asked: what is asked of whom, for messages.
        only: ids of brokers; None: all.
        timeout_s: how long one broker may take; the first that answers may take three times as long.

    Raises:
        SizesUnknownError: nobody answers at all, or does not allow it; `BrokerTooOldError` for one that is too old.
        BadInputError: an argument that the client does not have.
    """
    answers, silent = _answers(asked, brokers, timeout_s, None if only is None else sorted(only))
    if silent:  # a connection beside one that hangs may be lost with it: only who is silent twice is named
        more, silent = _answers(asked, brokers, timeout_s, sorted(silent))
        answers |= more
    return answers, silent


def largest(answers: Iterable[LogDirs]) -> dict[TopicPartition, int]:
    """Bytes of the largest replica of each partition: a follower that lags holds less than its leader."""
    sizes: dict[TopicPartition, int] = {}
    for answer in answers:
        for partition, size in answer.sizes.items():
            sizes[partition] = max(sizes.get(partition, 0), size)
    return sizes


def _answers(
    asked: str, brokers: BrokersAsked, timeout_s: float, ids: Sequence[int] | None
) -> tuple[dict[BrokerId, list[Mapping[str, Any]]], dict[int, str]]:
    """The log directories of the brokers, or of all that the cluster has; and what became of those without an answer."""
    from kafka.errors import KafkaError  # noqa: PLC0415 - only who asks brokers loads their client

    answers: dict[BrokerId, list[Mapping[str, Any]]] = {}
    silent: dict[int, str] = {}
    with admin_client(asked, brokers, timeout_s, SizesUnknownError) as admin:
        # What the client learned when it connected: `describe_cluster` would ask any broker, also one that hangs.
        known = sorted(broker.node_id for broker in admin._manager.cluster.brokers())  # noqa: SLF001 - as said
        for broker in known if ids is None else ids:
            try:
                answers[BrokerId(broker)] = _asked(admin, broker, asked)
            except (KafkaError, OSError) as error:
                silent[broker] = said(error)
    return answers, silent


def _asked(admin: Any, broker: int, asked: str) -> list[Mapping[str, Any]]:
    """The log directories of one broker."""
    from kafka.errors import IncompatibleBrokerVersion, UnsupportedVersionError  # noqa: PLC0415 - as above

    try:
        (answer,) = admin.describe_log_dirs(brokers=[broker])
    except (IncompatibleBrokerVersion, UnsupportedVersionError) as error:
        raise BrokerTooOldError(
            f"{asked}: broker {broker} of Kafka 2.0 or later expected, found an older one ({said(error)}); give the "
            "sizes in a file"
        ) from error
    found: list[Mapping[str, Any]] = answer["log_dirs"]
    if not found:
        raise SizesUnknownError(
            f"{asked}: the log directories of broker {broker} expected, none found; allow this user to describe the "
            "cluster"
        )
    return found


def _log_dirs(broker: BrokerId, answer: Sequence[Mapping[str, Any]]) -> LogDirs:
    found = [
        log_dir for log_dir in answer if not log_dir["error_code"]
    ]  # an offline one holds nothing that can be copied
    sizes: dict[TopicPartition, int] = {}
    for log_dir in found:
        for topic in log_dir["topics"]:
            for row in topic["partitions"]:
                if not row["is_future_key"]:  # a copy under way between two directories of one broker
                    partition = TopicPartition(topic["name"], row["partition_index"])
                    sizes[partition] = max(sizes.get(partition, 0), row["partition_size"])
    room = [log_dir.get("usable_bytes", -1) for log_dir in found]
    return LogDirs(broker, sizes, None if not room or min(room) < 0 else tuple(room))
