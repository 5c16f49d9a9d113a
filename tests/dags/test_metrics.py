"""The daily run sends the gauges of all clusters to a real StatsD, and replaces the OpenMetrics file."""

import socket
from dataclasses import replace
from datetime import timedelta

import pytest

from controller_core.adapters.object_store.open import open_store
from tests.kafka_maintenance.web.fleet import Sick, publish, today


@pytest.fixture
def statsd(monkeypatch):
    """A socket that receives what Airflow's metrics send."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(receiver.getsockname()[1]))
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        yield receiver
        monkeypatch.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


def send(monkeypatch, tmp_path, day):
    from kafka_maintenance.tasks import analysis

    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE", str(tmp_path / "store"))
    file = tmp_path / "kafka.prom"
    monkeypatch.setattr(analysis, "SETTINGS", replace(analysis.SETTINGS, metrics_file=file))
    return analysis.send_metrics.function({"date": str(day)}), file


@pytest.fixture
def stored(world, tmp_path):
    publish(open_store(str(tmp_path / "store")), [Sick("broken", critical=2)], dates=2, snapshots=1)


def test_each_gauge_is_sent_with_tags_and_with_its_values_in_the_name(stored, statsd, monkeypatch, tmp_path):
    count, file = send(monkeypatch, tmp_path, today())
    received = {statsd.recv(1000).decode() for _ in range(2 * count)}
    assert {
        "airflow.kafka_maintenance.OfflinePartitionsCount.broken:2|g",
        "airflow.kafka_maintenance.OfflinePartitionsCount:2|g",
        "airflow.kafka_maintenance.findings.broken.critical:2|g",
    } <= received
    assert 'kafka_maintenance_OfflinePartitionsCount{cluster="broken"} 2.0' in file.read_text()


def test_a_run_of_a_past_date_sends_nothing(stored, statsd, monkeypatch, tmp_path):
    count, file = send(monkeypatch, tmp_path, today() - timedelta(days=1))
    assert (count, file.exists()) == (0, False)
