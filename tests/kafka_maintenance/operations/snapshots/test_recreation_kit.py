"""What recreates a deleted topic."""

import pytest

from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.operations.snapshots.recreation_kit import recreation_kits
from tests.kafka_maintenance.operations.snapshots.taken import take

pytestmark = pytest.mark.services


def test_the_kit_of_a_deleted_topic(kafka, chroot, store):
    manifest = take(chroot, store)
    (kit,) = recreation_kits(store, manifest, ["ord*"])
    assert kit.assignment["partitions"][1] == {"topic": "orders", "partition": 1, "replicas": [2, 1]}
    assert kit.commands[0].endswith(
        "--create --topic orders --replica-assignment 1:2,2:1 --config cleanup.policy=compact --config retention.ms=1000"
    )
    assert set(kit.files()) == {"orders.assignment.json", "orders.configs.json", "orders.sh"}
    (with_id,) = recreation_kits(store, manifest, ["payments"])
    assert "another one" in with_id.notes[1]
    with pytest.raises(ObjectMissingError, match="knows no topic like"):
        recreation_kits(store, manifest, ["nothing"])
