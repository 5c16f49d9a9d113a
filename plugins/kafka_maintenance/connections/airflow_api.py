"""The connection of Airflow's own API."""

from dataclasses import dataclass, field

from kafka_maintenance.connections.fields import ConnectionFields, SettingsMissingError

AIRFLOW_CONNECTION = "kafka_maintenance_airflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowApiSettings:
    """Where Airflow's own API is, and as whom it is read: a user's name with a password, or without a name a token."""

    url: str
    user: str | None
    secret: str = field(repr=False)


def airflow_api_from(connection: ConnectionFields) -> AirflowApiSettings:
    """Where the API is, and as whom it is read.

    Raises:
        SettingsMissingError: the connection has no host, or no password.
    """
    host, scheme = connection.host or "", connection.conn_type
    if not host or not connection.password or ("://" not in host and scheme not in {"http", "https"}):
        raise SettingsMissingError(
            f"connection {AIRFLOW_CONNECTION!r} not used: expected type http or https, a host and a password (of the login, or without one "
            f"a token), found type {scheme!r}, host {host!r} and {'a' if connection.password else 'no'} password; correct it"
        )
    url = (host if "://" in host else f"{scheme}://{host}") + (f":{connection.port}" if connection.port else "")
    return AirflowApiSettings(url=url, user=connection.login or None, secret=connection.password)
