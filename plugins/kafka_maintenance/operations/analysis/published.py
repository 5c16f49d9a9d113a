"""Published analyses: the results of a daily job in the store, whole, and found again.

A published analysis is what its manifest names: `v1/analysis/date=D/run=TOKEN.CONTENT/manifest.json` is written last and never again.
CONTENT is derived from what is published, so that two tries of a run never write each other's objects; analyses of before 2026-11-29
lie at `run=TOKEN/`. Every run is kept; of one date and cluster the newest that analysed it counts.
"""

import hashlib
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import MANIFEST, ROOT, last_date, run_token
from controller_core.model.errors import ObjectDamagedError, ObjectExistsError, ObjectMissingError
from kafka_maintenance import __version__
from kafka_maintenance.operations.analysis.overviews import keep_overview
from kafka_maintenance.operations.analysis.tables import CACHE
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import BadInputError, OperationError, listed

FORMAT_VERSION: Final = 1
PREFIX: Final = f"{ROOT}/analysis/"
S3, S3A = "s3://", "s3a://"
"""An address in the store, and how Spark names the same."""
_SUMMARY: Final = "summary.json"
_HISTORY: Final = "history"
"""`spark_jobs.io.snapshots.HISTORY`, which is imported with Spark only."""
_DAYS_SHOWN: Final = 5
_DELIVERED: Final = "delivered.json"
"""`spark_jobs.io.delivery.DELIVERED`: the list of its files that a job writes last."""
_NAME: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.=-]*/)*[A-Za-z0-9_][A-Za-z0-9_.=-]*")
_TABLE: Final = ".parquet"
_CONTENT_LETTERS: Final = 12


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
    objects: tuple[str, ...]  # key of each
    digest: str

    @property
    def missed(self) -> tuple[str, ...]:
        """What of the date could not be analysed, each with its reason; snapshots that it could do without are none."""
        return tuple(
            f"{row['cluster']}: {row['reason']}" for row in self.summary["not_analysed"] if row["stage"] != _HISTORY
        )


def publish(
    output: Path | str,
    store: ObjectStore,
    *,
    day: date | str,
    run_id: str,
    now: datetime | None = None,
    fail_if_incomplete: bool = False,
) -> Analysis:
    """Puts the files that the job says it delivered into the store, the manifest last.

    A run that was published stays as it is, whatever lies in `output` now. What the job does not list was not finished, or
    is somebody else's: it is not published.

    Args:
        output: the job's output, as `Staged` names it; what lies in the store is removed when all is published.
        store: where to.
        day: the analysed date.
        run_id: the run; its token is part of the key.
        now: when, UTC; decides which run of a date is the newest.
        fail_if_incomplete: whether a cluster that could not be analysed is a failure, after all is published.

    Raises:
        BadInputError: the folder holds no finished analysis, or a file is not the one that was delivered.
        AnalysisIncompleteError: a cluster could not be analysed, and that was to fail.
        StoreUnwritableError, StoreUnreachableError: those of the store; nothing is visible then.
    """
    if (published := of_run(store, day, run_id)) is not None:
        analysis = published
    elif str(output).startswith(S3A):
        with tempfile.TemporaryDirectory(prefix="kafka-maintenance-") as scratch:
            _fetch(store, str(output), Path(scratch))
            analysis = _published(Path(scratch), store, day, run_id, now)
    else:
        analysis = _published(Path(output), store, day, run_id, now)
    if str(output).startswith(S3A):
        for key in _keys_below(store, str(output)):
            store.delete(key)
    key = key_of(store, analysis.uri)
    keep_overview(store, key, json.loads(store.get(key)))  # also where the try that published was killed before it
    if analysis.missed and fail_if_incomplete:
        raise AnalysisIncompleteError(
            f"date {day} not analysed for every cluster, the others are in {analysis.report_html}: {listed(analysis.missed)}"
        )
    return analysis


def of_run(store: ObjectStore, day: date | str, run_id: str) -> Analysis | None:
    """What that run has published, the first of two tries that ended at the same moment; None where it has published nothing.

    Raises:
        ObjectDamagedError: its manifest cannot be read.
    """
    prefix = _prefix(day, run_id)
    own = re.compile(rf"{re.escape(prefix)}(\.[0-9a-f]{{{_CONTENT_LETTERS}}})?/{re.escape(MANIFEST)}")
    return next(iter(_read_all(store, filter(own.fullmatch, store.list(prefix)))), None)


