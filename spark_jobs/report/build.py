"""A run's results as pages (Markdown, and HTML with plots): one of all clusters, and one of each.

Everything here is made from rows that were written already; nothing is computed but counts and orders.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from controller_core.model.words import counted
from spark_jobs.planner.goals import Goals
from spark_jobs.report import plots as report_plots
from spark_jobs.report import tables, today
from spark_jobs.report.content import Page, Rows, causes, count, missed, passed_over
from spark_jobs.report.numbers import cluster_numbers
from spark_jobs.report.page import Section, Table, html_page, markdown_page
from spark_jobs.report.readiness import phase_texts, readiness_sections, readiness_table

_CLUSTERS_SHOWN = 20


def markdown(page: Page) -> str:
    """The report as Markdown; plots are left to the HTML page."""
    return markdown_page(_title(page), f"Run `{page.run}`.", sections(page, with_plots=False))


def html(page: Page) -> str:
    """The report as one self-contained HTML page with its plots inside."""
    return html_page(_title(page), f"Run {page.run}", sections(page, with_plots=True))


def cluster_pages(page: Page) -> Iterator[tuple[str, str]]:
    """A page for every cluster: its name below the report, and its text; plots are on the pages of the worst ones only."""
    for place, cluster in enumerate(page.order):
        section = _cluster_section(page, cluster, with_plots=place < _CLUSTERS_SHOWN)
        title = f"{cluster}, {page.date}"
        yield f"clusters/{cluster}.md", markdown_page(title, f"Run `{page.run}`.", [section])
        yield f"clusters/{cluster}.html", html_page(title, f"Run {page.run}", [section])


def _title(page: Page) -> str:
    return f"Kafka maintenance report, {page.date}"


def sections(page: Page, *, with_plots: bool) -> list[Section]:
    """The report's parts in reading order: all clusters, what was left out, how far they are from KRaft, then each of the worst clusters."""
    shown = page.order[:_CLUSTERS_SHOWN]
    clusters = [_cluster_section(page, cluster, with_plots=with_plots) for cluster in shown]
    return [_overview(page), *_left_out(page, page.order[_CLUSTERS_SHOWN:]), *readiness_sections(page), *clusters]


def _overview(page: Page) -> Section:
    head = ("cluster", "partitions", "critical", "warnings", "brokers above the limit of imbalance",
            "elections that would succeed", "deletions", "proposed reassignment")  # fmt: skip
    rows = []
    for cluster in page.order[: _CLUSTERS_SHOWN * 5]:
        numbers = cluster_numbers(page, cluster)
        above = numbers["brokers_above_ratio"]
        rows.append(
            (
                cluster,
                numbers["partition_count"],
                numbers["critical_count"],
                numbers["warning_count"],
                None if above is None else len(above),
                numbers["electable_count"],
                _deletions_in_words(numbers["deletions_eligible_count"], numbers["deletions_waiting_count"]),
                tables.plan_in_words(numbers["plan"]),
            )
        )
    text = f"{counted(len(page.order), 'cluster')} analysed, {counted(len(page.of('not_analysed')), 'problem')}, "
    text += f"{counted(count(page.of('refused_rows')), 'row')} refused."
    texts = (*today.first_lines(page, page.order), text, *_goals(page))
    return Section("All clusters", texts, (Table("Clusters, the worst first", head, tuple(rows)),))


def _goals(page: Page) -> tuple[str, ...]:
    """What the proposals were to achieve, where that is not the default."""
    default = Goals().to_json()
    asked = {name: value for name, value in page.goals.to_json().items() if value != default[name]}
    if not asked or "proposals" not in page.rows:
        return ()
    return (f"Reassignments were planned for other goals than the default: {json.dumps(asked)}.",)


def _deletions_in_words(eligible: int | None, waiting: int | None) -> str | None:
    if eligible is None or waiting is None:
        return None
    return f"{eligible} can go, {waiting} wait" if eligible + waiting else "none asked"


