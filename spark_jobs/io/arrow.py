"""Arrow's types and schemas of our datasets."""

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, StructType

_ARROW: Mapping[str, Callable[[], pa.DataType]] = {
    "string": pa.string,
    "integer": pa.int32,
    "long": pa.int64,
    "boolean": pa.bool_,
    "double": pa.float64,
    "date": pa.date32,
    "timestamp": lambda: pa.timestamp("us", tz="UTC"),
}


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type that our Parquet files have for a Spark type."""
    match kind:
        case ArrayType():
            return pa.list_(arrow_type(kind.elementType))
        case StructType():
            return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in kind.fields])
        case _:
            return _ARROW[kind.typeName()]()


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a dataset, every column nullable."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Equality that ignores what a writer calls a list's element and whether it may be null."""
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return same_type(found.value_type, wanted.value_type)
    return bool(found.equals(wanted))
