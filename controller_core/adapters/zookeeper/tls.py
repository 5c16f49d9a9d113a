"""TLS to ZooKeeper: the operator's PEM files, checked before use, and why a server and we did not agree.

Source: ZooKeeper 3.5 `secureClientPort` (Netty); Kafka's `zookeeper.ssl.*` and `zookeeper.clientCnxnSocket`; kazoo 2.11.
"""

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.hosts import collect_hosts

from controller_core.adapters.memory_file import shown_path
from controller_core.model.errors import NoAuthError, TlsSettingsError, ZooKeeperError, ZooKeeperUnreachableError

_PROBE_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperTls:
    """TLS as the brokers use it; all are paths of PEM files.

    Attributes:
        ca: authorities that the servers' certificates must come from; None: those of the system.
        certificate: ours, for mutual TLS, with its chain; None: we show none.
        key: its key, not encrypted; None: it is in the certificate's file.
        check_hostname: the server's certificate must name the host that we connect to.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    check_hostname: bool = True


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's handler, which also sees what OpenSSL has decrypted already: select alone would wait for the next record."""

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As `select.select`."""
        held = [each for each in rlist if isinstance(each, ssl.SSLSocket) and each.pending()]
        readable, writable, failed = super().select(rlist, wlist, xlist, 0 if held else timeout)
        return [*readable, *(each for each in held if each not in readable)], writable, failed


def client_options(tls: ZooKeeperTls, hosts: str) -> dict[str, Any]:
    """Arguments of `KazooClient`; raises TlsSettingsError for a file that cannot be used."""
    _context(tls, hosts)
    return {
        "handler": TlsHandler(),
        "use_ssl": True,
        "ca": tls.ca,
        "certfile": tls.certificate,
        "keyfile": tls.key or tls.certificate,
        "keyfile_password": "",  # OpenSSL would ask at the terminal
        "check_hostname": tls.check_hostname,
    }


def tls_refusal(hosts: str, tls: ZooKeeperTls) -> ZooKeeperError | None:
    """Why no TLS session came about, asked of each server once more; None when TLS is not the reason."""
    context = _context(tls, hosts)
    return next((found for found in _refusals(hosts, tls, context) if found is not None), None)


def _refusals(hosts: str, tls: ZooKeeperTls, context: ssl.SSLContext) -> Iterator[ZooKeeperError | None]:
    shown = f"with certificate {shown_path(tls.certificate)}" if tls.certificate else "without a certificate"
    for host, port in collect_hosts(hosts)[0]:
        where = f"{host}:{port}"
        try:
            _shake_hands(host, port, context)
        except ssl.SSLCertVerificationError as error:
            yield ZooKeeperUnreachableError(
                f"{where} not trusted: its certificate is refused ({error.verify_message}); expected one of "
                f"{shown_path(tls.ca) if tls.ca else 'the authorities of this system'} that names {host!r}: correct the CA file or the host name"
            )
        except (ConnectionResetError, BrokenPipeError, EOFError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            yield NoAuthError(
                f"{where} refused us: it closed the TLS connection that was opened {shown}; expected a port that speaks TLS "
                "(secureClientPort) and a certificate that its trust store knows: correct the port, or our certificate"
            )
        except ssl.SSLError as error:
            yield _alert(where, error, shown)
        except OSError:
            yield None  # nobody there: not a matter of TLS


def _alert(where: str, error: ssl.SSLError, shown: str) -> ZooKeeperError:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL"}:
        return ZooKeeperUnreachableError(
            f"{where} not reached by TLS: it answers in plain text ({reason}); expected the secureClientPort: correct the port"
        )
    return NoAuthError(
        f"{where} refused us: TLS opened {shown} ended with {reason!r}; expected a certificate that the server's trust store "
        "knows: correct our certificate and key"
    )


def _shake_hands(host: str, port: int, context: ssl.SSLContext) -> None:
    """Opens a TLS connection and waits for a word: with TLS 1.3 a server refuses our certificate only after its hello."""
    with (
        socket.create_connection((host, port), timeout=_PROBE_TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        secured.sendall(b"srvr")
        with suppress(TimeoutError):
            if not secured.recv(1):
                raise EOFError


def _context(tls: ZooKeeperTls, hosts: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = tls.check_hostname
    if tls.key and not tls.certificate:
        raise TlsSettingsError(
            f"{hosts}: not connected: a key {shown_path(tls.key)} without a certificate; expected both or none: name the certificate"
        )
    try:
        if tls.ca:
            context.load_verify_locations(tls.ca)
    except OSError as error:
        raise _unusable(hosts, "CA file", shown_path(tls.ca), error, "certificates in PEM") from error
    try:
        if tls.certificate:
            context.load_cert_chain(tls.certificate, tls.key or tls.certificate, password="")
    except (OSError, ValueError) as error:
        files = (
            shown_path(tls.certificate) if tls.key is None else f"{shown_path(tls.certificate)}, {shown_path(tls.key)}"
        )
        raise _unusable(
            hosts, "certificate and key", files, error, "a certificate and its unencrypted key in PEM"
        ) from error
    return context


def _unusable(hosts: str, what: str, files: str, error: Exception, expected: str) -> TlsSettingsError:
    found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return TlsSettingsError(f"{hosts}: not connected: {what} {files}: expected {expected}, found {found!r}; correct it")
