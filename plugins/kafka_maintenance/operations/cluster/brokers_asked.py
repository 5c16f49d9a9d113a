"""A client of Kafka's Admin API for one question, with errors that say what was asked.

Source: kafka-python `KafkaAdminClient`.
"""

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from controller_core.adapters.host_names import hosts_in, unknown_hosts
from kafka_maintenance.operations.errors import BadInputError, OperationError

ANSWER_TIMEOUT_S = 30.0
REFUSED_S: Final = 10.0
"""How long every broker may refuse the connection before that is an error: one that is started again does for some seconds."""
_LOOK_S: Final = 0.5


class BrokersAsked(NamedTuple):
    """Brokers that answer: `host:port`, several separated by commas; further arguments of `kafka.KafkaAdminClient`, None: plain text."""

    bootstrap_servers: str
    client: Mapping[str, Any] | None = None


@contextmanager
def admin_client(
    asked: str, brokers: BrokersAsked, timeout_s: float, unanswered: type[OperationError]
) -> Iterator[Any]:
    """A connected `kafka.KafkaAdminClient`; closed at the end.

    Args:
        asked: what is asked of whom, for messages.
        brokers: through which all brokers of the cluster are found.
        timeout_s: how long one broker may take; the first that answers may take three times as long.
        unanswered: raised when no broker answers.

    Raises:
        BadInputError: an argument that the client does not have.
    """
    from kafka import KafkaAdminClient  # noqa: PLC0415 - only who asks brokers loads their client
    from kafka.errors import KafkaConfigurationError, KafkaError  # noqa: PLC0415 - as above

    if unknown := unknown_hosts(hosts_in(brokers.bootstrap_servers)):
        raise unanswered(
            f"{asked}: brokers expected at {brokers.bootstrap_servers}, no host of that name is known: {', '.join(unknown)}; "
            "check the spelling and the name service"
        )
    milliseconds = int(timeout_s * 1000)
    settings: dict[str, Any] = {
        "request_timeout_ms": milliseconds, "bootstrap_timeout_ms": 3 * milliseconds, **(brokers.client or {})
    }  # fmt: skip
    try:
        refused_s = min(REFUSED_S, settings["bootstrap_timeout_ms"] / 1000)
        if _all_refuse(brokers.bootstrap_servers, refused_s):
            raise unanswered(
                f"{asked}: brokers expected at {brokers.bootstrap_servers}, every connection was refused for {refused_s:g} s: "
                "nothing listens there; correct host and port, or start them"
            )
        admin = KafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers.split(","), **settings)
    except (KafkaConfigurationError, TypeError, ValueError) as error:
        raise BadInputError(
            f"{asked}: arguments of kafka.KafkaAdminClient expected, found: {error}; correct them"
        ) from error
    except (KafkaError, OSError) as error:
        raise unanswered(
            f"{asked}: an answer within {settings['bootstrap_timeout_ms'] / 1000:g} s expected, found: {said(error)}; are"
            " they the brokers' listeners, and may this machine reach them?"
        ) from error
    try:
        yield admin
    finally:
        admin.close()


def _all_refuse(servers: str, for_s: float) -> bool:
    """Whether nothing listens at any of the servers for that many seconds; the client alone would try for longer.

    What cannot be told in this way, as a name without a port, is left to the client.
    """
    until_s = time.monotonic() + for_s
    while True:
        for server in servers.split(","):
            host, _, port = server.strip().rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=for_s).close()
            except ConnectionRefusedError:
                continue
            except (OSError, ValueError):
                return False
            return False
        if time.monotonic() >= until_s:
            return True
        time.sleep(_LOOK_S)


def said(error: Exception) -> str:
    """The error in one line, its kind first."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
