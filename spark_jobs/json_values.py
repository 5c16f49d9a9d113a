"""Strict readers of JSON values that a person wrote, and the values of a query as JSON has them.

A reader returns the value, or raises a ValueError that says what was wanted.
"""

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isfinite, isnan
from typing import Any

Reader = Callable[[Any], Any]


def one(kind: type, least: float | None = None) -> Reader:
    """A value of exactly that kind, at least `least`: true is no integer; for a float an integer will do."""
    kinds = {int, float} if kind is float else {kind}

    def read(value: Any) -> Any:
        if type(value) not in kinds or (least is not None and value < least):
            at_least = "" if least is None else f" of at least {least}"
            raise ValueError(f"expected {kind.__name__}{at_least}, found {value!r}")
        return value

    return read


def one_or_null(kind: type, least: float | None = None) -> Reader:
    """As `one`; null is None."""
    read = one(kind, least)
    return lambda value: None if value is None else read(value)


def several(read: Reader, build: Callable[[Iterable[Any]], Any]) -> Reader:
    """A list whose members `read` accepts, as `build` makes it."""
    members = one(list)
    return lambda values: build([read(value) for value in members(values)])


def as_json(value: Any) -> Any:
    """A value as JSON has it; times as ISO 8601, without the zone, which is UTC, and their differences in seconds.

    What is no number in JSON has the name that Spark's `to_json` gives it.
    """
    match value:
        case float() if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.replace(tzinfo=None).isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case bytes() | bytearray():
            return value.hex()
        case dict():
            return {str(key): as_json(each) for key, each in value.items()}
        case list() | tuple():
            return [as_json(each) for each in value]
        case _:
            return value


def fields(value: Any, readers: dict[str, Reader]) -> dict[str, Any]:
    """An object with some of the fields that `readers` names, each read by its reader."""
    found = one(dict)(value)
    unknown = sorted(set(found) - set(readers))
    if unknown:
        raise ValueError(f"expected some of the fields {list(readers)}, found {unknown}")
    done = {}
    for name, member in found.items():
        try:
            done[name] = readers[name](member)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return done
