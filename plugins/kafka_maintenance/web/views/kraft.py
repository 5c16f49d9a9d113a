"""The page KRaft: what stands against the migration of a cluster, rule by rule, and the steps of its run-book."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from controller_core.adapters.object_store.open import ObjectStore
from kafka_maintenance.operations.kraft.certificate import Certificate, certify, is_ready
from kafka_maintenance.operations.kraft.rehearsal.kept import newest_rehearsal
from kafka_maintenance.operations.kraft.runbook import runbook
from kafka_maintenance.operations.record.departures import departure_of
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE, newest_snapshot, public_configs, read_raw
from kafka_maintenance.web.blocks import (
    Block,
    Cell,
    Choice,
    Column,
    Facts,
    Form,
    Note,
    Page,
    PageStep,
    Section,
    Steps,
    Table,
    Tone,
)
from spark_jobs.kraft.judged import Verdict
from spark_jobs.kraft.rules import RULES
from spark_jobs.kraft.tree import tree_of

_BOX: Final = "- [ ] "
_COUNTS: Final = re.compile(r": [\d,]+ leaders?, [\d,]+ replicas?")
_COLUMNS: Final = (
    Column("Rule"),
    Column("Title"),
    Column("Evidence", words="Znode and what is there, or the question to ask"),
    Column("If ignored"),
    Column("To mend"),
)
_VERDICTS: Final[Sequence[tuple[Verdict, str, Tone]]] = (
    (Verdict.NOT_MET, "Not met", "critical"),
    (Verdict.DECIDE, "Decide first", "warning"),
    (Verdict.ASK, "Ask, a snapshot cannot tell", "info"),
    (Verdict.MET, "Met", "good"),
)


def kraft_page(store: ObjectStore, clusters: Sequence[str], cluster: str, now: datetime) -> Page:
    """The certificate of a cluster's newest snapshot, and its run-book.

    Args:
        store: where the snapshots are.
        clusters: all there are.
        cluster: the chosen one; empty for the first.
        now: whether the certificate has expired.

    Raises:
        ObjectStoreError: the store cannot be read.
    """
    chosen = cluster or next(iter(clusters), "")
    if not chosen:
        return Page(title="KRaft", here="kraft", head=(Note("No cluster is listed.", "info"),))
    form = Form(
        action="kraft",
        button="Show",
        fields=[Choice(name="cluster", label="Cluster", value=chosen, choices=[(name, name) for name in clusters])],
    )
    try:
        gone = departure_of(store, chosen)
        if gone is None:
            return _judged(store, chosen, form, now)
        note = Note(
            f"Cluster {chosen} has left ZooKeeper, as {gone.by} recorded at {gone.at}: nothing is judged any more.",
            "info",
        )
        return Page(title="KRaft", here="kraft", head=(form, note))
    except UNUSABLE as error:  # the form leads to the other clusters
        return Page(title="KRaft", here="kraft", head=(form, Note(str(error), "warning")))


def _judged(store: ObjectStore, chosen: str, form: Form, now: datetime) -> Page:
    manifest = newest_snapshot(store, chosen)
    if manifest is None:
        note = Note(f"Cluster {chosen} has no snapshot yet: run the DAG snapshot_metadata.", "info")
        return Page(title="KRaft", here="kraft", head=(form, note))
    tree = tree_of(read_raw(store, manifest), public_configs(store, manifest))
    certificate = certify(tree, manifest)
    rules = [
        Section(title=title, anchor=verdict.name.lower(), blocks=[_rules(certificate, verdict, title, tone)])
        for verdict, title, tone in _VERDICTS
    ]
    return Page(
        title=f"KRaft: {chosen}",
        subtitle=f"certificate of snapshot {certificate.snapshot} of {certificate.taken_at:%Y-%m-%d %H:%M} UTC",
        here="kraft",
        head=(form, *_head(certificate, now)),
        sections=[
            *rules,
            Section(
                title="Run-book",
                anchor="runbook",
                blocks=list(_steps(chosen, runbook(certificate, tree, newest_rehearsal(store, chosen)))),
            ),
        ],
    )


def _head(certificate: Certificate, now: datetime) -> Iterator[Block]:
    if now > certificate.expires_at:
        yield Note(f"Expired at {certificate.expires_at:%Y-%m-%d %H:%M} UTC: take a newer snapshot.", "warning")
    ready = is_ready(certificate)
    verdict = "no obstacle in the snapshot" if ready else f"{len(certificate.obstacles)} rules are not met"
    yield Facts(
        [
            ("Verdict", Cell(verdict, "good" if ready else "critical")),
            ("Phase", Cell(f"{certificate.phase.id.value}: {certificate.phase.text}")),
            ("Advice", Cell(certificate.phase.advice)),
            ("Counts until", Cell(f"{certificate.expires_at:%Y-%m-%d %H:%M} UTC, or the first change of the cluster")),
        ],
        wide=True,
    )


def _rules(certificate: Certificate, verdict: Verdict, title: str, tone: Tone) -> Table:
    rows = [
        (
            Cell(rule.id, tone),
            Cell(rule.title),
            Cell("; ".join(certificate.judged[rule.id].evidence)),
            Cell(rule.ignored),
            Cell(rule.mend),
        )
        for rule in RULES
        if certificate.judged[rule.id].verdict is verdict
    ]
    return Table(id=verdict.name.lower(), caption=f"{title}: {len(rows)} rules", columns=_COLUMNS, rows=rows)


def _steps(cluster: str, markdown: str) -> Iterator[Block]:
    """The phases of a run-book, each a list to tick off; Markdown's signs are left out."""
    yield Note("What is ticked stays in this browser, also when a newer snapshot is shown.", "info")
    for part in markdown.split("\n## ")[1:]:
        title, *lines = part.splitlines()
        yield Steps(title, [_step(title, line.strip()) for line in lines if line.strip()], cluster)


def _step(title: str, line: str) -> PageStep:
    """A line of the run-book. Its name stays the same when only counts of a newer snapshot differ."""
    text = line.removeprefix(_BOX).replace("**", "").replace("`", "")
    return PageStep(text, f"{title}: {_COUNTS.sub('', text)}" if line.startswith(_BOX) else None)
