"""Real brokers under an active controller of ours, while an application writes with acks=all.

The whole matrix is a command: `python -m tests.kafka_maintenance.operations.act_as_controller.kill_matrix`.
"""

from collections.abc import Iterator

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.demo.traffic import Writer, message_counts
from kafka_maintenance.operations.act_as_controller import refusals
from kafka_maintenance.operations.act_as_controller.controllership import Point
from kafka_maintenance.operations.errors import NotFinishedError, RefusedError
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.servers.kafka import KafkaCluster
from tests.kafka_maintenance.operations.act_as_controller import world
from tests.kafka_maintenance.operations.act_as_controller.kill_matrix import Matrix

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    with KafkaCluster("2.8", brokers=3, mode="shared_jvm") as kafka:
        yield Matrix(kafka, "2.8", tmp_path_factory.mktemp("store"))


def test_real_brokers_obey_once_it_is_allowed_and_nothing_is_lost(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, folder, partitions = matrix.kafka, matrix.folder, matrix.partitions
    plan = world.drain_plan_of(kafka, folder, 1)

    # a controller that is younger than a minute stays what it is
    with pytest.raises(RefusedError, match="at least a minute old"):
        world.act(folder, plan, kafka.zookeeper_connect)
    monkeypatch.setattr(refusals, "CONTROLLER_AGE_MIN_MS", 0)  # a test has no minute to wait

    with Writer(kafka, partitions) as writer:
        writer.await_flowing()
        # the time is up before anything moves: the same plan may be applied again
        with pytest.raises(NotFinishedError, match="no leader was moved"):
            world.act(folder, plan, kafka.zookeeper_connect, deadline_s=0.001)
        assert 1 in world.led_by(kafka, partitions).values()
        world.await_agreement(kafka, partitions)

        receipt = world.act(folder, plan, kafka.zookeeper_connect)
        assert (receipt.already_applied, receipt.exceptions) == (False, ())
        leaders = list(world.led_by(kafka, partitions).values())
        assert (leaders.count(1), leaders.count(2), leaders.count(3)) == (0, 3, 3)
        print(f"longest pause of a writer: {writer.longest_gap_s:.2f} s")

        # killed after its write, before any broker has heard of it
        row = matrix.run(writer, "killed", Point.WRITTEN)
        assert row.ended == "killed"
        assert row.moved > 0

    events = {each.event: each.detail for each in read_events(open_store(str(folder)), world.CLUSTER, plan.digest)}
    assert events["requested"]["moved"] == plan.count == 2
    assert events["requested"]["active_s"] < 4.5
    assert kafka.controller_id() in kafka.brokers
    counts = message_counts(kafka, world.TOPIC)
    assert all(counts[each.partition] >= writer.acknowledged[each] > 0 for each in partitions)
    assert world.act(folder, plan, kafka.zookeeper_connect).already_applied
