"""Messages as bytes, and back: values are mappings by field name, rows of a structure lists of such mappings.

A message is compiled once per version: neighbouring fields of fixed size become one `struct`, so that a request of 200,000
partitions is written in a fraction of a second (tests/benchmarks/bench_channels.py).
Source: Kafka's protocol guide; `Message`, `ByteUtils` of Kafka 3.9.
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, assert_never

from controller_core.model.errors import MalformedMessageError
from controller_core.wire.schema import ArrayOf, Field, Fixed, Message, Sized, Type

Values = Mapping[str, Any]
Write = Callable[[bytearray, Any], None]
Read = Callable[[bytes, int], tuple[Any, int]]
_NO_TAGS = b"\0"
_MORE = 0x80
_INT16, _INT32 = struct.Struct("!h"), struct.Struct("!i")


def encode(message: Message, version: int, values: Values) -> bytes:
    """The body of a message of that version.

    Raises:
        KeyError: `values` lack a field that the version has.
    """
    out = bytearray()
    _writer(message, version)(out, values)
    return bytes(out)


def decode(message: Message, version: int, data: bytes, offset: int = 0) -> dict[str, Any]:
    """The fields of a message of that version, whose body begins at `offset`; unknown tagged fields are passed over.

    Args:
        message: which.
        version: of it.
        data: what holds it, up to the end.
        offset: where it begins.

    Raises:
        MalformedMessageError: the bytes end early, or go on after the message.
    """
    try:
        values, end = _reader(message, version)(data, offset)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessageError(f"{message.name} version {version}, {len(data)} bytes: {error}") from error
    if end != len(data):
        raise MalformedMessageError(
            f"{message.name} version {version}: expected {end} bytes, found {len(data)}; it is of another version"
        )
    found: dict[str, Any] = values
    return found


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of Kafka's text of a UUID."""
    return urlsafe_b64decode(text + "==")


def uuid_text(data: bytes) -> str:
    """Kafka's text of the 16 bytes of a UUID."""
    return urlsafe_b64encode(data).decode().rstrip("=")


# ---- writing ----


@lru_cache(maxsize=128)
def _writer(message: Message, version: int) -> Write:
    return _structure_writer(message.fields, version, flexible=message.is_flexible(version))


def _structure_writer(fields: Sequence[Field], version: int, *, flexible: bool) -> Write:
    present = [field for field in fields if field.is_in(version)]
    steps: list[Write] = []
    run: list[Field] = []
    for field in present:
        if field.tag is None and isinstance(field.type, Fixed):
            run.append(field)
            continue
        if field.tag is None:
            steps += _run_writer(run)
            run = []
            steps.append(_field_writer(field.name, _type_writer(field.type, version, flexible=flexible)))
    steps += _run_writer(run)
    if flexible:
        steps.append(_tags_writer([field for field in present if field.tag is not None], version))
    writers = tuple(steps)

    def write(out: bytearray, values: Values) -> None:
        for step in writers:
            step(out, values)

    return write


def _run_writer(run: Sequence[Field]) -> list[Write]:
    """One pack for neighbouring fields of fixed size."""
    if not run:
        return []
    pack = struct.Struct("!" + "".join(_letter(field.type) for field in run)).pack
    if len(run) == 1:
        name = run[0].name

        def write_one(out: bytearray, values: Values) -> None:
            out += pack(values[name])

        return [write_one]
    pick = itemgetter(*(field.name for field in run))

    def write_run(out: bytearray, values: Values) -> None:
        out += pack(*pick(values))

    return [write_run]


def _letter(kind: Type) -> str:
    assert isinstance(kind, Fixed), "only these make a run"
    return kind.value


def _field_writer(name: str, write: Write) -> Write:
    def write_field(out: bytearray, values: Values) -> None:
        write(out, values[name])

    return write_field


def _tags_writer(tagged: Sequence[Field], version: int) -> Write:
    """The tagged fields that differ from 0, each with its number and size."""
    writers = [(field.tag or 0, field.name, _type_writer(field.type, version, flexible=True)) for field in tagged]

    def write(out: bytearray, values: Values) -> None:
        if not writers:
            out += _NO_TAGS
            return
        written = [(tag, writer, values[name]) for tag, name, writer in writers if values[name]]
        out += _varint(len(written))
        for tag, writer, value in written:
            content = bytearray()
            writer(content, value)
            out += _varint(tag) + _varint(len(content)) + content

    return write


def _type_writer(kind: Type, version: int, *, flexible: bool) -> Write:
    match kind:
        case Fixed():
            pack = struct.Struct("!" + kind.value).pack

            def write_fixed(out: bytearray, value: Any) -> None:
                out += pack(value)

            return write_fixed
        case Sized.UUID:

            def write_uuid(out: bytearray, value: str) -> None:
                out += uuid_bytes(value)

            return write_uuid
        case Sized.STRING | Sized.BYTES:
            return partial(_write_text, kind is Sized.STRING, flexible)
        case ArrayOf(item=Fixed.INT32):

            def write_numbers(out: bytearray, value: Sequence[int] | None) -> None:
                out += _numbers(None if value is None else tuple(value), flexible)

            return write_numbers
        case ArrayOf(item=item):
            return _array_writer(item, version, flexible=flexible)
        case _:
            assert_never(kind)


