"""What a page consists of, as values: facts, tables, figures, notes and forms. `render` makes HTML, JSON or CSV of them.

No value here is markup; the templates escape every text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

Tone = Literal["critical", "warning", "info", "good", "quiet"]
ROWS_SHOWN_MAX: Final = 500
"""Rows of a table in the page; the download has all that the page read."""


@dataclass(slots=True)  # not frozen: a page makes a hundred thousand, and a frozen one takes three times as long
class Cell:
    """One value of a table.

    `value` is what sorting and downloads use where the text is not enough; `href` a link, which `leaves` this page's frame
    for a page of Airflow; `heat` -1 to 1 shades it by how far it is off the mean; `spark` draws a small line.
    """

    text: str
    tone: Tone | None = None
    value: float | str | None = None
    href: str | None = None
    leaves: bool = False
    heat: float | None = None
    spark: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `numeric` ones are aligned at the right, `words` is what its heading means, in a sentence."""

    name: str
    numeric: bool = False
    words: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A choice beside the search field of a table: only rows whose `column` has the chosen text."""

    label: str
    column: str
    choices: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with a caption. `more` counts rows that were not even read; `empty` is said where there are none."""

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    empty: str = "None."
    note: str = ""
    more: int = 0
    filters: Sequence[Filter] = ()
    searchable: bool = False
    rows_shown_max: int = ROWS_SHOWN_MAX
    block: Literal["table"] = "table"

    @property
    def shown(self) -> Sequence[Sequence[Cell]]:
        """The rows that the page has."""
        return self.rows[: self.rows_shown_max]

    @property
    def hidden(self) -> int:
        """How many rows the page does not have."""
        return len(self.rows) - len(self.shown) + self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot, what it shows in a sentence, and the table that holds its values.

    `traces` and `layout` are Plotly's; a `half` figure leaves room for another beside it; a colour that begins with `--` is one of the page's own, in its light or dark form.
    """

    id: str
    title: str
    says: str
    traces: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any] = field(default_factory=dict)
    table: Table
    height: int = 320
    half: bool = False
    block: Literal["figure"] = "figure"


@dataclass(frozen=True, slots=True)
class Facts:
    """Short values with their names, as a row of tiles; `wide` ones stand below each other, each in a line."""

    facts: Sequence[tuple[str, Cell]]
    wide: bool = False
    block: Literal["facts"] = "facts"


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence that stands out by its tone."""

    text: str
    tone: Tone = "quiet"
    block: Literal["note"] = "note"


@dataclass(frozen=True, slots=True)
class Lines:
    """A list of sentences under a heading."""

    title: str
    lines: Sequence[str]
    block: Literal["lines"] = "lines"


class PageStep(NamedTuple):
    """A line of `Steps`; one with a `name` has a box to tick, whose state the browser keeps under that name."""

    text: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """A list under a heading, to tick off; what is ticked stays in the reader's browser, under `kept_as`."""

    title: str
    steps: Sequence[PageStep]
    kept_as: str
    block: Literal["steps"] = "steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A field of a form: a text, or one of `choices` (value, text)."""

    name: str
    label: str
    value: str
    choices: Sequence[tuple[str, str]] | None = None

    @property
    def offered(self) -> Sequence[tuple[str, str]]:
        """The choices, and the value that is shown where it is none of them: a cluster that is listed no more, a date before the listed ones."""
        choices = self.choices or ()
        is_known = not self.value or self.value in {value for value, _ in choices}
        return choices if is_known else [(self.value, self.value), *choices]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form that opens `action` with its fields in the address; `hidden` are fields that stay."""

    action: str
    button: str
    fields: Sequence[Choice]
    hidden: Mapping[str, str] = field(default_factory=dict)
    block: Literal["form"] = "form"


class Blank(NamedTuple):
    """A text that the reader fills in before he acts; it goes into the configuration of the run under `name`."""

    name: str
    label: str
    required: bool = True


class Launch(NamedTuple):
    """What a person may do: a request to Airflow's own API, which the browser makes as the reader.

    `text` is what the button says, `says` what that does; `href` where it is seen in Airflow; `request` the path in Airflow's API, and
    `body` what is sent there; `withheld` why this reader cannot do it now.
    """

    text: str
    says: str
    href: str
    request: str
    body: Mapping[str, Any]
    blanks: Sequence[Blank] = ()
    withheld: str = ""

    @property
    def body_json(self) -> str:
        """The body, for the browser."""
        return json.dumps(self.body)


@dataclass(frozen=True, slots=True)
class Launches:
    """What a person may do next; `empty` is said where there is nothing."""

    says: str
    launches: Sequence[Launch]
    empty: str
    block: Literal["launches"] = "launches"


Block = Facts | Note | Lines | Steps | Launches | Form | Table | Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Blocks under a heading; `anchor` names it in the page's address."""

    title: str
    anchor: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: where it stands (`trail` of (text, address)), its first lines, and its sections.

    `refresh_s`: what it shows goes on, and the browser reads it again so often, until the reader says no.
    """

    title: str
    subtitle: str = ""
    here: str = ""
    trail: Sequence[tuple[str, str]] = ()
    head: Sequence[Block] = ()
    sections: Sequence[Section] = ()
    refresh_s: int | None = None

    @property
    def acts(self) -> bool:
        """Whether something on it asks Airflow for a run."""
        return any(isinstance(block, Launches) for section in self.sections for block in section.blocks)

    def table(self, table_id: str) -> Table | None:
        """The table of that id, in a figure or by itself."""
        blocks = [*self.head, *(block for section in self.sections for block in section.blocks)]
        tables = (block.table if isinstance(block, Figure) else block for block in blocks)
        return next((found for found in tables if isinstance(found, Table) and found.id == table_id), None)


def number(value: float | None, *, digits: int = 0, unit: str = "", tone: Tone | None = None) -> Cell:
    """A number with its digits grouped; a dash where there is none.

    Args:
        value: None: unknown.
        digits: behind the point.
        unit: behind the number.
        tone: of the cell; None: plain.
    """
    if value is None:
        return Cell("-", "quiet", None)
    return Cell(f"{value:,.{digits}f}{unit}", tone, value)


def short(value: float | None) -> str:
    """A number of any size as it reads best; empty where there is none."""
    if value is None:
        return ""
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"  # noqa: PLR2004 - below, a tenth tells too little


def age_text(seconds: float) -> str:
    """An age in the unit that reads best."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def moment_text(at: str | None) -> str:
    """A time in ISO 8601 as a person reads it, to the second; a dash where there is none."""
    return at[:19].replace("T", " ") if at else "-"


def note_page(title: str, text: str, *, tone: Tone = "quiet") -> Page:
    """A page outside the navigation that says why there is nothing to show."""
    return Page(title=title, here="", head=(Note(text, tone),))
