"""The record of a plan's application: create-only events in the store, one after another, so that a second run goes on.

Nothing is written to a cluster before the intention stands here.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from time import monotonic
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.errors import ObjectDamagedError, ObjectExistsError
from controller_core.model.partitions import TopicPartition
from kafka_maintenance import __version__
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import ClusterBusyError
from kafka_maintenance.operations.record.audit import (
    FIELD,
    AuditChain,
    UntrustedRecordError,
    keys_from,
    trusted_record,
)
from kafka_maintenance.operations.record.entry import entry_of

_FIELDS: Final = ("event", "step", "at", "run", "approver", "code_version")


class EventKind(StrEnum):
    """What a receipt tells, in the order in which it happens.

    `REFUSED`, `UNFINISHED` and `STOPPED` end an attempt, not the plan; `OVER` ends the plan without all that it wanted.
    `INTERRUPTED` is a session that broke: the same run goes on in another one. `OBSERVED` and `STUCK` tell how far a step is.
    `CANCELLING` is recorded before Kafka is asked to cancel a step, and `OVER` follows it.
    `THROTTLED` is recorded before a throttle is set, `UNTHROTTLED` when it is taken back, but for what that event names as `left_alone`.
    """

    STARTED = "started"
    INTENDED = "intended"
    WAITING = "waiting"
    THROTTLED = "throttled"
    REQUESTED = "requested"
    OBSERVED = "observed"
    STUCK = "stuck"
    VERIFIED = "verified"
    UNTHROTTLED = "unthrottled"
    REFUSED = "refused"
    UNFINISHED = "unfinished"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    CANCELLING = "cancelling"
    OVER = "over"
    DONE = "done"


_ASKING: Final = frozenset({EventKind.INTENDED, EventKind.REQUESTED, EventKind.REFUSED})


@dataclass(frozen=True, slots=True)
class Event:
    """One entry; `step` counts from 0, None for the plan as a whole; `at` is ISO 8601.

    `code_version` is that of the program that wrote the entry; None in receipts of 0.1.
    """

    event: EventKind
    step: int | None
    at: str
    run: str
    approver: str
    detail: Mapping[str, Any]
    code_version: str | None = None


def receipt_prefix(cluster: str, digest: str) -> str:
    """Where the receipt of a plan lies, as a key prefix."""
    return f"v1/receipts/cluster={cluster}/{digest}/"


def in_order(keys: Iterable[str]) -> list[str]:
    """Keys of receipts, each receipt's in the order of its events: from the 10,000th on a number has five digits, which a store sorts elsewhere."""

    def place(key: str) -> tuple[str, int, str]:
        folder, _, name = key.rpartition("/")
        return folder, name.find("-"), name

    return sorted(keys, key=place)


def read_events(store: ObjectStore, cluster: str, digest: str) -> tuple[Event, ...]:
    """The events of a plan's receipt, in order, for whoever shows them; empty when it was never applied.

    Raises:
        ObjectDamagedError: one is none as a run writes it.
    """
    keys = in_order(store.list(receipt_prefix(cluster, digest)))
    return tuple(at_once(lambda key: _event(store, key), keys))


def trusted_events(store: ObjectStore, cluster: str, digest: str) -> tuple[Event, ...]:
    """As `read_events`, for whoever decides by them: whoever merely writes the store adds none, and takes none out of the middle.

    Raises:
        UntrustedRecordError: the audit chain does not hold an event, its signature does not count, or one is missing.
    """
    prefix, counting = receipt_prefix(cluster, digest), keys_from(os.environ)
    keys = in_order(store.list(prefix))
    events = tuple(map(_event_of, at_once(lambda key: trusted_record(store, cluster, key, counting), keys)))
    for number, (key, event) in enumerate(zip(keys, events, strict=True), start=1):
        expected = f"{prefix}{_name(number, event.event)}"
        if key != expected:
            remedy = "`kafka-maintenance audit verify` names what is missing: bring that back, and run again"
            if key.startswith(f"{prefix}{_number(number - 1)}-"):
                remedy = "two runs wrote at once: move the event of that number that is interrupted away, which decides nothing, and run again"
            raise UntrustedRecordError(
                f"receipt of plan {digest[:12]} on {cluster!r} not used: expected {store.uri_of(expected)} as its event {number}, found "
                f"{store.uri_of(key)}; {remedy}"
            )
    return events


def last_asking(events: Iterable[Event], step: int | None) -> EventKind | None:
    """The last that the record says of asking for the step: intended, requested, or refused; None where nothing."""
    told = [each.event for each in events if each.step == step and each.event in _ASKING]
    return told[-1] if told else None


def asked_steps(events: Sequence[Event]) -> list[int]:
    """The steps that Kafka was asked for, as far as anybody can know: not what was intended and then refused."""
    told = {each.step for each in events if each.event in _ASKING and each.step is not None}
    requested = {each.step for each in events if each.event is EventKind.REQUESTED}
    return sorted(step for step in told if step in requested or last_asking(events, step) is EventKind.INTENDED)


def partitions_left_out(events: Iterable[Event], step: int | None = None) -> frozenset[TopicPartition]:
    """The partitions that were left out when that step was asked for; None: of any step, then or in its end."""
    return frozenset(TopicPartition(row["topic"], row["partition"]) for row in _exceptions(events, step))


