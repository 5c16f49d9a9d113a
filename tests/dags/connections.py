"""What Airflow knows of clusters in a test: their names, the store, and their connections."""

import json


def airflow_knows(monkeypatch, store, **connections):
    """Airflow knows these clusters, each by the fields of its connection; None: by its name alone."""
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", json.dumps(list(connections)))
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE", str(store))
    for name, fields in connections.items():
        if fields is not None:
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "generic", **fields}))
