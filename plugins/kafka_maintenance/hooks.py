"""Airflow's hooks of a cluster and of the store, and what tasks ask Airflow for: a cluster, the store, Spark, Airflow's own API.

Which connections are clusters is said by the Variable `kafka_maintenance_clusters`. What a connection says is judged by `connections`.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow.sdk import BaseHook, Variable

from controller_core.model.errors import ControllerCoreError, ObjectMissingError
from kafka_maintenance.connections.airflow_api import AIRFLOW_CONNECTION, AirflowApiSettings, airflow_api_from
from kafka_maintenance.connections.clusters import CLUSTERS_VARIABLE, Cluster, cluster_from, names_from, place_of
from kafka_maintenance.connections.fields import (
    ConnectionFields,
    SettingsMissingError,
    extra_of,
    no_connection,
    text_of,
    truth_of,
)
from kafka_maintenance.connections.spark import SPARK_CONNECTION, spark_settings_from
from kafka_maintenance.connections.store import STORE_CONNECTION, STORE_VARIABLE, StoreSettings, store_settings_from

if TYPE_CHECKING:  # boto3 and kazoo are slow to import, and reading a DAG needs neither
    from controller_core.adapters.object_store.open import ObjectStore
    from controller_core.adapters.zookeeper.session import KazooZooKeeper
    from kafka_maintenance.operations.gate.policy import Policy
    from kafka_maintenance.spark.submit import SparkSettings

OPEN_GATED_RUNS_VARIABLE = "kafka_maintenance_open_gated_runs"
CLUSTER_DAG_MARK: Final = "__"
ZOOKEEPER_TIMEOUT_S = 10.0


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
        SettingsMissingError: see `cluster`; or that connection is missing, unusable, or of other hosts or another chroot.
    """
    found = cluster(name)
    if found.write_connection is None:
        return found
    writing = cluster_from(found.write_connection, _connection(found.write_connection)).address
    if place_of(writing) != place_of(found.address):
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


def policy_for(name: str) -> "Policy":
    """What the policy file says of the cluster `name`, within the limits of its connection; errors: see `limits_of` and `policy_of`."""
    from kafka_maintenance.operations.gate.policy import policy_of  # noqa: PLC0415 - as above

    return policy_of(name).narrowed(*limits_of(name))


def usable_cluster(name: str) -> Cluster | None:
    """The settings of the cluster `name`; None where its own task is to say why they cannot be used."""
    try:
        return cluster(name)
    except SettingsMissingError:
        return None


def live_names(names: Iterable[str] | None = None) -> tuple[str, ...]:
    """Names of the clusters that are not archived and have not left ZooKeeper, of `names` or of all that the Variable lists.

    One that cannot be used is among them: its own task says why, and the others are not held up.
    """
    from kafka_maintenance.operations.record.departures import readable_departures  # noqa: PLC0415 - start-up time of the DAG parser

    gone = readable_departures(store()).departures
    return tuple(
        name
        for name in dict.fromkeys(names or ()) or cluster_names()
        if name not in gone and not ((found := usable_cluster(name)) and found.archived)
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


def snapshot_key_file(named: Path | None) -> Path | None:
    """The file with the keys of sealed secrets: the `named` one of the workers, or what the store's connection holds as `snapshot_keys`.

    Raises:
        SettingsMissingError: both are there, and nobody could say which key sealed a snapshot.
    """
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415 - start-up time of the DAG parser

    from controller_core.adapters.memory_file import path_of  # noqa: PLC0415 - see the imports

    try:
        keys = text_of(extra_of(STORE_CONNECTION, BaseHook.get_connection(STORE_CONNECTION)).get("snapshot_keys"))
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


def airflow_api() -> AirflowApiSettings | None:
    """How Airflow's own API is reached; None where there is no such connection.

    Raises:
        SettingsMissingError: the connection has no host, or no password.
    """
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415 - start-up time of the DAG parser

    try:
        return airflow_api_from(BaseHook.get_connection(AIRFLOW_CONNECTION))
    except AirflowNotFoundException:
        return None


def cluster_of_dag(dag_id: str) -> str | None:
    """The cluster of a DAG that is made for one cluster alone (`reassign_partitions__blue`); None for the common ones."""
    return dag_id.partition(CLUSTER_DAG_MARK)[2] or None


def open_gated_runs() -> bool:
    """Whether scheduled runs may open gated runs by themselves; False where the Variable is missing or empty.

    Raises:
        SettingsMissingError: it says neither true nor false.
    """
    said = Variable.get(OPEN_GATED_RUNS_VARIABLE, default=None)
    return truth_of(f"gated runs not opened: the Variable {OPEN_GATED_RUNS_VARIABLE} says", said or False)


def _connection(name: str, **wanted: str) -> ConnectionFields:
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415 - start-up time of the DAG parser

    try:
        found: ConnectionFields = BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        raise no_connection(name, **wanted) from error
    return found
