"""The reference of files: each kind of object that a store holds, with one that the operations have written here, and what lies outside a store."""

import json
import re
import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow.fs import LocalFileSystem

from controller_core.adapters.object_store.open import MemoryStore, open_store
from controller_core.ports.object_store import ObjectStore
from kafka_maintenance.cli.install_dags import _stub
from kafka_maintenance.operations.analysis.alarms import acknowledge
from kafka_maintenance.operations.analysis.metrics import openmetrics, samples
from kafka_maintenance.operations.analysis.published import publish
from kafka_maintenance.operations.apply.executions import request_stop
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.snapshots.pins import pin, unpin
from spark_jobs.io.delivery import deliver
from spark_jobs.io.folders import Folder
from tests.kafka_maintenance.operations.apply.applying import NOW, apply, elections, planned
from tests.source_files import ROOT
from tests.visible_snapshots import visible_snapshots

SAMPLE = ROOT / "plugins" / "kafka_maintenance" / "demo" / "sample_history"
ITEMS_SHOWN, TEXT_SHOWN = 2, 100


class Kind(NamedTuple):
    """A kind of object: its place in the store, a pattern of the keys, and what it is for."""

    place: str
    keys: str
    meaning: str


KINDS = (
    Kind("v1/cluster=C/date=D/snap=S/manifest.json", r"snap=[^/]+/manifest\.json", "A snapshot: what the cut is of, and its objects with their checksums; written last. The tables beside it: [tables](tables.md)."),
    Kind("v1/runs/cluster=C/RUN.json", r"v1/runs/", "The note that a run has its snapshot: a copy of the manifest, written just before it."),
    Kind("v1/pins/cluster=C/S.json", r"v1/pins/", "A snapshot that no retention removes."),
    Kind("v1/pin-events/cluster=C/S/TIME-pinned.json", r"v1/pin-events/", "Who pinned or unpinned a snapshot, and why."),
    Kind("v1/analysis/date=D/run=R/manifest.json", r"v1/analysis/.*/manifest\.json", "A published analysis: its snapshots, tables and report; written last."),
    Kind("v1/analysis/date=D/run=R/summary.json", r"v1/analysis/.*/summary\.json", "Counts of the analysis, cluster by cluster, and what was not analysed. Beside it lie `report.html`, `report.md` and the [tables](tables.md)."),
    Kind("v1/overviews/date=D/run=R.json", r"v1/overviews/", "The counts of an analysis that pages and metrics read."),
    Kind("v1/acknowledgements/cluster=C/TIME.json", r"v1/acknowledgements/", "A finding that rings no more until its date."),
    Kind("v1/cluster=C/date=D/…/plans/KIND-DIGEST.json", r"/plans/.*\.json", "A plan, beside its snapshot or below `live`: what is expected, asked for, predicted, and the way back. Beside it lies its text, `.md`."),
    Kind("v1/plans/cluster=C/KIND-DIGEST", r"v1/plans/", "Where the plan of that digest lies."),
    Kind("v1/approvals/cluster=C/RUN/TRY-planned.json", r"-planned\.json", "The plan that a run made or found for its gate."),
    Kind("v1/approvals/cluster=C/RUN/ASK-asked.json", r"-asked\.json", "What the gate of a run asked; `shown` is the SHA-256 of the text."),
    Kind("v1/approvals/cluster=C/RUN/ASK-decided-NN.json", r"-decided-", "One answer to it."),
    Kind("v1/receipts/cluster=C/DIGEST/NNNN-EVENT.json", r"v1/receipts/", "One event of the record of a plan that was begun."),
    Kind("v1/stops/cluster=C/DIGEST/TIME.json", r"v1/stops/", "Somebody asks for the end of a run."),
    Kind("v1/audit/cluster=C/NNNNNNNN.json", r"v1/audit/", "A link of the audit chain: a copy of the record, the hash of the link before, and a signature where a key is set ([security](../security.md))."),
)  # fmt: skip


def files() -> str:
    """A section per kind of file."""
    lines = ["## In a store", ""]
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder))
        for kind, (key, data) in _examples(store).items():
            language, text = ("json", _shown(json.loads(data))) if key.endswith(".json") else ("text", data.decode())
            lines += [f"### {kind.place}", "", kind.meaning, "", f"```{language}", _stable(text).rstrip(), "```", ""]
    made = openmetrics(samples(store)).splitlines()
    outside = (
        ("The stub of a DAG", "In the DAG folder, one per DAG; written by `kafka-maintenance install-dags`.", "python", _stub("snapshot_metadata")),
        ("OpenMetrics", "What `kafka-maintenance metrics` prints, and `KAFKA_MAINTENANCE_METRICS_FILE` holds: its first lines ([metrics](../monitoring.md)).", "text", "\n".join(made[:6])),
    )  # fmt: skip
    lines += ["## Outside a store", ""]
    for title, meaning, language, text in outside:
        lines += [f"### {title}", "", meaning, "", f"```{language}", _stable(text).rstrip(), "```", ""]
    return "\n".join(lines) + "\n"


