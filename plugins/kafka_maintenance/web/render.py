"""A page's values → HTML, JSON or CSV. Every text is escaped by the template engine."""

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from kafka_maintenance.web.blocks import Cell, Column, Page, Table

_FOLDER: Final = Path(str(files("kafka_maintenance.web")))
_PLOTLY: Final = Path(str(files("plotly"))) / "package_data" / "plotly.min.js"
ASSETS: Final = {
    "pages.css": (_FOLDER / "assets" / "pages.css", "text/css; charset=utf-8"),
    "pages.js": (_FOLDER / "assets" / "pages.js", "text/javascript; charset=utf-8"),
    "plotly.min.js": (_PLOTLY, "text/javascript; charset=utf-8"),
}
NAVIGATION: Final = (
    ("Clusters", "clusters"),
    ("Approvals", "approvals"),
    ("Executions", "executions"),
    ("History", "history"),
    ("KRaft", "kraft"),
)
_SPARK_WIDTH, _SPARK_HEIGHT = 90.0, 20.0
_FORMULA: Final = frozenset("=+-@\t\r\n")
"""A spreadsheet takes a text that begins with one of these for a formula; of a tab and of the end of a line it looks at what follows."""
_LONG_TEXT: Final = 48
"""Characters from which on a text may take more than one line."""


def spark_points(values: Sequence[float]) -> str:
    """The points of a small line, the smallest value at the bottom: `x,y x,y …`."""
    low, high = min(values), max(values)
    step = _SPARK_WIDTH / max(len(values) - 1, 1)
    scale = (_SPARK_HEIGHT - 4) / ((high - low) or 1)
    return " ".join(f"{i * step:.1f},{_SPARK_HEIGHT - 2 - (value - low) * scale:.1f}" for i, value in enumerate(values))


def heat_class(heat: float) -> str:
    """The shade of a cell: how far below or above the mean it is, in five steps each way."""
    step = max(-5, min(5, round(heat * 5)))
    return f"cold{-step}" if step < 0 else f"hot{step}"


def cell_classes(cell: Cell, column: Column) -> str:
    """The classes of a cell: alignment, tone, shade, and whether its text is long."""
    shade = "" if cell.heat is None else heat_class(cell.heat)
    length = "long" if len(cell.text) > _LONG_TEXT else ""
    return " ".join(filter(None, ("numeric" if column.numeric else "", cell.tone, shade, length)))


def cell_html(cell: Cell) -> Markup:
    """What stands in a cell: its text, a link, or a small line."""
    text = escape(cell.text)
    if cell.href:
        leaves = " data-leaves" if cell.leaves else ""
        return Markup(f'<a href="{escape(cell.href)}"{leaves}>{text}</a>')  # noqa: S704 - escaped above
    if cell.spark:
        line = f'<polyline points="{spark_points(cell.spark)}"/>'
        return Markup(f'<svg class="spark" viewBox="0 0 90 20" role="img" aria-label="{text}">{line}</svg>')  # noqa: S704 - as above
    return text


def rows_html(table: Table) -> Markup:
    """The rows that the page has. Not a template: a thousand clusters have eighteen thousand cells."""
    if not table.rows:
        none = f'<tr class="none"><td colspan="{len(table.columns)}">{escape(table.empty)}</td></tr>'
        return Markup(none)  # noqa: S704 - escaped above
    return Markup("\n".join(_row_html(row, table.columns) for row in table.shown))  # noqa: S704 - each cell is escaped


def _row_html(row: Sequence[Cell], columns: Sequence[Column]) -> str:
    parts = []
    for at, (cell, column) in enumerate(zip(row, columns, strict=True)):
        begin, end = ("<th scope=row", "</th>") if at == 0 else ("<td", "</td>")
        classes = cell_classes(cell, column)
        named = f' class="{classes}"' if classes else ""
        value = f' data-value="{escape(cell.value)}"' if cell.value is not None else ""
        parts.append(f"{begin}{named}{value}>{cell_html(cell)}{end}")
    return f"<tr>{''.join(parts)}</tr>"


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals.update(cell_html=cell_html, rows_html=rows_html)


def page_html(page: Page, *, nonce: str) -> str:
    """The page as HTML whose scripts carry `nonce`."""
    figures = {
        block.id: {"traces": block.traces, "layout": block.layout, "height": block.height, "title": block.title}
        for block in (*page.head, *(block for section in page.sections for block in section.blocks))
        if block.block == "figure"
    }
    html = _ENVIRONMENT.get_template("page.html").render(
        page=page,
        nonce=nonce,
        navigation=NAVIGATION,
        figures=_json_in_html(figures) if figures else None,
        version=asset_version(),
    )
    return _as_utf_8(html).decode()


def page_json(page: Page) -> bytes:
    """The page's values as JSON."""
    return _as_utf_8(json.dumps(asdict(page), default=str, ensure_ascii=False))


def table_csv(table: Table) -> str:
    """All rows of a table that the page read, with a head line; a value where a cell has one, its text otherwise.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([column.name for column in table.columns])
    writer.writerows([[_csv_value(cell) for cell in row] for row in table.rows])
    return _as_utf_8(out.getvalue()).decode()


@cache
def asset_version() -> str:
    """Changes with the content of any asset, so that a browser may keep them for good."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path, _ in ASSETS.values()))
    return digest.hexdigest()[:12]


def _csv_value(cell: Cell) -> float | str:
    if cell.value is not None and not isinstance(cell.value, str):
        return cell.value
    if cell.text == "-":
        return ""
    return f"'{cell.text}" if cell.text[:1] in _FORMULA else cell.text


def _as_utf_8(text: str) -> bytes:
    """The text's bytes; a lone surrogate, which JSON may name and UTF-8 cannot have, as its escape: what somebody wrote takes no page."""
    return text.encode("utf-8", "backslashreplace")


def _json_in_html(value: object) -> Markup:
    """JSON that cannot end the element that it stands in."""
    text = json.dumps(value, default=str)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704 - see above
