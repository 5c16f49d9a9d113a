"""A connection of type `kafka_zookeeper` (or `generic`) → a cluster; the one place that knows its fields.

`host` holds one or more `host:port`, separated by commas; `extra` may hold the `CLUSTER_FIELDS`; login and password are those of ZooKeeper.
Where `write_connection` names a second connection, tasks that write log in as that one says, and all others as this one does.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Final, Literal

from kafka_maintenance.connections.fields import (
    ConnectionFields,
    SettingsMissingError,
    extra_of,
    mapping_of,
    parsed,
    text_of,
    truth_of,
)
from spark_jobs.severities import SEVERITIES

if TYPE_CHECKING:  # boto3 and kazoo are slow to import, and reading a DAG needs neither
    from controller_core.adapters.zookeeper.address import ClusterAddress
    from controller_core.adapters.zookeeper.session import ZooKeeperAuth, ZooKeeperTls


CLUSTERS_VARIABLE = "kafka_maintenance_clusters"
ZOOKEEPER_PORT = 2181
ALARM_SEVERITIES: Final = (*SEVERITIES, "none")
CLUSTER_FIELDS: Final = (
    "chroot",
    "auth",
    "tls",
    "write_connection",
    "kafka_version",
    "inter_broker_protocol_version",
    "archived",
    "analysis",
    "alarm_severity",
    "may_act_as_controller",
    "broker_access",
    "bootstrap_servers",
    "client_settings",
    "approvers",
    "caps",
)
_SCHEMES: Mapping[str, Literal["digest", "sasl", "kerberos"]] = {
    "digest": "digest",
    "sasl": "sasl",
    "kerberos": "kerberos",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One Kafka cluster as its connection describes it; `name` is the connection id.

    `write_connection` names the connection of the principal that writes (`cluster_to_write`); None: there is one for all.
    An `archived` cluster is gone: its past snapshots are analysed, no new one is tried. `analysis` holds what no snapshot shows, such as broker configs (the
    fields of `spark_jobs.settings.ClusterSettings`). `may_act_as_controller` lets approved plans take the place of the active
    controller for a few seconds, with `broker_access` to the brokers (the fields of `adapters.brokers.access.access_from`).
    `bootstrap_servers` are brokers that may be asked (`host:port`, several with commas; None: nobody asks), with the further
    arguments of `kafka.KafkaAdminClient` in `client_settings`. `approvers` (None: the policy alone says who) and `caps` narrow the policy of
    the cluster (`gate.policy`).
    """

    name: str
    address: "ClusterAddress"
    write_connection: str | None = None
    kafka_version: str | None = None
    inter_broker_protocol_version: str | None = None
    archived: bool = False
    analysis: Mapping[str, Any] = field(default_factory=dict)
    alarm_severity: str | None = None
    may_act_as_controller: bool = False
    broker_access: Mapping[str, Any] = field(default_factory=dict, repr=False)
    bootstrap_servers: str | None = None
    client_settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    approvers: frozenset[str] | None = None
    caps: Mapping[str, int] = field(default_factory=dict)


def names_from(text: str | None) -> tuple[str, ...]:
    """The names in the text of the clusters' Variable: `["alpha", "beta"]` or `alpha,beta`."""
    hint = f'set the Variable {CLUSTERS_VARIABLE} to a JSON list of connection ids, e.g. ["alpha", "beta"]'
    if not text or not text.strip():
        raise SettingsMissingError(f"clusters not read: the Variable {CLUSTERS_VARIABLE} is not set; {hint}")
    try:
        names = json.loads(text) if text.strip().startswith("[") else [part.strip() for part in text.split(",")]
    except json.JSONDecodeError as error:
        raise SettingsMissingError(f"clusters not read: {text!r} is not JSON ({error}); {hint}") from error
    if not all(isinstance(name, str) and name for name in names):
        raise SettingsMissingError(f"clusters not read: expected connection ids, found {names!r}; {hint}")
    return tuple(dict.fromkeys(names))


