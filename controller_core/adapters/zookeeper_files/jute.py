"""Jute, ZooKeeper's own serialisation: how texts, buffers and ACLs stand in its files. Numbers are big-endian.

Source: Apache ZooKeeper 3.9 `BinaryInputArchive`, `BinaryOutputArchive`, `zookeeper.jute`.
"""

import struct
from collections.abc import Iterable
from typing import Final, TypeAlias

INT: Final = struct.Struct("!i")
LONG: Final = struct.Struct("!q")

Acl: TypeAlias = tuple[tuple[int, str, str], ...]
"""Entries (permissions, scheme, id) in their order."""

OPEN_ACL: Final[Acl] = ((31, "world", "anyone"),)
"""ZooKeeper's `OPEN_ACL_UNSAFE`."""

UNKNOWN_ACL: Final[Acl] = ()
"""Of a znode whose ACL a snapshot file does not have; no znode has an empty one."""
READ_ACL: Final[Acl] = ((1, "world", "anyone"),)
"""ZooKeeper's `READ_ACL_UNSAFE`."""

TooShortError: TypeAlias = struct.error
"""The bytes end before what should stand there does."""


def take_buffer(content: bytes, at: int) -> tuple[bytes | None, int]:
    """The buffer at an offset, None for null, and the offset after it."""
    (length,) = INT.unpack_from(content, at)
    begin = at + 4
    if length == -1:
        return None, begin
    end = begin + length
    if length < 0 or end > len(content):
        raise TooShortError(f"expected a buffer at offset {at}, found length {length}")
    return bytes(content[begin:end]), end


def take_text(content: bytes, at: int) -> tuple[str, int]:
    """The text at an offset, and the offset after it; null is an empty one."""
    buffer, end = take_buffer(content, at)
    return (buffer or b"").decode("utf-8", "replace"), end


def take_texts(content: bytes, at: int) -> tuple[tuple[str, ...], int]:
    """The list of texts at an offset, and the offset after it."""
    count, at = INT.unpack_from(content, at)[0], at + 4
    texts: list[str] = []
    for _ in range(count):
        text, at = take_text(content, at)
        texts.append(text)
    return tuple(texts), at


def take_acl(content: bytes, at: int) -> tuple[Acl, int]:
    """The ACL at an offset, and the offset after it."""
    count, at = INT.unpack_from(content, at)[0], at + 4
    entries: list[tuple[int, str, str]] = []
    for _ in range(count):
        perms, at = INT.unpack_from(content, at)[0], at + 4
        scheme, at = take_text(content, at)
        name, at = take_text(content, at)
        entries.append((perms, scheme, name))
    return tuple(entries), at


def buffer_bytes(buffer: bytes | None) -> bytes:
    """A buffer as it is written."""
    return INT.pack(-1) if buffer is None else INT.pack(len(buffer)) + buffer


def text_bytes(text: str) -> bytes:
    """A text as it is written."""
    return buffer_bytes(text.encode())


def acl_bytes(acl: Iterable[tuple[int, str, str]]) -> bytes:
    """An ACL as it is written."""
    entries = [INT.pack(perms) + text_bytes(scheme) + text_bytes(name) for perms, scheme, name in acl]
    return INT.pack(len(entries)) + b"".join(entries)