def exceptions(events: Iterable[Event]) -> tuple[str, ...]:
    """Each partition that was left out of a step, or ended elsewhere, with the reason; the last word counts."""
    last = {TopicPartition(row["topic"], row["partition"]): row["reason"] for row in _exceptions(events, None)}
    return tuple(f"{partition}: {reason}" for partition, reason in sorted(last.items()))


def _exceptions(events: Iterable[Event], step: int | None) -> Iterator[Mapping[str, Any]]:
    kinds = {EventKind.INTENDED: "left_out", EventKind.REQUESTED: "left_out", EventKind.VERIFIED: "differing"}
    if step is not None:
        del kinds[EventKind.VERIFIED]
    last = {(each.event, each.step): each for each in events if each.event in kinds and step in {None, each.step}}
    return (row for each in last.values() for row in each.detail.get(kinds[each.event], ()))


def is_begun(events: Sequence[Event]) -> bool:
    """Whether something was written for the plan, as far as anybody can know: it is finished then, whatever became of its approval.

    What was intended and then refused was not asked for. A removal or a restore intends once, before the first of many writes, and may be
    carried out once more after it is done: that is a new beginning.
    """
    intended = {each.step for each in events if each.event is EventKind.INTENDED}
    as_a_whole = [
        each.event for each in events if each.step is None and each.event in {EventKind.INTENDED, EventKind.DONE}
    ]
    return (
        any(each.event is EventKind.REQUESTED for each in events)
        or as_a_whole[-1:] == [EventKind.INTENDED]
        or any(last_asking(events, step) is EventKind.INTENDED for step in intended - {None})
    )


class ReceiptLog:
    """Appends events to the receipt of one plan; one writer at a time (the cluster's lock sees to that).

    A run that lost the lock may not know it yet: each event goes behind those that this log knows, and nowhere else.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        cluster: str,
        digest: str,
        run: str,
        approver: str,
        now: datetime,
        now_at_s: float | None = None,
    ) -> None:
        """Reads what is recorded; `now` is the time, or was it at `now_at_s` (`monotonic`), and goes on from there."""
        self._store, self._chain = store, AuditChain(store, cluster)
        self._prefix = receipt_prefix(cluster, digest)
        self.digest, self.run, self.approver = digest, run, approver
        self._now, self._started_s = now, monotonic() if now_at_s is None else now_at_s
        self._cluster = cluster
        self.events: Sequence[Event] = trusted_events(store, cluster, digest)

    @property
    def uri(self) -> str:
        """Address of the newest event, or of the first one to come."""
        return self._store.uri_of(f"{self._prefix}{_name(max(len(self.events), 1), self._last())}")

    def has(self, event: EventKind, step: int | None = None) -> bool:
        """Whether the event is recorded, for that step."""
        return any((each.event, each.step) == (event, step) for each in self.events)

    def now(self) -> str:
        """The time of an event that is recorded now, ISO 8601."""
        return (self._now + timedelta(seconds=monotonic() - self._started_s)).isoformat(timespec="milliseconds")

    def append(self, event: EventKind, *, step: int | None = None, **detail: Any) -> None:
        """Records an event.

        Raises:
            StoreUnwritableError, StoreUnreachableError: it is not recorded, so nothing that needs it may be done.
            ClusterBusyError: another run wrote since the events were read.
        """
        self._take_in_interruptions()
        entry = Event(event, step, self.now(), self.run, self.approver, detail, __version__)
        key = f"{self._prefix}{_name(len(self.events) + 1, event)}"
        document = {name: getattr(entry, name) for name in _FIELDS} | {"detail": detail}
        try:
            self._chain.append(event.value, key, document)
        except ObjectExistsError:
            raise self._busy(key) from None
        self.events = (*self.events, entry)

    def _take_in_interruptions(self) -> None:
        """A run whose session broke records that without the lock, which ends no other run; what else is new is of a run that has the lock."""
        known = len(self.events)
        if not self._store.list(f"{self._prefix}{_number(known + 1)}-"):
            return
        events = trusted_events(self._store, self._cluster, self.digest)
        if any(each.event is not EventKind.INTERRUPTED for each in events[known:]):
            raise self._busy(f"{self._prefix}{_name(known + 1, events[known].event)}")
        self.events = events

    def _busy(self, key: str) -> ClusterBusyError:
        return ClusterBusyError(
            f"receipt {self._store.uri_of(key)} not written: another run of this plan wrote it; let that run finish"
        )

    def _last(self) -> EventKind:
        return self.events[-1].event if self.events else EventKind.STARTED


def _name(number: int, event: EventKind) -> str:
    """Of the object that is an event; numbers begin with 1."""
    return f"{_number(number)}-{event}.json"


def _number(number: int) -> str:
    return f"{number:04d}"


def _event(store: ObjectStore, key: str) -> Event:
    data = store.get(key)
    try:
        return _event_of({name: value for name, value in entry_of(data).items() if name != FIELD})
    except (ValueError, TypeError, RecursionError) as error:
        raise ObjectDamagedError(
            f"record {store.uri_of(key)} not read: {error}; `kafka-maintenance audit verify` names every entry that was changed"
        ) from error


def _event_of(record: Mapping[str, Any]) -> Event:
    return Event(**{**record, "event": EventKind(record["event"])})
