"""A query of snapshots without Spark: DuckDB runs what is known to mean the same there.

A statement is Spark SQL. sqlglot translates it, and DuckDB runs it only where it is one SELECT over snapshot tables of which every part is in
`PARTS` and every function in `FUNCTIONS`: of these a test compares the answers of both engines. Anything else is Spark's to run, or to refuse.
Source: docs/history.md, "Ten questions"; docs/adr/0015-questions-by-duckdb.md.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from controller_core.adapters.snapshot.tables import TABLES, ZNODES
from controller_core.adapters.snapshot.znode_rows import ZNODES_TABLE
from spark_jobs.json_values import as_json

SNAPSHOTS: Final = "snapshots"
FUNCTIONS: Final = frozenset(
    {
        *(
            "And",
            "ArrayAgg",
            "ArrayContains",
            "ArraySize",
            "Avg",
            "Case",
            "Coalesce",
            "Count",
            "CountIf",
            "Exists",
            "Explode",
        ),
        *(
            "First",
            "If",
            "Lag",
            "Lead",
            "Length",
            "Lower",
            "Max",
            "Min",
            "Or",
            "Round",
            "RowNumber",
            "Sum",
            "TsOrDsAdd",
            "Upper",
        ),
    }
)
"""sqlglot's names of the functions that both engines compute alike, on the columns that snapshots have."""
PARTS: Final = frozenset(
    {
        *(
            "Add",
            "Alias",
            "Between",
            "Boolean",
            "CTE",
            "Column",
            "Distinct",
            "Div",
            "EQ",
            "Except",
            "Exists",
            "From",
            "GT",
            "GTE",
        ),
        *(
            "Group",
            "Having",
            "Identifier",
            "In",
            "Intersect",
            "Is",
            "Join",
            "LT",
            "LTE",
            "Like",
            "Limit",
            "Literal",
            "Mul",
            "NEQ",
        ),
        *(
            "Neg",
            "Not",
            "Null",
            "Offset",
            "Order",
            "Ordered",
            "Paren",
            "Select",
            "Star",
            "Sub",
            "Subquery",
            "Table",
            "TableAlias",
        ),
        *("Union", "Var", "Where", "Window", "With"),
    }
)
"""sqlglot's names of the other parts of such a statement."""
_SCHEMAS: Final = {**TABLES, ZNODES_TABLE: ZNODES}
_SNAPSHOT_COLUMNS: Final = ("date", "cluster", "snapshot_id", "taken_at", "zxid", "consistent", "kafka_cluster_id")
_OWNER: Final = {"cluster": "cluster", "snapshot_id": "snap"}
_SPARK_TYPES: Final[Mapping[str, str]] = {
    "BIGINT": "bigint",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "DOUBLE": "double",
    "HUGEINT": "bigint",  # DuckDB's sum of integers, a bigint to Spark
    "INTEGER": "int",
    "INTERVAL": "interval day to second",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "VARCHAR": "string",
}


def translated(sql: str) -> str | None:
    """The statement for DuckDB; None where it has something that both engines are not known to compute alike."""
    try:
        statements = sqlglot.parse(sql, read="spark")
    except (SqlglotError, RecursionError):
        return None
    tree = statements[0] if len(statements) == 1 else None
    if not isinstance(tree, exp.Query):
        return None
    tables = {*_SCHEMAS, SNAPSHOTS, *(each.alias_or_name for each in tree.find_all(exp.CTE))}
    if not all(_is_known(node, tables) for node in tree.walk()):
        return None
    for node in reversed(list(tree.walk())):  # the innermost first, since each is replaced with a copy
        node.replace(_as_spark(node))
    return tree.sql(dialect="duckdb")


def _is_known(node: exp.Expr, tables: set[str]) -> bool:
    kind = type(node).__name__
    if isinstance(node, exp.Table):
        return isinstance(node.this, exp.Identifier) and not node.db and not node.catalog and node.name in tables
    if isinstance(node, exp.Div):
        return _divides_by_a_number(node)
    if isinstance(node, exp.Sub) and _names_date(node.this) and _names_date(node.expression):
        return False  # days to DuckDB, an interval to Spark
    return kind in (FUNCTIONS if isinstance(node, exp.Func) else PARTS)


def _names_date(node: exp.Expr) -> bool:
    return any(column.name == "date" for column in node.find_all(exp.Column))


def _divides_by_a_number(node: exp.Div) -> bool:
    """By a number other than 0, or by the rows of a group. Spark fails at 0 / 0, DuckDB's answer is null."""
    divisor, select = node.expression, node.find_ancestor(exp.Select)
    if isinstance(divisor, exp.Literal):
        return bool(divisor.is_number and float(divisor.this))
    grouped = select is not None and select.args.get("group") is not None
    return grouped and isinstance(divisor, exp.Count) and isinstance(divisor.this, exp.Star)


