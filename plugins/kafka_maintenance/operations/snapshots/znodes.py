"""Znodes of a snapshot, as ZooKeeper's own tool would list, print and find them.

What was left out of a snapshot is said with the reason, never shown as empty. Source: docs/snapshots.md, "What is stored".
"""

import base64
import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.snapshot.tables import STAT_COLUMNS
from controller_core.plans.plain import plain
from kafka_maintenance.operations.errors import BadInputError

LISTED: Final = ("version", "children", "bytes", "last write", "path")
"""What a list of znodes has of each."""
_LETTERS_MAX: Final = 1 << 20  # ZooKeeper's own limit of a znode, in bytes


def children(raw: pa.Table, path: str) -> list[dict[str, Any]]:
    """The znodes right below a path, by name; each as a row of the raw layer.

    Raises:
        BadInputError: the snapshot has no such znode.
    """
    znode(raw, path)
    start = path.rstrip("/") + "/"
    below = raw.filter(pc.and_(pc.starts_with(raw["path"], start), pc.not_equal(raw["path"], "/")))
    direct = pc.invert(pc.match_substring(pc.utf8_slice_codeunits(below["path"], len(start)), "/"))
    found: list[dict[str, Any]] = below.filter(direct).sort_by("path").to_pylist()
    return found


def find(raw: pa.Table, pattern: str, containing: str | None = None) -> list[dict[str, Any]]:
    """Znodes whose whole path matches a pattern of `*`, `?` and `[…]`, by path.

    Args:
        raw: the raw layer.
        pattern: matched against the whole path; `*` matches slashes, too.
        containing: text that the data have; None: any data, or none.
    """
    rows = raw.sort_by("path").to_pylist()
    return [row for row in rows if fnmatch.fnmatchcase(row["path"], pattern) and _contains(row, containing)]


def _contains(row: Mapping[str, Any], text: str | None) -> bool:
    return text is None or text.encode() in (row["data"] or b"")


def znode(raw: pa.Table, path: str) -> dict[str, Any]:
    """One znode as a row of the raw layer.

    Raises:
        BadInputError: the snapshot has no such znode.
    """
    found: list[dict[str, Any]] = raw.filter(pc.equal(raw["path"], path)).to_pylist()
    if not found:
        raise BadInputError(
            f"znode {path!r} not shown: the snapshot has none of that path; `snapshots find` looks for a pattern"
        )
    return found[0]


def data_text(row: Mapping[str, Any]) -> str:
    """The data as text; of what is not UTF-8 or was left out, what it is, in parentheses."""
    if row["left_out"] is not None:
        return f"({row['left_out']}: not in the snapshot as text)"
    if row["data"] is None:
        return "(no data)"
    try:
        return plain(row["data"].decode(), letters_max=_LETTERS_MAX)
    except UnicodeDecodeError:
        return f"({len(row['data'])} bytes that are no UTF-8 text; --json has them)"


def listing(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Of each znode `LISTED`; what could not be read is a question mark."""
    for row in rows:
        if row["version"] is None:
            yield ("?", "?", "?", "?", plain(row["path"]))
            continue
        written = datetime.fromtimestamp(row["mtime"] / 1000, UTC)
        numbers = (row["version"], row["num_children"], row["data_length"])
        yield (*map(str, numbers), f"{written:%Y-%m-%dT%H:%M:%SZ}", plain(row["path"]))


def znode_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """The znode for machines: stat by ZooKeeper's names, `data` as text, `data_base64` where it is no UTF-8 text."""
    data = row["data"]
    text, encoded = None, None
    if data is not None:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            encoded = base64.b64encode(data).decode()
    told = {"path": row["path"], "data": text, "data_base64": encoded, "left_out": row["left_out"], "acl": row["acl"]}
    return told | {name: row[name] for name in STAT_COLUMNS}
