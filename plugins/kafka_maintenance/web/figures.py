"""The kinds of plot that the pages have; each is made of the rows of the table behind it."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from kafka_maintenance.web.blocks import Cell, Column, Figure, Table, number, short

_ROW_HEIGHT: Final = 26
_TEXTS_SHOWN_MAX: Final = 24
"""Columns of a heat map in which the values are written; in more, they would overlap."""
_SHADES: Final = ((0, "--cold"), (0.5, "--middle"), (1, "--hot"))


def deviation(values: Sequence[float | None]) -> list[float | None]:
    """How far each value is off the mean of all, as a share of the mean, cut at -1 and 1; None stays None."""
    known = [value for value in values if value is not None]
    mean = fmean(known) if known else 0.0
    return [None if value is None else max(-1.0, min(1.0, (value - mean) / mean)) if mean else 0.0 for value in values]


def heat_map(
    figure_id: str,
    title: str,
    says: str,
    *,
    head: str,
    names: Sequence[Cell],
    measures: Mapping[str, Sequence[float | None]],
    details: Mapping[str, Sequence[Cell]],
) -> Figure:
    """Brokers from left to right, a row per measure, shaded by how far each is off the mean of its row.

    Args:
        figure_id: of the figure; its table gets `-table` behind.
        title: of the figure.
        says: what it shows, in a sentence.
        head: heading of the names.
        names: one per column.
        measures: a row each; a value per name.
        details: columns that only the table has.
    """
    shades = {name: deviation(values) for name, values in measures.items()}
    rows = [
        (
            name,
            *(column[at] for column in details.values()),
            *(_shaded(values[at], shades[measure][at]) for measure, values in measures.items()),
        )
        for at, name in enumerate(names)
    ]
    columns = [Column(head), *(Column(name) for name in details), *(Column(name, numeric=True) for name in measures)]
    trace = {
        "type": "heatmap",
        "x": [name.text for name in names],
        "y": list(measures),
        "z": list(shades.values()),
        "customdata": [list(values) for values in measures.values()],
        "zmin": -1,
        "zmax": 1,
        "xgap": 1,
        "ygap": 1,
        "colorscale": [list(shade) for shade in _SHADES],
        "showscale": False,
        "hovertemplate": f"{head} %{{x}}<br>%{{y}}: %{{customdata}}<br>%{{z:+.0%}} of the mean<extra></extra>",
    }
    if len(names) <= _TEXTS_SHOWN_MAX:
        trace |= {
            "text": [[short(value) for value in values] for values in measures.values()],
            "texttemplate": "%{text}",
        }
    return Figure(
        id=figure_id,
        title=title,
        says=says,
        traces=[trace],
        layout={
            "xaxis": {"type": "category", "title": {"text": head}, "showgrid": False, "nticks": 40},
            "yaxis": {"autorange": "reversed", "showgrid": False},
        },
        table=Table(id=f"{figure_id}-table", caption=title, columns=columns, rows=rows, searchable=len(rows) > 1),
        height=90 + _ROW_HEIGHT * max(len(measures), 3),
    )


def matrix(
    figure_id: str, title: str, says: str, counts: Mapping[tuple[int, int], int], *, head: tuple[str, str, str]
) -> Figure:
    """How many things go from which broker (rows) to which (columns).

    Args:
        figure_id: its id in the page.
        title: stands above it.
        says: what it shows, in one sentence.
        counts: (row, column) → how many.
        head: what rows are, and columns, and what is counted.
    """
    sources, targets = (sorted({pair[side] for pair in counts}) for side in (0, 1))
    z = [[counts.get((source, target)) for target in targets] for source in sources]
    trace = {
        "type": "heatmap",
        "x": [str(target) for target in targets],
        "y": [str(source) for source in sources],
        "z": z,
        "xgap": 1,
        "ygap": 1,
        "colorscale": [[0, "--middle"], [1, "--series-1"]],
        "showscale": False,
        "hovertemplate": f"{head[0]} %{{y}} → {head[1]} %{{x}}: %{{z}}<extra></extra>",
    }
    if len(targets) <= _TEXTS_SHOWN_MAX:
        trace["texttemplate"] = "%{z}"
    rows = [
        (number(source), number(target), number(count))
        for (source, target), count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]
    columns = (Column(head[0], numeric=True), Column(head[1], numeric=True), Column(head[2], numeric=True))
    return Figure(
        id=figure_id,
        title=title,
        says=says,
        traces=[trace],
        layout={
            "xaxis": {"type": "category", "title": {"text": head[1]}, "showgrid": False, "nticks": 40},
            "yaxis": {
                "type": "category",
                "title": {"text": head[0]},
                "autorange": "reversed",
                "showgrid": False,
                "nticks": 30,
            },
        },
        table=Table(id=f"{figure_id}-table", caption=title, columns=columns, rows=rows, searchable=True),
        height=max(220, min(560, 110 + 22 * len(sources))),
    )


def lines(
    figure_id: str,
    title: str,
    says: str,
    at: Sequence[str | int],
    series: Mapping[str, Sequence[float | None]],
    *,
    head: str = "date",
    measure: str = "",
    table: Table | None = None,
) -> Figure:
    """One line per series over dates, the newest at the top of the table, or over numbers.

    Args:
        figure_id: its id in the page.
        title: stands above it.
        says: what it shows, in one sentence.
        at: dates in ISO 8601, or numbers; in order.
        series: name → a value for each of them, None where there is none.
        head: what they are.
        measure: what the values count, as the title of their axis; empty: the series say it.
        table: the same as a table; None: a column per series.
    """
    dated = isinstance(next(iter(at), ""), str)
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": list(at),
            "y": list(values),
            "marker": {"size": 5 if dated else 9},
        }
        for name, values in series.items()
    ]
    if table is None:
        columns = [Column(head, numeric=not dated), *(Column(name, numeric=True) for name in series)]
        rows = [
            (Cell(str(each), value=each), *(_shaded(values[place], None) for values in series.values()))
            for place, each in enumerate(at)
        ]
        table = Table(id=f"{figure_id}-table", caption=title, columns=columns, rows=rows[::-1] if dated else rows)
    return Figure(
        id=figure_id,
        title=title,
        says=says,
        traces=traces,
        layout={
            "hovermode": "x unified",
            "xaxis": {"type": "date", "tickformat": "%d %b<br>%Y"}
            if dated
            else {"title": {"text": head}, "tickvals": list(at)},
            "yaxis": {"rangemode": "tozero", **({"title": {"text": measure}} if measure else {})},
            "showlegend": True,
        },
        table=table,
        height=280,
        half=True,
    )


def bars(
    figure_id: str,
    title: str,
    says: str,
    *,
    head: str,
    names: Sequence[str],
    series: Mapping[str, Sequence[float]],
    colours: Mapping[str, str] | None = None,
    stacked: bool = False,
    lying: bool = False,
) -> Figure:
    """One bar per name and series, beside each other or stacked; `lying` bars have their names at the left.

    Args:
        figure_id: its id in the page.
        title: stands above it.
        says: what it shows, in one sentence.
        head: what the names are.
        names: one per bar.
        series: name → a value per bar.
        colours: series → CSS variable; None: in order.
        stacked: on top of each other.
        lying: from left to right.
    """
    traces = []
    for name, values in series.items():
        along = (
            {"x": list(values), "y": list(names), "orientation": "h"}
            if lying
            else {"x": list(names), "y": list(values)}
        )
        trace = {"type": "bar", "name": name, **along}
        traces.append(trace | ({"marker": {"color": colours[name]}} if colours else {}))
    columns = [Column(head), *(Column(name, numeric=True) for name in series)]
    rows = [(Cell(name), *(number(values[at]) for values in series.values())) for at, name in enumerate(names)]
    name_axis: dict[str, object] = {"type": "category", "nticks": 40}
    name_axis |= {"autorange": "reversed"} if lying else {"title": {"text": head}}
    return Figure(
        id=figure_id,
        title=title,
        says=says,
        traces=traces,
        layout={
            "barmode": "stack" if stacked else "group",
            ("yaxis" if lying else "xaxis"): name_axis,
            "showlegend": True,
        },
        table=Table(
            id=f"{figure_id}-table", caption=title, columns=columns, rows=rows, searchable=len(rows) > _TEXTS_SHOWN_MAX
        ),
        height=max(200, 110 + (8 + 11 * len(series)) * len(names)) if lying else 300,
        half=not lying and len(names) <= _TEXTS_SHOWN_MAX,
    )


def time_line(
    figure_id: str,
    title: str,
    says: str,
    spans: Sequence[tuple[str, float, float, str, str]],
    *,
    axis: str,
    table: Table,
) -> Figure:
    """Spans of (name, begin, length, colour, what) from left to right on an axis, one below the other.

    Args:
        figure_id: its id in the page.
        title: stands above it.
        says: what it shows, in one sentence.
        spans: (name, begin, length, colour, what).
        axis: what the axis counts, with its unit.
        table: the same as a table.
    """
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [span[0] for span in spans],
            "base": [span[1] for span in spans],
            "x": [span[2] for span in spans],
            "marker": {"color": [span[3] for span in spans]},
            "customdata": [span[4] for span in spans],
            "hovertemplate": "%{y}: %{customdata}<extra></extra>",
        }
    ]
    return Figure(
        id=figure_id,
        title=title,
        says=says,
        traces=traces,
        layout={
            "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
            "yaxis": {"type": "category", "autorange": "reversed"},
        },
        table=table,
        height=max(200, min(640, 110 + 24 * len(spans))),
    )


def _shaded(value: float | None, heat: float | None) -> Cell:
    if value is None:
        return Cell("-", "quiet")
    return Cell(short(value), value=value, heat=heat if heat and abs(heat) >= 0.1 else None)  # noqa: PLR2004 - a tenth is no news
