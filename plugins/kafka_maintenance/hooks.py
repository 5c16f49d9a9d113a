"""Airflow connections and variables → clusters and the store; the one place that knows their names and fields.

A cluster is a connection of type `kafka_zookeeper` (or `generic`): `host` holds one or more `host:port`, separated by commas; `extra` may
hold the `CLUSTER_FIELDS`; login and password are those of ZooKeeper. Where `write_connection` names a second connection, tasks that write
log in as that one says, and all others as this one does. Which connections are clusters is said by the Variable
`kafka_maintenance_clusters`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from airflow.sdk import BaseHook, Variable

from controller_core.model.errors import ControllerCoreError, ObjectMissingError

if TYPE_CHECKING:  # boto3 and kazoo are slow to import, and reading a DAG needs neither
    from controller_core.adapters.object_store.open import ObjectStore
    from controller_core.adapters.zookeeper.address import ClusterAddress
    from controller_core.adapters.zookeeper.session import KazooZooKeeper, ZooKeeperAuth, ZooKeeperTls
    from kafka_maintenance.spark.submit import SparkSettings

CLUSTERS_VARIABLE = "kafka_maintenance_clusters"
STORE_VARIABLE = "kafka_maintenance_store"
STORE_CONNECTION = "kafka_maintenance_store"
SPARK_CONNECTION = "kafka_maintenance_spark"
AIRFLOW_CONNECTION = "kafka_maintenance_airflow"
OPEN_GATED_RUNS_VARIABLE = "kafka_maintenance_open_gated_runs"
CLUSTER_DAG_MARK: Final = "__"
ZOOKEEPER_PORT = 2181
ALARM_SEVERITIES: Final = ("critical", "warning", "info", "none")
_SCHEMES: Mapping[str, Literal["digest", "sasl", "kerberos"]] = {
    "digest": "digest",
    "sasl": "sasl",
    "kerberos": "kerberos",
}
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
_TRUTH: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
ZOOKEEPER_TIMEOUT_S = 10.0
_SECRET_OF_SPARK: Final = re.compile(
    r"(?i)secret|password|token|access[.]?key"
)  # what Spark itself takes for secret: spark.redaction.regex


class SettingsMissingError(ControllerCoreError):
    """A Variable or Connection that the pipeline needs is missing or unreadable; says which and how to set it."""


class ConnectionFields(Protocol):
    """What is read of an Airflow connection, in a task as in the API server."""

    conn_type: str | None
    host: str | None
    schema: str | None
    port: int | None
    login: str | None
    password: str | None

    @property
    def extra(self) -> str | None:
        """The extra field as text; a ValueError in the API server when it is not JSON."""

    @property
    def extra_dejson(self) -> Any:
        """The extra field as a mapping; an empty one in a task when it is not JSON."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where snapshots, reports and plans lie, and the credentials where boto3's usual places do not hold them."""

    uri: str
    endpoint_url: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    region: str | None = None

    def open(self) -> "ObjectStore":
        """The store; raises StoreUnreachableError when it does not answer."""
        from controller_core.adapters.object_store.open import open_store  # noqa: PLC0415 - see the imports

        return open_store(
            self.uri,
            endpoint_url=self.endpoint_url,
            access_key=self.access_key,
            secret_key=self.secret_key,
            region=self.region,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowApiSettings:
    """Where Airflow's own API is, and as whom it is read: a user's name with a password, or without a name a token."""

    url: str
    user: str | None
    secret: str = field(repr=False)


class KafkaClusterHook(BaseHook):
    """Airflow connection of a cluster → a ZooKeeper session on its tree."""

    conn_name_attr = "cluster"
    default_conn_name = "kafka_zookeeper_default"
    conn_type = "kafka_zookeeper"
    hook_name = "Kafka cluster (ZooKeeper mode)"

    def __init__(self, cluster: str = default_conn_name) -> None:
        super().__init__()
        self.cluster = cluster

    def settings(self) -> Cluster:
        """What the connection says, listed in the Variable or not; raises SettingsMissingError for an unusable one."""
        return cluster_from(self.cluster, _connection(self.cluster))

    def get_conn(self) -> "AbstractContextManager[KazooZooKeeper]":
        """A ZooKeeper session (a context manager); raises ZooKeeperUnreachableError or NoNodeError (chroot)."""
        return self.settings().address.session(timeout_s=ZOOKEEPER_TIMEOUT_S)

    def test_connection(self) -> tuple[bool, str]:
        """Whether the tree is Kafka's and may be read, path by path, and which rights to write are missing; writes nothing.

        The button *Test* of the form. A login without rights to write is no failure: snapshots and reports need none.
        """
        from kafka_maintenance.operations.cluster.rights import missing_writes, read_rights, writes_text  # noqa: PLC0415 - see the imports

        try:
            said = self.settings()
            with said.address.session(timeout_s=ZOOKEEPER_TIMEOUT_S) as zookeeper:
                rights = read_rights(zookeeper)
                if said.write_connection is not None:
                    writes = f"Plans are written as {said.write_connection!r} says: test that connection, too."
                else:
                    writes = writes_text(missing_writes(zookeeper)) if rights.is_kafka else ""
        except ControllerCoreError as error:
            return False, str(error)
        return rights.complete, f"{rights.text} {writes}".strip()


class StoreHook(BaseHook):
    """Airflow connection of the store → the opened store that the Variable names."""

    conn_name_attr = "store"
    default_conn_name = STORE_CONNECTION
    conn_type = "kafka_maintenance_store"
    hook_name = "Kafka maintenance store"

    def __init__(self, store: str = default_conn_name) -> None:
        super().__init__()
        self.store = store

    def get_conn(self) -> "ObjectStore":
        """The store; raises SettingsMissingError or StoreUnreachableError."""
        uri = Variable.get(STORE_VARIABLE, default=None)
        return store_settings_from(uri, _connection(self.store, kind=self.conn_type, hint="empty")).open()

    def test_connection(self) -> tuple[bool, str]:
        """Whether the store that the Variable names answers with these keys; writes nothing."""
        try:
            store = self.get_conn()
            with suppress(ObjectMissingError):
                store.get("v1/test-of-a-connection.json")
        except ControllerCoreError as error:
            return False, str(error)
        return True, f"{store.uri} answers. Rights to write are not tried: a test writes nothing."


def cluster_names() -> tuple[str, ...]:
    """Connection ids of the clusters, in the order of the Variable.

    Raises:
        SettingsMissingError: the Variable is missing, or is neither a JSON list of names nor names with commas.
    """
    return names_from(Variable.get(CLUSTERS_VARIABLE, default=None))


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


def cluster(name: str) -> Cluster:
    """The settings of the cluster `name`.

    Raises:
        SettingsMissingError: it is not listed in the Variable, has no connection, or its connection is unusable.
    """
    known = cluster_names()
    if name not in known:
        raise SettingsMissingError(
            f"cluster {name!r} not used: the Variable {CLUSTERS_VARIABLE} lists {', '.join(known) or 'none'}; add it there"
        )
    return cluster_from(name, _connection(name))


def cluster_to_write(name: str) -> Cluster:
    """The settings of the cluster `name` for a task that writes to it: as whom its `write_connection` says, if it names one.

    Raises:
        SettingsMissingError: as of `cluster`; or that connection is missing, unusable, or of other hosts or another chroot.
    """
    found = cluster(name)
    if found.write_connection is None:
        return found
    writing = cluster_from(found.write_connection, _connection(found.write_connection)).address
    if _place(writing) != _place(found.address):
        raise SettingsMissingError(
            f"cluster {name!r} not written: its write_connection {found.write_connection!r} is of {writing}, expected the hosts and the "
            f"chroot of {found.address} (ports may differ); correct one of the two"
        )
    return replace(found, address=writing)


def limits_of(name: str) -> tuple[frozenset[str] | None, Mapping[str, int]]:
    """Approvers and caps of the connection `name`; none where there is no such connection, as of a cluster that is gone.

    Raises:
        SettingsMissingError: the connection is there and unusable: what it limits is not known then.
    """
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415 - start-up time of the DAG parser

    try:
        said = cluster_from(name, BaseHook.get_connection(name))
    except AirflowNotFoundException:
        return None, {}
    return said.approvers, said.caps


def usable_cluster(name: str) -> Cluster | None:
    """The settings of the cluster `name`; None where its own task is to say why they cannot be used."""
    try:
        return cluster(name)
    except SettingsMissingError:
        return None


def live_names(names: Iterable[str] | None = None) -> tuple[str, ...]:
    """Names of the clusters that are not archived, of `names` or of all that the Variable lists.

    One that cannot be used is among them: its own task says why, and the others are not held up.
    """
    return tuple(
        name
        for name in (tuple(names or ()) or cluster_names())
        if not ((found := usable_cluster(name)) and found.archived)
    )


def cluster_from(name: str, connection: ConnectionFields) -> Cluster:
    """What a connection says of a cluster; raises SettingsMissingError with the field that is wrong."""
    from controller_core.adapters.zookeeper.address import ClusterAddress  # noqa: PLC0415 - see the imports

    extra = {field: value for field, value in _extra(name, connection).items() if value is not None}
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
            _tls(name, _parsed(extra.get("tls", False))),
        ),
        write_connection=_text(extra.get("write_connection")),
        kafka_version=_text(extra.get("kafka_version")),
        inter_broker_protocol_version=_text(extra.get("inter_broker_protocol_version")),
        archived=_truth(f"cluster {name!r} not used: its connection says archived", extra.get("archived", False)),
        analysis=_mapping(name, _parsed(extra.get("analysis", {})), "its analysis"),
        alarm_severity=_alarm_severity(name, _text(extra.get("alarm_severity"))),
        may_act_as_controller=_truth(
            f"cluster {name!r} not used: its connection says may_act_as_controller",
            extra.get("may_act_as_controller", False),
        ),
        broker_access=_broker_access(_mapping(name, _parsed(extra.get("broker_access", {})), "its broker_access")),
        bootstrap_servers=_text(extra.get("bootstrap_servers")),
        client_settings=_files(_mapping(name, _parsed(extra.get("client_settings", {})), "its client_settings")),
        approvers=_approvers(name, extra.get("approvers")),
        caps=_caps(name, _mapping(name, _parsed(extra.get("caps") or {}), "its caps")),
    )


