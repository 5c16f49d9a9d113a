"""SQL over the whole history: the decoded tables are fetched once to a local folder; DuckDB or Spark reads them there."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest, partition_rows
from controller_core.adapters.snapshot.znode_rows import ZNODES_TABLE
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from controller_core.model.words import counted
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import BadInputError, listed
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    Unusable,
    fetch_tables,
    fetch_znodes,
    manifest_keys,
    readable_snapshots,
)
from kafka_maintenance.operations.snapshots.local_query import answer as local_answer
from kafka_maintenance.operations.snapshots.local_query import foreign_rows, translated
from kafka_maintenance.operations.snapshots.unreadable import unreadable_text
from kafka_maintenance.servers.cache import locked
from kafka_maintenance.spark.submit import SparkJobError, SparkSettings, run_job, submit_arguments

_CELL_MAX = 60
_NAMES_ZNODES = re.compile(rf"\b{ZNODES_TABLE}\b", re.IGNORECASE)
"""Whether a statement may read the table that is as large as all others together."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows of a query; `cut_off` when there were more than were asked for; over so many `snapshots`.

    `engine` is `duckdb` or `spark`. `passed_over` says why each other snapshot could not be read: the rows lack what it holds. `unreadable` says the same of
    paths that ZooKeeper refused while a snapshot was taken.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut_off: bool
    snapshots: int
    passed_over: tuple[str, ...]
    unreadable: tuple[str, ...] = ()
    engine: str = "spark"


