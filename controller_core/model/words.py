"""How many of what, and the first of many, in words: one place for messages, lists, pages and reports."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

_OF_ONE: Final = {"are": "is", "have": "has"}
Value = TypeVar("Value")


def counted(number: int, noun: str, verb: str = "") -> str:
    """`3 clusters`, `1 cluster`; with a verb, given as it stands after several, `3 clusters are`, `1 cluster is`."""
    words = [f"{number:,}", noun if number == 1 else f"{noun}s"]
    if verb:
        words.append(_OF_ONE.get(verb, f"{verb}s") if number == 1 else verb)
    return " ".join(words)


def first_names(values: Sequence[object], most: int) -> str:
    """`a, b and 7 more`: at most so many of the values, and the number of the others."""
    return ", ".join(map(str, values[:most])) + (f" and {len(values) - most} more" if len(values) > most else "")


def first_reasons(values: Sequence[object], most: int) -> str:
    """`a; b; and 7 more`: the same for sentences, which have commas of their own."""
    return "; ".join(map(str, values[:most])) + (f"; and {len(values) - most} more" if len(values) > most else "")


def first_lines(values: Sequence[Value], most: int, *, text: Callable[[Value], str] = str) -> tuple[str, ...]:
    """The same as lines, the last of which is `… and 7 more`; only values that are shown are made a `text`."""
    more = (f"… and {len(values) - most} more",) if len(values) > most else ()
    return (*map(text, values[:most]), *more)