def store() -> "ObjectStore":
    """The store that the Variable names, opened; raises SettingsMissingError or StoreUnreachableError."""
    return store_settings().open()


def store_settings() -> StoreSettings:
    """Where the store is: the Variable's URI, with the credentials of the connection where there is one."""
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415 - start-up time of the DAG parser

    uri = Variable.get(STORE_VARIABLE, default=None)
    try:
        connection = BaseHook.get_connection(STORE_CONNECTION)
    except AirflowNotFoundException:
        connection = None
    return store_settings_from(uri, connection)


def store_settings_from(uri: str | None, connection: ConnectionFields | None) -> StoreSettings:
    """The store's settings of the Variable's text and its connection (None: boto3's usual places, or a folder)."""
    if not uri:
        raise SettingsMissingError(
            f"store not opened: the Variable {STORE_VARIABLE} is not set; set it to a folder or to s3://bucket/prefix"
        )
    if connection is None:
        return StoreSettings(uri=uri)
    extra = _extra(STORE_CONNECTION, connection)
    return StoreSettings(
        uri=uri,
        endpoint_url=_text(extra.get("endpoint_url")),
        access_key=connection.login or None,
        secret_key=connection.password or None,
        region=_text(extra.get("region_name")),
    )


def snapshot_key_file(named: Path | None) -> Path | None:
    """The file with the keys of sealed secrets: the `named` one of the workers, or what the store's connection holds as `snapshot_keys`.

    Raises:
        SettingsMissingError: both are there, and nobody could say which key sealed a snapshot.
    """
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415 - start-up time of the DAG parser

    from controller_core.adapters.memory_file import path_of  # noqa: PLC0415 - see the imports

    try:
        keys = _text(_extra(STORE_CONNECTION, BaseHook.get_connection(STORE_CONNECTION)).get("snapshot_keys"))
    except AirflowNotFoundException:
        keys = None
    if keys is None:
        return named
    if named is not None:
        raise SettingsMissingError(
            f"keys of snapshots not read: expected one place, found snapshot_keys in the connection {STORE_CONNECTION} and a "
            f"file {str(named)!r} in the environment; remove one of them"
        )
    return Path(path_of(keys))


