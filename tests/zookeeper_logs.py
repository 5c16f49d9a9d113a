"""Files of a ZooKeeper server, made byte by byte: what no server of today writes, at times that a test chooses."""

import struct
import zlib

from controller_core.adapters.zookeeper_files.jute import INT, OPEN_ACL, acl_bytes, buffer_bytes, text_bytes
from controller_core.adapters.zookeeper_files.snapshot_file import write_snapshot
from controller_core.adapters.zookeeper_files.tree import Node

SESSION = 0x1000_0001_2345_0000


def entry(content):
    return struct.pack("!qi", zlib.adler32(content), len(content)) + content + b"B"


def transaction(zxid, kind, body, *, session=SESSION, time_ms=None, digest=None):
    header = struct.pack(
        "!qiqqi", session, 1, zxid, 1_700_000_000_000 + zxid * 1000 if time_ms is None else time_ms, kind
    )
    return entry(header + body + (b"" if digest is None else struct.pack("!iq", 2, digest)))


def create(path, data=b"", *, ephemeral=False, parent_cversion=None):
    body = text_bytes(path) + buffer_bytes(data) + acl_bytes(OPEN_ACL) + bytes([ephemeral])
    return body if parent_cversion is None else body + INT.pack(parent_cversion)


def set_data(path, data, version):
    return text_bytes(path) + buffer_bytes(data) + INT.pack(version)


def multi(zxid, *operations):
    """A transaction of (kind, body) each."""
    body = b"".join(INT.pack(kind) + buffer_bytes(content) for kind, content in operations)
    return transaction(zxid, 14, INT.pack(len(operations)) + body)


def log(folder, zxid, *entries, tail=b""):
    folder.mkdir(exist_ok=True)
    (folder / f"log.{zxid:x}").write_bytes(b"ZKLG" + struct.pack("!iq", 2, 0) + b"".join(entries) + tail)


def znode(data=b"", zxid=0, acl=OPEN_ACL, **others):
    fields = {"czxid": zxid, "mzxid": zxid, "ctime": 0, "mtime": 0, "version": 0, "cversion": 0, "aversion": 0}
    return Node(data, acl, **{**fields, "owner": 0, "pzxid": zxid, **others})


def old_snapshot(folder, zxid, nodes):
    """As ZooKeeper before 3.6 writes it: no digest."""
    folder.mkdir(exist_ok=True)
    path = folder / f"snapshot.{zxid:x}"
    write_snapshot(path, zxid, nodes, {})
    content = path.read_bytes()
    path.write_bytes(content[: -(20 + 13 + 8 + 13)])