def cluster_from(name: str, connection: ConnectionFields) -> Cluster:
    """What a connection says of a cluster; raises SettingsMissingError with the field that is wrong."""
    from controller_core.adapters.snapshot.manifest import require_name  # noqa: PLC0415 - see the imports
    from controller_core.adapters.zookeeper.address import ClusterAddress  # noqa: PLC0415 - see the imports

    try:
        require_name(name, "cluster")
    except ValueError as error:
        raise SettingsMissingError(
            f"connection {name!r} not used: its id names the cluster in the store ({error}); give the connection such an id, and list that in "
            f"the Variable {CLUSTERS_VARIABLE}"
        ) from error
    extra = {field: value for field, value in extra_of(name, connection).items() if value is not None}
    unknown = sorted(extra.keys() - set(CLUSTER_FIELDS))
    if unknown:
        raise SettingsMissingError(
            f"cluster {name!r} not used: its connection's extra holds {unknown}, expected only {', '.join(CLUSTER_FIELDS)}; "
            "correct the names"
        )
    chroot = str(extra.get("chroot") or "").strip("/")
    return Cluster(
        name=name,
        address=ClusterAddress(
            _hosts(name, connection) + (f"/{chroot}" if chroot else ""),
            _auth(name, connection, extra),
            _tls(name, parsed(extra.get("tls", False))),
        ),
        write_connection=text_of(extra.get("write_connection")),
        kafka_version=text_of(extra.get("kafka_version")),
        inter_broker_protocol_version=text_of(extra.get("inter_broker_protocol_version")),
        archived=truth_of(f"cluster {name!r} not used: its connection says archived", extra.get("archived", False)),
        analysis=mapping_of(name, parsed(extra.get("analysis", {})), "its analysis"),
        alarm_severity=_alarm_severity(name, text_of(extra.get("alarm_severity"))),
        may_act_as_controller=truth_of(
            f"cluster {name!r} not used: its connection says may_act_as_controller",
            extra.get("may_act_as_controller", False),
        ),
        broker_access=_broker_access(mapping_of(name, parsed(extra.get("broker_access", {})), "its broker_access")),
        bootstrap_servers=text_of(extra.get("bootstrap_servers")),
        client_settings=_files(mapping_of(name, parsed(extra.get("client_settings", {})), "its client_settings")),
        approvers=_approvers(name, extra.get("approvers")),
        caps=_caps(name, mapping_of(name, parsed(extra.get("caps") or {}), "its caps")),
    )


def place_of(address: "ClusterAddress") -> tuple[set[str], str]:
    """The names of the hosts, and the chroot."""
    hosts = address.zookeeper.partition("/")[0]
    return {host.rpartition(":")[0] for host in hosts.split(",")}, address.chroot


def _hosts(name: str, connection: ConnectionFields) -> str:
    host = connection.host or ""
    if not host:
        raise SettingsMissingError(
            f"cluster {name!r} not used: its connection has no host; put ZooKeeper's host:port there, several with commas"
        )
    if connection.schema or "/" in host:
        raise SettingsMissingError(
            f"cluster {name!r} not used: its connection holds a path (host {host!r}, schema {connection.schema!r}), expected "
            "hosts alone; put the path into its extra, as chroot"
        )
    return ",".join(_with_port(part.strip(), connection.port) for part in host.split(",") if part.strip())


def _with_port(host: str, port: int | None) -> str:
    """`host:port`; an IPv6 address gets its brackets, a host that names a port keeps it."""
    with suppress(ValueError):
        host = f"[{IPv6Address(host)}]"
    return host if ":" in host.rpartition("]")[2] else f"{host}:{port or ZOOKEEPER_PORT}"


