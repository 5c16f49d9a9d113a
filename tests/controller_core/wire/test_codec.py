"""Every message in every version: the bytes are those of a library made from Kafka's own message definitions."""

import dataclasses
import datetime as dt
import importlib
import io
import typing
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from controller_core.model.errors import MalformedMessageError
from controller_core.wire import controller_requests, messages
from controller_core.wire.codec import decode, encode, uuid_bytes, uuid_text
from controller_core.wire.frame import payload_length, request_head, response_values
from controller_core.wire.schema import ArrayOf, Field, Fixed, Message, Sized, Type

MESSAGES = [
    each for module in (messages, controller_requests) for each in vars(module).values() if isinstance(each, Message)
]
RENAMED = {
    "is_kraft_controller": "is_k_raft_controller",
    "type": "type_",
    "id": "id_",
    "throttle_time_ms": "throttle_time",
    "timeout_ms": "timeout",
}
LIMITS = {Fixed.INT8: 7, Fixed.INT16: 15, Fixed.INT32: 31, Fixed.INT64: 63}
NULLABLE = {"rack", "error_message", "cluster_id"}
CASES = [(message, version) for message in MESSAGES for version in range(message.newest + 1)]


def values_of(kind: Type, name: str, version: int) -> st.SearchStrategy[Any]:
    if name == "error_code":
        return st.sampled_from(sorted(messages.ERROR_NAMES))
    match kind:
        case Fixed.BOOL:
            return st.booleans()
        case Fixed():
            bits = LIMITS[kind]
            return st.integers(-(2**bits), 2**bits - 1)
        case Sized.STRING:
            text = st.text(st.characters(codec="utf-8"), max_size=40)
            return text | st.none() if name in NULLABLE else text
        case Sized.BYTES:
            return st.binary(max_size=200)
        case Sized.UUID:
            return st.uuids().map(lambda each: uuid_text(each.bytes)) | st.just(uuid_text(bytes(16)))
        case ArrayOf(item=tuple() as fields):
            return st.lists(structures(fields, version), max_size=3)
        case ArrayOf(item=item):
            return st.lists(values_of(item, name, version), max_size=130 if name == "isr" else 4)


def structures(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {field.name: values_of(field.type, field.name, version) for field in fields if field.is_in(version)}
    )


def entity_class(message: Message, version: int) -> type:
    base = message.name.removesuffix("Response")
    folder = "".join(f"_{each.lower()}" if each.isupper() else each for each in base).lstrip("_")
    side, suffix = ("response", "Response") if message.name.endswith("Response") else ("request", "Request")
    return getattr(importlib.import_module(f"kio.schema.{folder}.v{version}.{side}"), base + suffix)


def entity(kind: type, values: Mapping[str, Any]) -> Any:
    """The library's record with these values."""
    hints = typing.get_type_hints(kind)
    return kind(**{(own := RENAMED.get(name, name)): converted(hints[own], value) for name, value in values.items()})


def converted(hint: Any, value: Any) -> Any:
    row = row_class(hint)
    if row is not None and value is not None:
        return tuple(entity(row, each) for each in value)
    if isinstance(value, list):
        return tuple(value)
    if getattr(hint, "__name__", "") == "i32Timedelta":
        return dt.timedelta(milliseconds=value)
    if uuid.UUID in typing.get_args(hint):
        found = uuid.UUID(bytes=uuid_bytes(value))
        return found if found.int else None
    return hint(value) if getattr(hint, "__name__", "") == "ErrorCode" else value


def row_class(hint: Any) -> Any:
    """The record of which `hint` is an array, or an array or None."""
    found = (each if dataclasses.is_dataclass(each) else row_class(each) for each in typing.get_args(hint))
    return next((each for each in found if each is not None), None)


@pytest.mark.parametrize(("message", "version"), CASES, ids=[f"{m.name}-{v}" for m, v in CASES])
def test_bytes_are_those_of_a_library_made_from_kafkas_definitions(message: Message, version: int) -> None:
    kind = entity_class(message, version)
    write, read = entity_writer(kind), entity_reader(kind)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(structures(message.fields, version))
    def compare(values: dict[str, Any]) -> None:
        theirs = io.BytesIO()
        write(theirs, entity(kind, values))
        ours = encode(message, version, values)
        assert ours == theirs.getvalue()
        assert read(ours, 0) == (entity(kind, values), len(ours))
        assert decode(message, version, ours) == values

    compare()


def test_an_array_that_is_null_asks_for_all_topics() -> None:
    assert encode(messages.METADATA, 1, {"topics": None}) == b"\xff\xff\xff\xff"


def test_an_unknown_tagged_field_is_passed_over() -> None:
    body = bytes(2) + b"\x01\x05\x02xy"  # no error; one tagged field, number 5, two bytes
    assert decode(messages.UPDATE_METADATA_ANSWER, 6, body) == {"error_code": 0}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        pytest.param(b"\0", "requires", id="ends early"),
        pytest.param(bytes(3), "expected 2 bytes, found 3", id="goes on after its end"),
    ],
)
def test_bytes_of_another_length_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessageError, match=complaint):
        decode(messages.UPDATE_METADATA_ANSWER, 0, data)


def test_a_field_is_in_the_versions_that_kafka_gave_it() -> None:
    first = {
        path: next(version for version in range(9) if messages.LEADER_AND_ISR.has(path, version))
        for path in ("broker_epoch", "topic_states.topic_id", "topic_states.partition_states.adding_replicas")
    }
    assert list(first.values()) == [2, 5, 3]
    with pytest.raises(KeyError, match="no field 'color'"):
        messages.LEADER_AND_ISR.has("color", 1)


ROWS = Message(
    "Rows", 1, newest=1, fields=(Field("ids", ArrayOf(Fixed.INT32)), Field("text", Sized.STRING)), flexible_since=1
)


@pytest.mark.parametrize("version", [0, 1], ids=["lengths", "compact lengths"])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"ids": None, "text": None}, id="null"),
        pytest.param({"ids": list(range(200)), "text": "x" * 20_000}, id="lengths of several bytes"),
    ],
)
def test_what_is_null_or_long_is_read_as_it_was_written(values: dict[str, Any], version: int) -> None:
    assert decode(ROWS, version, encode(ROWS, version, values)) == values


@pytest.mark.parametrize("version", [0, 1], ids=["lengths", "compact lengths"])
def test_a_text_that_ends_early_is_refused(version: int) -> None:
    data = encode(ROWS, version, {"ids": [], "text": "abcdef"})
    with pytest.raises(MalformedMessageError):
        decode(ROWS, version, data[:-3])


def test_a_path_through_a_field_that_is_no_array_names_none() -> None:
    with pytest.raises(KeyError, match=r"no field 'text\.length'"):
        ROWS.has("text.length", 1)


def test_the_first_bytes_of_another_protocol_are_no_length() -> None:
    with pytest.raises(MalformedMessageError, match="is the listener of another security protocol"):
        payload_length(b"\x16\x03\x01\x02")
    assert payload_length(b"\0\0\0\x07") == 7


@pytest.mark.parametrize("payload", [b"\0\0", b"\0\0\0\x08\0\0"], ids=["too short", "another id"])
def test_the_response_to_another_request_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedMessageError, match="expected the response to request 7"):
        response_values(messages.UPDATE_METADATA_ANSWER, 0, 7, payload)


def test_a_request_that_ends_within_its_header_is_malformed() -> None:
    with pytest.raises(MalformedMessageError, match="a request of 5 bytes: expected a header"):
        request_head(bytes(5))
