"""One time as active controller of real brokers: leaders are drained from a broker while an application writes."""

from pathlib import Path

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.demo.traffic import Traffic, message_counts
from kafka_maintenance.operations.act_as_controller import refusals
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.servers.kafka import KafkaCluster
from tests.kafka_maintenance.operations.act_as_controller import world

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("version", ["2.8"])
def test_a_broker_is_drained_of_leadership(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "CONTROLLER_AGE_MIN_MS", 0)  # a test has no minute to wait
    with KafkaCluster(version, brokers=3, mode="shared_jvm") as kafka:
        partitions = world.make_topic(kafka)
        plan = world.drain_plan_of(kafka, tmp_path, 1)
        before = kafka.controller_id()
        with Traffic(kafka, partitions) as traffic:
            receipt = world.act(tmp_path, plan, kafka.zookeeper_connect)
        assert (receipt.already_applied, receipt.exceptions) == (False, ())
        leaders = world.led_by(kafka, partitions)
        assert 1 not in leaders.values()
        assert sum(leader == 2 for leader in leaders.values()) == len(partitions) / 2
        events = {
            each.event: each.detail for each in read_events(open_store(str(tmp_path)), world.CLUSTER, plan.digest)
        }
        assert events["requested"]["moved"] == plan.count == 4
        assert events["requested"]["active_s"] < 4.5
        assert kafka.controller_id() in {1, 2, 3}
        assert before in {1, 2, 3}
        counts = message_counts(kafka, world.TOPIC)
        assert all(counts[each.partition] >= traffic.acknowledged[each] for each in partitions)
        assert world.act(tmp_path, plan, kafka.zookeeper_connect).already_applied