def _auth(name: str, connection: ConnectionFields, extra: Mapping[str, Any]) -> "ZooKeeperAuth | None":
    from controller_core.adapters.zookeeper.session import ZooKeeperAuth  # noqa: PLC0415 - see the imports

    scheme = text_of(extra.get("auth"))
    if scheme is None:
        if connection.login or connection.password:
            raise SettingsMissingError(
                f"cluster {name!r} not used: its connection holds a login or a password but no auth in its extra, so the session "
                "would be anonymous; name the scheme, digest, sasl or kerberos, or clear both"
            )
        return None
    if scheme not in _SCHEMES:
        raise SettingsMissingError(
            f"cluster {name!r} not used: its connection says auth {scheme!r}, expected 'digest', 'sasl' or 'kerberos'; correct its extra"
        )
    if scheme == "kerberos":
        if not connection.login or connection.password:
            raise SettingsMissingError(
                f"cluster {name!r} not used: its connection says auth 'kerberos', expected a principal as login and no password (the keys are in "
                f"a keytab on the workers), found login {connection.login!r} and {'a' if connection.password else 'no'} password; correct it"
            )
        return ZooKeeperAuth(scheme="kerberos", username=connection.login)
    if not connection.login or connection.password is None:
        raise SettingsMissingError(
            f"cluster {name!r} not used: its connection says auth {scheme!r} but holds no login and password; fill them in"
        )
    return ZooKeeperAuth(scheme=_SCHEMES[scheme], username=connection.login, password=connection.password)


def _tls(name: str, found: Any) -> "ZooKeeperTls | None":
    from controller_core.adapters.zookeeper.session import ZooKeeperTls  # noqa: PLC0415 - see the imports

    says = f"cluster {name!r} not used: its connection says tls"
    if not isinstance(found, Mapping):
        return (
            ZooKeeperTls()
            if truth_of(says, found, "true, false or, in a connection given as JSON, an object")
            else None
        )
    files = {field: text_of(found.get(field)) for field in ("ca", "certificate", "key")}
    unknown = sorted(found.keys() - files.keys() - {"check_hostname"})
    if unknown:
        raise SettingsMissingError(
            f"{says} with {unknown}, expected ca, certificate, key (PEM text, or files on the worker) and check_hostname; correct its extra"
        )
    return ZooKeeperTls(
        **_files(files), check_hostname=truth_of(f"{says} with check_hostname", found.get("check_hostname", True))
    )


def _broker_access(found: Mapping[str, Any]) -> Mapping[str, Any]:
    tls = found.get("tls")
    return {**found, "tls": _files(tls)} if isinstance(tls, Mapping) else found


def _files(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, PEM text in them replaced by the path of a file that holds it in memory: libraries take files alone."""
    from controller_core.adapters.memory_file import is_pem, path_of  # noqa: PLC0415 - see the imports

    return {
        field: path_of(value) if isinstance(value, str) and is_pem(value) else value
        for field, value in settings.items()
    }


def _approvers(name: str, said: Any) -> frozenset[str] | None:
    """Users in a text with commas or a list; None where the field is empty. One that names nobody is refused: nothing could be approved."""
    if said is None or said == "":
        return None
    names = said.split(",") if isinstance(said, str) else said
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names) or not "".join(names).strip():
        raise SettingsMissingError(
            f"cluster {name!r} not used: its connection says approvers {said!r}, expected names of users with commas; correct it, or clear it"
        )
    return frozenset(each.strip() for each in names if each.strip())


def _caps(name: str, said: Mapping[str, Any]) -> Mapping[str, int]:
    from kafka_maintenance.operations.gate.policy import CAPS  # noqa: PLC0415 - see the imports

    if not set(said) <= set(CAPS) or not all(type(each) is int and each > 0 for each in said.values()):
        raise SettingsMissingError(
            f"cluster {name!r} not used: its connection says caps {dict(said)!r}, expected an object of {', '.join(CAPS)} with whole numbers "
            "from 1 on; correct it"
        )
    return {cap: int(said[cap]) for cap in CAPS if cap in said}


def _alarm_severity(name: str, said: str | None) -> str | None:
    if said not in {None, *ALARM_SEVERITIES}:
        raise SettingsMissingError(
            f"cluster {name!r} not used: its connection says alarm_severity {said!r}, expected {', '.join(ALARM_SEVERITIES)}; correct it"
        )
    return said
