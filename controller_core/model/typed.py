"""Values read into classes whose fields have types, by msgspec, from any thread."""

from threading import Lock
from typing import Any, TypeVar

import msgspec

_Kind = TypeVar("_Kind")
_ONE_AT_A_TIME = Lock()
"""msgspec notes the fields of a class at its first use, and two threads that do so at once end the process (SIGSEGV, 0.22)."""


def decoder_of(kind: type[_Kind]) -> msgspec.json.Decoder[_Kind]:
    """What decodes JSON into `kind`; its errors are those of msgspec."""
    with _ONE_AT_A_TIME:
        return msgspec.json.Decoder(kind)


def converted(value: Any, kind: type[_Kind]) -> _Kind:
    """A value of JSON as `kind`; raises `msgspec.ValidationError` where a field is another one."""
    decoder_of(kind)  # which notes the fields
    return msgspec.convert(value, kind)
