"""Tables as Parquet files, read within bounds whoever wrote them.

Workers of Spark import this, too, so nothing of it needs ZooKeeper's client. Source: docs/snapshots.md, "What is stored".
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from controller_core.model.errors import ObjectDamagedError

UNCOMPRESSED_BYTES_MAX: Final = 4 << 30
ROWS_MAX: Final = 50_000_000
"""What a file may hold; the raw layer of 1,000,000 partitions is a tenth of either."""
_VALUE_BYTES: Final = 8
_ROWS_AT_ONCE: Final = 16_384
_PART_BYTES: Final = 1 << 30
_DICTIONARY_BYTES: Final = 1 << 22


def table_to_parquet(table: pa.Table) -> bytes:
    """A decoded table as a file; small ones are common, so nothing but compression is tuned."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=3)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def table_from_parquet(content: bytes, uri: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The table in a Parquet file, or those of its columns; `ObjectDamagedError` when it is none, or cut off, or larger than any of ours."""
    footer = require_bounded(content, uri)
    try:
        return _decoded(content, uri, footer, columns)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _no_parquet(uri, error) from error


def require_bounded(content: bytes, uri: str) -> pq.FileMetaData:
    """Refuses a Parquet file whose footer says that it is larger than any of ours, before anything of it is decompressed; the footer.

    Raises:
        ObjectDamagedError: it is, or it is no whole Parquet file.
    """
    try:
        footer = pq.read_metadata(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(uri, error) from error
    size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    values = sum(chunk.num_values for chunk in _chunks(footer))  # in a few bytes, a row may have a list of many
    if size > UNCOMPRESSED_BYTES_MAX or footer.num_rows > ROWS_MAX or values * _VALUE_BYTES > UNCOMPRESSED_BYTES_MAX:
        raise ObjectDamagedError(
            f"object {uri!r} not read: expected at most {UNCOMPRESSED_BYTES_MAX} bytes and {ROWS_MAX} rows uncompressed, its footer says "
            f"{size} bytes and {footer.num_rows} rows of {values} values; find out who wrote it, and use another snapshot or analysis"
        )
    return footer


def _decoded(content: bytes, uri: str, footer: pq.FileMetaData, columns: Sequence[str] | None) -> pa.Table:
    """The table: a footer counts a text once that a dictionary, or the prefix of the text before, gives to many rows.

    So texts of a dictionary are counted before they are written out. Few rows at a time are read of texts with prefixes, and of those with
    so many values that a writer left its dictionary, whose making anew would take longer.
    """
    plain = footer.schema.to_arrow_schema()
    names = [name for name in plain.names if columns is None or name in columns]
    texts = [chunk for chunk in _chunks(footer) if chunk.physical_type == "BYTE_ARRAY"]
    in_dictionary = {chunk.path_in_schema for chunk in texts if "RLE_DICTIONARY" in chunk.encodings}
    by_row = [
        chunk
        for chunk in texts
        if "DELTA_BYTE_ARRAY" in chunk.encodings
        or (chunk.path_in_schema in in_dictionary & set(names) and chunk.total_uncompressed_size > _DICTIONARY_BYTES)
    ]
    few = {chunk.path_in_schema for chunk in by_row}
    if few - set(plain.names):
        raise pa.ArrowInvalid(f"expected no lists of texts with prefixes, found {sorted(few)}")
    longest = max((chunk.total_uncompressed_size for chunk in by_row), default=0)
    file = pq.ParquetFile(pa.BufferReader(content), metadata=footer, read_dictionary=sorted(in_dictionary - few))
    found: dict[str, pa.ChunkedArray] = {}
    for part, rows_at_once in (
        ([name for name in names if name in few], max(1, min(_ROWS_AT_ONCE, _PART_BYTES // max(1, longest)))),
        ([name for name in names if name not in few], _ROWS_AT_ONCE),
    ):
        batches: list[pa.RecordBatch] = []
        size = 0
        # One thread: pyarrow's pool sometimes aborts a short process at its exit.
        for batch in file.iter_batches(rows_at_once, columns=part, use_threads=False) if part else ():
            size += batch.nbytes + sum(map(_text_bytes, batch.columns))
            if size > UNCOMPRESSED_BYTES_MAX:
                raise ObjectDamagedError(
                    f"object {uri!r} not read: expected at most {UNCOMPRESSED_BYTES_MAX} bytes uncompressed, found more, though its footer "
                    "says less; find out who wrote it, and use another snapshot or analysis"
                )
            batches.append(batch)
        schema = pa.schema(map(plain.field, part))
        table = pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()
        found |= dict(zip(part, table.columns, strict=True))
    return pa.table([found[name] for name in names], schema=pa.schema(map(plain.field, names), plain.metadata))


def _chunks(footer: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        yield from (group.column(column) for column in range(group.num_columns))


def _text_bytes(column: pa.Array) -> int:
    """What the texts of a dictionary take once each is written out, those in lists and structs, too."""
    match column:
        case pa.DictionaryArray():
            return pc.sum(pc.take(pc.binary_length(column.dictionary), column.indices)).as_py() or 0
        case pa.ListArray() | pa.LargeListArray():
            return _text_bytes(column.flatten())
        case pa.StructArray():
            return sum(map(_text_bytes, column.flatten()))
    return 0


def _no_parquet(uri: str, error: Exception) -> ObjectDamagedError:
    return ObjectDamagedError(
        f"object {uri!r} not read: it is no whole Parquet file ({error}); restore it from a copy of the store, or take another snapshot, or analyse the date again"
    )
