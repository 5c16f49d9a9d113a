"""A report as tables, texts and plots, written as Markdown or as one HTML page; it knows nothing of Kafka."""

import base64
import html as escape_html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure

from spark_jobs.severities import SEVERITIES

_NUMBER = re.compile(r"[+-]?[\d,.]+( %)?|-|no|yes")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report; cells are text, numbers or None. Without a head its rows are lines of text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show: no rows, and no title that says all."""
        return not self.rows and (bool(self.head) or self.title.endswith(": "))


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture; left out of Markdown."""

    name: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with paragraphs, then tables and plots in reading order."""

    title: str
    texts: tuple[str, ...] = ()
    parts: tuple[Table | Plot, ...] = ()


def markdown_page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """The page as Markdown, without its plots."""
    lines = [f"# {title}", "", subtitle, ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for text in section.texts:
            lines += [text, ""]
        for part in section.parts:
            lines += _markdown_table(part) if isinstance(part, Table) else []
    return "\n".join(lines)


def html_page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """The page as HTML: no script, pictures inside, a cell that names a section leads to it."""
    named = {section.title.rpartition(" ")[2]: f"s{place}" for place, section in enumerate(sections)}
    body = [f"<h1>{_safe(title)}</h1><p>{_safe(subtitle)}</p>"]
    for place, section in enumerate(sections):
        body.append(f'<h2 id="s{place}">{_safe(section.title)}</h2>')
        body += [f"<p>{_safe(text)}</p>" for text in section.texts]
        links = named if place == 0 else {}
        body += [_html_table(part, links) if isinstance(part, Table) else _html_plot(part) for part in section.parts]
    return _HTML.format(title=_safe(title), body="\n".join(body))


def _markdown_table(table: Table) -> list[str]:
    lines = [f"**{table.title}**", ""]
    if table.head:
        lines += [_markdown_row(table.head), _markdown_row("---" for _ in table.head)]
        lines += [_markdown_row(map(_shown, row)) for row in table.rows]
    else:
        lines += [f"* {_shown(row[0])}" for row in table.rows]
    return [*lines, "", *([table.note, ""] if table.note else [])]


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _html_table(table: Table, links: dict[str, str]) -> str:
    note = f'<p class="note">{_safe(table.note)}</p>' if table.note else ""
    if not table.head:
        lines = "".join(f"<li>{_safe(_shown(row[0]))}</li>" for row in table.rows)
        return f"<h3>{_safe(table.title)}</h3>" + (f"<ul>{lines}</ul>" if lines else "") + note
    shown = [[_shown(cell) for cell in row] for row in table.rows]
    numeric = [all(_NUMBER.fullmatch(row[place]) for row in shown) for place in range(len(table.head))]
    head = "".join(f"<th{_kind(number)}>{_safe(name)}</th>" for name, number in zip(table.head, numeric, strict=True))
    rows = "\n".join(
        "<tr>" + "".join(_html_cell(*cell, links) for cell in zip(row, numeric, strict=True)) + "</tr>" for row in shown
    )
    return f"<h3>{_safe(table.title)}</h3><table><tr>{head}</tr>\n{rows}</table>{note}"


def _html_cell(text: str, number: bool, links: dict[str, str]) -> str:  # noqa: FBT001 - a cell's own kind
    if text in SEVERITIES:
        return f'<td><span class="{text}">{text}</span></td>'
    if text in links:
        return f'<td><a href="#{links[text]}">{_safe(text)}</a></td>'
    return f"<td{_kind(number)}>{_safe(text)}</td>"


def _kind(number: bool) -> str:  # noqa: FBT001 - a cell's own kind
    return ' class="number"' if number else ""


def _html_plot(plot: Plot) -> str:
    buffer = BytesIO()
    plot.figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{_safe(plot.name)}" src="data:image/png;base64,{data}">'


def _shown(cell: Any) -> str:
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case float():
            return f"{cell:.3f}".rstrip("0").rstrip(".")
        case _:
            return str(cell)


def _safe(text: Any) -> str:
    return escape_html.escape(str(text))


_HTML = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }}
table {{ border-collapse: collapse; margin: .4em 0 1.2em }}
td, th {{ border: 1px solid #ccc; padding: .2em .6em; text-align: left; vertical-align: top }}
th {{ background: #f2f2f2 }}
.number {{ text-align: right; font-variant-numeric: tabular-nums }}
td.number {{ white-space: nowrap }}
h2 {{ margin-top: 2em; border-bottom: 2px solid #ddd }}
h3 {{ margin: 1.4em 0 .3em; font-size: 1em }}
ul {{ margin: .3em 0 1em }}
.note {{ color: #555; margin: -.6em 0 1.2em }}
.critical, .warning, .info {{ border-radius: .3em; padding: 0 .4em }}
.critical {{ background: #b3261e; color: #fff }}
.warning {{ background: #ffe08a }}
.info {{ background: #e4ecf5 }}
img {{ max-width: 100%; display: block; margin: .6em 0 }}
</style></head><body>
{body}
</body></html>
"""
