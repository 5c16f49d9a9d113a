"""The order in which a Scala immutable hash map goes through integers: no rule, but what Kafka does.

Source: `groupBy` in Kafka 3.9 and 2.4 `ZkReplicaStateMachine.handleStateChanges`, Scala 2.13 `immutable.HashMap`, Scala 2.12 `mutable.HashTable` and
`immutable.HashMap.HashTrieMap`. It decides who survives as the last ISR member when two brokers of one partition go offline in one call.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from controller_core.model.partitions import BrokerId

_T = TypeVar("_T")

_WORD = 0xFFFFFFFF
_HASH_BITS = 32
_BITS = 5
_MASK = (1 << _BITS) - 1
_DIGITS = 7
_SMALL_MAX = 4
_TABLE_SIZE = 16
_SEED = 4  # number of one bits of the first table's size - 1; stays when the table grows
_BYTESWAP = 0x9E3775CD


def hash_map_order(brokers: Iterable[BrokerId], *, scala_2_13: bool) -> list[BrokerId]:
    """The brokers as a hash map iterates over them; equal sets give equal lists.

    Up to four of them Scala 2.12 keeps in the order in which the mutable table lists them from which `groupBy` fills the map; two in one bucket of that
    table, where it is the later one that comes first, are taken to have come by id.
    """
    return list(_ordered(tuple(sorted(brokers)), scala_2_13))


@lru_cache(maxsize=4096)
def _ordered(brokers: tuple[BrokerId, ...], scala_2_13: bool) -> tuple[BrokerId, ...]:  # noqa: FBT001 - a key of the cache
    if scala_2_13:
        return tuple(champ_order([(improved(broker), broker) for broker in brokers]))
    if len(brokers) > _SMALL_MAX:
        return tuple(sorted(brokers, key=lambda broker: trie_digits(improved(broker))))
    return tuple(sorted(brokers, key=lambda broker: (table_index(broker, _TABLE_SIZE), broker), reverse=True))


def champ_order(hashed: Sequence[tuple[int, _T]], shift: int = 0) -> list[_T]:
    """The values of (improved hash, value) as a trie of Scala 2.13 goes through them: of a node those alone in their slot, then the nodes below, by slot."""
    if shift >= _HASH_BITS:  # all bits are used: equal hashes, in order of insertion
        return [value for _, value in hashed]
    slots: dict[int, list[tuple[int, _T]]] = {}
    for entry in hashed:
        slots.setdefault((entry[0] >> shift) & _MASK, []).append(entry)
    nodes = [slots[slot] for slot in sorted(slots)]
    alone = [entries[0][1] for entries in nodes if len(entries) == 1]
    return alone + [value for entries in nodes if len(entries) > 1 for value in champ_order(entries, shift + _BITS)]


def trie_digits(code: int) -> tuple[int, ...]:
    """Slots of the trie of Scala 2.11 and 2.12, from its root down, of an improved hash."""
    return tuple((code >> _BITS * level) & _MASK for level in range(_DIGITS))


def improved(value: int) -> int:
    """Scala's `improve` of a hash code; integers have no collisions."""
    code = (value + ~(value << 9)) & _WORD
    code ^= code >> 14
    code = (code + (code << 4)) & _WORD
    return code ^ (code >> 10)


def table_index(code: int, size: int) -> int:
    """Bucket of a hash code in a mutable table of Scala 2.11 and 2.12, which is walked from the last to the first; `size` is a power of 2."""
    mixed = (code * _BYTESWAP) & _WORD
    mixed = (int.from_bytes(mixed.to_bytes(4, "big"), "little") * _BYTESWAP) & _WORD
    mixed = (mixed >> _SEED | mixed << (_HASH_BITS - _SEED)) & _WORD
    return mixed >> (_HASH_BITS - (size.bit_length() - 1))
