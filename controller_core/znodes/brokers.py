"""`/brokers/ids/<id>`: where a broker listens, its rack and features.

Source: Kafka 3.9 `BrokerIdZNode`, `BrokerInfo`, `EndPoint`; Kafka 1.0 `Broker`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import Broker, Endpoint
from controller_core.znodes.json_text import Fields, encode_object, parse_object
from controller_core.znodes.key_order import ScalaVersion, immutable_map_order, mutable_map_order
from controller_core.znodes.paths import broker_id_of

VERSION_ENDPOINTS, VERSION_RACK, VERSION_LISTENERS, VERSION_FEATURES = 2, 3, 4, 5
NO_PORT = -1
_INITIAL_KEYS = ("version", "host", "port", "endpoints", "jmx_port", "timestamp")
_KNOWN = (*_INITIAL_KEYS, "rack", "listener_security_protocol_map", "features")
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,10})", re.ASCII)
_PORT_MAX = 2**31 - 1
_BROKER_PATH_EXAMPLE = "/brokers/ids/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerZnode:
    """Content of a broker's registration.

    `host` and `port` are those of the first PLAINTEXT endpoint, for ancient clients: None and -1 when there is none.
    `timestamp` is milliseconds as text. `extra` holds unknown fields as (name, JSON text).
    """

    broker: Broker
    version: int
    host: str | None
    port: int
    jmx_port: int = -1
    timestamp: str = "-1"
    extra: tuple[tuple[str, str], ...] = ()


def decode_broker(data: bytes | None, *, path: str, epoch: int = -1) -> BrokerZnode:
    """The registration at `path`, of versions 1 to 5 and later ones that keep their fields.

    Args:
        data: content of the znode.
        path: names the broker's id.
        epoch: the znode's czxid, which is the broker epoch since Kafka 2.2.

    Raises:
        MalformedZnodeError: no JSON, a mandatory field is missing or mistyped, an endpoint cannot be read, or the path
            names no broker id; Kafka throws at all of these.
    """
    document = parse_object(data, path)
    version = document.integer("version", low=1)
    endpoints = (_plaintext(document),) if version < VERSION_ENDPOINTS else _endpoints(document)
    return BrokerZnode(
        broker=Broker(broker_id_of(path), epoch, endpoints, document.text_or_none("rack"), _features(document)),
        version=version,
        host=document.text_or_none("host"),
        port=document.integer("port") if document.has("port") else NO_PORT,
        jmx_port=document.integer("jmx_port") if document.has("jmx_port") else -1,
        timestamp=document.text_or_none("timestamp") or "-1",
        extra=document.unknown_fields(_KNOWN),
    )


def encode_broker(znode: BrokerZnode, *, scala: ScalaVersion = ScalaVersion.V2_13) -> bytes:
    """The bytes that a broker writes whose format is `znode.version`; keys in the order of its Scala."""
    broker = znode.broker
    values: dict[str, object] = {
        "version": znode.version,
        "host": znode.host,
        "port": znode.port,
        "endpoints": [_connection_string(endpoint) for endpoint in broker.endpoints],
        "jmx_port": znode.jmx_port,
        "timestamp": znode.timestamp,
    }
    if znode.version < VERSION_ENDPOINTS:
        del values["endpoints"]
    if broker.rack is not None and znode.version >= VERSION_RACK:
        values["rack"] = broker.rack
    if znode.version >= VERSION_LISTENERS:
        protocols = {endpoint.listener: endpoint.security_protocol for endpoint in broker.endpoints}
        in_order = immutable_map_order(list(protocols), scala)
        values["listener_security_protocol_map"] = {listener: protocols[listener] for listener in in_order}
    if znode.version >= VERSION_FEATURES:
        values["features"] = {name: {"min_version": low, "max_version": high} for name, (low, high) in broker.features}
    if znode.version < VERSION_LISTENERS:  # these were never measured: the order of the layout's examples
        order = ["version", "host", "port", "jmx_port", "timestamp", "endpoints", "rack"]
        keys = [key for key in order if key in values]
    else:
        keys = mutable_map_order(list(values), scala, initial_size=len(_INITIAL_KEYS))
    return encode_object([(key, values[key]) for key in keys], znode.extra)


def parse_endpoint(text: str, protocols: Mapping[str, str] | None, *, path: str = _BROKER_PATH_EXAMPLE) -> Endpoint:
    """`NAME://host:port`; IPv6 hosts stand in brackets.

    `protocols` maps listener names, in upper case, to security protocols; None: the name is the protocol.
    """
    found = _ENDPOINT.fullmatch(text)
    if found is None or int(found[3]) > _PORT_MAX:
        raise MalformedZnodeError(path, f"field 'endpoints': expected NAME://host:port, found {text[:80]!r}")
    listener = found[1].upper()
    protocol = listener if protocols is None else protocols.get(listener)
    if protocol is None:
        raise MalformedZnodeError(
            path,
            f"field 'listener_security_protocol_map': expected listener {listener!r}, found {sorted(protocols or ())}",
        )
    return Endpoint(found[2], int(found[3]), listener, protocol)


def _endpoints(document: Fields) -> tuple[Endpoint, ...]:
    protocols = None
    if document.values.get("listener_security_protocol_map") is not None:
        mapped = document.child("listener_security_protocol_map")
        protocols = {name.upper(): mapped.text(name) for name in mapped.values}
    return tuple(parse_endpoint(text, protocols, path=document.path) for text in document.texts("endpoints"))


def _plaintext(document: Fields) -> Endpoint:
    return Endpoint(document.text("host"), document.integer("port"), "PLAINTEXT", "PLAINTEXT")


def _features(document: Fields) -> tuple[tuple[str, tuple[int, int]], ...]:
    if document.values.get("features") is None:
        return ()
    features = document.child("features")
    ranges = ((name, features.child(name)) for name in features.values)
    return tuple((name, (each.integer("min_version"), each.integer("max_version"))) for name, each in ranges)


def _connection_string(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"
