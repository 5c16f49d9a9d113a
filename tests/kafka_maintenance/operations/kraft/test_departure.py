"""A cluster that has left ZooKeeper: its last snapshot stays, every list says so, nothing of ours writes to its tree."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from controller_core.adapters.object_store.open import FolderStore, MemoryStore
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.kraft.departure import come_back, leave
from kafka_maintenance.operations.record.audit import audit_findings, keys_from
from kafka_maintenance.operations.record.departures import readable_departures, refuse_departed
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.operations.snapshots.catalog import newest_snapshot
from kafka_maintenance.operations.snapshots.pins import pins
from tests.kafka_maintenance.operations.apply import applying
from tests.kafka_maintenance.snapshot_world import stored_day

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    store = FolderStore(tmp_path)
    for cluster in ("blue", "green"):
        for days_ago in (2, 1):
            stored_day(store, NOW, days_ago, cluster=cluster)
    return store


def left(store, cluster="blue", at=NOW):
    return leave(store, cluster, by="ann", reason="finalised", now=at)


def test_the_last_snapshot_is_pinned_and_the_record_is_part_of_the_chain(store):
    last = newest_snapshot(store, "blue")
    found = left(store)
    assert pins(store, "blue") == {last.snapshot_id: "the last of ZooKeeper: finalised (ann)"}
    assert pins(store, "green") == {}
    assert (found.snapshot, found.at) == (last.uri, "2026-11-24T12:00:00+00:00")
    assert readable_departures(store) == ({"blue": found}, {})
    number, _, findings = audit_findings(store, "blue", keys=keys_from({}))
    assert (number, findings) == (1, ())
    store.put("v1/kraft/cluster=blue/20261125T000000000000Z-returned.json", b"{}")
    assert [each.what for each in audit_findings(store, "blue", keys=keys_from({}))[2]] == [
        "the chain holds no such record: it was written or changed by somebody else"
    ]


def test_a_second_call_changes_nothing_and_a_return_is_taken_back_again(store):
    first = left(store)
    assert left(store, at=NOW + timedelta(days=1)) == first
    come_back(store, "blue", by="bob", reason="the wrong cluster", now=NOW + timedelta(days=2))
    assert readable_departures(store) == ({}, {})
    refuse_departed(store, "blue")
    again = left(store, at=NOW + timedelta(days=3))
    assert readable_departures(store) == ({"blue": again}, {})


@pytest.mark.parametrize(
    "clock", [NOW, NOW - timedelta(minutes=5)], ids=["in the same second", "by a clock that is late"]
)
def test_what_is_said_last_counts(store, clock):
    left(store)
    come_back(store, "blue", by="bob", reason="the wrong cluster", now=clock)
    assert readable_departures(store) == ({}, {})
    found = left(store, at=clock)
    assert readable_departures(store) == ({"blue": found}, {})
    assert audit_findings(store, "blue", keys=keys_from({}))[2] == ()


def test_what_cannot_be_recorded_says_why(store):
    with pytest.raises(ObjectMissingError, match="expected a snapshot of it"):
        left(store, "red")
    with pytest.raises(BadInputError, match="no record says that it has left"):
        come_back(store, "green", by="ann", reason="x", now=NOW)


@pytest.mark.parametrize(
    "content", [b"{}", b"[]", b"{", b"[" * 100_000, b"\xff"], ids=lambda content: repr(content[:5])
)
def test_a_record_that_cannot_be_read_is_no_permission_and_holds_no_other_cluster(store, content):
    left(store)
    (key,) = store.list("v1/kraft/")
    store.delete(key)
    store.put(key, content)
    for asked in (lambda: refuse_departed(store, "blue"), lambda: left(store)):
        with pytest.raises(ObjectDamagedError, match="kafka-maintenance audit verify"):
            asked()
    assert "kafka-maintenance audit verify" in readable_departures(store).damaged["blue"]
    assert left(store, "green").cluster == "green"
    assert come_back(store, "green", by="ann", reason="x", now=NOW).cluster == "green"


@pytest.mark.parametrize("make", [applying.elections, applying.moves, applying.deletion])
def test_no_plan_is_applied(make):
    store, world = MemoryStore(), applying.cluster()
    stored = make(store, world)
    before = world.server.snapshot()
    stored_day(store, NOW, 1, cluster="demo")
    left(store, "demo")
    with pytest.raises(
        RefusedError,
        match=r"has left ZooKeeper, as 'ann' recorded at .*kafka-maintenance kraft returned --cluster demo",
    ):
        applying.apply(store, stored, world)
    assert world.server.snapshot() == before
    assert read_events(store, "demo", stored.digest) == ()


def test_the_command_records_it_and_takes_it_back(store, capsys):
    where = ["--store", store.uri.removeprefix("file://"), "--reason", "finalised", "--approver", "ann"]
    assert main(["--json", "kraft", "left", "--cluster", "blue", *where]) == 0
    assert json.loads(capsys.readouterr().out)["cluster"] == "blue"
    assert main(["kraft", "returned", "--cluster", "blue", *where]) == 0
    assert capsys.readouterr().out.startswith("blue lives in ZooKeeper (ann, ")
    assert main(["kraft", "returned", "--cluster", "blue", *where]) == 2
