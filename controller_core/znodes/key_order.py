"""The order in which Kafka writes the keys of a JSON object: that of the Scala or Java map it holds them in.

No reader depends on it; it is here so that what we write is what Kafka would have written, byte for byte.
Source: `scala.collection.mutable.HashMap` and `immutable.HashMap` of Scala 2.13,
`mutable.HashMap` and `immutable.HashMap.HashTrieMap` of 2.11 and 2.12, `java.util.Properties` of Java 9+.
"""

from collections.abc import Collection, Sequence
from enum import Enum

from controller_core.model.hash_map_order import champ_order, improved, table_index, trie_digits

_U32 = 0xFFFFFFFF
_WRITTEN_ORDER_MAX = 4  # Scala's Map1 to Map4 keep the order of insertion
_CAPACITY_DEFAULT = 16


class ScalaVersion(Enum):
    """Which Scala the brokers were built for; releases offer two or three, 2.13 exists since Kafka 2.4."""

    V2_11 = "2.11"
    V2_12 = "2.12"
    V2_13 = "2.13"


def mutable_map_order(keys: Sequence[str], scala: ScalaVersion, *, initial_size: int = 0) -> list[str]:
    """`keys`, distinct and in the order they were put in, as a `mutable.Map` iterates over them.

    `initial_size` is the number of entries given to the constructor: in Scala 2.13 it decides on the table's size.
    """
    if scala is ScalaVersion.V2_13:
        return _mutable_order_213(keys, initial_size)
    return _mutable_order_211(keys)


def immutable_map_order(keys: Sequence[str], scala: ScalaVersion) -> list[str]:
    """`keys`, distinct and in the order they were put in, as an immutable `Map` iterates over them."""
    if len(keys) <= _WRITTEN_ORDER_MAX:
        return list(keys)
    hashed = [(improved(_java_hash(key)), key) for key in keys]
    if scala is ScalaVersion.V2_13:
        return champ_order(hashed)
    return [key for _, key in sorted(hashed, key=lambda pair: trie_digits(pair[0]))]


def properties_order(keys: Collection[str]) -> list[str]:
    """`keys`, distinct and in the order they were put in, as `java.util.Properties` iterates over them.

    Since Java 9 that is a `ConcurrentHashMap`. Eight names with one hash, which it would keep in a tree, do not occur.
    """
    table: list[list[str]] = [[] for _ in range(_CAPACITY_DEFAULT)]
    for count, key in enumerate(keys, start=1):
        table[_spread(_java_hash(key)) % len(table)].append(key)
        if count >= len(table) * 3 // 4:
            halves = [_split(bucket, len(table)) for bucket in table]
            table = [low for low, _ in halves] + [high for _, high in halves]
    return [key for bucket in table for key in bucket]


def _split(bucket: Sequence[str], size: int) -> tuple[list[str], list[str]]:
    """A bucket when its table of `size` doubles: the last run of keys with one target stays, the others go in front."""
    goes_high = [bool(_spread(_java_hash(key)) & size) for key in bucket]
    start = len(bucket)
    while start and goes_high[start - 1] == goes_high[-1]:
        start -= 1
    parts: tuple[list[str], list[str]] = ([], [])
    if bucket:
        parts[goes_high[-1]].extend(bucket[start:])
    for key, high in zip(bucket[:start], goes_high, strict=False):
        parts[high].insert(0, key)
    return parts


def _java_hash(text: str) -> int:
    """`String.hashCode`, unsigned: over UTF-16 units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & _U32
    return value


def _spread(value: int) -> int:
    return value ^ value >> 16


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _mutable_order_213(keys: Sequence[str], initial_size: int) -> list[str]:
    wanted = int((initial_size + 1) / 0.75) if initial_size else _CAPACITY_DEFAULT
    size = 4
    while size < wanted:
        size *= 2
    for count in range(len(keys)):
        if count + 1 >= int(size * 0.75):
            size *= 2
    hashed = [(_spread(_java_hash(key)), key) for key in keys]
    return [key for _, key in sorted(hashed, key=lambda pair: (pair[0] & (size - 1), _signed(pair[0])))]


def _mutable_order_211(keys: Sequence[str]) -> list[str]:
    """Tables of 2.11 are walked from the last bucket to the first; a bucket's newest entry comes first."""
    table: list[list[str]] = [[] for _ in range(_CAPACITY_DEFAULT)]
    for count, key in enumerate(keys, start=1):
        table[table_index(_java_hash(key), len(table))].insert(0, key)
        if count > len(table) * 3 // 4:
            table = _resized_211(table)
    return [key for bucket in reversed(table) for key in bucket]


def _resized_211(table: list[list[str]]) -> list[list[str]]:
    wider: list[list[str]] = [[] for _ in range(2 * len(table))]
    for bucket in reversed(table):
        for key in bucket:
            wider[table_index(_java_hash(key), len(wider))].insert(0, key)
    return wider