def _cluster_section(page: Page, cluster: str, *, with_plots: bool) -> Section:
    rows = page.by_cluster[cluster]
    plots = report_plots.plots(cluster, rows) if with_plots else {}
    parts = [
        tables.findings_table(rows["findings"]),
        tables.comparison_table(rows),
        tables.changed_table(page.changed.get(cluster)),
        tables.plan_table(rows["proposals"]),
        plots.get("load"),
        plots.get("imbalance"),
        tables.imbalance_table(rows["imbalance"]),
        tables.not_electable_table(rows["imbalanced_partitions"]),
        tables.deletions_table(rows["deletion_eligibility"]),
        tables.predictions_table(rows["deletion_prediction"], len(rows["deletion_eligibility"])),
        tables.restart_table(rows["failure_drill"]),
        tables.drill_table(rows["failure_drill"]),
        plots.get("days"),
        tables.dates_table(rows["growth"], rows["leader_churn"], rows["controller_churn"]),
        tables.unstable_table(rows["unstable_partitions"]),
        tables.brokers_table(rows["broker_history"]),
        readiness_table(rows["kraft_readiness"]),
    ]
    kept = tuple(part for part in parts if part is not None and not (isinstance(part, Table) and part.empty))
    texts = (
        *today.first_lines(page, [cluster]),
        *phase_texts(rows["kraft_readiness"]),
        *_verdict(page, rows),
        *_version(rows["cluster_summary"]),
    )
    return Section(f"Cluster {cluster}", texts, kept)


def _version(summaries: Rows) -> tuple[str, ...]:
    """By the rules of which Kafka version a cluster was judged, and why of that one."""
    return tuple(f"Judged as Kafka {row['kafka_version']}: {row['version_reason']}." for row in summaries[:1])


def _verdict(page: Page, rows: Mapping[str, Rows]) -> tuple[str, ...]:
    """What is said of a cluster without findings, where they were looked for."""
    if rows["findings"] or "findings" not in page.rows:
        return ()
    if refused := count(rows["refused_rows"]):
        return (f"Nothing was found, but {counted(refused, 'row')} of it could not be judged: see what was left out.",)
    return ("Nothing is wrong with this cluster.",)


def _left_out(page: Page, unshown: Sequence[str]) -> list[Section]:
    """What the reader must not believe to be covered; nothing when everything is."""
    problems = tuple(tuple(row[name] for name in ("cluster", "stage", "reason")) for row in missed(page))
    gaps = [(cluster, len(rows), rows[0]["reason"]) for cluster, rows in passed_over(page).items()]
    names = ("cluster", "dataset", "reason", "count")
    refused = sorted(
        (tuple(row[name] for name in names) for row in page.of("refused_rows")), key=lambda line: (-line[-1], line)
    )
    left_out = (
        Table("Not analysed", ("cluster", "stage", "reason"), problems),
        tables.cut_table("Snapshots passed over", ("cluster", "snapshots", "the first"), gaps),
        tables.cut_table("Refused rows", ("cluster", "dataset", "reason", "rows"), refused),
    )
    notes = [_unshown_in_words(page, unshown)] if unshown else []
    notes += [
        f"{counted(count, 'row')} of {name} in its table only, and in no count." for name, count in page.unread.items()
    ]
    section = Section("Left out", tuple(notes), tuple(table for table in left_out if not table.empty))
    return [section] if section.texts or section.parts else []


def _unshown_in_words(page: Page, clusters: Sequence[str]) -> str:
    """Of clusters that have no part of this page; that they are healthier is said of none with critical findings."""
    critical = sum(causes(page.by_cluster[cluster]["findings"], "critical") > 0 for cluster in clusters)
    healthier = f"{counted(len(clusters) - critical, 'healthier cluster')}" if len(clusters) > critical else ""
    sick = f"{counted(critical, 'cluster')} with critical findings" if critical else ""
    return f"{' and '.join(filter(None, (sick, healthier)))} on pages of their own only: clusters/NAME.html."
