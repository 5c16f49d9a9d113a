"""A night's results as one page (Markdown, and HTML with plots) and as a small summary.

Everything here is made from rows that were written already; nothing is computed but counts and orders.
"""

import base64
import html as escape_html
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure

from spark_jobs.storage import Snapshot

Rows = list[dict[str, Any]]
ROWS_MAX = 200_000
"""Rows of one result that a report looks at; the tables hold all."""
SUMMARY_VERSION = 1
_CLUSTERS_SHOWN = 20
_ROWS_SHOWN = 15
_NAMES_SHOWN = 20
_SEVERITIES = ("critical", "warning", "info")
_COMPARED = (
    ("topic_count", "topics"),
    ("partition_count", "partitions"),
    ("replica_count", "replicas"),
    ("broker_count", "brokers"),
    ("leaderless_count", "without leader"),
    ("imbalanced_count", "not led by the preferred leader"),
    ("under_replicated_count", "under-replicated"),
)


@dataclass(frozen=True)
class Page:
    """What a report is made of: rows by output name, and tonight's snapshots."""

    run: str
    date: date
    rows: Mapping[str, Rows]
    snapshots: Sequence[Snapshot]

    @cached_property
    def by_cluster(self) -> Mapping[str, Mapping[str, Rows]]:
        """Rows by cluster and output name; the other night of `cluster_summary` is in `cluster_summary_before`."""
        tonight = {snapshot.cluster: snapshot.snapshot_id for snapshot in self.snapshots}
        found: dict[str, dict[str, Rows]] = {cluster: defaultdict(list) for cluster in sorted(tonight)}
        for name, rows in self.rows.items():
            for row in rows:
                own = row.get("snapshot_id") in {None, tonight.get(row["cluster"])}
                if row["cluster"] in found:
                    found[row["cluster"]][name if own else f"{name}_before"].append(row)
        return found

    @cached_property
    def order(self) -> list[str]:
        """Clusters, those with the most severe findings first."""

        def weight(cluster: str) -> tuple[int, ...]:
            count = Counter(row["severity"] for row in self.by_cluster[cluster]["findings"])
            return tuple(-count[severity] for severity in _SEVERITIES)

        return sorted(self.by_cluster, key=lambda cluster: (weight(cluster), cluster))


def summary(page: Page) -> dict[str, Any]:
    """The run in numbers, for a task's result: counts by cluster, names cut to the first few."""
    return {
        "schema_version": SUMMARY_VERSION,
        "run": page.run,
        "date": page.date.isoformat(),
        "clusters": {
            snapshot.cluster: {
                "snapshot_id": snapshot.snapshot_id,
                "snapshot_digest": snapshot.manifest.get("digest"),
                **_cluster_numbers(page.by_cluster[snapshot.cluster]),
            }
            for snapshot in page.snapshots
        },
        "not_analysed": [
            {name: row[name] for name in ("cluster", "snapshot_id", "stage", "reason")}
            for row in page.rows["not_analysed"][:_NAMES_SHOWN]
        ],
        "not_analysed_count": len(page.rows["not_analysed"]),
        "refused_row_count": len(page.rows["refused_rows"]),
    }


def _cluster_numbers(rows: Mapping[str, Rows]) -> dict[str, Any]:
    counted = rows["cluster_summary"][0] if rows["cluster_summary"] else {}
    before = rows["cluster_summary_before"][0] if rows["cluster_summary_before"] else {}
    eligible = [row["topic"] for row in rows["deletion_eligibility"] if row["eligible"]]
    waiting = [row["topic"] for row in rows["deletion_eligibility"] if not row["eligible"]]
    proposal = rows["proposals"][0] if rows["proposals"] else {}
    return {
        **{name: counted.get(name) for name, _ in _COMPARED},
        "before": {name: before.get(name) for name, _ in _COMPARED} if before else None,
        "brokers_above_ratio": sorted(row["broker_id"] for row in rows["imbalance"] if row["triggers"]),
        "ratio_max": max((row["ratio"] for row in rows["imbalance"]), default=0.0),
        "electable_count": sum(row["electable_count"] for row in rows["imbalance"]),
        "findings": dict(sorted(Counter(row["kind"] for row in rows["findings"]).items())),
        "critical_count": sum(row["severity"] == "critical" for row in rows["findings"]),
        "deletions_eligible": eligible[:_NAMES_SHOWN],
        "deletions_eligible_count": len(eligible),
        "deletions_waiting": waiting[:_NAMES_SHOWN],
        "deletions_waiting_count": len(waiting),
        "plan": {
            name: proposal.get(name) for name in ("status", "reason", "moves", "moves_lower_bound", "leader_changes")
        },
        "refused_row_count": len(rows["refused_rows"]),
    }


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report; cells are text, numbers or None."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with paragraphs, tables and plots."""

    title: str
    texts: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[tuple[str, Figure], ...] = ()


