"""SQL over the whole history: the decoded tables are fetched once to a local folder, Spark reads them there."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller_core.adapters.object_store import ObjectStore
from controller_core.errors import ObjectMissingError
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.snapshot_manifest import partition_rows
from kafka_maintenance.operations.snapshots import at_once, fetch_tables, list_snapshots, opened
from kafka_maintenance.spark import SparkJobError, SparkSettings, run_job, submit_arguments

_CELL_MAX = 60


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows of a query; `cut_off` when there were more than were asked for; over so many `snapshots`."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut_off: bool
    snapshots: int


def query_history(
    store: ObjectStore | str,
    sql: str,
    *,
    folder: Path,
    cluster: str | None = None,
    rows_max: int = 10_000,
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
        settings: of Spark.
        progress: told of each snapshot fetched.

    Errors: `ObjectMissingError` when there are no snapshots, `BadInputError` when Spark refuses the statement,
    `ObjectDamagedError` when a table is damaged, `SparkJobError` when Spark does not start.
    """
    store = opened(store)
    manifests = list_snapshots(store, cluster)
    if not manifests:
        raise ObjectMissingError(f"query not run: there are no snapshots in {store.uri!r}; take one")
    inputs: list[str] = []
    fetched = at_once(lambda manifest: fetch_tables(store, manifest, folder / "snapshots"), manifests)
    for number, snapshot in enumerate(fetched, start=1):
        inputs += ["--input", str(snapshot)]
        progress(f"{number} of {len(manifests)} snapshots fetched")
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    sql_file, arguments_file, output, log = (
        work / name for name in ("query.sql", "arguments", "result.json", "query.log")
    )
    sql_file.write_text(sql, encoding="utf-8")
    output.unlink(missing_ok=True)
    arguments = [*inputs, "--sql-file", str(sql_file), "--output", str(output), "--rows-max", str(rows_max)]
    arguments_file.write_text("\n".join(arguments), encoding="utf-8")
    rows = partition_rows(manifests)
    submit = submit_arguments("query", [f"@{arguments_file}"], work_folder=work, settings=settings, row_count=rows)
    try:
        run_job(submit, log)
    except SparkJobError:
        refusals = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("query: ")]
        if refusals:
            raise BadInputError(
                f"{refusals[0].removeprefix('query: ')}; tables and columns: docs/snapshots.md"
            ) from None
        raise
    found = json.loads(output.read_bytes())
    return QueryResult(
        tuple(found["columns"]),
        tuple(found["types"]),
        tuple(tuple(row) for row in found["rows"]),
        bool(found["cut_off"]),
        int(found["snapshots"]),
    )


def query_text(result: QueryResult) -> str:
    """The rows as a table for people."""
    cells = [[_shown(value) for value in row] for row in result.rows]
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(result.columns)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    head = "  ".join(name.ljust(width) for name, width in zip(result.columns, widths, strict=True)).rstrip()
    tail = f"{len(cells)} rows{' (cut off)' if result.cut_off else ''} from {result.snapshots} snapshots"
    return "\n".join([head, "  ".join("-" * width for width in widths), *lines, tail])


def _shown(value: Any) -> str:
    text = "" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _CELL_MAX else f"{text[: _CELL_MAX - 1]}…"
