"""JSON as Kafka's Jackson reads and writes it, and typed access to the fields of a znode.

Source: Kafka 3.9 `Json`, `DecodeJson`. Unlike Python's `json` module this refuses `NaN`, keeps the text of
fractions, ignores what follows the first value, and reports everything wrong as `MalformedZnodeError`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from controller_core.model.errors import MalformedZnodeError, UnparsedZnodeError
from controller_core.model.partitions import BrokerId

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_FOUND_MAX = 80
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Fraction(NamedTuple):
    """A JSON number with a fraction or an exponent; its text is kept, no field of Kafka's is one."""

    text: str


type_names: Mapping[type, str] = {
    dict: "an object", list: "an array", str: "a string", int: "an integer", bool: "a boolean",
    Fraction: "a fraction", type(None): "null",
}  # fmt: skip

Json = object  # dict[str, Json] | list[Json] | str | int | bool | Fraction | None


class Fields(NamedTuple):
    """A JSON object inside a znode, with where it stands, to read typed fields from.

    Every method raises `MalformedZnodeError` that names the field, what was expected and what was found.
    """

    path: str
    values: Mapping[str, object]
    where: str = ""

    def integer(self, name: str, *, low: int = INT_MIN, high: int = INT_MAX) -> int:
        """A mandatory JSON integer from `low` to `high`; 1.0 and "1" are none."""
        return _integer(self.path, self._at(name), self._mandatory(name, "an integer"), low, high)

    def text(self, name: str) -> str:
        """A mandatory JSON string."""
        return _text(self.path, self._at(name), self._mandatory(name, "a string"))

    def text_or_none(self, name: str) -> str | None:
        """A JSON string; None when it is null or absent."""
        value = self.values.get(name)
        return None if value is None else _text(self.path, self._at(name), value)

    def integers(self, name: str) -> tuple[int, ...]:
        """A mandatory JSON array of integers."""
        return integer_list(self.path, self._at(name), self._mandatory(name, "an array of integers"))

    def brokers(self, name: str) -> tuple[BrokerId, ...]:
        """A mandatory JSON array of broker ids; any integer passes, as in Kafka."""
        # a cluster has hundreds of thousands of these lists: where each stands is spelt only for an error
        value = self.values.get(name)
        found = tuple(value) if type(value) is list and are_integers(value) else self.integers(name)
        return cast("tuple[BrokerId, ...]", found)

    def texts(self, name: str) -> tuple[str, ...]:
        """A mandatory JSON array of strings."""
        items = self.items(name)
        return tuple(_text(self.path, f"{self._at(name)}[{index}]", item) for index, item in enumerate(items))

    def items(self, name: str) -> Sequence[object]:
        """A mandatory JSON array."""
        value = self._mandatory(name, "an array")
        if not isinstance(value, list):
            raise mismatch(self.path, self._at(name), "an array", value)
        return value

    def objects(self, name: str) -> list["Fields"]:
        """A mandatory JSON array of objects."""
        return [fields_of(self.path, item, f"{self._at(name)}[{index}]") for index, item in enumerate(self.items(name))]

    def child(self, name: str) -> "Fields":
        """A mandatory JSON object."""
        return fields_of(self.path, self._mandatory(name, "an object"), self._at(name))

    def has(self, name: str) -> bool:
        """Whether the field is there, null included."""
        return name in self.values

    def unknown_fields(self, known: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """The fields not `known`, as (name, JSON text of the value), in the order of the document."""
        names = frozenset(known)
        try:
            return tuple((name, json_text(value)) for name, value in self.values.items() if name not in names)
        except RecursionError:
            raise MalformedZnodeError(self.path, "expected fields to be kept, found one nested too deeply") from None

    def at(self, name: str) -> str:
        """Where the field stands, for messages."""
        return self._at(name)

    def _mandatory(self, name: str, expected: str) -> object:
        if name not in self.values:
            raise MalformedZnodeError(self.path, f"field {self._at(name)!r} is missing; expected {expected}")
        return self.values[name]

    def _at(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name


def mismatch(path: str, where: str, expected: str, found: object) -> MalformedZnodeError:
    """The error for a value of the wrong type or range at `where`.

    Args:
        path: of the znode.
        where: the field in its document.
        expected: in words.
        found: the value.
    """
    try:
        shown = _shown(json_text(found))
    except RecursionError:
        shown = "nested too deeply to show"
    return MalformedZnodeError(path, f"field {where!r}: expected {expected}, found {type_names[type(found)]}, {shown}")


def parse(data: bytes | None, path: str) -> object:
    """The first JSON value of `data`; what follows it goes unnoticed, as in Kafka.

    Raises:
        UnparsedZnodeError: it is no JSON; names the byte or character offset.
    """
    if not data:
        raise UnparsedZnodeError(path, "offset 0: expected JSON, found no data")
    try:
        text = data.removeprefix(_BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError as error:
        found = f"expected UTF-8 text, found {data[error.start : error.start + 8]!r}"
        raise UnparsedZnodeError(path, f"offset {error.start}: {found}") from None
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        value, _ = _decoder.raw_decode(text, start)
        if "\\u" in text:
            json_text(value).encode()  # half of a surrogate pair is text that nobody can write
    except json.JSONDecodeError as error:
        found = f"expected JSON, found {_shown(text[error.pos :])} ({error.msg})"
        raise UnparsedZnodeError(path, f"offset {error.pos}: {found}") from None
    except UnicodeEncodeError:
        raise UnparsedZnodeError(path, "offset 0: expected whole characters, found half a surrogate pair") from None
    except RecursionError:
        raise UnparsedZnodeError(path, f"offset {start}: expected JSON, found it nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits, NaN, Infinity
        raise UnparsedZnodeError(path, f"offset {start}: expected JSON, found {error}") from None
    return value


def parse_object(data: bytes | None, path: str) -> Fields:
    """The JSON object that `data` holds; `MalformedZnodeError` when it is another value."""
    return fields_of(path, parse(data, path), "")


_INTEGERS: Final = frozenset({int})


def are_integers(items: list[Any]) -> bool:
    """Whether all of them are integers of 32 bits; true and 1.0 are none."""
    return _INTEGERS.issuperset(map(type, items)) and (not items or INT_MIN <= min(items) <= max(items) <= INT_MAX)


def fields_of(path: str, value: object, where: str) -> Fields:
    """`value` as an object standing at `where`."""
    if not isinstance(value, dict):
        raise mismatch(path, where or "(document)", "an object", value)
    return Fields(path, value, where)


def integer_list(path: str, where: str, value: object) -> tuple[int, ...]:
    """`value` as a list of 32-bit integers."""
    if not isinstance(value, list):
        raise mismatch(path, where, "an array of integers", value)
    return tuple(_integer(path, f"{where}[{index}]", item, INT_MIN, INT_MAX) for index, item in enumerate(value))


def decimal(path: str, where: str, text: str, *, low: int = INT_MIN, high: int = INT_MAX) -> int:
    """An integer written as text, as Java's `Integer.parseInt` reads it.

    Args:
        path: of the znode, for errors.
        where: the field, for errors.
        text: the digits, with a sign or none.
        low: the least value allowed.
        high: the greatest value allowed.

    Raises:
        MalformedZnodeError: no number, or one outside; names path and field.
    """
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(LONG_MAX))):
        raise MalformedZnodeError(path, f"{where}: expected a decimal number, found {_shown(text)!r}")
    value = int(text)
    if not low <= value <= high:
        raise MalformedZnodeError(path, f"{where}: expected a number from {low} to {high}, found {value}")
    return value


def encode_object(fields: Iterable[tuple[str, object]], extra: Iterable[tuple[str, str]] = ()) -> bytes:
    """The object with these fields in this order, then the unknown ones that were kept; no white space."""
    parts = [f"{quoted(name)}:{json_text(value)}" for name, value in fields]
    parts += [f"{quoted(name)}:{text}" for name, text in extra]
    return ("{" + ",".join(parts) + "}").encode()


def json_text(value: object) -> str:
    """The JSON text of a value as Jackson writes it: no white space, UTF-8 unescaped; tuples are arrays."""
    match value:
        case str():
            return quoted(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case None:
            return "null"
        case Fraction(text=text):
            return text
        case list() | tuple() if _INTEGERS.issuperset(map(type, value)):
            return "[" + ",".join(map(str, value)) + "]"
        case Mapping():
            return "{" + ",".join(f"{quoted(name)}:{json_text(item)}" for name, item in value.items()) + "}"
        case Sequence():
            return "[" + ",".join(json_text(item) for item in value) + "]"
        case _:
            raise TypeError(f"cannot write {value!r} as JSON: expected text, integers, mappings or sequences")


def quoted(text: str) -> str:
    """A JSON string as Jackson escapes it: upper-case digits; characters beyond 16 bits as two escaped halves."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    escaped = text.translate(_ESCAPES)
    return f'"{escaped if text.isascii() else _BEYOND_16_BITS.sub(_halves, escaped)}"'


_ESCAPES = {code: f"\\u{code:04X}" for code in range(32)} | {
    ord('"'): '\\"', ord("\\"): "\\\\", 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r",
}  # fmt: skip


_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")


def _halves(found: re.Match[str]) -> str:
    high, low = divmod(ord(found[0]) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def _integer(path: str, where: str, value: object, low: int, high: int) -> int:
    if type(value) is not int:
        raise mismatch(path, where, "an integer", value)
    if not low <= value <= high:
        raise MalformedZnodeError(path, f"field {where!r}: expected {low} to {high}, found {value}")
    return value


def _text(path: str, where: str, value: object) -> str:
    if not isinstance(value, str):
        raise mismatch(path, where, "a string", value)
    return value


def _shown(text: str) -> str:
    return text if len(text) <= _FOUND_MAX else f"{text[:_FOUND_MAX]}… ({len(text)} characters)"


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name}, which JSON does not have")


_decoder = json.JSONDecoder(parse_float=Fraction, parse_constant=_refuse_constant)
