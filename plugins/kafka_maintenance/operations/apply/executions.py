"""What was and is carried out: the record of each plan as a time line, a wish that a run ends, and what a dead run left behind.

Source: docs/operations.md, "The receipt".
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import require_name
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import NoNodeError, ObjectDamagedError, ObjectMissingError
from controller_core.model.partitions import TopicPartition
from controller_core.plans.document import canonical
from controller_core.plans.plain import plain
from controller_core.ports.object_store import put_once
from controller_core.ports.zookeeper import Delete, Operation, ZooKeeper
from kafka_maintenance.operations.apply.cluster_lock import FENCE_PREFIX, LOCK_PATH, Holder, cluster_lock, find_holder
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH, find_execution
from kafka_maintenance.operations.apply.throttle import end_throttle, left_over
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.cluster.observe import session
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.record.entry import UNKNOWN_KIND, entry_of, kind_in
from kafka_maintenance.operations.record.receipts import (
    Event,
    EventKind,
    ReceiptLog,
    in_order,
    read_events,
    receipt_prefix,
)
from kafka_maintenance.operations.record.state_changes import AFTER, BEFORE

_BEGINNING = re.compile("[0-9a-f]{1,64}")
"""Of a digest."""
_RECEIPTS = "v1/receipts/"


ASK_NOTHING: Final = frozenset({"restore", "retain_snapshots"})
"""Kinds that have a record and ask nothing of Kafka: their runs look for no stop."""
OVER: Final = frozenset({"done", "refused", "over"})
"""Last events after which nothing is expected of a plan."""
DAMAGED: Final = "damaged"
"""What stands for the last event of a record that cannot be read."""


class Recorded(NamedTuple):
    """A plan that was begun: its cluster, digest and kind, who approved it, since when, its last event and that one's time.

    `damage` says why the record cannot be read; its kind is unknown then, and approver and times are empty.
    """

    cluster: str
    digest: str
    kind: str
    approver: str
    began: str
    last: str
    at: str
    damage: str = ""


Kept = Callable[[tuple[str, str], Callable[[], Recorded]], Recorded]
"""(First and last key of a record, what reads it) → it, for whoever keeps what was read: an entry never changes."""


def executions(store: ObjectStore, cluster: str | None = None) -> tuple[Recorded, ...]:
    """All plans that were begun, of one cluster or of all, the latest last; a record that cannot be read is among the first."""
    found = at_once(partial(_recorded, store), _records(store.list(_root(cluster))))
    return tuple(sorted(found, key=_age))


def newest_executions(
    store: ObjectStore, cluster: str | None, plans_max: int, kept: Kept
) -> tuple[tuple[Recorded, ...], int]:
    """As `executions`, of so many plans at most, and how many more there are: those that are not over come first, then those written last.

    Whether a plan is over tells the name of its last event; no other is read.

    Args:
        store: where the records are.
        cluster: its name; None: of all.
        plans_max: so many are read.
        kept: what keeps them.
    """
    records = _records(store.list_newest_first(_root(cluster)))
    chosen = sorted(records, key=lambda keys: keys[1].rpartition("-")[2].removesuffix(".json") in OVER)[:plans_max]
    found = at_once(lambda keys: kept(keys, partial(_recorded, store, keys)), chosen)
    return tuple(sorted(found, key=_age)), len(records) - len(chosen)


def _age(recorded: Recorded) -> tuple[str, str, str]:
    return recorded.began, recorded.cluster, recorded.digest


def _root(cluster: str | None) -> str:
    return _RECEIPTS if cluster is None else receipt_prefix(require_name(cluster, "cluster"), "")[:-1]


def _records(keys: Iterable[str]) -> list[tuple[str, str]]:
    """The first and the last key of each record, in the order in which `keys` name the records first."""
    folders: dict[str, list[str]] = {}
    for key in keys:
        folders.setdefault(key.rpartition("/")[0], []).append(key)
    return [(events[0], events[-1]) for events in map(in_order, folders.values())]


def _recorded(store: ObjectStore, keys: tuple[str, str]) -> Recorded:
    cluster, _, digest = keys[0].removeprefix(f"{_RECEIPTS}cluster=").rpartition("/")[0].partition("/")
    try:
        first, last = (entry_of(store.get(key)) for key in keys)
        kind = kind_in(first.get("detail", {}))
        return Recorded(cluster, digest, kind, str(first.get("approver")), first["at"], last["event"], last["at"])
    except (ValueError, RecursionError, ObjectMissingError, ObjectDamagedError) as error:
        why = f"record {store.uri_of(keys[0])} not read: {error}; `kafka-maintenance audit verify` names every entry that was changed"
        return Recorded(cluster, digest, UNKNOWN_KIND, "", "", DAMAGED, "", why)


def timeline(events: Sequence[Event]) -> tuple[str, ...]:
    """The record of a plan, a line per event."""
    return tuple(_line(each) for each in events)


def detail_text(detail: Mapping[str, Any]) -> str:
    """What an event of a record tells, in one line: people and the store say what is in it."""
    return "; ".join(_details(detail))


def begun_plan(store: ObjectStore, cluster: str, beginning: str) -> str:
    """The digest of the one plan that was begun on the cluster and begins so.

    Raises:
        BadInputError: there is none, or more than one.
    """
    prefix = receipt_prefix(require_name(cluster, "cluster"), "")[:-1]
    keys = store.list(f"{prefix}{beginning}") if _BEGINNING.fullmatch(beginning) else ()
    found = {key.removeprefix(prefix).partition("/")[0] for key in keys}
    if len(found) != 1:
        raise BadInputError(
            f"no record of plan {beginning!r} on {cluster!r} in {store.uri}: expected the digest of a plan that was begun, or its beginning, found "
            f"{len(found)} that begin so; `kafka-maintenance executions list` names those that were"
        )
    return found.pop()


def record_of(store: ObjectStore, cluster: str, digest: str) -> tuple[Event, ...]:
    """The record of a plan that was begun.

    Raises:
        BadInputError: there is none.
    """
    events = read_events(store, cluster, digest)
    if not events:
        raise BadInputError(
            f"no record of plan {digest!r} on {cluster!r} in {store.uri}: expected 64 hex digits of a plan that was begun; "
            "`executions` lists them"
        )
    return events


def _line(event: Event) -> str:
    where = "" if event.step is None else f"  step {event.step + 1}"
    return f"{plain(event.at)}  {event.event:<12}{where}  {detail_text(event.detail)}".rstrip()


def _details(detail: Any) -> Iterator[str]:
    for name, value in detail.items():
        match value:
            case None | [] | {} | "":
                continue
            case _ if name in {"topic_versions", BEFORE, AFTER}:  # for the next run, and for a table of its own
                continue
            case [*rows] if name == "lagging":
                yield f"{len(rows)} not in sync"
            case [*rows] if name in {"left_out", "differing"}:
                yield f"{name.replace('_', ' ')}: {', '.join(plain(str(TopicPartition(row['topic'], row['partition']))) for row in rows)}"
            case [*rows] if name == "overrides":
                yield f"{len(rows)} overrides"
            case [*rows]:
                yield f"{plain(name)}: {'; '.join(plain(str(row)) for row in rows)}"
            case _:
                yield f"{plain(name)} {plain(str(value))}"


# ----------------------------------------------------------------------------------------------------------- stop


def stop_requests(store: ObjectStore, cluster: str, digest: str) -> tuple[str, ...]:
    """The keys of what was asked of the runs of a plan."""
    return tuple(store.list(f"v1/stops/cluster={require_name(cluster, 'cluster')}/{digest}/"))


def new_stop_requests(store: ObjectStore, cluster: str, digest: str, events: Sequence[Event]) -> tuple[str, ...]:
    """What was asked since the run of that record began: by what it found then, and not by anybody's clock.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        digest: of the plan, SHA-256 in hex.
        events: of the record.
    """
    began = next(each for each in reversed(events) if each.event is EventKind.STARTED)
    return tuple(key for key in stop_requests(store, cluster, digest) if key not in began.detail.get("stops", ()))


def _time_in_key(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def plan_under_way(zookeeper: ClusterAddress | ZooKeeper, cluster: str) -> str:
    """The digest of the plan that is carried out on the cluster: of the lock's holder, else of the execution that stands.

    Raises:
        BadInputError: there is none.
    """
    with session(zookeeper) as opened:
        holder, execution = find_holder(opened), find_execution(opened)
    if holder is not None:
        return holder.plan
    if execution is not None and execution.execution is not None:
        return execution.execution.plan
    raise BadInputError(
        f"no plan is under way on {cluster!r}: expected a run that holds {LOCK_PATH}, or a step in {EXECUTION_PATH}, found neither; "
        "`kafka-maintenance executions list` names the plans that were begun"
    )


def refuse_to_stop(cluster: str, digest: str, events: Sequence[Event]) -> None:
    """Nothing where a run of that record may be at work and looks whether it shall stop.

    Args:
        cluster: its name.
        digest: of the plan, SHA-256 in hex.
        events: of the record.

    Raises:
        RefusedError: the plan has ended, or is one whose run looks for no such wish.
    """
    ended = next((each for each in events if each.event in {EventKind.OVER, EventKind.DONE}), None)
    if ended is not None:
        raise RefusedError(
            f"plan {digest} on {cluster!r} not stopped: expected one whose run may be at work, found one that ended at {ended.at} "
            f"({ended.event}); nothing is to be done"
        )
    if (kind := kind_in(events[0].detail)) in ASK_NOTHING:
        raise RefusedError(
            f"plan {digest} on {cluster!r} not stopped: expected one that asks Kafka, found one of kind {kind}, whose run looks for no such "
            "wish; end its process (Ctrl-C, SIGTERM, *mark failed* in Airflow): what is written is right, and applying the plan again goes on"
        )


def request_stop(store: ObjectStore, cluster: str, digest: str, *, by: str, reason: str, now: datetime) -> str:
    """Asks the run of the plan that is at work to end at its next safe point; the address of the request.

    A run that begins later is not concerned.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        digest: of the plan, SHA-256 in hex.
        by: who asks.
        reason: in that person's words.
        now: the time of the request, UTC.
    """
    at = _time_in_key(now)
    key = f"v1/stops/cluster={require_name(cluster, 'cluster')}/{digest}/{at}.json"
    put_once(store, key, json.dumps({"by": by, "reason": reason}, sort_keys=True, ensure_ascii=False).encode())
    return store.uri_of(key)


# --------------------------------------------------------------------------------------------------------- unlock


class LeftBehind(NamedTuple):
    """What of ours stands on a cluster; `digest` names exactly this, for whoever approves its removal."""

    znodes: tuple[tuple[str, int, str], ...]
    throttled: tuple[str, ...]
    digest: str

    @property
    def text(self) -> str:
        """For whoever approves."""
        lines = [plain(f"{path}  version {version}  {data}") for path, version, data in self.znodes]
        lines += [f"throttle of plan {digest}" for digest in self.throttled]
        return "\n".join(lines) or "nothing of ours is there"


def left_behind(store: ObjectStore, cluster: str, zookeeper: ZooKeeper) -> LeftBehind:
    """Lock, fences and execution that stand, with their data, and throttles that were not taken back."""
    admin = LOCK_PATH.rpartition("/")[0]
    zookeeper.sync("/")
    names = [f"{admin}/{name}" for name in zookeeper.children(admin)]
    paths = sorted(path for path in names if path in {LOCK_PATH, EXECUTION_PATH} or path.startswith(FENCE_PREFIX))
    znodes = tuple(
        (path, found[1].version, found[0].decode("utf-8", "backslashreplace"))
        for path, found in zip(paths, zookeeper.get_many(paths), strict=True)
        if found is not None
    )
    throttled = left_over(store, cluster)
    digest = hashlib.sha256(canonical([list(map(list, znodes)), list(throttled)])).hexdigest()
    return LeftBehind(znodes, throttled, digest)


def unlock(
    *,
    store: ObjectStore,
    cluster: str,
    zookeeper: ClusterAddress | ZooKeeper,
    approved_digest: str,
    approver: str,
    now: datetime,
) -> LeftBehind:
    """Removes what `left_behind` named, if it is still exactly that; a run that lives loses its lock and asks for nothing more.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        zookeeper: the living cluster.
        approved_digest: of what `left_behind` named.
        approver: who approved it.
        now: the time for the record, UTC.

    Raises:
        RefusedError: something else stands there now, or it changed while it was removed.
    """
    with session(zookeeper) as opened:
        found = left_behind(store, cluster, opened)
        if found.digest != approved_digest:
            raise RefusedError(
                f"nothing removed on {cluster!r}: approved {approved_digest!r}, found {found.digest!r}:\n{found.text}\nlook at it "
                "and approve that"
            )
        operations: list[Operation] = [Delete(path=path, version=version) for path, version, _ in found.znodes]
        try:
            opened.multi(operations)
        except NoNodeError as error:
            raise RefusedError(
                f"nothing removed on {cluster!r}: it changed meanwhile ({error}); look at it again"
            ) from None
        holder = Holder("unlock", f"unlock of {cluster}", approver, now.isoformat(timespec="seconds"))
        with cluster_lock(opened, holder, wait_s=0) as fence:
            for digest in found.throttled:
                record = ReceiptLog(store, cluster=cluster, digest=digest, run=holder.run, approver=approver, now=now)
                end_throttle(opened, fence, record)
        return found