def spark_settings() -> "SparkSettings":
    """The Spark master of the connection, with what its workers need.

    Raises:
        SettingsMissingError: there is no such connection, or it is unusable.
    """
    return spark_settings_from(_connection(SPARK_CONNECTION, kind="spark", hint="Spark's master, e.g. local[2]"))


def spark_settings_from(connection: ConnectionFields) -> "SparkSettings":
    """Master, jars and configuration as `SparkSubmitOperator` will see them; extra holds `jars` (a list) and `conf`.

    Raises:
        SettingsMissingError: no host, an extra of another shape, or a secret among the configuration; names the field.
    """
    from kafka_maintenance.spark.submit import SparkSettings  # noqa: PLC0415 - start-up time of the DAG parser

    host, extra = connection.host or "", _extra(SPARK_CONNECTION, connection)
    jars, conf = extra.get("jars", []), _mapping(SPARK_CONNECTION, extra.get("conf", {}), "its conf")
    if not host or not isinstance(jars, list):
        raise SettingsMissingError(
            f"connection {SPARK_CONNECTION!r} not used: expected a host such as local[2] or spark://host:7077 and, in its "
            f"extra, a list 'jars', found host {host!r} and jars {jars!r}; correct them"
        )
    secret = sorted(key for key in conf if _SECRET_OF_SPARK.search(str(key)))
    if secret:
        raise SettingsMissingError(
            f"connection {SPARK_CONNECTION!r} not used: its conf holds {', '.join(secret)}, which spark-submit would take as an argument that every "
            "user of the machine can read; put it into spark-defaults.conf, or the environment (AWS_ACCESS_KEY_ID, …), of the workers"
        )
    whole = connection.conn_type == "spark" and ("://" in host or not connection.port)  # as SparkSubmitHook reads it
    master = host if whole else f"{connection.conn_type}://{host}"
    return SparkSettings(
        master=f"{master}:{connection.port}" if connection.port else master,
        jars=tuple(map(str, jars)),
        conf={str(key): str(value) for key, value in conf.items()},
    )


