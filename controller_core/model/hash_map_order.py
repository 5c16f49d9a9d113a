"""The order in which a Scala immutable hash map goes through integers: no rule, but what Kafka does.

Source: `groupBy` in Kafka 3.9 and 2.4 `ZkReplicaStateMachine.handleStateChanges`, Scala 2.13 `immutable.HashMap`, Scala 2.12 `mutable.HashTable` and
`immutable.HashMap.HashTrieMap`. It decides who survives as the last ISR member when two brokers of one partition go offline in one call.
"""

from collections.abc import Iterable
from functools import lru_cache

from controller_core.model.partitions import BrokerId

_WORD = 0xFFFFFFFF
_BITS = 5
_MASK = (1 << _BITS) - 1
_DIGITS = 7
_SMALL_MAX = 4
_TABLE_BITS = 4
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
        return tuple(_node([(improved(broker), broker) for broker in brokers], 0))
    if len(brokers) > _SMALL_MAX:
        return tuple(sorted(brokers, key=lambda broker: trie_digits(improved(broker))))
    return tuple(sorted(brokers, key=lambda broker: (table_index(broker, _TABLE_BITS), broker), reverse=True))


def _node(entries: list[tuple[int, BrokerId]], shift: int) -> list[BrokerId]:
    """One node of the trie: entries alone in their slot come first, then the nodes below, each by slot."""
    slots: dict[int, list[tuple[int, BrokerId]]] = {}
    for entry in entries:
        slots.setdefault((entry[0] >> shift) & _MASK, []).append(entry)
    alone = [slots[slot][0][1] for slot in sorted(slots) if len(slots[slot]) == 1]
    below = [slots[slot] for slot in sorted(slots) if len(slots[slot]) > 1]
    return alone + [broker for group in below for broker in _node(group, shift + _BITS)]


def trie_digits(code: int) -> tuple[int, ...]:
    """Slots of the trie of Scala 2.11 and 2.12, from its root down, of an improved hash."""
    return tuple((code >> _BITS * level) & _MASK for level in range(_DIGITS))


def improved(value: int) -> int:
    """Scala's `improve` of a hash code; integers have no collisions, so that every node ends."""
    code = (value + ~(value << 9)) & _WORD
    code ^= code >> 14
    code = (code + (code << 4)) & _WORD
    return code ^ (code >> 10)


def table_index(code: int, bits: int) -> int:
    """Bucket of a hash code among 2**bits of the mutable table of Scala 2.11 and 2.12, which is walked from the last to the first."""
    mixed = (code * _BYTESWAP) & _WORD
    mixed = (int.from_bytes(mixed.to_bytes(4, "big"), "little") * _BYTESWAP) & _WORD
    mixed = (mixed >> _SEED | mixed << (32 - _SEED)) & _WORD
    return mixed >> (32 - bits)