def markdown(page: Page) -> str:
    """The report as Markdown; plots are left to the HTML page."""
    lines = [f"# Kafka maintenance report, {page.date}", "", f"Run `{page.run}`.", ""]
    for section in sections(page, with_plots=False):
        lines += [f"## {section.title}", ""]
        for text in section.texts:
            lines += [text, ""]
        for table in section.tables:
            lines += [f"**{table.title}**", "", _markdown_row(table.head), _markdown_row("---" for _ in table.head)]
            lines += [_markdown_row(map(_shown, row)) for row in table.rows]
            lines += ["", *([table.note, ""] if table.note else [])]
    return "\n".join(lines)


def html(page: Page) -> str:
    """The report as one self-contained HTML page with its plots inside."""
    body = [f"<h1>Kafka maintenance report, {page.date}</h1><p>Run <code>{_safe(page.run)}</code></p>"]
    for section in sections(page, with_plots=True):
        body.append(f"<h2>{_safe(section.title)}</h2>")
        body += [f"<p>{_safe(text)}</p>" for text in section.texts]
        body += [_html_table(table) for table in section.tables]
        body += [f'<img alt="{_safe(name)}" src="data:image/png;base64,{_png(plot)}">' for name, plot in section.plots]
    return _HTML.format(title=f"Kafka maintenance report {page.date}", body="\n".join(body))


def sections(page: Page, *, with_plots: bool) -> list[Section]:
    """The report's parts in reading order: all clusters, then each of the worst, then what was left out."""
    shown = page.order[:_CLUSTERS_SHOWN]
    parts = [_overview(page)]
    parts += [_cluster_section(cluster, page.by_cluster[cluster], with_plots=with_plots) for cluster in shown]
    return [*parts, _left_out(page, len(page.order) - len(shown))]


def _overview(page: Page) -> Section:
    head = ("cluster", "partitions", "critical", "warnings", "brokers above ratio", "electable", "deletions", "plan")
    rows = []
    for cluster in page.order[: _CLUSTERS_SHOWN * 5]:
        own = page.by_cluster[cluster]
        numbers = _cluster_numbers(own)
        severities = Counter(row["severity"] for row in own["findings"])
        eligible, waiting = numbers["deletions_eligible_count"], numbers["deletions_waiting_count"]
        rows.append(
            (
                cluster,
                numbers["partition_count"],
                severities["critical"],
                severities["warning"],
                len(numbers["brokers_above_ratio"]),
                numbers["electable_count"],
                f"{eligible} can go, {waiting} wait" if eligible + waiting else "none asked",
                _plan_in_words(numbers["plan"]),
            )
        )
    text = f"{len(page.order)} clusters analysed, {len(page.rows['not_analysed'])} problems, "
    text += f"{len(page.rows['refused_rows'])} rows refused."
    return Section("All clusters", (text,), (Table("Clusters, the worst first", head, tuple(rows)),))


def _plan_in_words(plan: Mapping[str, Any]) -> str:
    match plan["status"]:
        case "planned":
            proof = (
                "proven minimal" if plan["moves"] == plan["moves_lower_bound"] else f"bound {plan['moves_lower_bound']}"
            )
            return f"{plan['moves']} moves ({proof}), {plan['leader_changes']} leader changes"
        case None:
            return "not planned"
        case status:
            return f"{status}: {plan['reason']}" if plan["reason"] else str(status)


def _cluster_section(cluster: str, rows: Mapping[str, Rows], *, with_plots: bool) -> Section:
    tables = [
        _comparison(rows),
        _imbalance(rows["imbalance"]),
        _not_electable(rows["imbalanced_partitions"]),
        _deletions(rows["deletion_eligibility"]),
        _predictions(rows["deletion_prediction"]),
        _findings(rows["findings"]),
        _drill(rows["failure_drill"]),
        _nights(rows["growth"], rows["leader_churn"], rows["controller_churn"]),
        _brokers(rows["broker_history"]),
    ]
    texts = _plan_texts(rows["proposals"])
    plots = _plots(cluster, rows) if with_plots else ()
    return Section(f"Cluster {cluster}", texts, tuple(table for table in tables if table.rows), plots)


def _plan_texts(proposals: Rows) -> tuple[str, ...]:
    if not proposals:
        return ()
    plan = proposals[0]
    words = f"Reassignment: {_plan_in_words(plan)}."
    return tuple(text for text in (words, *(plan["explanation"] or "").split("\n")) if text)