def cluster_of_dag(dag_id: str) -> str | None:
    """The cluster of a DAG that is made for one cluster alone (`reassign_partitions__blue`); None for the common ones."""
    return dag_id.partition(CLUSTER_DAG_MARK)[2] or None


def airflow_api() -> AirflowApiSettings | None:
    """How Airflow's own API is reached; None where there is no such connection.

    Raises:
        SettingsMissingError: the connection has no host, or no password.
    """
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415 - start-up time of the DAG parser

    try:
        connection = BaseHook.get_connection(AIRFLOW_CONNECTION)
    except AirflowNotFoundException:
        return None
    host, scheme = connection.host or "", connection.conn_type
    if not host or not connection.password or ("://" not in host and scheme not in {"http", "https"}):
        raise SettingsMissingError(
            f"connection {AIRFLOW_CONNECTION!r} not used: expected type http or https, a host and a password (of the login, or without one "
            f"a token), found type {scheme!r}, host {host!r} and {'a' if connection.password else 'no'} password; correct it"
        )
    url = (host if "://" in host else f"{scheme}://{host}") + (f":{connection.port}" if connection.port else "")
    return AirflowApiSettings(url=url, user=connection.login or None, secret=connection.password)


def open_gated_runs() -> bool:
    """Whether scheduled runs may open gated runs by themselves; False where the Variable is missing or empty.

    Raises:
        SettingsMissingError: it says neither true nor false.
    """
    said = Variable.get(OPEN_GATED_RUNS_VARIABLE, default=None)
    return _truth(f"gated runs not opened: the Variable {OPEN_GATED_RUNS_VARIABLE} says", said or False)


