"""As whom a controller speaks to brokers, and at which of their listeners.

Source: Kafka's `security.inter.broker.protocol`, `inter.broker.listener.name`, `control.plane.listener.name`; RFC 4616 (PLAIN),
RFC 5802 and 7677 (SCRAM).
"""

import hashlib
import hmac
import secrets
import ssl
from base64 import b64decode, b64encode
from collections.abc import Generator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from controller_core.adapters.memory_file import shown_path
from controller_core.model.errors import BrokerAccessDeniedError, InvalidAccessError
from controller_core.model.partitions import Broker, Endpoint

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Kafka's name of a security protocol → its number in requests."""
_SASL_FIELDS: Final = ("mechanism", "username", "password")
_ITERATIONS_MAX: Final = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTls:
    """TLS to brokers; all are paths of PEM files.

    Attributes:
        ca: authorities that the brokers' certificates must come from; None: those of the system.
        certificate: ours, for mutual TLS, with its chain; None: we show none.
        key: its key, not encrypted; None: it is in the certificate's file.
        check_hostname: the broker's certificate must name the host that we connect to.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """For a connection to a broker.

        Raises:
            BrokerAccessDeniedError: a file cannot be used.
        """
        try:
            found = ssl.create_default_context(cafile=self.ca)
            found.check_hostname = self.check_hostname
            if self.certificate is not None:
                found.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ssl.SSLError) as error:
            raise BrokerAccessDeniedError(
                f"TLS to brokers not set up: expected PEM in {shown_path(self.ca)}, {shown_path(self.certificate)}, {shown_path(self.key)}, "
                f"found: {error}; correct them"
            ) from error
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogin:
    """A SASL user; brokers obey one with ClusterAction on the cluster, such as their own."""

    mechanism: Mechanism
    username: str
    password: str

    def __repr__(self) -> str:
        return f"BrokerLogin(mechanism={self.mechanism!r}, username={self.username!r}, password=…)"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """How brokers are reached.

    Attributes:
        listener: name of the listener that brokers use among themselves (`inter.broker.listener.name`, or
            `control.plane.listener.name`); ZooKeeper does not tell which it is. None: the only one of its protocol.
        tls: None: a listener without TLS.
        login: None: a listener without SASL.
    """

    listener: str | None = None
    tls: BrokerTls | None = None
    login: BrokerLogin | None = None

    @property
    def security_protocol(self) -> str:
        """Kafka's name of it."""
        encrypted = "SSL" if self.tls is not None else "PLAINTEXT"
        return encrypted if self.login is None else f"SASL_{encrypted}"

    def endpoint(self, broker: Broker) -> Endpoint:
        """Where that broker listens for us.

        Raises:
            BrokerAccessDeniedError: it has no such listener, or one of another security protocol.
        """
        protocol, wanted = self.security_protocol, self.listener
        found = [
            each
            for each in broker.endpoints
            if each.security_protocol == protocol and (wanted is None or each.listener == wanted)
        ]
        if len(found) == 1:
            return found[0]
        known = ", ".join(f"{each.listener} ({each.security_protocol})" for each in broker.endpoints) or "none"
        raise BrokerAccessDeniedError(
            f"broker {broker.id} not reached: expected one listener of {protocol}"
            f"{f' named {wanted}' if wanted else ''}, found {known}; name the brokers' inter.broker.listener.name, and give "
            "TLS and SASL as it needs them"
        )


PLAIN_ACCESS: Final = BrokerAccess()


def access_from(document: Mapping[str, Any]) -> BrokerAccess:
    """The access that a JSON object describes: `listener`, `tls` (true, or an object of `BrokerTls`), `sasl` (of `BrokerLogin`).

    Raises:
        InvalidAccessError: an unknown or missing field, or a value of another type; names it.
    """
    _require(document, {"listener", "tls", "sasl"}, "access to brokers")
    tls, sasl, listener = document.get("tls"), document.get("sasl"), document.get("listener")
    files = (
        {}
        if tls is None or isinstance(tls, bool)
        else _require(tls, {"ca", "certificate", "key", "check_hostname"}, "tls")
    )
    login = None
    if sasl is not None:
        named = {
            key: str(value) for key, value in _require(sasl, {"mechanism", "username", "password"}, "sasl").items()
        }
        mechanism = named.get("mechanism")
        if len(named) < len(_SASL_FIELDS) or mechanism not in get_args(Mechanism):
            raise InvalidAccessError(
                f"access to brokers not understood: expected in sasl a mechanism ({', '.join(get_args(Mechanism))}), username and "
                f"password, found {sorted(named)} with mechanism {mechanism!r}; correct it"
            )
        login = BrokerLogin(**named)  # type: ignore[arg-type]  # the mechanism was looked at
    if not isinstance(listener, str | None):
        raise InvalidAccessError(f"access to brokers not understood: expected text as listener, found {listener!r}")
    return BrokerAccess(listener=listener, tls=BrokerTls(**files) if tls else None, login=login)


def _require(found: Any, names: AbstractSet[str], what: str) -> dict[str, Any]:
    if not isinstance(found, Mapping) or found.keys() - names:
        shown = sorted(found.keys()) if isinstance(found, Mapping) else type(found).__name__
        raise InvalidAccessError(
            f"{what} not understood: expected an object of {sorted(names)}, found {shown}; correct it"
        )
    return dict(found)


Conversation = Generator[bytes, bytes, None]
"""Yields what we say, takes what the broker says, and ends when both sides are content."""


def conversation(login: BrokerLogin, *, nonce: str | None = None) -> Conversation:
    """The SASL exchange of a login; `nonce` is random unless given.

    Raises:
        BrokerAccessDeniedError: the broker does not know the password itself.
    """
    if login.mechanism == "PLAIN":
        return _plain(login)
    return _scram(login, nonce or secrets.token_urlsafe(24))


def _plain(login: BrokerLogin) -> Conversation:
    yield f"\0{login.username}\0{login.password}".encode()


def _scram(login: BrokerLogin, nonce: str) -> Conversation:
    algorithm = "sha256" if login.mechanism == "SCRAM-SHA-256" else "sha512"

    def mac(key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, algorithm)

    name = login.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    server_first = (yield f"n,,{first}".encode()).decode()
    said = _attributes(server_first)
    iterations = int(said.get("i", "0"))
    if not said.get("r", "").startswith(nonce) or "s" not in said or not 0 < iterations <= _ITERATIONS_MAX:
        raise BrokerAccessDeniedError(f"{login.mechanism} refused: the broker's challenge {server_first!r} is not ours")
    salted = hashlib.pbkdf2_hmac(algorithm, login.password.encode(), b64decode(said["s"]), iterations)
    key = mac(salted, b"Client Key")
    final = f"c={b64encode(b'n,,').decode()},r={said['r']}"
    message = f"{first},{server_first},{final}".encode()
    signature = mac(hashlib.new(algorithm, key).digest(), message)
    proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    server_final = _attributes((yield f"{final},p={proof}".encode()).decode())
    expected = b64encode(mac(mac(salted, b"Server Key"), message)).decode()
    if not hmac.compare_digest(server_final.get("v", ""), expected):
        raise BrokerAccessDeniedError(
            f"{login.mechanism} refused: whoever answered does not know the password of {login.username!r}; check the address"
        )


def _attributes(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)
