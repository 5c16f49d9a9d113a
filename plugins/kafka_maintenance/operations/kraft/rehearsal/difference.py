"""What differs between a tree and its migrated copy, and to which class a difference belongs."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The classes of docs/kraft.md, "Rehearsal". An unclassified difference makes a rehearsal red."""

    SAME = "same"
    NOTATION = "notation"
    MEANT = "meant to vanish"
    LOST = "lost silently"
    INVENTED = "invented"
    UNUSABLE = "copied but unusable"
    REHEARSAL = "rehearsal only"
    UNCLASSIFIED = "unclassified"


class Difference(NamedTuple):
    """`what` begins with the znode or the record that it is about."""

    kind: Kind
    what: str


def counts_by_kind(differences: Iterable[Difference]) -> Mapping[Kind, int]:
    """Class → how many."""
    found = dict.fromkeys(Kind, 0)
    for difference in differences:
        found[difference.kind] += 1
    return found