def list_analyses(store: ObjectStore, day: date | str | None = None) -> list[Analysis]:
    """Every published analysis, of one date where it is given, oldest first; of one time the later run id is last."""
    return _read_all(store, published_keys(store, day))


def latest_report(store: ObjectStore, day: date | str | None = None) -> Analysis:
    """The newest analysis of a date, or of the newest date that is not in the future; no other date's are read.

    Raises:
        ObjectMissingError: there is none; the message lists dates that have one.
        ObjectDamagedError: one of that date is.
    """
    keys = published_keys(store, day)
    if day is None:
        keys = [key for key in keys if date_of(key) <= last_date(datetime.now(UTC)).isoformat()]
    newest = max(map(date_of, keys), default=None)
    found = _read_all(store, [key for key in keys if date_of(key) == newest])
    if not found:
        days = sorted({date_of(key) for key in published_keys(store)})[-_DAYS_SHOWN:]
        raise ObjectMissingError(
            f"no report{f' of {day}' if day is not None else ''} in {store.uri!r}: expected a published analysis, "
            f"found those of {listed(days) or 'none'}; name such a date, or run one"
        )
    return found[-1]


def current_analyses(store: ObjectStore, day: date | str) -> list[Analysis]:
    """The runs of a date that are current: the newest, and of each cluster the newest that analysed it.

    Raises:
        ObjectDamagedError: one of that date cannot be read.
    """
    runs = list_analyses(store, day)
    newest = {each["cluster"]: run for run in runs for each in run.snapshots}
    current = {run.uri for run in (*newest.values(), *runs[-1:])}
    return [run for run in runs if run.uri in current]


def fetch_results(store: ObjectStore, folder: Path) -> list[Path]:
    """Brings the tables of every published analysis to `folder`, as they lie in the store; returns their folders.

    What was fetched before is kept.

    Only tables and manifests; a run whose manifest is damaged, or whose tables are not those that it names, is left out.
    """

    def fetch(key: str) -> Path | None:
        target = folder / key
        if target.exists():
            return target.parent
        try:
            analysis = read_analysis(store, key)
            tables = [name for name in analysis.objects if name.endswith(_TABLE)]
            for name in (*tables, key):  # the manifest last: what lacks it is fetched again
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                store.get_to_file(name, folder / name)
        except (ObjectDamagedError, ObjectMissingError):
            return None
        return target.parent

    return [found for found in at_once(fetch, published_keys(store)) if found is not None]


def tables_there(store: ObjectStore, manifest: str) -> tuple[str, ...]:
    """Names of the results that an analysis published, sorted; kept in memory.

    Args:
        store: where it is published.
        manifest: key of its manifest.

    Raises:
        ObjectDamagedError, ObjectMissingError: the manifest cannot be read.
    """
    folder = manifest.removesuffix(MANIFEST)

    def read() -> tuple[tuple[str, ...], int]:
        keys = read_analysis(store, manifest).objects
        files = {key.removeprefix(folder).partition("/")[0] for key in keys if key.endswith(_TABLE)}
        return tuple(sorted(name.removesuffix(_TABLE) for name in files)), 100 * len(files)

    names: tuple[str, ...] = CACHE.get((store.uri, manifest, "tables"), read)
    return names


def key_of(store: ObjectStore, uri: str) -> str:
    """The key of an address that this module gave out."""
    return uri.removeprefix(f"{store.uri}/")


def published_keys(store: ObjectStore, day: date | str | None = None) -> list[str]:
    """Keys of the manifests of published analyses, of one date where it is given."""
    prefix = PREFIX if day is None else f"{PREFIX}date={day}/"
    return [key for key in store.list(prefix) if key.endswith(f"/{MANIFEST}")]


def date_of(key: str) -> str:
    """The analysed date that is part of a manifest's key."""
    return key.removeprefix(f"{PREFIX}date=").partition("/")[0]


def _read_all(store: ObjectStore, keys: Iterable[str]) -> list[Analysis]:
    """The analyses of these manifests, oldest first; one that was removed since its key was listed is none."""

    def read(key: str) -> Analysis | None:
        try:
            return read_analysis(store, key)
        except ObjectMissingError:
            return None

    found = [analysis for analysis in at_once(read, keys) if analysis is not None]
    return sorted(found, key=lambda analysis: (analysis.day, analysis.created_at, analysis.run_id, analysis.uri))


