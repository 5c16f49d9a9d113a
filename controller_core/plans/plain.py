"""Text from a cluster, a store or a person, made safe to show: it can neither hide a line nor forge one.

Shown are web pages, Airflow's Markdown and terminals; each of them takes some characters as orders.
"""

from typing import Final

LETTERS_MAX: Final = 2_000
"""Longer text is cut, and says so; the longest name of a topic has 249."""


def plain(text: str, *, letters_max: int = LETTERS_MAX) -> str:
    r"""`text` with every character that is not printable as its escape: line ends, ESC, marks that turn the direction.

    Longer text is cut after `letters_max` characters, with the number of those that are not shown.
    """
    cut = text[:letters_max]
    safe = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in cut)
    return safe if len(text) <= letters_max else f"{safe}… ({len(text) - letters_max} more characters)"


def code(text: str, *, letters_max: int = LETTERS_MAX) -> str:
    """`text` as a Markdown code span, also within a table: nothing in it is markup."""
    return f"`{plain(text, letters_max=letters_max).replace('`', BACKTICK).replace('|', _BAR)}`"


BACKTICK: Final = r"\x60"
_BAR: Final = r"\x7c"
