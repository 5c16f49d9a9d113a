"""Rehearsals in the store: the newest of a cluster is what its run-book takes counts and times from."""

from datetime import timedelta

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import ObjectDamagedError
from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.rehearsal.kept import keep_rehearsal, newest_rehearsal
from kafka_maintenance.operations.kraft.runbook import runbook
from tests.kafka_maintenance.operations.kraft.rehearsals import rehearsal
from tests.kafka_maintenance.operations.kraft.trees import MANIFEST, NOW, tree


def test_the_run_book_takes_the_newest():
    store = MemoryStore("x")
    assert newest_rehearsal(store, "blue") is None
    keep_rehearsal(store, rehearsal(41.0), NOW + timedelta(hours=1))
    keep_rehearsal(store, rehearsal(77.0), NOW)
    assert newest_rehearsal(store, "green") is None
    text = runbook(certify(tree(), MANIFEST), tree(), newest_rehearsal(store, "blue"))
    assert "copy took 41 s, and the records were TOPIC_RECORD=1" in text
    assert "Rehearsed with a controller of Kafka 3.9: passed." in text


@pytest.mark.parametrize("data", [b"no json", b"[]", b"{}"])
def test_what_is_none_is_named(data):
    store = MemoryStore("x")
    store.put("v1/rehearsals/cluster=blue/1.json", data)
    with pytest.raises(ObjectDamagedError, match="rehearse again"):
        newest_rehearsal(store, "blue")
