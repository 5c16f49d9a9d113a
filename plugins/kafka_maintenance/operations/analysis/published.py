"""Published analyses: the results of a daily job in the store, whole, and found again.

A published analysis is what its manifest names: `v1/analysis/date=D/run=TOKEN/manifest.json` is written last and never again.
Every run is kept; of one date the newest counts.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import MANIFEST, ROOT, run_token
from controller_core.model.errors import ObjectDamagedError, ObjectExistsError, ObjectMissingError
from kafka_maintenance import __version__
from kafka_maintenance.operations.analysis.overviews import keep_overview
from kafka_maintenance.operations.errors import BadInputError, OperationError, listed
from kafka_maintenance.operations.snapshots.catalog import at_once, opened

FORMAT_VERSION: Final = 1
PREFIX: Final = f"{ROOT}/analysis/"
S3, S3A = "s3://", "s3a://"
"""An address in the store, and how Spark names the same."""
_SUMMARY: Final = "summary.json"
_HISTORY: Final = "history"
"""`spark_jobs.io.snapshots.HISTORY`, which is imported with Spark only."""
_DAYS_SHOWN: Final = 5
_LEFT_BY_SPARK: Final = (".", "_")


class AnalysisIncompleteError(OperationError):
    """The analysis is published, but lacks a cluster that could not be analysed."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """A published analysis: addresses of its manifest and its pages, and its summary (small, see docs/analysis.md)."""

    uri: str
    day: str
    run_id: str
    created_at: datetime
    report_markdown: str
    report_html: str
    snapshots: tuple[Mapping[str, str], ...]  # cluster, snapshot_id and digest of each
    summary: Mapping[str, Any]
    digest: str

    @property
    def missed(self) -> tuple[str, ...]:
        """What of the date could not be analysed, each with its reason; snapshots that it could do without are none."""
        return tuple(
            f"{row['cluster']}: {row['reason']}" for row in self.summary["not_analysed"] if row["stage"] != _HISTORY
        )


def publish(
    output: Path | str,
    store: ObjectStore | str,
    *,
    day: date | str,
    run_id: str,
    now: datetime | None = None,
    fail_if_incomplete: bool = False,
) -> Analysis:
    """Puts the job's results into the store, the manifest last; a second call of one run changes nothing.

    Args:
        output: the job's output, as `Staged` names it; what lies in the store is removed when all is published.
        store: where to.
        day: the analysed date.
        run_id: the run; its token is part of the key.
        now: when, UTC; decides which run of a date is the newest.
        fail_if_incomplete: whether a cluster that could not be analysed is a failure, after all is published.

    Raises:
        BadInputError: the folder holds no finished analysis.
        AnalysisIncompleteError: a cluster could not be analysed, and that was to fail.
        StoreUnwritableError, StoreUnreachableError: as of the store; nothing is visible then.
    """
    store = opened(store)
    if str(output).startswith(S3A):
        with tempfile.TemporaryDirectory(prefix="kafka-maintenance-") as scratch:
            left = _fetched(store, str(output), Path(scratch))
            analysis = _published(Path(scratch), store, day, run_id, now)
        for key in sorted(left, key=lambda name: name.endswith(_SUMMARY)):  # without it nobody could try again
            store.delete(key)
    else:
        analysis = _published(Path(output), store, day, run_id, now)
    if analysis.missed and fail_if_incomplete:
        raise AnalysisIncompleteError(
            f"date {day} not analysed for every cluster, the others are in {analysis.report_html}: {listed(analysis.missed)}"
        )
    return analysis


def list_analyses(store: ObjectStore | str, day: date | str | None = None) -> list[Analysis]:
    """Every published analysis, of one date where it is given, oldest first; of one time the later run id is last."""
    store = opened(store)
    return _read_all(store, _published_keys(store, day))


def latest_report(store: ObjectStore | str, day: date | str | None = None) -> Analysis:
    """The newest analysis of a date, or of the newest date; no other date's are read.

    Raises:
        ObjectMissingError: there is none; the message lists dates that have one.
        ObjectDamagedError: one of that date is.
    """
    store = opened(store)
    keys = _published_keys(store, day)
    if not keys:
        days = sorted({_day_of(key) for key in _published_keys(store)})[-_DAYS_SHOWN:]
        raise ObjectMissingError(
            f"no report{f' of {day}' if day is not None else ''} in {store.uri!r}: expected a published analysis, "
            f"found those of {listed(days) or 'none'}; name such a date, or run one"
        )
    newest = max(map(_day_of, keys))
    return _read_all(store, [key for key in keys if _day_of(key) == newest])[-1]


def key_of(store: ObjectStore, uri: str) -> str:
    """The key of an address that this module gave out."""
    return uri.removeprefix(f"{store.uri}/")


def _published_keys(store: ObjectStore, day: date | str | None = None) -> list[str]:
    prefix = PREFIX if day is None else f"{PREFIX}date={day}/"
    return [key for key in store.list(prefix) if key.endswith(f"/{MANIFEST}")]


def _day_of(key: str) -> str:
    return key.removeprefix(f"{PREFIX}date=").partition("/")[0]


def _read_all(store: ObjectStore, keys: Iterable[str]) -> list[Analysis]:
    found = at_once(lambda key: read_analysis(store, key), keys)
    return sorted(found, key=lambda analysis: (analysis.day, analysis.created_at, analysis.run_id))


def _published(output: Path, store: ObjectStore, day: date | str, run_id: str, now: datetime | None) -> Analysis:
    prefix = f"{PREFIX}date={day}/run={run_token(run_id)}"
    key = f"{prefix}/{MANIFEST}"
    summary = _summary(output)
    objects = []
    for name, path in sorted(_results(output).items()):
        content = path.read_bytes()
        store.put(f"{prefix}/{name}", content)
        objects.append({"key": f"{prefix}/{name}", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()})
    document = {
        "format_version": FORMAT_VERSION,
        "kind": "analysis",
        "date": str(day),
        "run_id": run_id,
        "created_at": (now or datetime.now(UTC)).isoformat(),
        "code_version": __version__,
        "snapshots": [
            {"cluster": cluster, "snapshot_id": found["snapshot_id"], "digest": found["snapshot_digest"]}
            for cluster, found in sorted(summary["clusters"].items())
        ],
        "objects": objects,
        "summary": summary,
    }
    with suppress(ObjectExistsError):  # this run was published before; what it said stays
        store.put_new(key, _canonical({**document, "digest": _digest(document)}))
    published = read_analysis(store, key)
    keep_overview(store, key, json.loads(store.get(key)))
    return published


def _fetched(store: ObjectStore, output: str, folder: Path) -> list[str]:
    """Brings what a job wrote into the store to `folder`; returns the keys."""
    prefix = S3 + output.removeprefix(S3A)
    keys = [key for key in store.list(key_of(store, prefix) + "/") if not key.endswith("/")]
    for key in keys:
        target = folder / store.uri_of(key).removeprefix(f"{prefix}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        store.get_to_file(key, target)
    return keys


def _results(output: Path) -> dict[str, Path]:
    """Files of the job by the name they get in the store: a table of one part becomes `<table>.parquet`."""
    found = {}
    for path in output.rglob("*"):
        parts = path.relative_to(output).parts
        if not path.is_file() or any(part.startswith(_LEFT_BY_SPARK) for part in parts):
            continue
        if path.suffix != ".parquet":
            found["/".join(parts)] = path
            continue
        siblings = sorted(path.parent.glob("*.parquet"))
        place = siblings.index(path)
        table = parts[0]
        found[f"{table}.parquet" if len(siblings) == 1 else f"{table}/part-{place:05}.parquet"] = path
    return found


def _summary(output: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((output / _SUMMARY).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BadInputError(
            f"{output} not published: expected the summary.json of a finished analysis, found {error}; run the job again"
        ) from error


def read_analysis(store: ObjectStore, key: str) -> Analysis:
    """The published analysis whose manifest has this key; raises ObjectMissingError, or ObjectDamagedError."""
    uri = store.uri_of(key)
    try:
        document = json.loads(store.get(key))
        claimed = document.pop("digest")
        analysis = Analysis(
            uri=uri,
            day=document["date"],
            run_id=document["run_id"],
            created_at=datetime.fromisoformat(document["created_at"]),
            report_markdown=uri.removesuffix(MANIFEST) + "report.md",
            report_html=uri.removesuffix(MANIFEST) + "report.html",
            snapshots=tuple(document["snapshots"]),
            summary=document["summary"],
            digest=claimed,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ObjectDamagedError(
            f"analysis {uri!r} not read: its manifest is damaged ({type(error).__name__}: {error}); analyse the date again"
        ) from error
    if _digest(document) != claimed:
        raise ObjectDamagedError(f"analysis {uri!r} not read: its manifest was changed; analyse the date again")
    return analysis


def _canonical(document: object) -> bytes:
    return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()


def _digest(document: object) -> str:
    return hashlib.sha256(_canonical(document)).hexdigest()
