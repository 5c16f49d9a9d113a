"""What a job has delivered: the list of its files, which is its last act. Nothing else is published."""

import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:  # the plugin reads the list without Spark
    from spark_jobs.io.folders import Folder

DELIVERED = "delivered.json"
_TABLE = ".parquet"


def deliver(place: "Folder", names: Iterable[str]) -> None:
    """Writes the list of the files `names` in `place`: name, size in bytes, SHA-256 in hex, rows (null but for Parquet)."""
    listed = [_described(name, place.read(name)) for name in sorted(names)]
    place.write(DELIVERED, json.dumps({"files": listed}, indent=1).encode())


def withdraw(place: "Folder") -> None:
    """Removes the list of an earlier job: what it named is about to change."""
    if place.holds(DELIVERED):
        place.remove(DELIVERED)


def _described(name: str, data: bytes) -> dict[str, Any]:
    rows = pq.read_metadata(pa.BufferReader(data)).num_rows if name.endswith(_TABLE) else None
    return {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "rows": rows}