def _examples(store: ObjectStore) -> dict[Kind, tuple[str, bytes]]:
    """The first object of each kind.

    Raises:
        ValueError: an object is of no kind, or there is none of a kind.
    """
    found: dict[Kind, tuple[str, bytes]] = {}
    for key in store.list(""):
        if key.endswith((".parquet", ".md", ".html")):
            continue
        kind = next((kind for kind in KINDS if re.search(kind.keys, key)), None)
        if kind is None:
            raise ValueError(f"{key}: expected a kind of file of docs/reference/files.md, found none; add it to KINDS")
        found.setdefault(kind, (key, store.get(key)))
    missing = [kind.place for kind in KINDS if kind not in found]
    if missing:
        raise ValueError(f"no example of {missing}: write one in _store, or take the kind out of KINDS")
    return {kind: found[kind] for kind in KINDS}


def _store(folder: Path) -> ObjectStore:
    """What a snapshot, an analysis and an approved plan leave, made by the operations themselves."""
    store, world, plan = planned(elections)
    asked = {"cluster": "demo", "run": f"{plan.kind}.manual__2026-11-21", "ask_id": "01a2-0001"}
    question = {"kind": plan.kind, "digest": plan.digest, "shown": "0" * 64, "requester": "ada", "policy": None}
    approvals.keep_plan(store, cluster="demo", run=asked["run"], try_id="01a1-0001", kind=plan.kind, digest=plan.digest)
    approvals.keep_question(store, **asked, question={**question, "after": None, "clears": 0, "began": NOW.isoformat()})
    said = {"user": "olivia", "options": [approvals.APPROVE], "comment": "planned window"}
    approvals.keep_answer(store, **asked, answer={**said, "at": NOW.isoformat(), "responded_at": NOW.isoformat()})
    apply(store, plan, world, approver="olivia", run_id=asked["run"])
    request_stop(store, "demo", plan.digest, by="ann", reason="the disks are full", now=NOW)
    until = date(2026, 11, 24)
    acknowledge(store, "demo", "broker_down", topic=None, reason="the disk is ordered", by="ann", until=until, now=NOW)
    _with_snapshot(store)
    _with_analysis(store, folder)
    return store


def _with_snapshot(store: MemoryStore) -> None:
    """That of the sample history with the oldest date, its notes and pins."""
    sample = open_store(str(SAMPLE))
    manifest = visible_snapshots(sample)[0]
    for key in sample.list(""):
        if key.endswith(".json") and (manifest.snapshot_id in key or manifest.run_id in key):
            store.put(key, sample.get(key))
    pin(store, manifest, reason="before the migration", by="ann", now=NOW)
    unpin(store, manifest, reason="it is over", by="ann", now=NOW + timedelta(days=1))
    pin(store, manifest, reason="before the next try", by="ann", now=NOW + timedelta(days=2))


def _with_analysis(store: ObjectStore, output: Path) -> None:
    clusters = {"demo": {"snapshot_id": "0000000000000083-sample-757b06ce", "snapshot_digest": "0" * 64}}
    (output / "summary.json").write_text(json.dumps({"clusters": clusters, "not_analysed": []}))
    (output / "report.html").write_text("<h1>Kafka maintenance report</h1>")
    (output / "report.md").write_text("# Report")
    names = [path.name for path in output.iterdir()]
    deliver(Folder(LocalFileSystem(), str(output), str(output)), names)
    publish(
        output,
        store,
        day="2026-11-21",
        run_id="nightly_analysis.scheduled__2026-11-21",
        now=datetime(2026, 11, 21, 3, 10, tzinfo=UTC),
    )


def _shown(document: dict[str, Any]) -> str:
    """The document with a line per field, long lists and texts cut short."""
    fields = (
        f"  {json.dumps(name)}: {json.dumps(_short(value), ensure_ascii=False)}" for name, value in document.items()
    )
    return "{\n" + ",\n".join(fields) + "\n}"


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, list):
        more = [f"… {len(value) - ITEMS_SHOWN} more"] if len(value) > ITEMS_SHOWN else []
        return [_short(each) for each in value[:ITEMS_SHOWN]] + more
    return f"{value[:TEXT_SHOWN]}…" if isinstance(value, str) and len(value) > TEXT_SHOWN else value


def _stable(text: str) -> str:
    """Without what another machine or another minute would write: times of the audit chain and of the record, hashes, host and user."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", "2026-11-21T03:00:00+00:00", text)
    text = re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1…", text)
    text = re.sub(r'("previous": ")(?!0{12})[0-9a-f]{12}', r"\g<1>4809c15ba850", text)
    text = re.sub(r'"host": "[^"]*"', '"host": "worker-1"', text)
    return re.sub(r'"os_user": "[^"]*"', '"os_user": "airflow"', text)
