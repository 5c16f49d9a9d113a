"""How a message of Kafka's protocol is described: fields with their types and the versions that have them.

Source: the message definitions of Kafka 3.9 (`clients/src/main/resources/common/message`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

LATEST: Final = 32_767
"""Of a field that no version dropped."""


class Fixed(Enum):
    """A type of fixed size; the value is its letter in `struct`."""

    INT8 = "b"
    INT16 = "h"
    INT32 = "i"
    INT64 = "q"
    BOOL = "?"


class Sized(Enum):
    """A type of any size. A UUID is Kafka's text of it: 22 characters of URL-safe base64; text and bytes may be None."""

    STRING = "string"
    BYTES = "bytes"
    UUID = "uuid"


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array, or None; of values of one type, or of structures."""

    item: "Fixed | Sized | tuple[Field, ...]"


Type = Fixed | Sized | ArrayOf


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a structure.

    Attributes:
        name: Kafka's, in snake case.
        type: of its value.
        since: first version that has it.
        until: last version that has it.
        tag: its number among the tagged fields; None: an ordinary field. A tagged one of value 0 is not written.
    """

    name: str
    type: Type
    since: int = 0
    until: int = LATEST
    tag: int | None = None

    def is_in(self, version: int) -> bool:
        """Whether that version has it."""
        return self.since <= version <= self.until


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A request or a response; equal only to itself.

    Attributes:
        name: Kafka's.
        api_key: of the request.
        newest: the newest version that is known here; the oldest is 0.
        flexible_since: first version with compact lengths and tagged fields.
        fields: in the order in which they are written.
    """

    name: str
    api_key: int
    newest: int
    flexible_since: int
    fields: tuple[Field, ...]

    def is_flexible(self, version: int) -> bool:
        """Whether that version has compact lengths and tagged fields."""
        return version >= self.flexible_since

    def has(self, path: str, version: int) -> bool:
        """Whether that version carries a field, which is named by its path, such as `topic_states.topic_id`.

        Raises:
            KeyError: no version has a field of that path.
        """
        return _has(self, path, version)


@lru_cache(maxsize=1024)
def _has(message: Message, path: str, version: int) -> bool:
    found = list(_chains(message.fields, path.split(".")))
    if not found:
        raise KeyError(f"{message.name} has no field {path!r}; expected one of its schema")
    return any(all(field.is_in(version) for field in fields) for fields in found)


def _chains(fields: tuple[Field, ...], names: list[str]) -> Iterator[tuple[Field, ...]]:
    for field in fields:
        if field.name != names[0]:
            continue
        if len(names) == 1:
            yield (field,)
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.item, tuple):
            yield from ((field, *rest) for rest in _chains(field.type.item, names[1:]))
