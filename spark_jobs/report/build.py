"""A date's results as one page (Markdown, and HTML with plots) and as a small summary.

Everything here is made from rows that were written already; nothing is computed but counts and orders.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

from spark_jobs import schemas
from spark_jobs.io.folders import Folder
from spark_jobs.io.snapshots import HISTORY, Snapshot
from spark_jobs.planner.goals import Goals
from spark_jobs.report import plots as report_plots
from spark_jobs.report.page import Section, Table, html_page, markdown_page

Rows = list[dict[str, Any]]
ROWS_MAX = 200_000
"""Rows of one result that a report looks at; the tables hold all."""
_COUNTED: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "findings": (("cluster", "snapshot_id", "severity", "kind"), ("topic", "partition", "detail")),
    "imbalanced_partitions": (("cluster", "snapshot_id", "electable", "reason"), ()),
    "refused_rows": (("cluster", "snapshot_id", "dataset", "reason"), ()),
}
"""Results of a row per partition or so: a report reads how many there are of a kind, and the first of each."""
_UNREAD: Mapping[str, frozenset[str]] = {"proposals": frozenset({"plan", "rollback", "certificate"})}
"""Columns that no page shows, and that of all clusters together would not fit the driver."""
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
    """What a report is made of: rows by the name of each output that was made, and the current snapshots.

    Of the outputs in `_COUNTED` a row is a kind with its `count`; `unread` says how many rows of the others are too many.
    """

    run: str
    date: date
    rows: Mapping[str, Rows]
    snapshots: Sequence[Snapshot]
    unread: Mapping[str, int] = field(default_factory=dict)
    goals: Goals = field(default_factory=Goals)  # of the proposals

    def of(self, name: str) -> Rows:
        """Rows of an output; none of one that was not made."""
        return self.rows.get(name, [])

    @cached_property
    def by_cluster(self) -> Mapping[str, Mapping[str, Rows]]:
        """Rows by cluster and output name; the other date of `cluster_summary` is in `cluster_summary_before`."""
        current = {snapshot.cluster: snapshot.snapshot_id for snapshot in self.snapshots}
        found: dict[str, dict[str, Rows]] = {cluster: defaultdict(list) for cluster in sorted(current)}
        for name, rows in self.rows.items():
            for row in rows:
                own = row.get("snapshot_id") in {None, current.get(row["cluster"])}
                if row["cluster"] in found:
                    found[row["cluster"]][name if own else f"{name}_before"].append(row)
        return found

    @cached_property
    def order(self) -> list[str]:
        """Clusters, those with the most severe findings first."""

        def weight(cluster: str) -> tuple[int, ...]:
            found = self.by_cluster[cluster]["findings"]
            return tuple(-_count(row for row in found if row["severity"] == severity) for severity in _SEVERITIES)

        return sorted(self.by_cluster, key=lambda cluster: (weight(cluster), cluster))


def read(
    place: Folder,
    made: Iterable[str],
    *,
    run: str,
    day: date,
    snapshots: Sequence[Snapshot],
    goals: Goals | None = None,
) -> Page:
    """The page of the results `made` that lie in `place`."""
    rows, unread = {}, {}
    for name in made:
        if name in _COUNTED:
            rows[name] = place.counted(name, *_COUNTED[name])
            continue
        columns = [column for column in schemas.OUTPUTS[name].names if column not in _UNREAD.get(name, ())]
        rows[name] = place.rows(name, ROWS_MAX, columns)
        if (more := place.row_count(name) - len(rows[name])) > 0:
            unread[name] = more
    return Page(run, day, rows, snapshots, unread, goals or Goals())


def summary(page: Page) -> dict[str, Any]:
    """The run in numbers, for a task's result: counts by cluster, names cut to the first few."""
    return {
        "schema_version": SUMMARY_VERSION,
        "run": page.run,
        "date": page.date.isoformat(),
        "clusters": {
            snapshot.cluster: {
                "snapshot_id": snapshot.snapshot_id,
                "snapshot_digest": snapshot.manifest.digest,
                **_cluster_numbers(page, snapshot.cluster),
            }
            for snapshot in page.snapshots
        },
        "not_analysed": [
            {name: row[name] for name in ("cluster", "snapshot_id", "stage", "reason")}
            for row in (*_missed(page), *[rows[0] for rows in _passed_over(page).values()][:_NAMES_SHOWN])
        ],
        "not_analysed_count": len(page.of("not_analysed")),
        "refused_row_count": _count(page.of("refused_rows")),
    }