def _comparison(rows: Mapping[str, Rows]) -> Table:
    now, before = rows["cluster_summary"][:1], rows["cluster_summary_before"][:1]
    lines = []
    for name, words in _COMPARED if now else ():
        was = before[0][name] if before else None
        lines.append((words, was, now[0][name], None if was is None else f"{now[0][name] - was:+d}"))
    since = f"since {before[0]['taken_at']:%Y-%m-%d %H:%M}" if before else "no earlier snapshot in the window"
    return Table(f"Compared with the night before ({since})", ("", "before", "now", "change"), tuple(lines))


def _imbalance(rows: Rows) -> Table:
    head = ("broker", "live", "preferred for", "led by others", "ratio", "above the limit", "electable", "ratio after")
    ordered = sorted(rows, key=lambda row: (-row["ratio"], row["broker_id"]))
    names = ("broker_id", "live", "preferred_count", "imbalanced_count", "ratio", "triggers", "electable_count")
    lines = [(*(row[name] for name in names), row["ratio_after_election"]) for row in ordered]
    return _cut("Leader imbalance per broker (the controller's own ratio)", head, lines)


def _not_electable(rows: Rows) -> Table:
    reasons = Counter(row["reason"] for row in rows if not row["electable"])
    lines = [(reason, count) for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], str(item[0])))]
    return _cut("Why preferred leaders cannot be elected", ("reason", "partitions"), lines)


def _deletions(rows: Rows) -> Table:
    ordered = sorted(rows, key=lambda row: (row["eligible"], row["topic"]))
    lines = []
    for row in ordered:
        texts = [reason["text"] for reason in row["reasons"]]
        shown = "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")  # noqa: PLR2004
        lines.append((row["topic"], row["partition_count"], "yes" if row["eligible"] else "no", shown, row["remedy"]))
    head = ("topic", "partitions", "eligible", "reasons", "what would help")
    return _cut("Topics queued for deletion", head, lines)


def _predictions(rows: Rows) -> Table:
    lines = [(row["topic"], row["step"], row["effect"]) for row in sorted(rows, key=lambda r: (r["topic"], r["step"]))]
    return _cut("What the controller will do with them", ("topic", "step", "effect"), lines)


def _findings(rows: Rows) -> Table:
    kinds: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in rows:
        kinds[row["severity"], row["kind"]].append(row)
    lines = []
    for severity, kind in sorted(kinds, key=lambda key: (_SEVERITIES.index(key[0]), key[1])):
        found = kinds[severity, kind]
        first = min(found, key=lambda row: (row["topic"] or "", -1 if row["partition"] is None else row["partition"]))
        where = "-".join(str(part) for part in (first["topic"], first["partition"]) if part is not None)
        lines.append((severity, kind, len(found), f"{where}: {first['detail']}" if where else first["detail"]))
    return _cut("Findings", ("severity", "kind", "count", "the first"), lines)


def _drill(rows: Rows) -> Table:
    head = ("rank", "fails", "brokers", "offline", "below min ISR", "unclean", "leaders move", "most gained by")
    lines = [
        (
            row["rank"],
            row["scenario"],
            ", ".join(map(str, row["failed"])) if len(row["failed"]) < _ROWS_SHOWN else f"{len(row['failed'])} brokers",
            row["offline_count"],
            row["under_min_isr_count"],
            row["unclean_count"],
            row["leaders_moved_count"],
            f"{row['leaders_gained_max_broker']} (+{row['leaders_gained_max']})" if row["leaders_gained_max"] else None,
        )
        for row in sorted(rows, key=lambda row: row["rank"])
    ]
    return _cut("Failure drill, the worst first", head, lines)


def _nights(grown: Rows, churn: Rows, controllers: Rows) -> Table:
    changes = {row["date"]: row for row in churn}
    elections = {row["date"]: row["elections"] for row in controllers}
    lines = []
    for row in sorted(grown, key=lambda row: row["date"])[-_ROWS_SHOWN:]:
        change = changes.get(row["date"], {})
        lines.append(
            (
                str(row["date"]),
                *(row[name] for name in ("topic_count", "partition_count", "broker_count", "replicas_per_broker")),
                *(change.get(name) for name in ("leader_changes", "isr_changes", "assignment_changes")),
                elections.get(row["date"]),
            )
        )
    head = ("night", "topics", "partitions", "brokers", "replicas per broker",
            "leader changes", "ISR changes", "assignment changes", "controller elections")  # fmt: skip
    return Table("The nights so far", head, tuple(lines) if len(lines) > 1 else ())


def _brokers(rows: Rows) -> Table:
    head = ("broker", "nights", "missing", "registrations", "flapping", "replicas first", "replicas last", "per night")
    names = ("broker_id", "nights_seen", "nights_missing", "registrations", "flapping", "replica_count_first",
             "replica_count_last", "replica_trend_per_night")  # fmt: skip
    moved = [row for row in rows if row["flapping"] or row["nights_missing"] or row["replica_trend_per_night"]]
    ordered = sorted(moved, key=lambda row: (-row["registrations"], -row["nights_missing"], row["broker_id"]))
    return _cut("Brokers that flap or whose load moves", head, [tuple(row[name] for name in names) for row in ordered])


