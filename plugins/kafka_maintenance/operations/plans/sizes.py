"""How many bytes a replica of each partition holds: from a file, or as the brokers themselves say.

A follower that lags holds less than its leader, so a partition has the size of its largest replica: that is what a new one copies.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from controller_core.model.partitions import TopicPartition
from kafka_maintenance.operations.cluster.brokers_asked import ANSWER_TIMEOUT_S, BrokersAsked
from kafka_maintenance.operations.cluster.log_dirs import largest, log_dirs_of
from kafka_maintenance.operations.errors import BadInputError, listed

Sizes = Mapping[TopicPartition, int]


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
    return largest(
        log_dirs_of(brokers, f"sizes asked of the brokers at {brokers.bootstrap_servers}", timeout_s=timeout_s)
    )