def _missed(page: Page) -> Rows:
    """What could not be analysed: never cut, a run fails by it."""
    return [row for row in page.of("not_analysed") if row["stage"] != HISTORY]


def _passed_over(page: Page) -> Mapping[str, Rows]:
    """Snapshots that the date could do without, and had to, by cluster."""
    found: dict[str, Rows] = defaultdict(list)
    for row in page.of("not_analysed"):
        if row["stage"] == HISTORY:
            found[row["cluster"]].append(row)
    return found


def _cluster_numbers(page: Page, cluster: str) -> dict[str, Any]:
    """Numbers of one cluster; None where the result that says it was not made."""
    rows = page.by_cluster[cluster]
    counted = rows["cluster_summary"][0] if rows["cluster_summary"] else {}
    before = rows["cluster_summary_before"][0] if rows["cluster_summary_before"] else {}
    eligible = [row["topic"] for row in rows["deletion_eligibility"] if row["eligible"]]
    waiting = [row["topic"] for row in rows["deletion_eligibility"] if not row["eligible"]]
    proposal = rows["proposals"][0] if rows["proposals"] else {}
    kinds: Counter[str] = Counter()
    for row in rows["findings"]:
        kinds[row["kind"]] += row["count"]
    by_output: Mapping[str, Mapping[str, Any]] = {
        "cluster_summary": {
            **{name: counted.get(name) for name, _ in _COMPARED},
            "before": {name: before.get(name) for name, _ in _COMPARED} if before else None,
        },
        "imbalance": {
            "brokers_above_ratio": sorted(row["broker_id"] for row in rows["imbalance"] if row["triggers"]),
            "ratio_max": max((row["ratio"] for row in rows["imbalance"]), default=0.0),
            "electable_count": sum(row["electable_count"] for row in rows["imbalance"]),
        },
        "findings": {
            "findings": dict(sorted(kinds.items())),
            **{
                f"{name}_count": _count(row for row in rows["findings"] if row["severity"] == name)
                for name in _SEVERITIES
            },
        },
        "deletion_eligibility": {
            "deletions_eligible": eligible[:_NAMES_SHOWN],
            "deletions_eligible_count": len(eligible),
            "deletions_waiting": waiting[:_NAMES_SHOWN],
            "deletions_waiting_count": len(waiting),
        },
        "proposals": {
            "plan": {
                name: proposal.get(name)
                for name in ("status", "reason", "moves", "moves_lower_bound", "leader_changes")
            },
        },
        "refused_rows": {"refused_row_count": _count(rows["refused_rows"])},
    }
    return {
        name: number if output in page.rows else None
        for output, numbers in by_output.items()
        for name, number in numbers.items()
    }


def markdown(page: Page) -> str:
    """The report as Markdown; plots are left to the HTML page."""
    return markdown_page(_title(page), f"Run `{page.run}`.", sections(page, with_plots=False))


def html(page: Page) -> str:
    """The report as one self-contained HTML page with its plots inside."""
    return html_page(_title(page), f"Run {page.run}", sections(page, with_plots=True))


def _title(page: Page) -> str:
    return f"Kafka maintenance report, {page.date}"


def sections(page: Page, *, with_plots: bool) -> list[Section]:
    """The report's parts in reading order: all clusters, what was left out, then each of the worst clusters."""
    shown = page.order[:_CLUSTERS_SHOWN]
    clusters = [_cluster_section(page, cluster, with_plots=with_plots) for cluster in shown]
    return [_overview(page), *_left_out(page, len(page.order) - len(shown)), *clusters]


def _overview(page: Page) -> Section:
    head = ("cluster", "partitions", "critical", "warnings", "brokers above the limit of imbalance",
            "elections that would succeed", "deletions", "proposed reassignment")  # fmt: skip
    rows = []
    for cluster in page.order[: _CLUSTERS_SHOWN * 5]:
        numbers = _cluster_numbers(page, cluster)
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
                _plan_in_words(numbers["plan"]),
            )
        )
    text = f"{_counted(len(page.order), 'cluster')} analysed, {_counted(len(page.of('not_analysed')), 'problem')}, "
    text += f"{_counted(_count(page.of('refused_rows')), 'row')} refused."
    return Section("All clusters", (text, *_goals(page)), (Table("Clusters, the worst first", head, tuple(rows)),))


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


def _plan_in_words(plan: Mapping[str, Any] | None) -> str:
    if plan is None:
        return ""
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


