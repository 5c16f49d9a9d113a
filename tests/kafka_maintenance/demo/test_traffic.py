"""The applications that write to a local cluster wait for a silent broker without using up a core."""

from types import SimpleNamespace

import pytest

from kafka_maintenance.demo import traffic

CLUSTER = SimpleNamespace(bootstrap_servers="127.0.0.1:1")


@pytest.mark.parametrize(("said_s", "waited_ms"), [(0, 50), (0.01, 50), (2.0, 2000)])
def test_a_producer_waits_for_a_broker_that_is_not_ready(monkeypatch, said_s, waited_ms):
    client = SimpleNamespace(connection_delay=lambda _: said_s)
    monkeypatch.setattr(traffic, "KafkaProducer", lambda **_: SimpleNamespace(_sender=SimpleNamespace(_client=client)))
    traffic._patient_producer(CLUSTER)
    assert client.connection_delay(1) == waited_ms


def test_each_application_waits_so(monkeypatch):
    made = []
    monkeypatch.setattr(traffic, "_patient_producer", lambda cluster, **_: made.append(cluster))
    traffic.Traffic(CLUSTER, ["a partition"])
    traffic.Writer(CLUSTER, ["one", "two"])
    assert made == [CLUSTER] * 3