def _published(output: Path, store: ObjectStore, day: date | str, run_id: str, now: datetime | None) -> Analysis:
    files = _delivered(output / _DELIVERED)
    contents = {file.name: _content(output, file) for file in files}
    summary, named = json.loads(contents[_SUMMARY]), _named(files)
    content = _digest({name: file.sha256 for name, file in named.items()})[:_CONTENT_LETTERS]
    prefix = f"{_prefix(day, run_id)}.{content}"
    key = f"{prefix}/{MANIFEST}"
    objects = []
    for name, file in sorted(named.items()):
        store.put(f"{prefix}/{name}", contents[file.name])
        objects.append({**asdict(file), "key": f"{prefix}/{name}"})
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
    if (quicker := of_run(store, day, run_id)) is not None:
        return quicker
    with suppress(ObjectExistsError):  # another try with the same content; what it said stays
        store.put_new(key, _canonical({**document, "digest": _digest(document)}))
    return read_analysis(store, key)


def _prefix(day: date | str, run_id: str) -> str:
    return f"{PREFIX}date={day}/run={run_token(run_id)}"


@dataclass(frozen=True, slots=True)
class _File:
    """A file that a job delivered, its name below the job's output."""

    name: str
    size: int
    sha256: str
    rows: int | None

    def __post_init__(self) -> None:
        """Raises ValueError for a name that leads out of the output."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a name that is none: {self.name!r}")


def _delivered(path: Path) -> list[_File]:
    try:
        files = [_File(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["files"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadInputError(
            f"{path.parent} not published: expected {path.name}, the last file of a finished analysis, found "
            f"{type(error).__name__}: {error}; run the job again"
        ) from error
    if _SUMMARY not in {file.name for file in files}:
        raise BadInputError(f"{path.parent} not published: expected {_SUMMARY} in its {path.name}; run the job again")
    return files


def _content(output: Path, file: _File) -> bytes:
    """The bytes that the job delivered under that name."""
    try:
        content = (output / file.name).read_bytes()
    except OSError as error:
        raise BadInputError(f"{output} not published: {file.name} not read ({error}); run the job again") from error
    if (len(content), hashlib.sha256(content).hexdigest()) != (file.size, file.sha256):
        raise BadInputError(
            f"{output} not published: expected {file.name} as the job delivered it ({file.size} bytes, SHA-256 "
            f"{file.sha256[:12]}…), found {len(content)} other bytes; run the job again"
        )
    return content


def _named(files: Iterable[_File]) -> dict[str, _File]:
    """The files by the name that they get in the store: a table of one part becomes `<table>.parquet`."""
    parts: dict[str, list[_File]] = defaultdict(list)
    found = {}
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith(_TABLE):
            parts[file.name.partition("/")[0]].append(file)
        else:
            found[file.name] = file
    for table, those in parts.items():
        names = [f"{table}{_TABLE}"] if len(those) == 1 else [f"{table}/part-{n:05}{_TABLE}" for n in range(len(those))]
        found |= dict(zip(names, those, strict=True))
    return found


def _fetch(store: ObjectStore, output: str, folder: Path) -> None:
    """Brings what a job delivered into the store to `folder`."""
    prefix = key_of(store, S3 + output.removeprefix(S3A))
    try:
        store.get_to_file(f"{prefix}/{_DELIVERED}", folder / _DELIVERED)
    except ObjectMissingError as error:
        raise BadInputError(
            f"{output} not published: no finished analysis lies there ({error}); run it again"
        ) from error
    for file in _delivered(folder / _DELIVERED):
        target = folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        store.get_to_file(f"{prefix}/{file.name}", target)


def _keys_below(store: ObjectStore, output: str) -> list[str]:
    """What lies below a job's output, the list of it last: until then somebody can try again."""
    keys = store.list(key_of(store, S3 + output.removeprefix(S3A)) + "/")
    return sorted((key for key in keys if not key.endswith("/")), key=lambda key: key.endswith(_DELIVERED))


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
            objects=tuple(entry["key"] for entry in document["objects"]),
            digest=claimed,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
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
