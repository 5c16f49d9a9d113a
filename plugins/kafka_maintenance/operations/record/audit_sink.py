"""Where the entries of the audit chain are sent as they are written: a webhook or syslog, outside the store."""

import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from kafka_maintenance.operations.errors import BadInputError, OperationError

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
            _syslog(self.url, entry) if self.url.startswith("syslog://") else _post(self.url, entry)
        except (OSError, urllib.error.URLError) as error:
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
    parts = urlsplit(url)
    if (
        parts.scheme not in {"https", "http", "syslog"}
        or not parts.hostname
        or (parts.scheme == "syslog" and not parts.port)
    ):
        raise BadInputError(
            f"audit sink not used: expected https://…, http://… or syslog://host:port in ${SINK_VARIABLE}, found {url!r}"
        )
    return Sink(url, environment.get(OPTIONAL_VARIABLE, "").strip().lower() == "true")


def _post(url: str, entry: bytes) -> None:
    request = urllib.request.Request(url, data=entry, headers={"Content-Type": "application/json"}, method="POST")  # noqa: S310 - the scheme was checked
    with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310 - as above
        pass


def _syslog(url: str, entry: bytes) -> None:
    """One message, counted in octets. Source: RFC 5424, "Syslog Message Format"; RFC 6587, "Octet Counting"."""
    parts = urlsplit(url)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    message = f"<{_AUDIT_NOTICE}>1 {now} {socket.gethostname()} kafka-maintenance - audit - ".encode() + entry
    with socket.create_connection((parts.hostname, parts.port), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"%d %b" % (len(message), message))
