"""The page Cluster: what is wrong, what waits and why, every broker's load, and how it came to be so."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from kafka_maintenance.operations.analysis.overviews import Overview, is_judged, readable_overviews
from kafka_maintenance.operations.analysis.tables import rows_of, table_of
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import (
    Block,
    Cell,
    Choice,
    Column,
    Facts,
    Filter,
    Form,
    Lines,
    Note,
    Page,
    Section,
    Table,
    Tone,
    number,
)
from kafka_maintenance.web.views.cluster_dates import (
    churn_by_date,
    controllers_by_date,
    findings_by_date,
    growth_by_date,
)
from kafka_maintenance.web.views.clusters import DATES_SHOWN
from kafka_maintenance.web.views.compare import compare_blocks
from kafka_maintenance.web.views.drill import drill_blocks
from kafka_maintenance.web.views.parts import as_published, or_why
from kafka_maintenance.web.views.topic import topics_table
from spark_jobs.severities import SEVERITIES

Row = Mapping[str, Any]
FINDINGS_SHOWN_MAX: Final = 5000
_IDENTITY: Final = ("kind", "topic", "partition", "brokers")
"""What a finding and the same one of another date have in common."""
_PENDING: Final = ("being_reassigned", "stuck_reassignment", "stuck_election", "stuck_deletion", "kraft_migration")
"""Kinds of findings that are work in progress."""


def cluster_page(store: ObjectStore, name: str, *, date: str | None = None, against: str = "", topic: str = "") -> Page:
    """One cluster at one date.

    Args:
        store: where analyses and snapshots are.
        name: of the cluster.
        date: UTC; the newest where it is None.
        against: another date, or another cluster, to compare with; empty for none.
        topic: text that shown topics contain.

    Raises:
        ObjectMissingError: no analysis has that cluster; the message says which dates and clusters there are.
        ObjectDamagedError: no analysis that can be read has it.
        ObjectStoreError: the store cannot be read.
    """
    overviews, damaged = readable_overviews(store, DATES_SHOWN)
    of_cluster = [one.run_of(name) for one in overviews if name in one.clusters]
    chosen = next((one for one in reversed(of_cluster) if date in {None, "", one.date}), None)
    if chosen is None and damaged:
        raise ObjectDamagedError("; ".join(damaged))
    if chosen is None:
        raise ObjectMissingError(
            f"cluster {name!r}{f' on {date}' if date else ''} not shown: no published analysis of the last {DATES_SHOWN} dates has it; "
            f"expected one of {', '.join(one.date for one in of_cluster) or 'none'}; run nightly_analysis"
        )
    before = next((one for one in reversed(of_cluster) if one.date < chosen.date), None)
    judged = next(
        (one for one in reversed(of_cluster) if one.date < chosen.date and is_judged(one.clusters[name])), None
    )
    judged_of = _judged_of(store, chosen, name)

    def part(make: Callable[[], Sequence[Block]]) -> list[Block]:
        return or_why(as_published(store, chosen.manifest)(make))

    waits: Sequence[Callable[[], Sequence[Block]]] = (
        lambda: [_deletions(store, chosen, name)],
        lambda: [_work(store, chosen, name)],
        lambda: _proposal(store, chosen, name),
    )
    history: Sequence[Callable[[], Sequence[Block]]] = (
        lambda: findings_by_date(of_cluster, name),
        lambda: growth_by_date(store, chosen, name),
        lambda: churn_by_date(store, chosen, name),
        lambda: controllers_by_date(store, chosen, name),
    )
    came = list(chain.from_iterable(map(part, history)))
    topics = topics_table(store, name, chosen.date, judged_of.snapshot_id, topic)
    sections = [
        Section(title="Findings", anchor="findings", blocks=part(lambda: _findings(store, chosen, name, judged))),
        Section(title="Brokers", anchor="brokers", blocks=part(lambda: [_heat(store, chosen, name)])),
        Section(title="What waits, and why", anchor="waits", blocks=list(chain.from_iterable(map(part, waits)))),
        Section(title="When brokers fail", anchor="drill", blocks=part(lambda: drill_blocks(store, chosen, name))),
        Section(
            title="History",
            anchor="history",
            blocks=came or [Note("There is one date only: history begins with the next.")],
        ),
        Section(title="Compare", anchor="compare", blocks=compare_blocks(overviews, chosen, name, against)),
        Section(title="Topics", anchor="topics", blocks=topics),
    ]
    return Page(
        title=name,
        subtitle=f"Analysis of {chosen.date}, run {chosen.run_id}",
        here="cluster",
        trail=(("Clusters", "clusters"),),
        head=(
            _date_form(name, of_cluster, chosen),
            _facts(chosen, before, judged_of.taken, name),
            *judged_of.notes,
            *_unread(damaged),
        ),
        sections=sections,
    )


@dataclass(frozen=True, slots=True)
class _JudgedOf:
    """The snapshot of which an analysis speaks, and what is to be said of it."""

    snapshot_id: str | None = None
    taken: str = "-"
    notes: tuple[Note, ...] = ()


def _judged_of(store: ObjectStore, chosen: Overview, name: str) -> _JudgedOf:
    """What the newest row of the summary says, where the analysis has one; or why it cannot be read."""
    try:
        with as_published(store, chosen.manifest):
            rows = _rows(store, chosen, "cluster_summary", name)
            newest = max(rows, key=itemgetter("taken_at"), default=None)
            if newest is None:
                return _JudgedOf()
            version = newest["kafka_version"]
            notes = (Note(f"Judged as Kafka {version}: {newest['version_reason']}."),) if version else ()
            return _JudgedOf(newest["snapshot_id"], f"{newest['taken_at']:%Y-%m-%d %H:%M} UTC", notes)
    except UNUSABLE as error:
        return _JudgedOf(notes=(Note(str(error), "warning"),))


def _unread(damaged: Sequence[str]) -> list[Lines]:
    return [Lines("Cannot be read", damaged)] if damaged else []


def _rows(store: ObjectStore, overview: Overview, table: str, name: str) -> list[dict[str, Any]]:
    return rows_of(store, overview.manifest, table, cluster=name)


def _date_form(name: str, overviews: Sequence[Overview], chosen: Overview) -> Form:
    dates = [(one.date, one.date) for one in reversed(overviews)]
    return Form(
        action="cluster",
        button="Show",
        fields=[Choice(name="date", label="Date", value=chosen.date, choices=dates)],
        hidden={"name": name},
    )


def _facts(chosen: Overview, before: Overview | None, taken: str, name: str) -> Facts:
    now, was = chosen.clusters[name], before.clusters[name] if before else {}

    def changed(field: str, tone: Tone | None = None) -> Cell:
        value, old = now.get(field), was.get(field)
        change = f" ({value - old:+,})" if value is not None and old not in {None, value} else ""
        return number(value, tone=tone if value else None, unit=change)

    ratio = now.get("ratio_max")
    return Facts(
        (
            ("Critical", changed("critical_count", "critical")),
            ("Warnings", changed("warning_count", "warning")),
            ("Offline partitions", changed("offline_count", "critical")),
            ("Under-replicated", changed("under_replicated_count", "warning")),
            ("Not led by preferred", changed("imbalanced_count")),
            ("Largest imbalance", number(None if ratio is None else 100 * ratio, unit=" %")),
            ("Brokers", changed("broker_count")),
            ("Topics", changed("topic_count")),
            ("Partitions", changed("partition_count")),
            ("Replicas", changed("replica_count")),
            ("Snapshot taken", Cell(taken)),
        )
    )


def _findings(store: ObjectStore, chosen: Overview, name: str, before: Overview | None) -> list[Block]:
    """The findings, each with whether the last date that looked for any, `before`, had it."""
    if not is_judged(chosen.clusters[name]):
        return [Note("The analysis did not look for findings.")]
    findings = table_of(store, chosen.manifest, "findings", cluster=name)
    worst = _worst(findings)
    known, why = _known(store, before, name)
    ordered = sorted(zip(worst.to_pylist(), _among(worst, known), strict=True), key=lambda found: _place(found[0]))
    rows = [
        (
            Cell(row["kind"]),
            Cell(row["severity"], row["severity"]),
            Cell(
                "-" if known is None else "standing" if stood else "new",
                "quiet" if known is None else None,
            ),
            _subject(name, row),
            Cell(", ".join(map(str, row["brokers"] or ()))),
            number(None if row["age_s"] is None else row["age_s"] / 3600, digits=1),
            Cell(row["detail"] or ""),
        )
        for row, stood in ordered
    ]
    table = Table(
        id="findings",
        caption="Partitions, brokers and requests that are not well, with the cause",
        columns=(
            Column("Kind"),
            Column("Severity"),
            Column("Since", words="new: not found at the last date before that looked for findings"),
            Column("Subject"),
            Column("Brokers"),
            Column("Age, hours", numeric=True),
            Column("Cause"),
        ),
        rows=rows,
        empty="Nothing is wrong with this cluster.",
        searchable=True,
        more=findings.num_rows - len(rows),
        filters=[
            Filter(label="Severity", column="Severity", choices=SEVERITIES),
            Filter(label="Since", column="Since", choices=("new", "standing")),
            Filter(label="Kind", column="Kind", choices=sorted({row["kind"] for row, _ in ordered})),
        ],
    )
    return [*why, table]


def _known(store: ObjectStore, before: Overview | None, name: str) -> tuple[pa.Table | None, list[Block]]:
    """The findings of the date before; None where there is none, or retention has removed its analysis, or where they cannot be read, and why."""
    if before is None:
        return None, []
    try:
        return table_of(store, before.manifest, "findings", cluster=name, columns=_IDENTITY), []
    except ObjectMissingError:
        return None, []
    except UNUSABLE as error:
        return None, [Note(f"What is new is not known: {error}", "warning")]


def _worst(findings: pa.Table) -> pa.Table:
    """As many as are shown, the worst, and of those the ones that follow from no other: there may be one per partition."""
    if not findings.num_rows:
        return findings
    severity = pc.index_in(findings["severity"], value_set=pa.array(SEVERITIES))
    ranks = pa.table({"severity": severity, "follows": pc.is_valid(findings["cause"])})
    order = pc.sort_indices(ranks, sort_keys=[(name, "ascending") for name in ranks.column_names])
    return findings.take(order[:FINDINGS_SHOWN_MAX])


def _place(row: Row) -> tuple[int, bool, str, str, int]:
    follows = row["cause"] is not None
    return SEVERITIES.index(row["severity"]), follows, row["kind"], str(row["topic"]), row["partition"] or 0


def _among(findings: pa.Table, known: pa.Table | None) -> list[bool]:
    """Of each finding, whether it is one of the known ones."""
    if known is None or not (findings.num_rows and known.num_rows):
        return [False] * findings.num_rows
    found: list[bool] = pc.is_in(_identities(findings), value_set=_identities(known)).to_pylist()
    return found


def _identities(findings: pa.Table) -> pa.ChunkedArray:
    """The identity of each as one text: Arrow compares a hundred thousand of them at once."""
    brokers = pc.binary_join(findings["brokers"].cast(pa.list_(pa.string())), ",")
    parts = (findings["kind"], findings["topic"], findings["partition"].cast(pa.string()), brokers)
    return pc.binary_join_element_wise(*parts, "/", null_handling="replace")


def _subject(name: str, row: Row) -> Cell:
    if row["topic"] is None:
        return Cell("cluster", "quiet")
    text = row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
    return Cell(text, href=f"topic?{urlencode({'cluster': name, 'name': row['topic']})}")


def _heat(store: ObjectStore, chosen: Overview, name: str) -> Block:
    load = sorted(_rows(store, chosen, "broker_load", name), key=lambda row: row["broker_id"])
    if not load:
        return Note("The analysis has no load of brokers.")
    ratio = {row["broker_id"]: row for row in _rows(store, chosen, "imbalance", name)}
    ids = [row["broker_id"] for row in load]
    led_by_others = [ratio.get(broker, {}).get("imbalanced_count", 0) for broker in ids]
    live = sum(bool(row["live"]) for row in load)
    racks = len({row["rack"] for row in load if row["rack"]})
    return figures.heat_map(
        "broker-heat",
        "Brokers by measure",
        f"{live} of {len(load)} brokers are live{f', in {racks} racks' if racks else ''}; red is more than the mean of all brokers, blue less.",
        head="Broker",
        names=[Cell(str(broker), value=broker) for broker in ids],
        measures={
            "replicas": [row["replica_count"] for row in load],
            "leaders": [row["leader_count"] for row in load],
            "preferred for": [row["preferred_count"] for row in load],
            "led by others": led_by_others,
            "imbalance %": [round(100 * ratio.get(broker, {}).get("ratio", 0.0), 1) for broker in ids],
        },
        details={
            "Rack": [Cell(row["rack"] or "-") for row in load],
            "Live": [Cell("yes", "good") if row["live"] else Cell("no", "critical") for row in load],
        },
    )


def _deletions(store: ObjectStore, chosen: Overview, name: str) -> Table:
    queued = table_of(store, chosen.manifest, "deletion_eligibility", cluster=name)
    first = queued.sort_by([("eligible", "ascending"), ("topic", "ascending")]) if queued.num_rows else queued
    shown = first.slice(0, FINDINGS_SHOWN_MAX).to_pylist()
    return Table(
        id="deletions",
        caption="Topics queued for deletion",
        columns=(
            Column("Topic"),
            Column("Partitions", numeric=True),
            Column("Can be deleted"),
            Column("Requested"),
            Column("Reasons"),
            Column("What would help"),
        ),
        rows=[
            (
                Cell(row["topic"], href=f"topic?{urlencode({'cluster': name, 'name': row['topic']})}"),
                number(row["partition_count"]),
                Cell("yes", "good") if row["eligible"] else Cell("no", "warning"),
                Cell(f"{row['requested_at']:%Y-%m-%d %H:%M}" if row["requested_at"] else "-"),
                Cell("; ".join(reason["text"] for reason in row["reasons"] or ())),
                Cell(row["remedy"] or ""),
            )
            for row in shown
        ],
        more=queued.num_rows - len(shown),
        empty="No topic is queued for deletion.",
        searchable=len(shown) > 20,  # noqa: PLR2004 - fewer are read at a glance
    )


def _work(store: ObjectStore, chosen: Overview, name: str) -> Table:
    pending = _in_progress(table_of(store, chosen.manifest, "findings", cluster=name))
    worst = _worst(pending).to_pylist()
    return Table(
        id="pending",
        caption="Reassignments, elections and migrations in progress",
        columns=(Column("Kind"), Column("Subject"), Column("Age, hours", numeric=True), Column("Detail")),
        rows=[
            (
                Cell(row["kind"], row["severity"]),
                _subject(name, row),
                number(None if row["age_s"] is None else row["age_s"] / 3600, digits=1),
                Cell(row["detail"] or ""),
            )
            for row in worst
        ],
        more=pending.num_rows - len(worst),
        empty="Nothing is in progress.",
    )


def _in_progress(findings: pa.Table) -> pa.Table:
    if not findings.num_rows:
        return findings
    kinds = findings["kind"]
    return findings.filter(pc.or_(pc.is_in(kinds, value_set=pa.array(_PENDING)), pc.starts_with(kinds, "stuck_")))


def _proposal(store: ObjectStore, chosen: Overview, name: str) -> list[Block]:
    columns = ("cluster", "status", "reason", "moves", "moves_lower_bound", "leader_changes", "explanation")
    found = rows_of(store, chosen.manifest, "proposals", cluster=name, columns=columns)
    if not found:
        return []
    plan = found[0]
    if plan["status"] != "planned":
        return [Note(f"Proposed reassignment: {plan['status']}{'. ' + plan['reason'] if plan['reason'] else ''}")]
    proof = (
        "proven minimal"
        if plan["moves"] == plan["moves_lower_bound"]
        else f"no plan needs fewer than {plan['moves_lower_bound']}"
    )
    title = f"Proposed reassignment: {plan['moves']} replica moves ({proof}), {plan['leader_changes']} changes of preferred leaders"
    return [Lines(title, [line for line in (plan["explanation"] or "").split("\n") if line])]
