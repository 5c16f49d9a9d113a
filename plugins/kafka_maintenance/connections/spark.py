"""The connection of Spark → its master, with what the workers need."""

import re
from typing import TYPE_CHECKING, Final

from kafka_maintenance.connections.fields import ConnectionFields, SettingsMissingError, extra_of, mapping_of

if TYPE_CHECKING:
    from kafka_maintenance.spark.submit import SparkSettings


SPARK_CONNECTION = "kafka_maintenance_spark"
_SECRET_OF_SPARK: Final = re.compile(
    r"(?i)secret|password|token|access[.]?key"
)  # what Spark itself takes for secret: spark.redaction.regex


def spark_settings_from(connection: ConnectionFields) -> "SparkSettings":
    """Master, jars and configuration as `SparkSubmitOperator` will see them; extra holds `jars` (a list) and `conf`.

    Raises:
        SettingsMissingError: no host, an extra of another shape, or a secret among the configuration; names the field.
    """
    from kafka_maintenance.spark.submit import SparkSettings  # noqa: PLC0415 - start-up time of the DAG parser

    host, extra = connection.host or "", extra_of(SPARK_CONNECTION, connection)
    jars, conf = extra.get("jars", []), mapping_of(SPARK_CONNECTION, extra.get("conf", {}), "its conf")
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