def _array_writer(item: Fixed | Sized | tuple[Field, ...], version: int, *, flexible: bool) -> Write:
    if isinstance(item, tuple):
        write_item = _structure_writer(item, version, flexible=flexible)
    else:
        write_item = _type_writer(item, version, flexible=flexible)

    def write(out: bytearray, values: Sequence[Any] | None) -> None:
        out += _count(None if values is None else len(values), flexible)
        if values is not None:
            for value in values:
                write_item(out, value)

    return write


@lru_cache(maxsize=65_536)
def _numbers(values: tuple[int, ...] | None, flexible: bool) -> bytes:  # noqa: FBT001 - a key of the cache
    """An array of broker ids: the same few lists occur in every row, so that their bytes are remembered."""
    if values is None:
        return _count(None, flexible)
    return _count(len(values), flexible) + struct.pack(f"!{len(values)}i", *values)


def _write_text(is_text: bool, flexible: bool, out: bytearray, value: str | bytes | None) -> None:  # noqa: FBT001 - partial
    data = value.encode() if isinstance(value, str) else value
    if flexible:
        out += _varint(0 if data is None else len(data) + 1)
    else:
        length = _INT16 if is_text else _INT32
        out += length.pack(-1 if data is None else len(data))
    out += data or b""


def _count(count: int | None, flexible: bool) -> bytes:  # noqa: FBT001 - one of two forms
    if flexible:
        return _varint(0 if count is None else count + 1)
    return _INT32.pack(-1 if count is None else count)


def _varint(value: int) -> bytes:
    """Seven bits per byte, the lowest first."""
    out = bytearray()
    while value >= _MORE:
        out.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


# ---- reading ----


@lru_cache(maxsize=128)
def _reader(message: Message, version: int) -> Read:
    return _structure_reader(message.fields, version, flexible=message.is_flexible(version))


def _structure_reader(fields: Sequence[Field], version: int, *, flexible: bool) -> Read:
    present = [field for field in fields if field.is_in(version)]
    ordinary = [
        (field.name, _type_reader(field.type, version, flexible=flexible)) for field in present if field.tag is None
    ]
    tagged = {
        field.tag: (field.name, _type_reader(field.type, version, flexible=True))
        for field in present
        if field.tag is not None
    }

    def read(data: bytes, offset: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        for name, read_value in ordinary:
            values[name], offset = read_value(data, offset)
        if flexible:
            values |= {name: 0 for name, _ in tagged.values()}
            offset = _read_tags(tagged, values, data, offset)
        return values, offset

    return read


def _read_tags(tagged: Mapping[int, tuple[str, Read]], values: dict[str, Any], data: bytes, offset: int) -> int:
    count, offset = _read_varint(data, offset)
    for _ in range(count):
        tag, offset = _read_varint(data, offset)
        size, offset = _read_varint(data, offset)
        if tag in tagged:
            name, read = tagged[tag]
            values[name], _ = read(data, offset)
        offset += size
    return offset


def _type_reader(kind: Type, version: int, *, flexible: bool) -> Read:
    match kind:
        case Fixed():
            layout = struct.Struct("!" + kind.value)
            return lambda data, offset: (layout.unpack_from(data, offset)[0], offset + layout.size)
        case Sized.UUID:
            return lambda data, offset: (uuid_text(_part(data, offset, 16)), offset + 16)
        case Sized.STRING | Sized.BYTES:
            return partial(_read_text, kind is Sized.STRING, flexible)
        case ArrayOf(item=item):
            if isinstance(item, tuple):
                read_item = _structure_reader(item, version, flexible=flexible)
            else:
                read_item = _type_reader(item, version, flexible=flexible)
            return partial(_read_array, read_item, flexible)
        case _:
            assert_never(kind)


def _read_array(read_item: Read, flexible: bool, data: bytes, offset: int) -> tuple[list[Any] | None, int]:  # noqa: FBT001 - partial
    if flexible:
        count, offset = _read_varint(data, offset)
        count -= 1
    else:
        count, offset = _INT32.unpack_from(data, offset)[0], offset + 4
    if count < 0:
        return None, offset
    found = []
    for _ in range(count):
        item, offset = read_item(data, offset)
        found.append(item)
    return found, offset


def _read_text(is_text: bool, flexible: bool, data: bytes, offset: int) -> tuple[str | bytes | None, int]:  # noqa: FBT001 - partial
    if flexible:
        length, offset = _read_varint(data, offset)
        length -= 1
    else:
        layout = _INT16 if is_text else _INT32
        length, offset = layout.unpack_from(data, offset)[0], offset + layout.size
    if length < 0:
        return None, offset
    found = _part(data, offset, length)
    return (found.decode() if is_text else found), offset + length


def _part(data: bytes, offset: int, length: int) -> bytes:
    found = data[offset : offset + length]
    if len(found) < length:
        raise IndexError(f"{length} bytes wanted at {offset}, {len(found)} found")
    return found


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & (_MORE - 1)) << shift
        if byte < _MORE:
            return value, offset
        shift += 7
