"""The cluster as the planner sees it: integer arrays over broker positions, checked once when they are built.

A broker is referred to by its *position* in `broker_ids` (ascending ids); `-1` pads replica lists and means "none".
Partitions are sorted by topic and number, so that the order of the input never changes a plan.
Source: docs/planning.md, "Goals"; Kafka 3.9 `AdminUtils` (rack-awareness needs a rack on every broker or on none).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.planner.errors import InvalidStateError, RacksUnknownError

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

NO_RACK = ""
_SHOWN_MAX = 5
_INT_MAX = 2**31 - 1
_SIZE_MAX = 2**53 - 1  # sums of bytes are made as floats
_DURING_DELETION = -2  # Kafka's leader of a partition that is being deleted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterState:
    """Brokers and partitions of one cluster; build it with `from_columns` or `from_json`, which check it.

    Shapes: B brokers, T topics, P partitions, W the longest replica list.
    """

    broker_ids: Int32s  # [B] ascending
    rack_names: tuple[str, ...]  # sorted; (NO_RACK,) for a cluster without racks
    rack: Int32s  # [B] index into rack_names
    live: Bools  # [B] registered
    draining: Bools  # [B] to be emptied
    topics: tuple[str, ...]  # [T] sorted
    topic: Int32s  # [P] index into topics
    number: Int32s  # [P] partition number
    replicas: Int32s  # [P, W] positions, preferred first, -1 padded at the end
    in_sync: Bools  # [P, W] replica is in the ISR
    leader: Int32s  # [P] position of the current leader, -1 for none
    replication_factor: Int32s  # [P] wanted, may differ from the length of the list
    size: Ints | None  # [P] bytes (or any weight) of one replica, None when unknown
    collapsed: Ints  # rows whose list named a broker twice; it counts once here, and a plan repairs it

    @property
    def broker_count(self) -> int:
        """All brokers, dead ones included."""
        return len(self.broker_ids)

    @property
    def partition_count(self) -> int:
        """All partitions."""
        return len(self.topic)

    def position(self, broker_id: int) -> int:
        """Position of a broker id; raises InvalidStateError when the state has no such broker."""
        at = int(np.searchsorted(self.broker_ids, broker_id))
        if at == len(self.broker_ids) or self.broker_ids[at] != broker_id:
            raise InvalidStateError(
                f"broker {broker_id} looked up: the state has {len(self.broker_ids)} brokers "
                f"{shorten(self.broker_ids.tolist())} and not this one; name a broker of the cluster"
            )
        return at

    def partition_name(self, row: int) -> str:
        """`topic-number` of a row, as Kafka logs it."""
        return f"{self.topics[self.topic[row]]}-{self.number[row]}"

    def ids(self, positions: Iterable[int]) -> list[int]:
        """Broker ids of positions, padding left out."""
        return [int(self.broker_ids[b]) for b in positions if b >= 0]

    def without_live_replica(self) -> Ints:
        """Rows of partitions of which no replica is on a live broker: nothing can be copied from anywhere."""
        alive = (self.replicas >= 0) & self.live[np.maximum(self.replicas, 0)]
        return np.nonzero(~alive.any(1))[0]

    @staticmethod
    def from_columns(
        *,
        broker_ids: Sequence[int] | npt.NDArray[Any],
        racks: Sequence[str | None],
        topics: Sequence[str] | npt.NDArray[Any],
        partitions: Sequence[int] | npt.NDArray[Any],
        replica_offsets: Sequence[int] | npt.NDArray[Any],
        replica_ids: Sequence[int] | npt.NDArray[Any],
        leaders: Sequence[int] | npt.NDArray[Any] | None = None,
        live: Sequence[bool] | npt.NDArray[Any] | None = None,
        draining: Sequence[bool] | npt.NDArray[Any] | None = None,
        replication_factors: Sequence[int] | npt.NDArray[Any] | None = None,
        sizes: Sequence[int] | npt.NDArray[Any] | None = None,
        isr_offsets: Sequence[int] | npt.NDArray[Any] | None = None,
        isr_ids: Sequence[int] | npt.NDArray[Any] | None = None,
        topic_names: Sequence[str] | None = None,
        unregistered: Literal["dead", "refuse"] = "dead",
        ignore_racks: bool = False,
    ) -> ClusterState:
        """Builds a state from table columns (Arrow's list layout: P + 1 offsets into one array of values).

        Args:
            broker_ids: registered brokers, any order.
            racks: rack of each broker; None for all of them, or for none of them.
            topics: topic name of each partition, or indices into `topic_names` when that is given.
            partitions: partition number of each row.
            replica_offsets: P + 1 offsets into `replica_ids`.
            replica_ids: assigned broker ids, preferred first.
            leaders: current leader ids, -1 for none; default is the first replica when it is live.
            live: whether each broker is registered; default all.
            draining: whether each broker is to be emptied; default none.
            replication_factors: wanted; default is the length of the list.
            sizes: bytes of one replica of each partition; None when unknown.
            isr_offsets: P + 1 offsets into `isr_ids`; default is that every live replica is in sync.
            isr_ids: broker ids of the in-sync replicas.
            topic_names: the dictionary of `topics`.
            unregistered: what a replica on a broker that is not listed means: a dead broker, or bad input.
            ignore_racks: plan as if there were no racks.

        Returns:
            The state, partitions sorted by (topic, number).

        Raises:
            RacksUnknownError: racks on some brokers only.
            InvalidStateError: duplicate brokers or partitions, an unknown broker, an empty list, columns of different lengths,
                a number out of range (ids, numbers and factors up to 2^31 - 1, bytes up to 2^53 - 1).
        """
        offsets = np.asarray(replica_offsets, np.int64)
        values = _whole(replica_ids, "partitions", "replicas", offsets=offsets)
        count = len(offsets) - 1
        names, codes = _topic_codes(topics, topic_names)
        _check_lengths(
            count,
            topics=codes,
            partitions=partitions,
            leaders=leaders,
            replication_factors=replication_factors,
            sizes=sizes,
        )
        number = _whole(partitions, "partitions", "partition")
        order = np.lexsort((number, codes))
        codes, number = codes[order], number[order]
        _check_unique_partitions(names, codes, number)
        ids, rack_names, rack, alive, drained = _brokers(
            _whole(broker_ids, "brokers", "id"), racks, live, draining, values, unregistered, ignore_racks=ignore_racks
        )
        lengths = np.diff(offsets)
        if count and lengths.min() < 1:
            row = int(np.argmin(lengths[order]))
            raise InvalidStateError(
                f"partition {names[codes[row]]}-{number[row]} read: at least one replica expected, an empty list "
                "found; repair the topic's znode first"
            )
        listed = _padded(offsets, _positions(ids, values, "replica"))[order]
        single, collapsed = without_repeats(listed)
        replicas = single.astype(np.int32)
        rf = lengths if replication_factors is None else _whole(replication_factors, "partitions", "rf", least=1)
        rf = rf[order]
        size = None if sizes is None else _whole(sizes, "partitions", "size", most=_SIZE_MAX)[order]
        on_live = (replicas >= 0) & alive[np.maximum(replicas, 0)]
        in_sync = on_live
        if isr_offsets is not None and isr_ids is not None:
            isr_values = _whole(isr_ids, "partitions", "isr", offsets=np.asarray(isr_offsets, np.int64))
            known = np.isin(isr_values, ids)
            isr_positions = np.where(known, np.searchsorted(ids, isr_values), -2)
            isr = _padded(np.asarray(isr_offsets, np.int64), isr_positions)[order]
            in_sync = on_live & (replicas[:, :, None] == isr[:, None, :]).any(2)
        if leaders is None:
            leader = np.where(on_live[:, 0], replicas[:, 0], -1) if count else np.zeros(0, np.int64)
        else:
            led = _whole(leaders, "partitions", "leader", least=_DURING_DELETION)
            leader = _leader_positions(ids, led[order], unregistered)
        return ClusterState(
            broker_ids=ids.astype(np.int32),
            rack_names=rack_names,
            rack=rack,
            live=alive,
            draining=drained,
            topics=names,
            topic=codes.astype(np.int32),
            number=number.astype(np.int32),
            replicas=replicas,
            in_sync=in_sync,
            leader=leader.astype(np.int32),
            replication_factor=rf.astype(np.int32),
            size=size,
            collapsed=collapsed,
        )

    def to_json(self) -> dict[str, Any]:
        """The document that `from_json` reads; brokers that are not registered are not live."""
        flat = self.rack_names == (NO_RACK,)
        ids = self.broker_ids.tolist()
        racks = [None if flat else self.rack_names[rack] for rack in self.rack.tolist()]
        columns = zip(ids, racks, self.live.tolist(), self.draining.tolist(), strict=True)
        sizes = [None] * self.partition_count if self.size is None else self.size.tolist()
        rows = zip(
            self.topic.tolist(),
            self.number.tolist(),
            self.replicas.tolist(),
            self.in_sync.tolist(),
            self.leader.tolist(),
            self.replication_factor.tolist(),
            sizes,
            strict=True,
        )
        return {
            "brokers": [{"id": b, "rack": rack, "live": live, "drain": drain} for b, rack, live, drain in columns],
            "partitions": [
                {
                    "topic": self.topics[topic],
                    "partition": number,
                    "replicas": [ids[b] for b in replicas if b >= 0],
                    "isr": [ids[b] for b, synced in zip(replicas, in_sync, strict=True) if synced],
                    "leader": -1 if leader < 0 else ids[leader],
                    "rf": rf,
                    **({} if size is None else {"size": size}),
                }
                for topic, number, replicas, in_sync, leader, rf, size in rows
            ],
        }

    @staticmethod
    def from_json(document: Mapping[str, Any], *, ignore_racks: bool = False) -> ClusterState:
        """Reads the cluster-state document of `kafka-maintenance plan-file`.

        Args:
            document: {"brokers": [{"id", "rack", "live", "drain"}], "partitions": [{"topic", "partition",
                "replicas", "leader", "rf", "size", "isr"}]}; `live`, `drain`, `leader`, `rf`, `size` and `isr` may
                be missing, `size` and `isr` on all partitions or on none.
            ignore_racks: plan as if there were no racks.

        Raises:
            InvalidStateError: as `from_columns`; also a missing or ill-typed field, and any unknown broker.
        """
        brokers, partitions = _list_of(document, "brokers"), _list_of(document, "partitions")
        lists = _column(partitions, "partitions", "replicas", _IDS)
        isr = _column(partitions, "partitions", "isr", _IDS) if any("isr" in p for p in partitions) else None
        has_leader = any("leader" in p for p in partitions)
        has_size = any(p.get("size") is not None for p in partitions)
        return ClusterState.from_columns(
            broker_ids=_column(brokers, "brokers", "id", _NUMBER),
            racks=[None if b.get("rack") is None else str(b["rack"]) for b in brokers],
            live=_column(brokers, "brokers", "live", _TRUTH, missing=[True] * len(brokers)),
            draining=_column(brokers, "brokers", "drain", _TRUTH, missing=[False] * len(brokers)),
            topics=_column(partitions, "partitions", "topic", _TEXT),
            partitions=_column(partitions, "partitions", "partition", _NUMBER),
            replica_offsets=_offsets(lists),
            replica_ids=[b for replicas in lists for b in replicas],
            leaders=_column(partitions, "partitions", "leader", _NUMBER) if has_leader else None,
            replication_factors=_column(partitions, "partitions", "rf", _NUMBER, missing=list(map(len, lists))),
            sizes=_column(partitions, "partitions", "size", _NUMBER) if has_size else None,
            isr_offsets=None if isr is None else _offsets(isr),
            isr_ids=None if isr is None else [b for replicas in isr for b in replicas],
            unregistered="refuse",
            ignore_racks=ignore_racks,
        )


def shorten(values: Sequence[Any]) -> str:
    """Up to five values and the count of the rest, for a message."""
    shown = ", ".join(str(value) for value in values[:_SHOWN_MAX])
    return f"[{shown}]" if len(values) <= _SHOWN_MAX else f"[{shown} and {len(values) - _SHOWN_MAX} more]"


def _topic_codes(
    topics: Sequence[str] | npt.NDArray[Any], topic_names: Sequence[str] | None
) -> tuple[tuple[str, ...], Ints]:
    if topic_names is not None:
        names = np.asarray(topic_names, dtype=object)
        used, codes = np.unique(np.asarray(topics, np.int64), return_inverse=True)
        order = np.argsort(names[used].astype(str), kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return tuple(str(name) for name in names[used][order]), rank[codes]
    table = sorted({str(topic) for topic in topics})
    index = {topic: code for code, topic in enumerate(table)}
    return tuple(table), np.fromiter((index[str(topic)] for topic in topics), np.int64, len(topics))


def _brokers(
    listed: Ints,
    racks: Sequence[str | None],
    live: Sequence[bool] | npt.NDArray[Any] | None,
    draining: Sequence[bool] | npt.NDArray[Any] | None,
    values: Ints,
    unregistered: Literal["dead", "refuse"],
    *,
    ignore_racks: bool,
) -> tuple[Ints, tuple[str, ...], Int32s, Bools, Bools]:
    _check_lengths(len(listed), racks=racks, live=live, draining=draining)
    if len(np.unique(listed)) != len(listed):
        twice = sorted({int(b) for b in listed if (listed == b).sum() > 1})
        raise InvalidStateError(
            f"brokers read: every id once expected, {shorten(twice)} found more than once; remove the duplicate rows"
        )
    strangers = np.setdiff1d(values, listed)
    if len(strangers) and unregistered == "refuse":
        raise InvalidStateError(
            f"replica lists read: brokers among {shorten(np.sort(listed).tolist())} expected, unknown broker "
            f'{shorten(strangers.tolist())} found; list it under brokers, with "live": false if it is gone'
        )
    bare = [rack is None for rack in racks]
    if not ignore_racks and any(bare) and not all(bare):
        lacking = sorted(int(b) for b, none in zip(listed, bare, strict=True) if none)
        raise RacksUnknownError(
            f"brokers read: a rack on every broker or on none expected, brokers {shorten(lacking)} have none; "
            "set broker.rack there, or ask for a plan that ignores racks (ignore_racks)"
        )
    flat = ignore_racks or all(bare)
    names = [NO_RACK if flat else str(rack) for rack in racks] + [NO_RACK] * len(strangers)
    rack_names = tuple(sorted({NO_RACK} if flat else set(names[: len(listed)])))
    # A dead broker has no rack; it is never eligible, so any index does.
    rack_index = {name: index for index, name in enumerate(rack_names)}
    ids = np.concatenate([listed, strangers])
    order = np.argsort(ids)
    gone = np.zeros(len(strangers), bool)
    alive = np.concatenate([np.ones(len(listed), bool) if live is None else np.asarray(live, bool), gone])
    drained = np.concatenate([np.zeros(len(listed), bool) if draining is None else np.asarray(draining, bool), gone])
    rack = np.array([rack_index.get(name, 0) for name in names], np.int32)
    return ids[order], rack_names, rack[order], alive[order], drained[order]


def _positions(ids: Ints, values: Ints, what: str) -> Ints:
    at = np.searchsorted(ids, values)
    if len(values) and (at.max(initial=0) >= len(ids) or (ids[np.minimum(at, len(ids) - 1)] != values).any()):
        found = np.setdiff1d(values, ids)
        raise InvalidStateError(
            f"{what}s read: brokers {shorten(ids.tolist())} expected, unknown broker {shorten(found.tolist())} "
            "found; list the broker or correct the column"
        )
    return at


def _leader_positions(ids: Ints, leaders: Ints, unregistered: Literal["dead", "refuse"]) -> Ints:
    known = np.isin(leaders, ids)
    if unregistered == "refuse":
        _positions(ids, leaders[leaders >= 0], "leader")
    return np.where(known, np.searchsorted(ids, leaders), -1)


def _padded(offsets: Ints, values: Ints) -> Ints:
    lengths = np.diff(offsets)
    width = max(1, int(lengths.max(initial=0)))
    out = np.full((len(lengths), width), -1, np.int64)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.arange(len(rows)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    out[rows, columns] = values[offsets[0] : offsets[-1]]
    return out


def _check_lengths(expected: int, **columns: Sequence[Any] | npt.NDArray[Any] | None) -> None:
    for name, column in columns.items():
        if column is not None and len(column) != expected:
            raise InvalidStateError(
                f"column {name!r} read: {expected} values expected, {len(column)} found; the columns of one table "
                "must have one length"
            )


def _check_unique_partitions(names: tuple[str, ...], codes: Ints, number: Ints) -> None:
    same = np.nonzero((codes[1:] == codes[:-1]) & (number[1:] == number[:-1]))[0]
    if len(same):
        twice = [f"{names[codes[row]]}-{number[row]}" for row in same]
        raise InvalidStateError(
            f"partitions read: every partition once expected, {shorten(twice)} found more than once; remove the "
            "duplicate rows"
        )


def without_repeats(replicas: Ints) -> tuple[Ints, Ints]:
    """Lists with every broker once, at its first place, and the rows that were shortened."""
    again = np.zeros(replicas.shape, bool)
    for column in range(1, replicas.shape[1]):
        again[:, column] = (replicas[:, :column] == replicas[:, column, None]).any(1) & (replicas[:, column] >= 0)
    rows = np.nonzero(again.any(1))[0]
    if not len(rows):
        return replicas, rows
    single = np.where(again, -1, replicas)
    order = np.argsort(single < 0, 1, kind="stable")
    return np.take_along_axis(single, order, 1), rows


def _list_of(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    rows = document.get(key) if isinstance(document, Mapping) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise InvalidStateError(
            f"cluster state read: {key!r} as a non-empty list of objects expected, {type(rows).__name__} found; "
            "see docs/planning.md for the format"
        )
    return rows


class _Kind(NamedTuple):
    text: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_NUMBER = _Kind("a whole number", _is_number)
_TEXT = _Kind("a text", lambda value: isinstance(value, str))
_TRUTH = _Kind("true or false", lambda value: isinstance(value, bool))
_IDS = _Kind("a list of broker ids", lambda value: isinstance(value, list) and all(map(_is_number, value)))


def _column(
    rows: Sequence[Mapping[str, Any]], table: str, field: str, kind: _Kind, *, missing: Sequence[Any] | None = None
) -> list[Any]:
    """The field of every row; raises InvalidStateError with row and field where it is missing or of another kind."""
    values = []
    for at, row in enumerate(rows):
        if missing is None and field not in row:
            raise InvalidStateError(f"cluster state read: {table}[{at}]: {field!r} is missing; add it")
        value = row[field] if missing is None else row.get(field, missing[at])
        if not kind.fits(value):
            raise InvalidStateError(
                f"cluster state read: {table}[{at}]: {field!r} as {kind.text} expected, {reprlib.repr(value)} found; "
                "correct it"
            )
        values.append(value)
    return values


def _whole(
    values: Sequence[int] | npt.NDArray[Any],
    table: str,
    field: str,
    *,
    least: int = 0,
    most: int = _INT_MAX,
    offsets: Ints | None = None,
) -> Ints:
    """The values as integers; raises InvalidStateError with row and field for one that is not in `least`..`most`.

    Args:
        values: one per row, or the values of lists.
        table: whose rows they are, for the message.
        field: likewise.
        least: smallest value.
        most: largest value.
        offsets: of the lists into `values`; None: one value per row.
    """
    try:
        column = np.asarray(values, np.int64)
        outside = np.nonzero((column < least) | (column > most))[0].tolist()
    except OverflowError:
        outside = [at for at, value in enumerate(values) if not least <= value <= most]
    if not outside:
        return column
    at = outside[0]
    row = at if offsets is None else int(np.searchsorted(offsets, at, "right")) - 1
    raise InvalidStateError(
        f"cluster state read: {table}[{row}]: {field!r} from {least} to {most} expected, {values[at]} found; correct it"
    )


def _offsets(lists: Sequence[Sequence[int]]) -> Ints:
    return np.concatenate([[0], np.cumsum([len(values) for values in lists], dtype=np.int64)])