def _as_spark(node: exp.Expr) -> exp.Expr:
    """What DuckDB computes as Spark does `node`: a count of nulls is 0, sizes and row numbers are ints, a date stays a date."""
    match node:
        case exp.CountIf():
            return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this.copy()))
        case exp.TsOrDsAdd():
            return exp.cast(node.copy(), exp.DType.DATE)
        case exp.ArraySize() | exp.Length() | exp.Window(this=exp.RowNumber()):
            return exp.cast(node.copy(), exp.DType.INT)
        case _:
            return node


def answer(sql: str, inputs: Sequence[Path], rows_max: int, *, scratch: Path) -> dict[str, Any]:
    """The answer to a translated statement, in the form that Spark's job writes.

    Args:
        sql: as `translated` gave it.
        inputs: folders of snapshots, as `fetch_tables` leaves them.
        rows_max: more rows than that are cut off.
        scratch: gets what does not fit into memory; without it that would lie in the current folder, for everybody to read.

    Raises:
        duckdb.Error: the tables have other columns than expected, or the statement does not fit them.
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET temp_directory = {_text(str(scratch))}")
        for table in _SCHEMAS:
            _table(connection, table, inputs).create_view(table)
        known = [duckdb.ColumnExpression(name) for name in _SNAPSHOT_COLUMNS]
        connection.table("cluster").select(*known).create_view(SNAPSHOTS)
        connection.execute(f"SET allowed_directories = {_list([f'{path}/' for path in inputs])}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        found = connection.execute(sql)
        columns = found.description or []
        rows = found.fetchmany(rows_max + 1)
    return {
        "columns": [name for name, *_ in columns],
        "types": [_spark_type(str(kind)) for _, kind, *_ in columns],
        "rows": [[as_json(value) for value in row] for row in rows[:rows_max]],
        "cut_off": len(rows) > rows_max,
        "snapshots": len(inputs),
    }


def _table(connection: duckdb.DuckDBPyConnection, table: str, inputs: Sequence[Path]) -> duckdb.DuckDBPyRelation:
    """The table of all snapshots with `date` and the columns of today; those that came later are null in earlier snapshots."""
    files = [str(path / f"{table}.parquet") for path in inputs if (path / f"{table}.parquet").is_file()]
    if files:
        rows = connection.read_parquet(files, union_by_name=True, hive_partitioning=False)
    else:
        rows = connection.from_arrow(_SCHEMAS[table].empty_table())
    there = set(rows.columns)
    columns = [
        (duckdb.ColumnExpression(field.name) if field.name in there else duckdb.ConstantExpression(None))
        .cast(duckdb.type(_DUCKDB_TYPES[str(field.type)]))
        .alias(field.name)
        for field in _SCHEMAS[table]
    ]
    return rows.select(duckdb.ColumnExpression("taken_at").cast(duckdb.type("DATE")).alias("date"), *columns)


def foreign_rows(inputs: Sequence[Path]) -> dict[Path, str]:
    """The folders of which a table holds rows of another cluster or snapshot than they name, by Parquet's statistics, and which."""
    files = [str(file) for path in inputs for file in path.glob("*.parquet")]
    if not files:
        return {}
    with duckdb.connect() as connection:
        told = connection.execute(
            "SELECT DISTINCT file_name, path_in_schema, stats_min_value, stats_max_value FROM parquet_metadata(?) "
            "WHERE path_in_schema IN ('cluster', 'snapshot_id') AND stats_min_value IS NOT NULL",
            [files],
        ).fetchall()
    found = {}
    for file, column, *values in told:
        named = _part(file, _OWNER[column])
        if set(values) != {named}:
            found[Path(file).parent] = f"{file} holds rows of {column} {values[0]!r}, expected {named!r} only"
    return found


def _part(path: str, name: str) -> str:
    return next(part.partition("=")[2] for part in Path(path).parts if part.startswith(f"{name}="))


def _list(texts: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, texts)) + "]"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_DUCKDB_TYPES: Final[Mapping[str, str]] = {
    "string": "VARCHAR",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
    "list<item: int32>": "INTEGER[]",
    "list<item: string>": "VARCHAR[]",
}


def _spark_type(kind: str) -> str:
    if kind.endswith("[]"):
        return f"array<{_spark_type(kind.removesuffix('[]'))}>"
    return _SPARK_TYPES.get(kind, kind.lower())
