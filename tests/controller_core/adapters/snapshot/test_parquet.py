"""Parquet files of snapshots: read in parts, and refused where they hold more than any of ours."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller_core.adapters.snapshot import parquet as snapshot_parquet
from controller_core.adapters.snapshot.format import raw_from_parquet, raw_to_parquet
from controller_core.adapters.snapshot.parquet import table_from_parquet, table_to_parquet
from controller_core.adapters.snapshot.tables import RAW
from controller_core.model.errors import ObjectDamagedError


def test_a_file_that_decompresses_to_more_than_any_of_ours_is_not_read(monkeypatch):
    content = table_to_parquet(pa.table({"x": [b"0" * 1000] * 1000}))
    assert len(content) < 10_000
    assert table_from_parquet(content, "x").num_rows == 1000
    monkeypatch.setattr(snapshot_parquet, "ROWS_MAX", 999)
    with pytest.raises(ObjectDamagedError, match=r"its footer says .* and 1000 rows"):
        table_from_parquet(content, "x")
    monkeypatch.undo()
    monkeypatch.setattr(snapshot_parquet, "UNCOMPRESSED_BYTES_MAX", 500)
    with pytest.raises(ObjectDamagedError, match="expected at most 500 bytes"):
        table_from_parquet(content, "x")


_TEXTS = ["0" * 1000] * 3000
_MILLION = 1 << 20


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        pytest.param({"x": _TEXTS}, {}, "found more, though its footer says less", id="a dictionary"),
        pytest.param({"x": [_TEXTS]}, {}, "found more, though its footer says less", id="lists of a dictionary"),
        pytest.param(
            {"x": [[{"t": text}] for text in _TEXTS]}, {}, "found more, though", id="lists of structs of a dictionary"
        ),
        pytest.param(
            {"x": _TEXTS},
            {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}},
            "found more, though its footer says less",
            id="prefixes",
        ),
        pytest.param(
            {"x": [_TEXTS]},
            {"use_dictionary": False, "column_encoding": {"x.list.element": "DELTA_BYTE_ARRAY"}},
            "expected no lists of texts with prefixes",
            id="lists of texts with prefixes",
        ),
        pytest.param({"x": [[1] * _MILLION]}, {}, f"1 rows of {_MILLION} values", id="a list of many numbers"),
    ],
)
def test_a_small_file_that_gives_one_value_to_many_rows_is_not_read(columns, options, message, monkeypatch):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd", **options)
    content = sink.getvalue().to_pybytes()
    monkeypatch.setattr(snapshot_parquet, "UNCOMPRESSED_BYTES_MAX", _MILLION)
    with pytest.raises(ObjectDamagedError, match=message):
        table_from_parquet(content, "x")


@pytest.mark.parametrize(
    "few_values", [True, False], ids=["few values", "so many that their writer left its dictionary"]
)
def test_a_table_read_in_parts_is_the_table(monkeypatch, few_values):
    numbers = range(100)
    table = pa.table(
        {
            "path": [f"/brokers/topics/t{number // 10}/{number}" for number in numbers],
            "list": [[None, f"{number}"] if number % 3 else None for number in numbers],
            "number": list(numbers),
            "text": [f"{number % 4}" if number % 5 else None for number in numbers],
        }
    ).replace_schema_metadata({"format_version": "1"})
    sink = pa.BufferOutputStream()
    coded = {"use_dictionary": ["list", "text"], "column_encoding": {"path": "DELTA_BYTE_ARRAY"}}
    pq.write_table(table, sink, row_group_size=30, **coded)
    monkeypatch.setattr(snapshot_parquet, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(snapshot_parquet, "_PART_BYTES", 1000)
    monkeypatch.setattr(snapshot_parquet, "_DICTIONARY_BYTES", 1000 if few_values else 0)
    content = sink.getvalue().to_pybytes()
    whole = pq.read_table(pa.BufferReader(content))
    found = table_from_parquet(content, "x")
    assert found.equals(whole, check_metadata=True)
    assert found["number"].num_chunks > 4
    assert (found["path"].num_chunks > found["text"].num_chunks) is few_values
    assert table_from_parquet(content, "x", ["text", "path"]).equals(whole.select(["path", "text"]))
    assert table_from_parquet(table_to_parquet(whole[:0]), "x").equals(whole[:0], check_metadata=True)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda table: table.set_column(0, "path", pa.array([{"a": 1}])), id="another type"),
        pytest.param(lambda table: table.set_column(0, "path", pa.array([None], pa.string())), id="a null"),
        pytest.param(lambda table: table.append_column("path", table["path"]), id="a name twice"),
    ],
)
def test_a_raw_layer_of_other_columns_is_damaged(change):
    row = dict.fromkeys(RAW.names) | {"path": "/a"}
    with pytest.raises(ObjectDamagedError, match="'x' not read"):
        raw_from_parquet(raw_to_parquet(change(pa.Table.from_pylist([row], schema=RAW))), "x")
