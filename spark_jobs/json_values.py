"""Strict readers of JSON values that a person wrote: a reader returns the value, or raises a ValueError that says what was wanted."""

from collections.abc import Callable, Iterable
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
