"""The nightly analysis around its Spark job: snapshots staged where Spark reads them, results published whole.

The job itself is `spark_jobs/nightly_analysis.py`, started with `kafka_maintenance.spark.submit_arguments`. A published
analysis is what its manifest names: `v1/analysis/date=D/run=TOKEN/manifest.json` is written last and never again. Every
run is kept; of one night the newest counts.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from controller_core.adapters.object_store import ObjectStore
from controller_core.errors import (
    ControllerCoreError,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectMissingError,
)
from kafka_maintenance import __version__, spark
from kafka_maintenance.operations.errors import BadInputError, OperationError, listed
from kafka_maintenance.operations.snapshot_choice import HISTORY_NIGHTS, earlier_snapshots, passed_over
from kafka_maintenance.operations.snapshot_manifest import MANIFEST, ROOT, Manifest, partition_rows, run_token
from kafka_maintenance.operations.snapshots import at_once, fetch_tables, opened, read_manifest

JOB: Final = "nightly_analysis"
FORMAT_VERSION: Final = 1
PREFIX: Final = f"{ROOT}/analysis/"
UNPUBLISHED: Final = "unpublished/"
"""Where a job on a cluster leaves its results; nothing there is read but by `publish`."""
_BAD_INPUT_STATUS: Final = 2
_SUMMARY: Final = "summary.json"
_HISTORY: Final = "history"
"""`spark_jobs.storage.HISTORY`, which is imported with Spark only."""
_MARK: Final = ".kafka-maintenance"
"""Lies in a local output folder; without it nothing there is removed."""
_NIGHTS_SHOWN: Final = 5
_S3, _S3A = "s3://", "s3a://"
_LEFT_BY_SPARK: Final = (".", "_")

__all__ = [
    "JOB",
    "Analysis",
    "Staged",
    "analyse",
    "latest_report",
    "list_analyses",
    "publish",
    "run_token",
    "stage",
    "works_in_place",
]


class AnalysisFailedError(OperationError):
    """The Spark job ended without results; its log is named."""


class AnalysisIncompleteError(OperationError):
    """The analysis is published, but lacks a cluster that could not be analysed."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Snapshots where Spark reads them, how many partition rows they hold, and the job's arguments; it fills `output`.

    `output` is a local folder, or an address `s3a://…` inside the store when the job works in place.
    """

    folder: Path
    output: str
    arguments: tuple[str, ...]
    row_count: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """A published analysis: addresses of its manifest and its pages, and its summary (small, see docs/analysis.md)."""

    uri: str
    night: str
    run_id: str
    created_at: datetime
    report_markdown: str
    report_html: str
    snapshots: tuple[Mapping[str, str], ...]  # cluster, snapshot_id and digest of each
    summary: Mapping[str, Any]
    digest: str

    @property
    def missed(self) -> tuple[str, ...]:
        """What of the night could not be analysed, each with its reason; snapshots that it could do without are none."""
        return tuple(
            f"{row['cluster']}: {row['reason']}" for row in self.summary["not_analysed"] if row["stage"] != _HISTORY
        )


def stage(
    store: ObjectStore | str,
    manifests: Sequence[Manifest | str],
    folder: Path,
    *,
    run_id: str,
    night: date | str | None = None,
    history_nights: int = HISTORY_NIGHTS,
    settings: Mapping[str, Any] | None = None,
    goals: Mapping[str, Any] | None = None,
    missing: Mapping[str, str] | None = None,
    in_place: bool = False,
) -> Staged:
    """Fetches the chosen snapshots and those of the nights before; every byte is checked.

    With `in_place` nothing is fetched: a Spark cluster reads them from the S3 store, `works_in_place` says when. The job
    gets these snapshots and no others that lie in `folder`; what an earlier job left in its output is removed.

    Args:
        store: where the snapshots are.
        manifests: the chosen ones, or their addresses, one per cluster.
        folder: gets `input`, `output` and the job's parameter files; made when absent.
        run_id: names the run in the report.
        night: the date to analyse; that of the newest chosen snapshot when not given.
        history_nights: nights of comparison and trend, the analysed one included; 1 to `HISTORY_NIGHTS_MAX`.
        settings: versions and broker configs by cluster, as `spark_jobs.settings` reads them.
        goals: the planner's parameters.
        missing: cluster → why nothing of it was chosen, where one was expected; the report says so.
        in_place: leave the snapshots in the store, and let the job write beside them.

    Returns:
        Where everything is. A snapshot that is damaged does not stop the others: the report names it, also one of the
        night whose place an older one took.

    Raises:
        BadInputError: nothing was chosen, `history_nights` cannot be meant, or `folder/output` holds somebody's files.
        ObjectMissingError: a chosen manifest is not there.
    """
    store = opened(store)
    chosen = [read_manifest(store, one) if isinstance(one, str) else one for one in manifests]
    if not chosen:
        raise BadInputError("nothing staged: expected the manifest of at least one snapshot, found none; choose some")
    day = str(night) if night is not None else max(manifest.date for manifest in chosen)
    problems = [
        _problem(cluster, "", day, reason)
        for found in (missing or {}, passed_over(store, chosen))
        for cluster, reason in sorted(found.items())
    ]
    earlier, unusable = earlier_snapshots(store, [manifest.cluster for manifest in chosen], day, history_nights)
    problems += [_problem(cluster, "", of_night, reason) for (cluster, of_night), reason in unusable.items()]
    wanted = (*earlier, *chosen)
    if in_place:
        inputs = [_s3a(manifest.uri.removesuffix(f"/{MANIFEST}")) for manifest in wanted]
        output = _emptied_in_store(store, f"{UNPUBLISHED}run={run_token(run_id)}")
    else:
        output = _emptied(folder / "output")
        inputs, unfetched = _fetched_inputs(store, wanted, folder / "input")
        problems += unfetched
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "inputs").write_text("\n".join(("--input", *inputs)), encoding="utf-8")
    files = {
        "--settings": _json_file(folder / "settings.json", settings or {}),
        "--goals": _json_file(folder / "goals.json", goals or {}),
        "--problems": _json_file(folder / "problems.json", problems),
    }
    arguments = (
        *(f"@{folder / 'inputs'}", "--output", output, "--run", run_id, "--date", day),
        *("--history-nights", str(history_nights)),
        *(part for name, path in files.items() for part in (name, str(path))),
    )
    return Staged(folder, output, arguments, partition_rows(wanted))


def works_in_place(store: ObjectStore | str, settings: spark.SparkSettings) -> bool:
    """Whether the job reads and writes the store itself: its workers are elsewhere, and the store is S3.

    A store that is a folder is staged for a cluster, too; the scratch folder must then be one that its workers share.
    """
    return not settings.local and opened(store).uri.startswith(_S3)


def publish(
    output: Path | str,
    store: ObjectStore | str,
    *,
    night: date | str,
    run_id: str,
    now: datetime | None = None,
    fail_if_incomplete: bool = False,
) -> Analysis:
    """Puts the job's results into the store, the manifest last; a second call of one run changes nothing.

    Args:
        output: the job's output, as `Staged` names it; what lies in the store is removed when all is published.
        store: where to.
        night: the analysed date.
        run_id: the run; its token is part of the key.
        now: when, UTC; decides which run of a night is the newest.
        fail_if_incomplete: whether a cluster that could not be analysed is a failure, after all is published.

    Raises:
        BadInputError: the folder holds no finished analysis.
        AnalysisIncompleteError: a cluster could not be analysed, and that was to fail.
        StoreUnwritableError, StoreUnreachableError: as of the store; nothing is visible then.
    """
    store = opened(store)
    if str(output).startswith(_S3A):
        with tempfile.TemporaryDirectory(prefix="kafka-maintenance-") as scratch:
            left = _fetched(store, str(output), Path(scratch))
            analysis = _published(Path(scratch), store, night, run_id, now)
        for key in sorted(left, key=lambda name: name.endswith(_SUMMARY)):  # without it nobody could try again
            store.delete(key)
    else:
        analysis = _published(Path(output), store, night, run_id, now)
    if analysis.missed and fail_if_incomplete:
        raise AnalysisIncompleteError(
            f"night {night} not analysed for every cluster, the others are in {analysis.report_html}: {listed(analysis.missed)}"
        )
    return analysis


def analyse(
    store: ObjectStore | str,
    manifests: Sequence[Manifest | str],
    folder: Path,
    *,
    run_id: str,
    night: date | str,
    spark_settings: spark.SparkSettings | None = None,
    now: datetime | None = None,
    fail_if_incomplete: bool = False,
    **options: Any,
) -> Analysis:
    """Stage, Spark job and publish in one call, as the command does it; `options` as of `stage`.

    Raises:
        AnalysisFailedError: the Spark job failed; nothing was published.
        AnalysisIncompleteError: as of `publish`.
        BadInputError, ObjectStoreError: as of `stage` and `publish`.
    """
    spark_settings = spark_settings or spark.SparkSettings()
    in_place = works_in_place(store, spark_settings)
    staged = stage(store, manifests, folder, run_id=run_id, night=night, in_place=in_place, **options)
    submit = spark.submit_arguments(
        JOB, staged.arguments, work_folder=folder / "spark", settings=spark_settings, row_count=staged.row_count
    )
    try:
        spark.run_job(submit, folder / "spark.log")
    except spark.SparkJobError as error:
        failure = BadInputError if error.status == _BAD_INPUT_STATUS else AnalysisFailedError
        raise failure(f"night {night} not analysed, nothing published: {error}") from error
    return publish(staged.output, store, night=night, run_id=run_id, now=now, fail_if_incomplete=fail_if_incomplete)


def list_analyses(store: ObjectStore | str, night: date | str | None = None) -> list[Analysis]:
    """Every published analysis, of one night where it is given, oldest first; of one time the later run id is last."""
    store = opened(store)
    return _read_all(store, _published_keys(store, night))


def latest_report(store: ObjectStore | str, night: date | str | None = None) -> Analysis:
    """The newest analysis of a night, or of the newest night; no other night's are read.

    Raises:
        ObjectMissingError: there is none; the message lists nights that have one.
        ObjectDamagedError: one of that night is.
    """
    store = opened(store)
    keys = _published_keys(store, night)
    if not keys:
        nights = sorted({_night_of(key) for key in _published_keys(store)})[-_NIGHTS_SHOWN:]
        raise ObjectMissingError(
            f"no report{f' of night {night}' if night is not None else ''} in {store.uri!r}: expected a published analysis, "
            f"found those of {listed(nights) or 'no night'}; name such a night, or run one"
        )
    newest = max(map(_night_of, keys))
    return _read_all(store, [key for key in keys if _night_of(key) == newest])[-1]


def key_of(store: ObjectStore, uri: str) -> str:
    """The key of an address that this module gave out."""
    return uri.removeprefix(f"{store.uri}/")


def _published_keys(store: ObjectStore, night: date | str | None = None) -> list[str]:
    prefix = PREFIX if night is None else f"{PREFIX}date={night}/"
    return [key for key in store.list(prefix) if key.endswith(f"/{MANIFEST}")]


def _night_of(key: str) -> str:
    return key.removeprefix(f"{PREFIX}date=").partition("/")[0]


def _read_all(store: ObjectStore, keys: Iterable[str]) -> list[Analysis]:
    found = at_once(lambda key: _read(store, key), keys)
    return sorted(found, key=lambda analysis: (analysis.night, analysis.created_at, analysis.run_id))


def _published(output: Path, store: ObjectStore, night: date | str, run_id: str, now: datetime | None) -> Analysis:
    prefix = f"{PREFIX}date={night}/run={run_token(run_id)}"
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
        "date": str(night),
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
    return _read(store, key)


def _fetched(store: ObjectStore, output: str, folder: Path) -> list[str]:
    """Brings what a job wrote into the store to `folder`; returns the keys."""
    prefix = "s3://" + output.removeprefix(_S3A)
    keys = [key for key in store.list(key_of(store, prefix) + "/") if not key.endswith("/")]
    for key in keys:
        target = folder / store.uri_of(key).removeprefix(f"{prefix}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        store.get_to_file(key, target)
    return keys


def _fetched_inputs(
    store: ObjectStore, manifests: Iterable[Manifest], folder: Path
) -> tuple[list[str], list[dict[str, str]]]:
    """The folders of these snapshots below `folder`, and a line of `--problems` for each that could not be fetched."""

    def fetched(manifest: Manifest) -> str | dict[str, str]:
        try:
            return str(fetch_tables(store, manifest, folder))
        except ControllerCoreError as error:
            return _problem(manifest.cluster, manifest.snapshot_id, manifest.date, str(error))

    results = list(at_once(fetched, manifests))
    inputs = [found for found in results if isinstance(found, str)]
    # The job wants an input even where all are damaged; a folder that is not there holds none.
    return inputs or [str(folder / "none")], [found for found in results if isinstance(found, dict)]


def _emptied(output: Path) -> str:
    """The job's local output folder, made anew: `publish` would take what an earlier job left there for this one's.

    Raises:
        BadInputError: it holds files and lacks our mark, so somebody else made them.
    """
    mark = output / _MARK
    if output.exists() and not mark.is_file() and any(output.iterdir()):
        raise BadInputError(
            f"{output} not emptied for a new analysis: expected what an earlier one left, with the file {_MARK}, found files "
            "without it; name another folder, or move them away"
        )
    if output.exists():
        shutil.rmtree(output)
    output.mkdir(parents=True)
    mark.write_text("Results of kafka-maintenance: the next analysis that uses this folder removes them.\n", "utf-8")
    return str(output)


def _emptied_in_store(store: ObjectStore, prefix: str) -> str:
    """Likewise for a job that works in place; the address of its output."""
    for key in store.list(f"{prefix}/"):
        if not key.endswith("/"):
            store.delete(key)
    return _s3a(store.uri_of(prefix))


def _s3a(uri: str) -> str:
    return _S3A + uri.removeprefix(_S3)


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


def _read(store: ObjectStore, key: str) -> Analysis:
    uri = store.uri_of(key)
    try:
        document = json.loads(store.get(key))
        claimed = document.pop("digest")
        analysis = Analysis(
            uri=uri,
            night=document["date"],
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
            f"analysis {uri!r} not read: its manifest is damaged ({type(error).__name__}: {error}); analyse the night again"
        ) from error
    if _digest(document) != claimed:
        raise ObjectDamagedError(f"analysis {uri!r} not read: its manifest was changed; analyse the night again")
    return analysis


def _problem(cluster: str, snapshot_id: str, night: str, reason: str) -> dict[str, str]:
    """A line of the job's `--problems`."""
    return {"cluster": cluster, "snapshot_id": snapshot_id, "date": night, "reason": reason}


def _json_file(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_canonical(document))
    return path


def _canonical(document: object) -> bytes:
    return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()


def _digest(document: object) -> str:
    return hashlib.sha256(_canonical(document)).hexdigest()
