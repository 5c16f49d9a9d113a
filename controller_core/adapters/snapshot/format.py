"""The raw layer of a snapshot as Parquet: every znode with data, stat and ACL; the only source of a restore.

Sorted by path, delta encodings, zstd: about 26 bytes per znode. Readers take every version of the format that ever was.
Source: docs/snapshots.md, "What is stored".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from controller_core.adapters.snapshot.acls import ACL_KEY, KnownAcls
from controller_core.adapters.snapshot.cut import Cut
from controller_core.adapters.snapshot.parquet import table_from_parquet
from controller_core.adapters.snapshot.secrets import SECRET, SnapshotSealer, is_secret, public_config
from controller_core.adapters.snapshot.tables import NO_PERMISSION, RAW, STAT_COLUMNS
from controller_core.model.errors import ObjectDamagedError, UnknownFormatError

FORMAT_VERSION: Final = 1
ROW_GROUP_ROWS: Final = 131_072
_VERSION_KEY: Final = b"format_version"
_STAT: Final = np.dtype(
    [
        (name, ">i4" if name in {"version", "cversion", "aversion", "data_length", "num_children"} else ">i8")
        for name in STAT_COLUMNS
    ]
)
MASKED_ACL: Final = r'"digest", "[^"]*:x"'
"""In the JSON of an ACL: ZooKeeper shows `user:hash` as `user:x` to a session that may not change the ACL."""


@dataclass(frozen=True, slots=True)
class RawLayer:
    """A cut ready to be stored.

    Attributes:
        table: the columns `tables.RAW`.
        redacted: paths whose data was left out as secret, sorted.
        public_configs: path of a redacted config → its settings that are no secrets; only the decoded tables keep them.
    """

    table: pa.Table
    redacted: tuple[str, ...]
    public_configs: Mapping[str, Mapping[str, str]]


def raw_layer(cut: Cut, sealer: SnapshotSealer | None = None) -> RawLayer:
    """The cut as a table, sorted by path; secrets left out, or sealed when there is a key."""
    paths = sorted([*cut.znodes, *cut.unreadable])
    data: list[bytes | None] = []
    stats: list[bytes | None] = []
    left_out: list[str | None] = []
    sealed: list[bytes | None] = []
    public_configs: dict[str, dict[str, str]] = {}
    for path in paths:
        znode = cut.znodes.get(path)
        if znode is None:
            data.append(None)
            stats.append(cut.unreadable[path])
            left_out.append(NO_PERMISSION)
            sealed.append(None)
        elif is_secret(path, znode.data):
            data.append(None)
            stats.append(znode.stat)
            left_out.append(SECRET)
            sealed.append(sealer.seal(path, znode.data or b"") if sealer else None)
            public_configs[path] = public_config(path, znode.data)
        else:
            data.append(znode.data)
            stats.append(znode.stat)
            left_out.append(None)
            sealed.append(None)
    acls = [cut.acls.get(path) for path in paths]
    columns = [
        pa.array(paths, pa.string()),
        pa.array(data, pa.binary()),
        *_stat_columns(stats),
        pa.array(acls, pa.string()),
        pa.array(left_out, pa.string()),
        pa.array(sealed, pa.binary()),
    ]
    return RawLayer(pa.Table.from_arrays(columns, schema=RAW), tuple(public_configs), public_configs)


def raw_to_parquet(table: pa.Table) -> bytes:
    """The file `raw.parquet`."""
    sink = pa.BufferOutputStream()
    labelled = table.replace_schema_metadata({_VERSION_KEY: str(FORMAT_VERSION).encode()})
    pq.write_table(
        labelled,
        sink,
        compression="zstd",
        compression_level=3,
        row_group_size=ROW_GROUP_ROWS,
        use_dictionary=["acl", "left_out"],
        column_encoding={"path": "DELTA_BYTE_ARRAY", **dict.fromkeys(STAT_COLUMNS, "DELTA_BINARY_PACKED")},
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def raw_from_parquet(content: bytes, uri: str) -> pa.Table:
    """The raw layer of any format version, with the columns of today.

    Args:
        content: the file.
        uri: of the file, for messages.

    Raises:
        ObjectDamagedError: it is no whole Parquet file.
        UnknownFormatError: a newer program wrote it.
    """
    table = table_from_parquet(content, uri)
    found = (table.schema.metadata or {}).get(_VERSION_KEY, b"?").decode("utf-8", "replace")
    if not found.isdecimal() or not 1 <= int(found) <= FORMAT_VERSION:
        raise UnknownFormatError(
            f"snapshot {uri!r} not read: expected format version 1 to {FORMAT_VERSION}, found {found!r}; "
            "read it with the version of this program that wrote it, or a newer one"
        )
    missing = [name for name in RAW.names if name not in table.column_names]
    if missing:
        raise ObjectDamagedError(
            f"snapshot {uri!r} not read: expected columns {RAW.names}, without {missing}; verify the store"
        )
    try:
        return table.select(RAW.names).cast(RAW).replace_schema_metadata(None)
    except (pa.ArrowException, ValueError) as error:  # ValueError: a null where none may be
        raise ObjectDamagedError(
            f"snapshot {uri!r} not read: expected the types of {RAW.names}, found others ({error}); verify the store"
        ) from error


def known_acls(raw: pa.Table, zxid: int) -> KnownAcls:
    """The ACLs that the raw layer of a snapshot at `zxid` knows whole.

    Left out are the root of an ensemble, which has no czxid, and ACLs with a digest that was not shown: another session may
    see it.
    """
    masked = pc.match_substring_regex(raw["acl"], MASKED_ACL)
    whole = pc.and_(pc.invert(pc.fill_null(masked, fill_value=True)), pc.greater(pc.fill_null(raw["czxid"], 0), 0))
    table = raw.select(["path", "acl", *(ACL_KEY.names or ())]).filter(whole).combine_chunks()
    keys: Any = np.empty(table.num_rows, dtype=ACL_KEY)
    for name in ACL_KEY.names or ():
        keys[name] = table[name].to_numpy()
    return KnownAcls(
        zxid=zxid,
        paths=table["path"].combine_chunks(),
        keys=keys,
        acls=table["acl"].dictionary_encode().combine_chunks(),
    )


def _stat_columns(stats: Sequence[bytes | None]) -> list[pa.Array]:
    absent = [index for index, stat in enumerate(stats) if stat is None]
    buffer = b"".join(stat if stat is not None else bytes(_STAT.itemsize) for stat in stats)
    rows: Any = np.frombuffer(buffer, dtype=_STAT)
    mask = np.zeros(len(stats), dtype=bool)
    mask[absent] = True
    return [
        pa.array(rows[name].astype(rows[name].dtype.newbyteorder("=")), mask=mask if absent else None)
        for name in STAT_COLUMNS
    ]
