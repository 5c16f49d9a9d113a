"""What a receipt says: whether its plan was begun, and in which order its events came."""

from contextlib import nullcontext
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.operations.apply.executions import executions, record_of
from kafka_maintenance.operations.apply.throttle import left_over
from kafka_maintenance.operations.errors import ClusterBusyError
from kafka_maintenance.operations.record import receipts
from kafka_maintenance.operations.record.audit import UntrustedRecordError
from kafka_maintenance.operations.record.receipts import Event, EventKind, ReceiptLog, is_begun, trusted_events
from kafka_maintenance.operations.retention.needs import receipts_of

DIGEST = "d" * 64
WRITER = {"cluster": "blue", "digest": DIGEST, "approver": "ann", "now": datetime(2026, 11, 22, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("told", "begun"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param("started:- waiting:0 stopped:0", False, id="its first step waited"),
        pytest.param("started:- refused:0", False, id="refused before it was intended"),
        pytest.param("started:- intended:0", True, id="intended, and its worker died: nobody knows"),
        pytest.param("started:- intended:0 interrupted:0 started:-", True, id="intended, and the session broke"),
        pytest.param("started:- intended:0 refused:0", False, id="intended, and refused in the last moment"),
        pytest.param("started:- intended:0 refused:0 started:- intended:0", True, id="intended again after that"),
        pytest.param("started:- intended:0 requested:0", True, id="requested"),
        pytest.param("started:- requested:0 refused:0", True, id="requested, and not a second time"),
        pytest.param("intended:0 requested:0 verified:0 intended:1 refused:1", True, id="its second step was refused"),
        pytest.param("intended:0 refused:1", True, id="intended, and another step refused"),
        pytest.param("started:- intended:- refused:-", True, id="a removal, refused by a later run when half was removed"),
    ],
)  # fmt: skip
def test_a_plan_is_begun_when_something_was_or_may_have_been_written_for_it(told, begun):
    pairs = [each.split(":") for each in told.split()]
    events = [Event(EventKind(kind), None if step == "-" else int(step), "", "r", "o", {}) for kind, step in pairs]
    assert is_begun(events) is begun


@pytest.mark.parametrize(
    ("others", "refused"),
    [
        pytest.param("interrupted", False, id="it lost its session, which it records without the lock"),
        pytest.param("interrupted interrupted", False, id="twice"),
        pytest.param("observed", True, id="it took the lock"),
        pytest.param("interrupted started", True, id="it took the lock again"),
    ],
)
def test_an_event_goes_behind_those_of_another_run_or_nowhere(others, refused):
    store = MemoryStore()
    ours, theirs = (ReceiptLog(store, run=run, **WRITER) for run in ("run-1", "run-2"))
    for event in others.split():
        theirs.append(EventKind(event))
    with pytest.raises(ClusterBusyError, match="another run of this plan wrote it") if refused else nullcontext():
        ours.append(EventKind.VERIFIED, step=0)
    told = [*others.split(), *(() if refused else ("verified",))]
    assert [each.event for each in trusted_events(store, "blue", DIGEST)] == told
    assert [each.event for each in ours.events] == ([] if refused else told)


class ActsAfterAListing(MemoryStore):
    """Somebody else writes as soon as a run has looked for newer events."""

    act = None

    def list(self, prefix):
        found, act = super().list(prefix), self.act
        if act is not None and prefix.endswith("-"):
            self.act = None
            act()
        return found


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        pytest.param(None, "two runs wrote at once: move the event of that number that is interrupted away", id="two"),
        pytest.param("0001-started", "names what is missing: bring that back", id="one is gone"),
    ],
)
def test_a_receipt_with_two_events_of_one_number_or_without_one_is_not_used_and_says_what_to_do(lost, said):
    store = ActsAfterAListing()
    ours, theirs = (ReceiptLog(store, run=run, **WRITER) for run in ("run-1", "run-2"))
    if lost is None:
        store.act = lambda: ours.append(EventKind.STARTED)
    else:
        theirs.append(EventKind.STARTED)
    theirs.append(EventKind.INTERRUPTED)
    prefix = f"v1/receipts/cluster=blue/{DIGEST}"
    if lost is not None:
        store.delete(f"{prefix}/{lost}.json")
    with pytest.raises(UntrustedRecordError, match=said):
        trusted_events(store, "blue", DIGEST)
    if lost is None:
        store.delete(f"{prefix}/0001-interrupted.json")
        assert [each.event for each in trusted_events(store, "blue", DIGEST)] == ["started"]


def test_events_stay_in_order_where_their_numbers_get_another_digit(monkeypatch):
    """As from the 10,000th on; here from the tenth."""
    monkeypatch.setattr(receipts, "_name", lambda number, event: f"{number}-{event}.json")
    store, told = MemoryStore(), [EventKind.STARTED, *[EventKind.THROTTLED, EventKind.UNTHROTTLED] * 5, EventKind.DONE]
    log = ReceiptLog(store, run="r", **WRITER)
    for event in told:
        log.append(event)
    assert [each.event for each in ReceiptLog(store, run="r", **WRITER).events] == told
    assert [each.event for each in record_of(store, "blue", DIGEST)] == told
    assert [each.last for each in executions(store)] == ["done"]
    assert receipts_of(store, "blue")[DIGEST][-1].endswith("12-done.json")
    assert left_over(store, "blue") == ()