def query_history(
    store: ObjectStore,
    sql: str,
    *,
    folder: Path,
    cluster: str | None = None,
    rows_max: int = 10_000,
    results: Callable[[], Sequence[Path]] = tuple,
    engine: str = "auto",
    settings: SparkSettings | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> QueryResult:
    """Runs one reading statement over all snapshots (of one cluster, where it is given).

    Args:
        store: where the snapshots are.
        sql: a SELECT; docs/snapshots.md lists tables and columns.
        folder: keeps the fetched tables, so that the next query fetches only new snapshots.
        cluster: only its snapshots.
        rows_max: more rows than that are cut off.
        results: fetches the published analyses and gives their folders (`fetch_results`): their results are tables, too, of Spark.
        engine: `duckdb`, `spark`, or `auto`: DuckDB for a statement that means the same to both, else Spark.
        settings: of Spark; where they are given, `auto` is Spark.
        progress: told of each snapshot fetched.

    Calls may share `folder` and overlap: one waits while another fetches, and each works in a folder of its own.

    Raises:
        ObjectMissingError: there are no snapshots.
        ObjectDamagedError: none can be read.
        BadInputError: the engine refuses the statement.
        SparkJobError: Spark does not start or fails; its log is kept then.
    """
    keys = manifest_keys(store, cluster)
    if not keys:
        whose = "" if cluster is None else f" of cluster {cluster!r}"
        raise ObjectMissingError(
            f"query not run: there are no snapshots{whose} in {store.uri!r}; correct name or address, or take one"
        )
    manifests, unusable = readable_snapshots(store, keys)
    znodes = _NAMES_ZNODES.search(sql) is not None
    with locked(folder / "lock"):
        fetch = fetch_znodes if znodes else fetch_tables
        inputs, damaged = _fetched(store, manifests, folder / "snapshots", progress, fetch)
    passed_over = tuple(str(error) for error in (*unusable, *damaged))
    if not inputs:
        raise ObjectDamagedError(
            f"query not run: expected a snapshot in {store.uri!r} that can be read, found {len(passed_over)} that cannot: "
            f"{listed(passed_over)}"
        )
    statement = translated(sql) if engine == "duckdb" or (engine == "auto" and settings is None) else None
    if statement is not None:
        strange = foreign_rows(inputs)
        usable = [path for path in inputs if path not in strange]
        try:
            with tempfile.TemporaryDirectory(prefix="query-", dir=_made(folder / "work")) as scratch:
                found = local_answer(statement, usable, rows_max, scratch=Path(scratch))
        except duckdb.Error as error:
            if engine == "duckdb":
                raise BadInputError(
                    f"query refused by DuckDB: {error}; tables and columns: docs/snapshots.md"
                ) from None
        else:
            return _result(found, (*passed_over, *strange.values()), manifests, "duckdb")
    elif engine == "duckdb":
        raise BadInputError(
            "query not run by DuckDB: expected one SELECT over tables of snapshots, of functions that DuckDB is known to compute as Spark "
            "does; leave the engine out, and Spark runs it"
        )
    arguments = [
        *(part for path in (*inputs, *results()) for part in ("--input", str(path))),
        "--rows-max",
        str(rows_max),
        *(["--znodes"] if znodes else []),
    ]
    found = _answer(sql, arguments, folder / "work", settings=settings, row_count=partition_rows(manifests))
    return _result(found, passed_over, manifests, "spark")


def _result(
    found: Mapping[str, Any], passed_over: Sequence[str], manifests: Sequence[Manifest], engine: str
) -> QueryResult:
    return QueryResult(
        tuple(found["columns"]),
        tuple(found["types"]),
        tuple(tuple(row) for row in found["rows"]),
        bool(found["cut_off"]),
        int(found["snapshots"]),
        tuple(passed_over),
        tuple(unreadable_text(manifests)),
        engine,
    )


def _fetched(
    store: ObjectStore,
    manifests: Sequence[Manifest],
    folder: Path,
    progress: Callable[[str], None],
    fetch_one: Callable[[ObjectStore, Manifest, Path], Path],
) -> tuple[list[Path], list[Unusable]]:
    """The folders of these snapshots below `folder`; and why the others cannot be fetched."""

    def fetch(manifest: Manifest) -> Path | Unusable:
        try:
            return fetch_one(store, manifest, folder)
        except UNUSABLE as error:
            return error

    inputs: list[Path] = []
    damaged: list[Unusable] = []
    for number, result in enumerate(at_once(fetch, manifests), start=1):
        if isinstance(result, Path):
            inputs.append(result)
        else:
            damaged.append(result)
        progress(f"{number} of {len(manifests)} snapshots fetched")
    return inputs, damaged


def _answer(
    sql: str, arguments: Sequence[str], folder: Path, *, settings: SparkSettings | None, row_count: int
) -> dict[str, Any]:
    """The document that the job writes, in a folder of its own below `folder`; errors of Spark: see `query_history`."""
    work = Path(tempfile.mkdtemp(prefix="query-", dir=_made(folder)))
    sql_file, arguments_file, output, log = (
        work / name for name in ("query.sql", "arguments", "result.json", "query.log")
    )
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, work)
        sql_file.write_text(sql, encoding="utf-8")
        given = [*arguments, "--sql-file", str(sql_file), "--output", str(output)]
        arguments_file.write_text("\n".join(given), encoding="utf-8")
        submit = submit_arguments(
            "query", [f"@{arguments_file}"], work_folder=work, settings=settings, row_count=row_count
        )
        try:
            run_job(submit, log)
        except SparkJobError:
            refusals = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("query: ")]
            if refusals:
                raise BadInputError(
                    f"{refusals[0].removeprefix('query: ')}; tables and columns: docs/snapshots.md"
                ) from None
            cleanup.pop_all()  # the message names the log
            raise
        return dict(json.loads(output.read_bytes()))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def query_text(result: QueryResult) -> str:
    """The rows as a table for people."""
    cells = query_cells(result)
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(result.columns)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    head = "  ".join(name.ljust(width) for name, width in zip(result.columns, widths, strict=True)).rstrip()
    return "\n".join([head, "  ".join("-" * width for width in widths), *lines, *query_remarks(result)])


def query_cells(result: QueryResult) -> list[list[str]]:
    """The rows as text; a long value is cut."""
    return [[_shown(value) for value in row] for row in result.rows]


def query_remarks(result: QueryResult) -> list[str]:
    """How many rows of how many snapshots, and what is not among them."""
    count = f"{counted(len(result.rows), 'row')}{' (cut off)' if result.cut_off else ''} from {counted(result.snapshots, 'snapshot')}"
    return [count, *(f"passed over: {reason}" for reason in result.passed_over), *result.unreadable]


def _shown(value: Any) -> str:
    text = "" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _CELL_MAX else f"{text[: _CELL_MAX - 1]}…"