def no_connection(name: str, kind: str = "generic", hint: str = "ZooKeeper's host:port") -> SettingsMissingError:
    """The error that says that Airflow found no connection `name`, which should be of a `kind` with a host that is `hint`."""
    return SettingsMissingError(
        f"connection {name!r} not used: there is none of that id, or none that Airflow can read (valid JSON, or a valid URI); "
        f"add or correct one of type {kind} whose host is {hint}"
    )


def _connection(name: str, **wanted: str) -> ConnectionFields:
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415 - start-up time of the DAG parser

    try:
        found: ConnectionFields = BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        raise no_connection(name, **wanted) from error
    return found


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


def _place(address: "ClusterAddress") -> tuple[set[str], str]:
    """The names of the hosts, and the chroot."""
    hosts = address.zookeeper.partition("/")[0]
    return {host.rpartition(":")[0] for host in hosts.split(",")}, address.chroot


def _auth(name: str, connection: ConnectionFields, extra: Mapping[str, Any]) -> "ZooKeeperAuth | None":
    from controller_core.adapters.zookeeper.session import ZooKeeperAuth  # noqa: PLC0415 - see the imports

    scheme = _text(extra.get("auth"))
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
            ZooKeeperTls() if _truth(says, found, "true, false or, in a connection given as JSON, an object") else None
        )
    files = {field: _text(found.get(field)) for field in ("ca", "certificate", "key")}
    unknown = sorted(found.keys() - files.keys() - {"check_hostname"})
    if unknown:
        raise SettingsMissingError(
            f"{says} with {unknown}, expected ca, certificate, key (PEM text, or files on the worker) and check_hostname; correct its extra"
        )
    return ZooKeeperTls(
        **_files(files), check_hostname=_truth(f"{says} with check_hostname", found.get("check_hostname", True))
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


def _extra(name: str, connection: ConnectionFields) -> Mapping[str, Any]:
    """The extra field, as Airflow reads it (it keeps secrets out of logs) once it is known to be JSON."""
    try:
        json.loads(connection.extra or "{}")
        found = connection.extra_dejson
    except ValueError as error:
        raise SettingsMissingError(
            f"connection {name!r} not used: its extra is not JSON ({error}), expected a JSON object; correct it"
        ) from error
    return _mapping(name, found, "its extra")


def _mapping(name: str, found: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise SettingsMissingError(
            f"connection {name!r} not used: {what} is a {type(found).__name__}, expected a JSON object; correct it"
        )
    return found


def _parsed(value: Any) -> Any:
    """A JSON object that was typed into a text field of the form; any other value, and what is no JSON, as it is."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            return json.loads(value)
    return value


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


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


def _truth(says: str, value: Any, expected: str = "true or false") -> bool:
    """What a word for true or false means; any other word is refused in a message that begins with `says`."""
    word = str(value).strip().lower()
    if word not in _TRUTH:
        raise SettingsMissingError(f"{says} {value!r}, expected {expected}; correct it")
    return _TRUTH[word]