def _left_out(page: Page, unshown: int) -> Section:
    problems = [tuple(row[name] for name in ("cluster", "stage", "reason")) for row in page.rows["not_analysed"]]
    reasons = Counter((row["cluster"], row["dataset"], row["reason"]) for row in page.rows["refused_rows"])
    refused = [(*key, count) for key, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))]
    tables = (
        _cut("Not analysed", ("cluster", "stage", "reason"), problems),
        _cut("Refused rows", ("cluster", "dataset", "reason", "rows"), refused),
    )
    note = (f"{unshown} healthier clusters are in the tables only.",) if unshown else ()
    return Section("Left out", note or ("All clusters are shown.",), tuple(table for table in tables if table.rows))


def _cut(title: str, head: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> Table:
    rest = len(rows) - _ROWS_SHOWN
    return Table(
        title, head, tuple(rows[:_ROWS_SHOWN]), f"{rest} more rows are in the table's file." if rest > 0 else ""
    )


def _plots(cluster: str, rows: Mapping[str, Rows]) -> tuple[tuple[str, Figure], ...]:
    plots = []
    if rows["imbalance"]:
        plots.append(("leader imbalance", _imbalance_plot(cluster, rows["imbalance"])))
    if rows["broker_load"]:
        plots.append(("load per broker", _load_plot(cluster, rows["broker_load"])))
    if len(rows["growth"]) > 1:
        plots.append(("the nights so far", _trend_plot(cluster, rows["growth"], rows["leader_churn"])))
    return tuple(plots)


def _imbalance_plot(cluster: str, rows: Rows) -> Figure:
    ordered = sorted(rows, key=lambda row: row["broker_id"])
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots()
    places = range(len(ordered))
    axes.bar(places, [row["ratio"] for row in ordered], width=0.8, color="#c0504d", label="now")
    axes.bar(
        places, [row["ratio_after_election"] for row in ordered], width=0.5, color="#7f7f7f", label="after election"
    )
    axes.set_title(f"{cluster}: share of preferred partitions led by others")
    axes.set_ylim(0, 1)
    axes.set_xlabel("broker")
    _name_brokers(axes, [row["broker_id"] for row in ordered])
    axes.legend()
    return figure


def _load_plot(cluster: str, rows: Rows) -> Figure:
    ordered = sorted(rows, key=lambda row: (row["rack"] or "", row["broker_id"]))
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots()
    places = range(len(ordered))
    axes.bar(places, [row["replica_count"] for row in ordered], width=0.8, color="#4f81bd", label="replicas")
    axes.bar(places, [row["leader_count"] for row in ordered], width=0.5, color="#1f3864", label="leaders")
    axes.set_title(f"{cluster}: load per broker, by rack")
    axes.set_xlabel("broker")
    _name_brokers(axes, [row["broker_id"] for row in ordered])
    axes.legend()
    return figure


def _trend_plot(cluster: str, grown: Rows, churn: Rows) -> Figure:
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    left = figure.subplots()
    nights = sorted(grown, key=lambda row: row["date"])
    left.plot([row["date"] for row in nights], [row["replicas_per_broker"] or 0 for row in nights], color="#4f81bd")
    left.set_ylabel("replicas per broker")
    left.tick_params(axis="x", rotation=30)
    right = left.twinx()
    changes = sorted(churn, key=lambda row: row["date"])
    right.plot([row["date"] for row in changes], [row["leader_changes"] for row in changes], color="#c0504d")
    right.set_ylabel("leader changes")
    left.set_title(f"{cluster}: the nights so far")
    return figure


def _name_brokers(axes: Any, brokers: Sequence[int]) -> None:
    every = max(1, len(brokers) // _NAMES_SHOWN)
    axes.set_xticks(range(0, len(brokers), every), [str(broker) for broker in brokers[::every]])


def _png(figure: Figure) -> str:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return base64.b64encode(buffer.getvalue()).decode()


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{_safe(name)}</th>" for name in table.head)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{_safe(_shown(cell))}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    note = f"<p>{_safe(table.note)}</p>" if table.note else ""
    return f"<h3>{_safe(table.title)}</h3><table><tr>{head}</tr>\n{rows}</table>{note}"


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
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }}
table {{ border-collapse: collapse; margin: .4em 0 1.2em }}
td, th {{ border: 1px solid #ccc; padding: .2em .6em; text-align: left; vertical-align: top }}
th {{ background: #f2f2f2 }}
h2 {{ margin-top: 2em; border-bottom: 2px solid #ddd }}
img {{ max-width: 100%; display: block; margin: .6em 0 }}
</style></head><body>
{body}
</body></html>
"""
