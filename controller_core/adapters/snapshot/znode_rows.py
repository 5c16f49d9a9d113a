"""The table `znodes` of a query: every znode of a snapshot, its data as text. It is made from raw where a question names it.

Source: docs/snapshots.md, "Tables".
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.snapshot.decode import SnapshotIdentity
from controller_core.adapters.snapshot.tables import STAT_COLUMNS, ZNODES

ZNODES_TABLE: Final = "znodes"
_TIMES: Final = frozenset({"ctime", "mtime"})


def znode_rows(raw: pa.Table, identity: SnapshotIdentity) -> pa.Table:
    """The rows, by path; data that is no UTF-8 is null, as is what the snapshot leaves out.

    Args:
        raw: the raw layer.
        identity: of the snapshot.
    """
    common = {name: getattr(identity, name) for name in ("cluster", "snapshot_id", "taken_at")}
    columns: dict[str, Any] = {
        name: pa.array([value] * raw.num_rows, ZNODES.field(name).type) for name, value in common.items()
    }
    columns |= {"path": raw["path"], "data": pa.array([_text(data) for data in raw["data"].to_pylist()], pa.string())}
    for name in STAT_COLUMNS:
        values = raw[name]
        if name in _TIMES:
            values = pc.cast(pc.cast(values, pa.timestamp("ms", tz="UTC")), ZNODES.field(name).type)
        columns[name] = values
    columns |= {"acl": raw["acl"], "left_out": raw["left_out"]}
    return pa.table([columns[field.name] for field in ZNODES], schema=ZNODES)


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
