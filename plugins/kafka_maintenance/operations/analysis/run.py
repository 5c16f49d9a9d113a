"""The daily analysis around its Spark job: snapshots staged where Spark reads them, the job run, its results published.

The job itself is `spark_jobs/nightly_analysis.py`, started with `kafka_maintenance.spark.submit.submit_arguments`; what becomes of
its results says `published_analyses`.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from controller_core.adapters.local_file import write_whole
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import MANIFEST, RAW, Manifest, partition_rows, run_token
from controller_core.adapters.snapshot.tables import TABLES
from controller_core.model.errors import ControllerCoreError, ObjectDamagedError, ObjectMissingError
from kafka_maintenance.operations.analysis.changed import changed_since
from kafka_maintenance.operations.analysis.disks import newest_disks
from kafka_maintenance.operations.analysis.published import S3, S3A, Analysis, publish
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import BadInputError, OperationError
from kafka_maintenance.operations.snapshots import compact
from kafka_maintenance.operations.snapshots.catalog import checked_object, fetch_tables, read_manifest
from kafka_maintenance.operations.snapshots.choice import HISTORY_DAYS, beside, earlier_snapshots
from kafka_maintenance.servers.own_folder import holds_foreign_files, make_anew, private_folder
from kafka_maintenance.spark import submit as spark

JOB: Final = "nightly_analysis"
LOG: Final = "spark.log"
"""What the job printed, in the folder of the analysis."""
UNPUBLISHED: Final = "unpublished/"
"""Where a job on a cluster leaves its results, by the date on which it was begun; nothing there is read but by `publish`."""
_FORGOTTEN_AFTER: Final = timedelta(days=7)
"""Nothing runs so long: what lies there since then was left by a run that failed, or was killed."""
_BAD_INPUT_STATUS: Final = 2
OF_HISTORY: Final = ("partitions", "brokers", "cluster")
"""`spark_jobs.schemas.OF_HISTORY`, which is imported with Spark only."""
_OUTPUT: Final = "output"
_MARK: Final = ".kafka-maintenance"
"""Lies in a local output folder; without it nothing there is removed."""


class AnalysisFailedError(OperationError):
    """The Spark job ended without results; its log is named."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Snapshots where Spark reads them, how many partition rows they hold, and the job's arguments; it fills `output`.

    `output` is a local folder, or an address `s3a://…` inside the store when the job works in place.
    """

    folder: Path
    output: str
    arguments: tuple[str, ...]
    row_count: int


def stage(
    store: ObjectStore,
    manifests: Sequence[Manifest | str],
    folder: Path,
    *,
    run_id: str,
    day: date | str | None = None,
    history_days: int = HISTORY_DAYS,
    settings: Mapping[str, Any] | None = None,
    goals: Mapping[str, Any] | None = None,
    missing: Mapping[str, str] | None = None,
    in_place: bool = False,
) -> Staged:
    """Fetches the chosen snapshots and those of the dates before; every byte is checked.

    With `in_place` nothing is fetched: a Spark cluster reads them from the S3 store, `works_in_place` says when. The job
    gets these snapshots and no others that lie in `folder`; what an earlier job left in its output is removed.

    Args:
        store: where the snapshots are.
        manifests: the chosen ones, or their addresses, one per cluster.
        folder: gets `input`, `output` and the job's parameter files; made when absent.
        run_id: names the run in the report.
        day: the date to analyse; that of the newest chosen snapshot when not given.
        history_days: dates of comparison and trend, the analysed one included; 1 to `HISTORY_DAYS_MAX`.
        settings: versions and broker configs by cluster, as `spark_jobs.settings` reads them.
        goals: the planner's parameters.
        missing: cluster → why nothing of it was chosen, where one was expected; the report says so.
        in_place: leave the snapshots in the store, and let the job write beside them.

    Returns:
        Where everything is. A snapshot that is damaged does not stop the others: the report names it, also one of the
        date whose place an older one took.

    Raises:
        BadInputError: nothing was chosen, `history_days` is invalid, or `folder` holds somebody's files.
        ObjectMissingError: a chosen manifest is not there.
        OSError: `folder` takes no more; a task is tried again after it.
    """
    chosen = [read_manifest(store, one) if isinstance(one, str) else one for one in manifests]
    if not chosen:
        raise BadInputError("nothing staged: expected the manifest of at least one snapshot, found none; choose some")
    day = str(day) if day is not None else max(manifest.date for manifest in chosen)
    clusters = [manifest.cluster for manifest in chosen]
    others = dict(zip(clusters, at_once(lambda one: beside(store, one), chosen), strict=True))
    problems = [
        _problem(cluster, "", day, reason)
        for found in (missing or {}, {cluster: found.unusable for cluster, found in others.items() if found.unusable})
        for cluster, reason in sorted(found.items())
    ]
    earlier, unusable = earlier_snapshots(store, clusters, day, history_days)
    problems += [_problem(cluster, "", of_day, reason) for (cluster, of_day), reason in unusable.items()]
    whole = _whole(earlier, chosen)
    slim = [each for each in earlier if each.uri not in whole]
    unpublished = _unpublished(store, run_id) if in_place else None
    with _writing_below(folder):
        _empty(folder)
        compacts, covered = _compact(store, slim, folder, unpublished)
        wanted = [each for each in (*earlier, *chosen) if each.uri not in covered]
        if unpublished is not None:
            output = _s3a(store.uri_of(unpublished))
            older = [each for found in others.values() for each in found.older]  # the job looks for damage
            inputs = [_s3a(manifest.uri.removesuffix(f"/{MANIFEST}")) for manifest in (*older, *wanted)]
            verified = []
        else:
            output = str(folder / _OUTPUT)
            tables = {uri: tuple(TABLES) for uri in whole} | {each.uri: (*TABLES, RAW) for each in chosen}
            inputs, unfetched = _fetched_inputs(store, wanted, tables, folder / "input")
            problems += unfetched
            verified = ["--verified"]
        (folder / "inputs").write_text("\n".join(("--input", *inputs)), encoding="utf-8")
        files = {
            "--settings": _json_file(folder / "settings.json", settings or {}),
            "--goals": _json_file(folder / "goals.json", goals or {}),
            "--problems": _json_file(folder / "problems.json", problems),
            "--disks": _json_file(folder / "disks.json", _disks(store, chosen, day, folder, in_place=in_place)),
            "--compact": _json_file(folder / "compact.json", compacts),
            "--changed": _json_file(folder / "changed.json", changed_since(store, earlier, chosen)),
        }
    arguments = (
        *(f"@{folder / 'inputs'}", "--output", output, "--run", run_id, "--date", day),
        *("--history-days", str(history_days), *verified),
        *(part for name, path in files.items() for part in (name, str(path))),
    )
    return Staged(folder, output, arguments, partition_rows((*earlier, *chosen)))


def folder_of_try(scratch: Path, run: str) -> Path:
    """Where a try of the analysis stages: below `scratch`, empty, with a name that is derived, since it is removed afterwards.

    Raises:
        LocalStackError: `scratch` is not ours alone.
    """
    folder = private_folder(scratch) / run_token(run)
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def remove_abandoned(scratch: Path, before: datetime) -> list[Path]:
    """Removes the folders below `scratch` that `stage` filled before that time, and nobody removed: their runs failed.

    Only folders with our mark; what cannot be removed stays. Returns the removed ones.
    """
    removed = []
    for mark in sorted(scratch.glob(f"*/{_OUTPUT}/{_MARK}")):
        folder = mark.parent.parent
        with suppress(OSError):  # another run removes the same
            if datetime.fromtimestamp(mark.stat().st_mtime, UTC) < before:
                shutil.rmtree(folder)
                removed.append(folder)
    return removed


def remove_unpublished(store: ObjectStore, run_id: str) -> None:
    """Removes what a job that worked in place has left of a run: nobody publishes it any more."""
    own = _below_run(run_id)
    _remove_unpublished(store, lambda key: own in key)


def works_in_place(store: ObjectStore, settings: spark.SparkSettings) -> bool:
    """Whether the job reads and writes the store itself: its workers are elsewhere, and the store is S3.

    A store that is a folder is staged for a cluster, too; the scratch folder must then be one that its workers share.
    """
    return not settings.local and store.uri.startswith(S3)


def analyse(
    store: ObjectStore,
    manifests: Sequence[Manifest | str],
    folder: Path,
    *,
    run_id: str,
    day: date | str,
    spark_settings: spark.SparkSettings | None = None,
    now: datetime | None = None,
    fail_if_incomplete: bool = False,
    **options: Any,
) -> Analysis:
    """Stage, Spark job and publish in one call, as the command does it; `options`: see `stage`.

    Args:
        store: of snapshots, plans and records.
        manifests: of the snapshots, at most one per cluster.
        folder: of this machine, for the job's input and output.
        run_id: names the run in the store.
        day: whose state is analysed.
        spark_settings: None: the defaults.
        now: the time for the record, UTC; None: the clock's.
        fail_if_incomplete: an analysis that leaves a cluster out is an error.
        **options: see `stage`.

    Raises:
        AnalysisFailedError: the Spark job failed; nothing was published.
        AnalysisIncompleteError: see `publish`.
        BadInputError, ObjectStoreError: see `stage` and `publish`.
    """
    spark_settings = spark_settings or spark.SparkSettings()
    in_place = works_in_place(store, spark_settings)
    staged = stage(store, manifests, folder, run_id=run_id, day=day, in_place=in_place, **options)
    submit = spark.submit_arguments(
        JOB, staged.arguments, work_folder=folder / "spark", settings=spark_settings, row_count=staged.row_count
    )
    try:
        spark.run_job(submit, folder / LOG)
    except spark.SparkJobError as error:
        failure = BadInputError if error.status == _BAD_INPUT_STATUS else AnalysisFailedError
        raise failure(f"date {day} not analysed, nothing published: {error}") from error
    return publish(staged.output, store, day=day, run_id=run_id, now=now, fail_if_incomplete=fail_if_incomplete)


@contextmanager
def _writing_below(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            f"analysis not begun: files of its job not written below {folder}, a folder of this machine and not the store: "
            f"{error.strerror or error}; make room there, or name another folder (--folder, in Airflow KAFKA_MAINTENANCE_SCRATCH), then run again"
        ) from error


def _whole(earlier: Iterable[Manifest], chosen: Iterable[Manifest]) -> frozenset[str]:
    """Addresses of the snapshots of which every table is read: the chosen ones, and the newest earlier one of each cluster."""
    newest = {manifest.cluster: manifest for manifest in sorted(earlier, key=lambda one: one.taken_at)}
    return frozenset(manifest.uri for manifest in (*newest.values(), *chosen))


def _fetched_inputs(
    store: ObjectStore, manifests: Iterable[Manifest], tables: Mapping[str, tuple[str, ...]], folder: Path
) -> tuple[list[str], list[dict[str, str]]]:
    """The folders of these snapshots below `folder`, and a line of `--problems` for each that could not be fetched.

    Where one could not, an older one of its cluster and date takes its place, if there is one.
    `tables`: address → what is fetched of it; of the others it is what the history reads.
    """

    def in_question(manifest: Manifest) -> Iterator[Manifest]:
        yield manifest
        yield from beside(store, manifest).older

    def fetched(manifest: Manifest) -> tuple[list[str], list[dict[str, str]]]:
        wanted, lost = tables.get(manifest.uri, OF_HISTORY), list[dict[str, str]]()
        for each in in_question(manifest):
            try:
                return [str(fetch_tables(store, each, folder, wanted))], lost
            except ControllerCoreError as error:
                lost.append(_problem(each.cluster, each.snapshot_id, each.date, str(error)))
        return [], lost

    results = list(at_once(fetched, manifests))
    inputs = [path for paths, _ in results for path in paths]
    # The job wants an input even where all are damaged; a folder that is not there holds none.
    return inputs or [str(folder / "none")], [problem for _, lost in results for problem in lost]


def _disks(store: ObjectStore, chosen: Iterable[Manifest], day: str, folder: Path, *, in_place: bool) -> list[str]:
    """What `--disks` says: the newest measurement of each cluster of that date, where there is one."""
    measured = newest_disks(store, [manifest.cluster for manifest in chosen], day)
    if in_place:
        return [_s3a(store.uri_of(key)) for key, _ in measured.values()]
    for key, content in measured.values():
        write_whole(folder / "disks" / key, content)
    return [str(folder / "disks" / key) for key, _ in measured.values()]


def _compact(
    store: ObjectStore, manifests: Iterable[Manifest], folder: Path, unpublished: str | None
) -> tuple[dict[str, Any], frozenset[str]]:
    """What `--compact` says of these snapshots, and the addresses of those that need not be read one by one.

    Every byte is checked here. A compact history that is damaged is passed over. A run that works in place gets copies of its own
    in the store, where nothing else is then: whoever makes a month anew removes the files of before.
    """

    def brought(one: tuple[compact.Compact, tuple[Manifest, ...]]) -> dict[str, str] | None:
        files = {}
        try:
            for stored in one[0].objects:
                content = checked_object(store, stored)
                if unpublished is not None:
                    copy = f"{unpublished}/compact/{stored.key}"
                    store.put(copy, content)
                    files[stored.table] = _s3a(store.uri_of(copy))
                else:
                    path = folder / "compact" / stored.key
                    write_whole(path, content)
                    files[stored.table] = str(path)
        except (ObjectDamagedError, ObjectMissingError):
            return None
        return files if files.keys() >= set(OF_HISTORY) else None

    found = compact.compacts_for(store, manifests)
    pairs = [(files, one[1]) for files, one in zip(at_once(brought, found), found, strict=True) if files is not None]
    held = [manifest for _, covered in pairs for manifest in covered]
    return {
        "snapshots": [[manifest.cluster, manifest.snapshot_id] for manifest in held],
        "files": {table: [files[table] for files, _ in pairs] for table in OF_HISTORY},
    }, frozenset(manifest.uri for manifest in held)


def _empty(folder: Path) -> None:
    """The job's local output folder, made anew: `publish` would take what an earlier job left there for this one's.

    Raises:
        BadInputError: the folder holds files and no output with our mark, so somebody else made them.
    """
    if holds_foreign_files(folder, f"{_OUTPUT}/{_MARK}"):
        raise BadInputError(
            f"{folder} not taken for a new analysis: expected an empty folder, or what an earlier one left, with the file {_OUTPUT}/{_MARK}, found "
            "files without it; name another folder, or move them away"
        )
    make_anew(
        folder / _OUTPUT, _MARK, "Results of kafka-maintenance: the next analysis that uses this folder removes them.\n"
    )


def _unpublished(store: ObjectStore, run_id: str) -> str:
    """Where a run that is begun now leaves what it makes: nothing lies there, and nothing of runs that nobody will end."""
    own, dated, today = _below_run(run_id), f"{UNPUBLISHED}date=", datetime.now(UTC).date()
    first_kept = f"{dated}{today - _FORGOTTEN_AFTER}"
    _remove_unpublished(store, lambda key: own in key or (key.startswith(dated) and key < first_kept))
    return f"{dated}{today}{own.removesuffix('/')}"


def _below_run(run_id: str) -> str:
    return f"/run={run_token(run_id)}/"


def _remove_unpublished(store: ObjectStore, is_over: Callable[[str], bool]) -> None:
    for key in store.list(UNPUBLISHED):
        if is_over(key) and not key.endswith("/"):
            store.delete(key)


def _s3a(uri: str) -> str:
    return S3A + uri.removeprefix(S3)


def _problem(cluster: str, snapshot_id: str, day: str, reason: str) -> dict[str, str]:
    """A line of the job's `--problems`."""
    return {"cluster": cluster, "snapshot_id": snapshot_id, "date": day, "reason": reason}


def _json_file(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, sort_keys=True, indent=1) + "\n", encoding="utf-8")
    return path
