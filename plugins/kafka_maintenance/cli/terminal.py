"""What a person at a terminal sees instead of plain lines: tables, colours and rendered Markdown.

In a pipe nothing of this happens; colours follow `NO_COLOR` and `FORCE_COLOR` as rich does.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_STYLES: Final = {
    "critical": "bold red",
    "warning": "yellow",
    "not analysed": "magenta",
    "healthy": "green",
    "NOT readable": "bold red",
    "NOT consistent": "yellow",
    "new": "bold",
}


class Table(NamedTuple):
    """Rows of text under names; what stands `above` and `below` are lines of their own."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    below: Sequence[str] = ()
    above: Sequence[str] = ()


def on_terminal() -> bool:
    """Whether standard output is a terminal, or is asked to be treated as one (`FORCE_COLOR`, `TTY_COMPATIBLE`)."""
    from rich.console import Console

    return Console().is_terminal


def print_table(table: Table) -> None:
    """The table on a terminal, its known words coloured; a long cell is folded, never cut."""
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console(highlight=False)
    drawn = RichTable(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in table.columns:
        drawn.add_column(name, overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(_cell, row))
    for line in table.above:
        console.print(_cell(line))
    if table.rows:
        console.print(drawn)
    for line in table.below:
        console.print(_cell(line))


def print_markdown(text: str) -> None:
    """Markdown, rendered."""
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(printable(text, keep="\n")))


def printable(text: str, keep: str = "") -> str:
    """The text without what would command the terminal: control characters are shown as escapes."""
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in text
    )


def _cell(text: str) -> Any:
    from rich.text import Text

    cell = Text(printable(text))
    style = next((style for word, style in _STYLES.items() if text.startswith(word)), None)
    if style:
        cell.stylize(style)
    return cell
