"""The chain of a cluster beside what is none of it, and how it is read."""

import json
import threading

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.plans.document import canonical
from kafka_maintenance.operations.errors import ClusterBusyError, RefusedError
from kafka_maintenance.operations.record.audit import (
    AuditChain,
    Keys,
    UntrustedRecordError,
    audit_findings,
    entries,
    refuse_removed,
    trusted_record,
)

RECEIPT = "v1/receipts/cluster=alpha/d/"


@pytest.fixture
def store(request):
    """With a chain of two entries."""
    store = MemoryStore(request.node.name)
    for name in ("0001-started.json", "0002-intended.json"):
        AuditChain(store, "alpha", keys=Keys()).append("x", RECEIPT + name, {"name": name})
    return store


@pytest.mark.parametrize(
    "name", ["00000002.json.bak", "notes.txt", ".nfs0001", "2.json", "00000001/x", "100000000.json"]
)
def test_an_object_beside_the_entries_is_named_and_holds_nothing_up(store, name):
    odd = f"v1/audit/cluster=alpha/{name}"
    store.put(odd, b"x")
    AuditChain(store, "alpha", keys=Keys()).append("x", f"{RECEIPT}0003-done.json", {})
    refuse_removed(store, "alpha", RECEIPT, since=f"{RECEIPT}0001-started.json")
    assert len(list(entries(store, "alpha"))) == 3
    count, _, (finding,) = audit_findings(store, "alpha", keys=Keys())
    assert (count, finding.key, "is no entry" in finding.what) == (3, odd, True)


def test_an_entry_of_the_last_number_is_named_by_what_cannot_be_recorded(store):
    odd = "v1/audit/cluster=alpha/99999999.json"
    store.put(odd, b"{}")
    for _ in range(2):
        with pytest.raises(RefusedError, match=f"not recorded: .*{store.uri_of(odd)}.* move the entries") as refused:
            AuditChain(store, "alpha", keys=Keys()).append("x", f"{RECEIPT}0003-done.json", {})
        assert not isinstance(refused.value, ClusterBusyError)
    assert [finding.key for finding in audit_findings(store, "alpha", keys=Keys())[2]] == [odd]
    store.delete(odd)
    AuditChain(store, "alpha", keys=Keys()).append("x", f"{RECEIPT}0003-done.json", {})
    assert audit_findings(store, "alpha", keys=Keys())[2] == ()


def test_entries_and_records_are_read_several_at_a_time(store, monkeypatch):
    """One after the other the second would never be asked for."""
    both, real = threading.Barrier(2, timeout=20), MemoryStore.get
    monkeypatch.setattr(MemoryStore, "get", lambda self, key: (both.wait(), real(self, key))[1])
    assert audit_findings(store, "alpha", keys=Keys())[2] == ()


NEXT = "v1/audit/cluster=alpha/00000003.json"


def _without(name):
    def remove(store):
        store.delete(f"v1/audit/cluster=alpha/{name}.json")

    return remove


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        pytest.param(
            _without("00000002"),
            [NEXT, f"{RECEIPT}0002-intended.json"],
            id="a gap is named once, and the record that is in no chain any more",
        ),
        pytest.param(
            lambda store: store.put(NEXT, b"[" * 100_000),
            [NEXT, "v1/audit/cluster=alpha/00000004.json", f"{RECEIPT}0003-verified.json"],
            id="an object that nobody can read",
        ),
    ],
)
def test_one_break_is_told_once_and_what_follows_it_is_not_blamed(store, harm, found):
    for name in ("0003-verified.json", "0004-unthrottled.json", "0005-done.json"):
        AuditChain(store, "alpha", keys=Keys()).append("x", RECEIPT + name, {"name": name})
    harm(store)
    assert [finding.key for finding in audit_findings(store, "alpha", keys=Keys())[2]] == found
    refuse_removed(store, "alpha", "v1/rejections/cluster=alpha/")


@pytest.mark.parametrize("number", ["1e999", "9" * 300, "[]"])
def test_a_record_with_an_impossible_number_is_no_record(store, number):
    copy = f"{RECEIPT}0003-done.json"
    store.put(copy, b'{"audit":{"copy":"%s","number":%s}}' % (copy.encode(), number.encode()))
    with pytest.raises(UntrustedRecordError, match="the chain holds no such record"):
        trusted_record(store, "alpha", copy, keys=Keys())


def test_a_break_is_one_line_whatever_an_entry_says(store):
    entry = json.loads(store.get("v1/audit/cluster=alpha/00000002.json"))
    entry["audit"] |= {"number": "3\n0 entries\x1b[2J", "copy": "v1/x\nfirst break: none"}
    store.put(NEXT, canonical(entry))
    assert all(str(each).isprintable() for each in audit_findings(store, "alpha", keys=Keys())[2])
