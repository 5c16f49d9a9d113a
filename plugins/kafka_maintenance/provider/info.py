"""The provider as Airflow lists it: its connection types with their forms.

Source: Airflow's `provider_info.schema.json`, and `conn-fields` of its how-to on connections (since 3.2).
"""

from importlib.util import find_spec
from typing import Any

from kafka_maintenance import __version__

CLUSTER_TYPE = "kafka_zookeeper"
STORE_TYPE = "kafka_maintenance_store"
_TEXT = {"type": ["string", "null"]}


def _field(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {**_TEXT, **schema}}


def _object(label: str, description: str) -> dict[str, Any]:
    return _field(label, description, type=["object", "string", "null"])


def get_provider_info() -> dict[str, Any]:
    """Name, version and connection types; the entry point `apache_airflow_provider`."""
    return {
        "package-name": "kafka-maintenance",
        "name": "Kafka maintenance",
        "description": "Snapshots, analysis and approved repairs of Kafka clusters in ZooKeeper mode.",
        "versions": [__version__],
        "connection-types": [_CLUSTER, _STORE],
        "asset-uris": [] if _amazon_is_there() else [_S3],
    }


def _amazon_is_there() -> bool:
    """Whether the provider of Amazon brings what it knows of `s3://…`."""
    try:
        return find_spec("airflow.providers.amazon") is not None
    except ModuleNotFoundError:
        return False


_S3 = {
    "schemes": ["s3"],
    "handler": None,
    "to_openlineage_converter": "kafka_maintenance.provider.openlineage.dataset_of_s3",
}


_CLUSTER = {
    "connection-type": CLUSTER_TYPE,
    "hook-class-name": "kafka_maintenance.hooks.KafkaClusterHook",
    "hook-name": "Kafka cluster (ZooKeeper mode)",
    "ui-field-behaviour": {
        "hidden-fields": ["schema"],
        "relabeling": {"host": "ZooKeeper hosts", "port": "Port of hosts without one", "login": "ZooKeeper login"},
        "placeholders": {"host": "zk1:2181,zk2:2181,zk3:2181", "port": "2181"},
    },
    "conn-fields": {
        "chroot": _field("Chroot", "Path of the cluster in ZooKeeper, e.g. /kafka; empty: the root"),
        "auth": _field(
            "Authentication",
            "How login and password are used; empty: none. Of kerberos the login is the principal, its keys are in a keytab on the workers",
            enum=["digest", "sasl", "kerberos", None],
            default=None,
        ),
        "tls": _object(
            "TLS", 'true, or {"ca", "certificate", "key", "check_hostname"} with PEM text, or files on the workers'
        ),
        "write_connection": _field(
            "Write connection",
            "Id of a second connection to the same tree, as which approved plans are written; empty: this one",
        ),
        "kafka_version": _field("Kafka version", "Of the brokers, e.g. 3.9; empty: read from their registrations"),
        "inter_broker_protocol_version": _field("inter.broker.protocol.version", "Where it is set, e.g. 2.8"),
        "archived": _field(
            "Archived",
            "The cluster is gone: its past snapshots are analysed, no new one is taken",
            type=["boolean", "string", "null"],
            default=None,
        ),
        "analysis": _object("Analysis", "Broker configs that no snapshot shows, as a JSON object"),
        "alarm_severity": _field(
            "Alarm severity",
            "From which severity on a finding fails the daily run; empty: as the run says",
            enum=["critical", "warning", "info", "none", None],
            default=None,
        ),
        "may_act_as_controller": _field(
            "May act as controller",
            "Approved plans may take the place of the active controller for a few seconds; empty: no",
            type=["boolean", "string", "null"],
            default=None,
        ),
        "broker_access": _object(
            "Access to brokers", 'For that: {"listener", "tls", "sasl"} as brokers use among themselves'
        ),
        "bootstrap_servers": _field(
            "Bootstrap servers", "Brokers that may be asked, e.g. kafka1:9092,kafka2:9092; empty: none is asked"
        ),
        "client_settings": _object(
            "Client settings",
            'For that: further arguments of kafka.KafkaAdminClient, e.g. {"security_protocol": "SSL"}',
        ),
        "approvers": _field(
            "Approvers",
            "Users who alone may approve plans of this cluster, with commas, where the policy lets them; empty: whom the policy names",
        ),
        "caps": _object(
            "Caps",
            'Most of one plan, e.g. {"partitions_max": 500, "topics_max": 5, "brokers_max": 20, "bytes_max": 1000000000000}, where the policy '
            "has no lower ones",
        ),
    },
}
_STORE = {
    "connection-type": STORE_TYPE,
    "hook-class-name": "kafka_maintenance.hooks.StoreHook",
    "hook-name": "Kafka maintenance store",
    "ui-field-behaviour": {
        "hidden-fields": ["host", "port", "schema"],
        "relabeling": {"login": "Access key", "password": "Secret key"},
    },
    "conn-fields": {
        "endpoint_url": _field("Endpoint", "Of an S3 server that is not AWS, e.g. http://s3:7070"),
        "region_name": _field("Region", "e.g. eu-central-1"),
        "snapshot_keys": _field(
            "Keys of snapshots", "Seal secrets in snapshots: 32 bytes as base64, one key a line", format="multiline"
        ),
    },
}
