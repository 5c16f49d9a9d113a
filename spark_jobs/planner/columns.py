"""Columns and fields of the planner's input as checked arrays: what is wrong in them names the row and the field.

A broker becomes its position in the ascending ids; `-1` pads lists.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from controller_core.model.words import first_names
from spark_jobs.planner.errors import InvalidStateError, RacksUnknownError

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

NO_RACK = ""
_SHOWN_MAX = 5
_INT_MAX = 2**31 - 1
SIZE_MAX = 2**53 - 1  # sums of bytes are made as floats
_DURING_DELETION = -2  # Kafka's leader of a partition that is being deleted


def shorten(values: Sequence[Any]) -> str:
    """Up to five values and the count of the rest, for a message."""
    return f"[{first_names(values, _SHOWN_MAX)}]"


def topic_codes(
    topics: Sequence[str] | npt.NDArray[Any], topic_names: Sequence[str] | None
) -> tuple[tuple[str, ...], Ints]:
    """The topics, sorted, and of each row the index of its topic among them; `topics` holds names, or indices into `topic_names`."""
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


def brokers_of(
    listed: Ints,
    racks: Sequence[str | None],
    live: Sequence[bool] | npt.NDArray[Any] | None,
    draining: Sequence[bool] | npt.NDArray[Any] | None,
    values: Ints,
    unregistered: Literal["dead", "refuse"],
    *,
    ignore_racks: bool,
) -> tuple[Ints, tuple[str, ...], Int32s, Bools, Bools]:
    """Ids in ascending order, racks, and of each broker its rack, whether it is live, whether it is to be emptied.

    Args:
        listed: ids of the registered brokers.
        racks: one each; None for all of them, or for none of them.
        live: one each; None: all are.
        draining: one each; None: none is.
        values: ids of all replicas.
        unregistered: what a replica on a broker that is not listed means: a dead broker, or bad input.
        ignore_racks: as if there were no racks.

    Raises:
        RacksUnknownError: racks on some brokers only.
        InvalidStateError: a broker twice; an unknown one that is refused.
    """
    check_lengths(len(listed), racks=racks, live=live, draining=draining)
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


def positions(ids: Ints, values: Ints, what: str) -> Ints:
    """Positions of broker ids; raises InvalidStateError that names those that are not among `ids`."""
    at = np.searchsorted(ids, values)
    if len(values) and (at.max(initial=0) >= len(ids) or (ids[np.minimum(at, len(ids) - 1)] != values).any()):
        found = np.setdiff1d(values, ids)
        raise InvalidStateError(
            f"{what}s read: brokers {shorten(ids.tolist())} expected, unknown broker {shorten(found.tolist())} "
            "found; list the broker or correct the column"
        )
    return at


def leader_positions(
    ids: Ints, leaders: Sequence[int] | npt.NDArray[Any], unregistered: Literal["dead", "refuse"]
) -> Ints:
    """Positions of leaders, -1 for none and for one that is not among `ids`; raises InvalidStateError where that is refused."""
    led = whole(leaders, "partitions", "leader", least=_DURING_DELETION)
    if unregistered == "refuse":
        positions(ids, led[led >= 0], "leader")
    return np.where(np.isin(led, ids), np.searchsorted(ids, led), -1)


def isr_positions(ids: Ints, isr_ids: Sequence[int] | npt.NDArray[Any], offsets: Ints) -> Ints:
    """Positions of the in-sync brokers, -1 padded; -2 for one that is not among `ids`."""
    values = whole(isr_ids, "partitions", "isr", offsets=offsets)
    known = np.isin(values, ids)
    return padded(offsets, np.where(known, np.searchsorted(ids, values), -2))


def padded(offsets: Ints, values: Ints) -> Ints:
    """Lists as rows of one width, -1 padded at the end."""
    lengths = np.diff(offsets)
    width = max(1, int(lengths.max(initial=0)))
    out = np.full((len(lengths), width), -1, np.int64)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.arange(len(rows)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    out[rows, columns] = values[offsets[0] : offsets[-1]]
    return out


def check_lengths(expected: int, **columns: Sequence[Any] | npt.NDArray[Any] | None) -> None:
    """Raises InvalidStateError for a column of another length than `expected`."""
    for name, column in columns.items():
        if column is not None and len(column) != expected:
            raise InvalidStateError(
                f"column {name!r} read: {expected} values expected, {len(column)} found; the columns of one table "
                "must have one length"
            )


def check_unique_partitions(names: tuple[str, ...], codes: Ints, number: Ints) -> None:
    """Raises InvalidStateError for a partition that stands twice; rows are sorted."""
    same = np.nonzero((codes[1:] == codes[:-1]) & (number[1:] == number[:-1]))[0]
    if len(same):
        twice = [f"{names[codes[row]]}-{number[row]}" for row in same]
        raise InvalidStateError(
            f"partitions read: every partition once expected, {shorten(twice)} found more than once; remove the "
            "duplicate rows"
        )


def check_no_list_empty(lengths: Ints, names: tuple[str, ...], codes: Ints, number: Ints) -> None:
    """Raises InvalidStateError that names a partition without any replica.

    Args:
        lengths: [P] of the replica lists.
        names: of the topics.
        codes: [P] indices into `names`.
        number: [P] partition numbers.

    Raises:
        InvalidStateError: a list is empty; names its partition.
    """
    if len(lengths) and lengths.min() < 1:
        row = int(np.argmin(lengths))
        raise InvalidStateError(
            f"partition {names[codes[row]]}-{number[row]} read: at least one replica expected, an empty list "
            "found; repair the topic's znode first"
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


def list_of(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The objects under `key`; raises InvalidStateError where they are none, or no list."""
    rows = document.get(key) if isinstance(document, Mapping) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise InvalidStateError(
            f"cluster state read: {key!r} as a non-empty list of objects expected, {type(rows).__name__} found; "
            "see docs/planning.md for the format"
        )
    return rows


class Kind(NamedTuple):
    """What a field has to hold."""

    text: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


NUMBER = Kind("a whole number", _is_number)
TEXT = Kind("a text", lambda value: isinstance(value, str))
TRUTH = Kind("true or false", lambda value: isinstance(value, bool))
IDS = Kind("a list of broker ids", lambda value: isinstance(value, list) and all(map(_is_number, value)))


def field_of(
    rows: Sequence[Mapping[str, Any]], table: str, field: str, kind: Kind, *, missing: Sequence[Any] | None = None
) -> list[Any]:
    """The field of every row; raises InvalidStateError with row and field where it is missing or of another kind.

    Args:
        rows: of the document.
        table: whose rows they are, for the message.
        field: its name.
        kind: what it has to hold.
        missing: one value per row where the field may be missing; None: it may not.

    Raises:
        InvalidStateError: a field is missing or of another kind; names row and field.
    """
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


def whole(
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

    Raises:
        InvalidStateError: a value outside; names row and field.
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


def offsets_of(lists: Sequence[Sequence[int]]) -> Ints:
    """Arrow's offsets of lists: one more than there are lists."""
    return np.concatenate([[0], np.cumsum([len(values) for values in lists], dtype=np.int64)])


def wide(lists: np.ndarray[Any, np.dtype[Any]], width: int) -> np.ndarray[Any, np.dtype[Any]]:
    """[P, width] the lists, -1 padded."""
    return np.pad(lists, ((0, 0), (0, width - lists.shape[1])), constant_values=-1)
