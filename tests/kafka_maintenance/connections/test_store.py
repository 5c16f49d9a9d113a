"""The store of its Variable and connection."""

from tests import airflow_home  # isort: skip  # before anything of Airflow


import pytest

from tests.kafka_maintenance.connection_fields import Fields

assert airflow_home


def test_the_store_takes_its_credentials_from_the_connection():
    from kafka_maintenance.connections.store import StoreSettings, store_settings_from

    fields = Fields(login="key", password="secret", extra_dejson={"endpoint_url": "http://s3:1", "region_name": "r"})
    assert store_settings_from("s3://bucket/prefix", fields) == StoreSettings(
        uri="s3://bucket/prefix", endpoint_url="http://s3:1", access_key="key", secret_key="secret", region="r"
    )
    assert store_settings_from("/srv/store", None) == StoreSettings(uri="/srv/store")


def test_a_missing_store_says_how_to_name_one():
    from kafka_maintenance.connections.fields import SettingsMissingError
    from kafka_maintenance.connections.store import store_settings_from

    with pytest.raises(SettingsMissingError, match="set it to a folder or to s3://bucket/prefix"):
        store_settings_from(None, None)
