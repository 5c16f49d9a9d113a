"""How many bytes a replica of each partition holds: from a file, or as the brokers themselves say.

Brokers answer DescribeLogDirs since Kafka 1.0; the client library speaks the form of 2.0 and later. A follower that lags
holds less than its leader, so a partition has the size of its largest replica: that is what a new one copies.
Source: Kafka protocol guide, DescribeLogDirs; KIP-113; kafka-python `KafkaAdminClient`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from controller_core.model.partitions import TopicPartition
from kafka_maintenance.operations.cluster.brokers_asked import ANSWER_TIMEOUT_S, BrokersAsked, admin_client, said
from kafka_maintenance.operations.errors import BadInputError, OperationError, listed

Sizes = Mapping[TopicPartition, int]


class SizesUnknownError(OperationError):
    """A broker did not say how much its replicas hold; nothing is planned on half the sizes."""


def sizes_from_file(path: Path) -> Sizes:
    """Bytes of one replica of each partition, from `{"partitions": [{"topic", "partition", "size"}, …]}`.

    That is also the form of the cluster state that `plan-file` reads; other fields are ignored.

    Raises:
        BadInputError: the file cannot be read, or is of another form.
    """
    try:
        document = json.loads(path.read_bytes())
        sizes = {TopicPartition(str(row["topic"]), row["partition"]): row["size"] for row in document["partitions"]}
    except OSError as error:
        raise BadInputError(f"sizes not read from {path}: {error.strerror}; name a readable file") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadInputError(
            f'sizes not read from {path}: {{"partitions": [{{"topic", "partition", "size"}}, …]}} expected, found '
            f"something else ({error!r}); see docs/planning.md"
        ) from error
    wrong = [f"{each}: {size!r}" for each, size in sizes.items() if type(size) is not int or size < 0]
    if wrong:
        raise BadInputError(
            f"sizes not read from {path}: bytes from 0 on expected, found {listed(wrong)}; correct them"
        )
    return sizes


def sizes_from_log_dirs(brokers: BrokersAsked, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Sizes:
    """Bytes of the largest replica of each partition, as all brokers of the cluster say.

    Args:
        brokers: through which all brokers of the cluster are found.
        timeout_s: how long one broker may take; the first that answers may take three times as long.

    Raises:
        SizesUnknownError: no broker, or not every one, answers; one is too old for it, or does not allow it.
        BadInputError: an argument that the client does not have.
    """
    asked = f"sizes asked of the brokers at {brokers.bootstrap_servers}"
    answers, silent = _answers(asked, brokers, timeout_s, None)
    if silent:  # a connection beside one that hangs may be lost with it: only who is silent twice is named
        more, silent = _answers(asked, brokers, timeout_s, sorted(silent))
        answers += more
    for broker, found in sorted(silent.items()):
        raise SizesUnknownError(
            f"{asked}: the log directories of broker {broker} expected, found: {found}; start it, or give the sizes in a file"
        )
    return _largest(log_dir for answer in answers for log_dir in answer)


def _answers(
    asked: str, brokers: BrokersAsked, timeout_s: float, ids: Sequence[int] | None
) -> tuple[list[list[Mapping[str, Any]]], dict[int, str]]:
    """The log directories of the brokers, or of all that the cluster has; and what became of those without an answer."""
    from kafka.errors import KafkaError  # noqa: PLC0415 - only who asks brokers loads their client

    answers: list[list[Mapping[str, Any]]] = []
    silent: dict[int, str] = {}
    with admin_client(asked, brokers, timeout_s, SizesUnknownError) as admin:
        # What the client learned when it connected: `describe_cluster` would ask any broker, also one that hangs.
        known = sorted(broker.node_id for broker in admin._manager.cluster.brokers())  # noqa: SLF001 - as said
        for broker in known if ids is None else ids:
            try:
                answers.append(_asked(admin, broker, asked))
            except (KafkaError, OSError) as error:
                silent[broker] = said(error)
    return answers, silent


def _asked(admin: Any, broker: int, asked: str) -> list[Mapping[str, Any]]:
    """The healthy log directories of one broker."""
    from kafka.errors import IncompatibleBrokerVersion, UnsupportedVersionError  # noqa: PLC0415 - as above

    try:
        (answer,) = admin.describe_log_dirs(brokers=[broker])
    except (IncompatibleBrokerVersion, UnsupportedVersionError) as error:
        raise SizesUnknownError(
            f"{asked}: broker {broker} of Kafka 2.0 or later expected, found an older one ({said(error)}); give the "
            "sizes in a file"
        ) from error
    found: list[Mapping[str, Any]] = answer["log_dirs"]
    if not found:
        raise SizesUnknownError(
            f"{asked}: the log directories of broker {broker} expected, none found; allow this user to describe the "
            "cluster"
        )
    return [
        log_dir for log_dir in found if not log_dir["error_code"]
    ]  # an offline one holds nothing that can be copied


def _largest(log_dirs: Iterable[Mapping[str, Any]]) -> Sizes:
    sizes: dict[TopicPartition, int] = {}
    for log_dir in log_dirs:
        for topic in log_dir["topics"]:
            for row in topic["partitions"]:
                if not row["is_future_key"]:  # a copy under way between two directories of one broker
                    partition = TopicPartition(topic["name"], row["partition_index"])
                    sizes[partition] = max(sizes.get(partition, 0), row["partition_size"])
    return sizes