def _cluster_section(page: Page, cluster: str, *, with_plots: bool) -> Section:
    rows = page.by_cluster[cluster]
    plots = report_plots.plots(cluster, rows) if with_plots else {}
    parts = [
        _findings(rows["findings"]),
        _comparison(rows),
        _plan(rows["proposals"]),
        plots.get("load"),
        plots.get("imbalance"),
        _imbalance(rows["imbalance"]),
        _not_electable(rows["imbalanced_partitions"]),
        _deletions(rows["deletion_eligibility"]),
        _predictions(rows["deletion_prediction"], len(rows["deletion_eligibility"])),
        _drill(rows["failure_drill"]),
        plots.get("days"),
        _days(rows["growth"], rows["leader_churn"], rows["controller_churn"]),
        _unstable(rows["unstable_partitions"]),
        _brokers(rows["broker_history"]),
    ]
    kept = tuple(part for part in parts if part is not None and not (isinstance(part, Table) and part.empty))
    return Section(f"Cluster {cluster}", (*_verdict(page, rows), *_version(rows["cluster_summary"])), kept)


def _version(summaries: Rows) -> tuple[str, ...]:
    """By the rules of which Kafka version a cluster was judged, and why of that one."""
    return tuple(f"Judged as Kafka {row['kafka_version']}: {row['version_reason']}." for row in summaries[:1])


def _verdict(page: Page, rows: Mapping[str, Rows]) -> tuple[str, ...]:
    """What is said of a cluster without findings, where they were looked for."""
    if rows["findings"] or "findings" not in page.rows:
        return ()
    if refused := _count(rows["refused_rows"]):
        return (f"Nothing was found, but {_counted(refused, 'row')} of it could not be judged: see what was left out.",)
    return ("Nothing is wrong with this cluster.",)


def _plan(proposals: Rows) -> Table:
    """Why the plan moves what it moves, one line each; of no plan only why there is none."""
    title = "Proposed reassignment: "
    if not proposals:
        return Table(title, (), ())
    plan = proposals[0]
    planned = plan["status"] == "planned"
    lines = (plan["explanation"] or "").split("\n") if planned else ()
    files = (
        f"plans/{plan['cluster']}.plan.json, .rollback.json and .certificate.json; nothing is applied without a yes."
    )
    return Table(title + _plan_in_words(plan), (), tuple((line,) for line in lines if line), files if planned else "")


def _comparison(rows: Mapping[str, Rows]) -> Table:
    now, before = rows["cluster_summary"][:1], rows["cluster_summary_before"][:1]
    lines = []
    for name, words in _COMPARED if now else ():
        was = before[0][name] if before else None
        lines.append((words, was, now[0][name], None if was is None else f"{now[0][name] - was:+d}"))
    since = f"since {before[0]['taken_at']:%Y-%m-%d %H:%M}" if before else "no earlier snapshot in the window"
    return Table(f"Compared with the day before ({since})", ("", "before", "now", "change"), tuple(lines))


def _imbalance(rows: Rows) -> Table:
    head = ("broker", "live", "preferred for", "led by others", "share", "above the limit", "electable", "share after")
    ordered = sorted(rows, key=lambda row: (-row["ratio"], row["broker_id"]))
    names = ("broker_id", "live", "preferred_count", "imbalanced_count")
    lines = [
        (
            *(row[name] for name in names),
            _percent(row["ratio"]),
            row["triggers"],
            row["electable_count"],
            _percent(row["ratio_after_election"]),
        )
        for row in ordered
        if row["imbalanced_count"]
    ]
    cut = _cut("Leader imbalance per broker, in partitions (the controller's own ratio)", head, lines)
    at_home = len(rows) - len(lines)
    note = f"{_counted(at_home, 'broker')} lead all that they are preferred for." if at_home else ""
    return replace(cut, note=" ".join(filter(None, (cut.note, note))))


def _not_electable(rows: Rows) -> Table:
    lines = [(row["reason"], row["count"]) for row in rows if not row["electable"]]
    lines.sort(key=lambda line: (-line[1], str(line[0])))
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


def _predictions(rows: Rows, queued: int) -> Table:
    lines = [(row["topic"], row["step"], row["effect"]) for row in sorted(rows, key=lambda r: (r["topic"], r["step"]))]
    cut = _cut("What the controller will do with them", ("topic", "step", "effect"), lines)
    followed = len({row["topic"] for row in rows})
    note = f"Of {_counted(queued, 'topic')} the first {followed} by name were followed." if queued > followed else ""
    return replace(cut, note=" ".join(filter(None, (cut.note, note))))


