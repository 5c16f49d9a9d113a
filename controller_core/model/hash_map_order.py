"""The order in which a Scala 2.13 immutable hash map goes through integers: no rule, but what Kafka does.

Source: `groupBy` in Kafka 3.9 `ZkReplicaStateMachine.handleStateChanges`. It decides who
survives as the last ISR member when two brokers of one partition go offline in one call.
"""

from collections.abc import Iterable
from functools import lru_cache

from controller_core.model.partitions import BrokerId

_WORD = 0xFFFFFFFF
_BITS = 5
_MASK = (1 << _BITS) - 1


def hash_map_order(brokers: Iterable[BrokerId]) -> list[BrokerId]:
    """The brokers as a hash map iterates over them; equal sets give equal lists."""
    return list(_ordered(tuple(sorted(brokers))))


@lru_cache(maxsize=4096)
def _ordered(brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    return tuple(_node([(_improved(broker), broker) for broker in brokers], 0))


def _node(entries: list[tuple[int, BrokerId]], shift: int) -> list[BrokerId]:
    """One node of the trie: entries alone in their slot come first, then the nodes below, each by slot."""
    slots: dict[int, list[tuple[int, BrokerId]]] = {}
    for entry in entries:
        slots.setdefault((entry[0] >> shift) & _MASK, []).append(entry)
    alone = [slots[slot][0][1] for slot in sorted(slots) if len(slots[slot]) == 1]
    below = [slots[slot] for slot in sorted(slots) if len(slots[slot]) > 1]
    return alone + [broker for group in below for broker in _node(group, shift + _BITS)]


def _improved(value: int) -> int:
    """Scala's `improve` of an integer's hash; it has no collisions, so that every node ends."""
    code = (value + ~(value << 9)) & _WORD
    code ^= code >> 14
    code = (code + (code << 4)) & _WORD
    return code ^ (code >> 10)
