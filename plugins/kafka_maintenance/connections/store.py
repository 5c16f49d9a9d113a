"""Where the store is: the text of its Variable, with the credentials of its connection."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_maintenance.connections.fields import ConnectionFields, SettingsMissingError, extra_of, text_of

if TYPE_CHECKING:  # boto3 is slow to import, and reading a DAG does not need it
    from controller_core.adapters.object_store.open import ObjectStore


STORE_VARIABLE = "kafka_maintenance_store"
STORE_CONNECTION = "kafka_maintenance_store"


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


def store_settings_from(uri: str | None, connection: ConnectionFields | None) -> StoreSettings:
    """The store's settings of the Variable's text and its connection (None: boto3's usual places, or a folder)."""
    if not uri:
        raise SettingsMissingError(
            f"store not opened: the Variable {STORE_VARIABLE} is not set; set it to a folder or to s3://bucket/prefix"
        )
    if connection is None:
        return StoreSettings(uri=uri)
    extra = extra_of(STORE_CONNECTION, connection)
    return StoreSettings(
        uri=uri,
        endpoint_url=text_of(extra.get("endpoint_url")),
        access_key=connection.login or None,
        secret_key=connection.password or None,
        region=text_of(extra.get("region_name")),
    )
