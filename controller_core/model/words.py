"""How many of what, in words: one place for lists, pages and reports."""

from typing import Final

_OF_ONE: Final = {"are": "is", "have": "has"}


def counted(number: int, noun: str, verb: str = "") -> str:
    """`3 clusters`, `1 cluster`; with a verb, given as it stands after several, `3 clusters are`, `1 cluster is`."""
    words = [f"{number:,}", noun if number == 1 else f"{noun}s"]
    if verb:
        words.append(_OF_ONE.get(verb, f"{verb}s") if number == 1 else verb)
    return " ".join(words)
