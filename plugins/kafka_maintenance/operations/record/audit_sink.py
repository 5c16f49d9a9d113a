"""Where the entries of the audit chain are sent as they are written: a webhook or syslog, outside the store."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit

from kafka_maintenance.operations.errors import BadInputError, OperationError
from kafka_maintenance.operations.webhook import post_json

SINK_VARIABLE: Final = "KAFKA_MAINTENANCE_AUDIT_SINK"
OPTIONAL_VARIABLE: Final = "KAFKA_MAINTENANCE_AUDIT_SINK_OPTIONAL"
TIMEOUT_S: Final = 10.0
_AUDIT_NOTICE: Final = 13 * 8 + 5
"""Facility "log audit", severity "notice". Source: RFC 5424, "PRI"."""


class AuditSinkError(OperationError):
    """An entry of the audit chain was not delivered; nothing that follows from it is done."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Sends entries to `url`, `https://…`, `http://…` or `syslog://host:port` (TCP, RFC 6587); None: nowhere."""

    url: str | None = None
    optional: bool = False

    def send(self, entry: bytes) -> None:
        """Delivers one entry, a JSON document.

        Raises:
            AuditSinkError: it was not taken, and delivery is not optional.
        """
        if self.url is None:
            return
        try:
            _syslog(self.url, entry) if self.url.startswith("syslog://") else post_json(self.url, entry, TIMEOUT_S)
        except (OSError, HTTPException, ValueError) as error:
            if self.optional:
                return
            raise AuditSinkError(
                f"audit entry not delivered to {urlsplit(self.url).hostname}: expected that it is taken, found: {error}; nothing "
                f"more is done; repair the receiver, or set {OPTIONAL_VARIABLE}=true"
            ) from error


def sink_from(environment: Mapping[str, str]) -> Sink:
    """The sink that the environment names.

    Raises:
        BadInputError: an address of another kind.
    """
    url = environment.get(SINK_VARIABLE, "").strip()
    if not url:
        return Sink()
    if not _is_address(url):
        raise BadInputError(
            f"audit sink not used: expected https://…, http://… or syslog://host:port, without a login, in ${SINK_VARIABLE}, "
            f"found {url.rpartition('@')[2]!r}"
        )
    return Sink(url, environment.get(OPTIONAL_VARIABLE, "").strip().lower() == "true")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    named = parts.scheme in {"https", "http", "syslog"} and parts.hostname and parts.username is None
    return bool(named and (port or parts.scheme != "syslog"))


def _syslog(url: str, entry: bytes) -> None:
    """One message, counted in octets. Source: RFC 5424, "Syslog Message Format"; RFC 6587, "Octet Counting"."""
    parts = urlsplit(url)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    message = f"<{_AUDIT_NOTICE}>1 {now} {socket.gethostname()} kafka-maintenance - audit - ".encode() + entry
    with socket.create_connection((parts.hostname, parts.port), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"%d %b" % (len(message), message))