def _findings(rows: Rows) -> Table:
    lines = []
    for row in sorted(rows, key=lambda row: (_SEVERITIES.index(row["severity"]), row["kind"])):
        where = "-".join(str(part) for part in (row["topic"], row["partition"]) if part is not None)
        first = f"{where}: {row['detail']}" if where else row["detail"]
        lines.append((row["severity"], row["kind"], row["count"], first))
    return _cut("Findings", ("severity", "kind", "count", "the first"), lines)


def _drill(rows: Rows) -> Table:
    head = ("rank", "fails", "brokers", "partitions offline", "below min ISR", "elected uncleanly", "leaders that move",
            "broker that gains most")  # fmt: skip
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


def _days(grown: Rows, churn: Rows, controllers: Rows) -> Table:
    changes = {row["date"]: row for row in churn}
    elections = {row["date"]: row["elections"] for row in controllers}
    lines = []
    days = sorted(grown, key=lambda row: row["date"])
    for row in days[-_ROWS_SHOWN:]:
        change = changes.get(row["date"], {})
        lines.append(
            (
                str(row["date"]),
                *(row[name] for name in ("topic_count", "partition_count", "broker_count", "replicas_per_broker")),
                *(change.get(name) for name in ("leader_changes", "isr_changes", "assignment_changes")),
                elections.get(row["date"]),
            )
        )
    head = ("date", "topics", "partitions", "brokers", "replicas per broker",
            "leader changes", "ISR changes", "assignment changes", "controller elections")  # fmt: skip
    earlier = len(days) - len(lines)
    note = f"{_counted(earlier, 'earlier date')}: see the table's file." if earlier else ""
    return Table("The dates so far", head, tuple(lines) if len(lines) > 1 else (), note)


def _unstable(rows: Rows) -> Table:
    names = ("leader_changes", "isr_changes", "leader_epoch_steps", "nights_under_replicated")
    ordered = sorted(rows, key=lambda row: (*(-(row[name] or 0) for name in names[:3]), row["topic"], row["partition"]))
    lines = [(f"{row['topic']}-{row['partition']}", *(row[name] for name in names)) for row in ordered]
    head = ("partition", "leader changes", "ISR changes", "leader epochs", "dates under-replicated")
    return _cut("Partitions whose leader or ISR changes most", head, lines)


def _brokers(rows: Rows) -> Table:
    head = ("broker", "days", "missing", "registrations", "flapping", "replicas first", "replicas last", "per date")
    names = ("broker_id", "nights_seen", "nights_missing", "registrations", "flapping", "replica_count_first",
             "replica_count_last", "replica_trend_per_night")  # fmt: skip
    moved = [row for row in rows if row["flapping"] or row["nights_missing"] or row["replica_trend_per_night"]]
    ordered = sorted(moved, key=lambda row: (-row["registrations"], -row["nights_missing"], row["broker_id"]))
    return _cut("Brokers that flap or whose load moves", head, [tuple(row[name] for name in names) for row in ordered])


def _left_out(page: Page, unshown: int) -> list[Section]:
    """What the reader must not believe to be covered; nothing when everything is."""
    problems = tuple(tuple(row[name] for name in ("cluster", "stage", "reason")) for row in _missed(page))
    gaps = [(cluster, len(rows), rows[0]["reason"]) for cluster, rows in _passed_over(page).items()]
    names = ("cluster", "dataset", "reason", "count")
    refused = sorted(
        (tuple(row[name] for name in names) for row in page.of("refused_rows")), key=lambda line: (-line[-1], line)
    )
    tables = (
        Table("Not analysed", ("cluster", "stage", "reason"), problems),
        _cut("Snapshots passed over", ("cluster", "snapshots", "the first"), gaps),
        _cut("Refused rows", ("cluster", "dataset", "reason", "rows"), refused),
    )
    notes = [f"{_counted(unshown, 'healthier cluster')} in the tables only."] if unshown else []
    notes += [
        f"{_counted(count, 'row')} of {name} in its table only, and in no count." for name, count in page.unread.items()
    ]
    section = Section("Left out", tuple(notes), tuple(table for table in tables if not table.empty))
    return [section] if section.texts or section.parts else []


def _cut(title: str, head: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> Table:
    rest = len(rows) - _ROWS_SHOWN
    return Table(
        title, head, tuple(rows[:_ROWS_SHOWN]), f"{rest} more rows are in the table's file." if rest > 0 else ""
    )


def _count(rows: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["count"] for row in rows)


def _percent(share: float) -> str:
    return f"{share * 100:.1f}".removesuffix(".0") + " %"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
