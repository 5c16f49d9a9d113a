"""Requests and responses as they travel: length, header, body.

Source: Kafka 3.9 `RequestHeader`, `ResponseHeader` (header version 2 and 1 from the flexible versions on).
"""

import struct
from typing import Any, NamedTuple

from controller_core.model.errors import MalformedMessageError
from controller_core.wire.codec import Values, decode, encode
from controller_core.wire.schema import Message

_LENGTH = struct.Struct("!i")
_HEAD = struct.Struct("!hhi")
_CLIENT_LENGTH = struct.Struct("!h")
FRAME_BYTES_MAX = 100 * 1024 * 1024
"""What a broker takes (`socket.request.max.bytes`)."""


def request_frame(message: Message, version: int, correlation_id: int, client_id: str, values: Values) -> bytes:
    """A request with its length and header.

    Args:
        message: which.
        version: of it.
        correlation_id: which its response repeats.
        client_id: who asks.
        values: its fields, see `codec.encode`.
    """
    name = client_id.encode()
    tags = b"\0" if message.is_flexible(version) else b""
    head = _HEAD.pack(message.api_key, version, correlation_id) + _CLIENT_LENGTH.pack(len(name)) + name + tags
    return framed(head + encode(message, version, values))


class RequestHead(NamedTuple):
    """The header of a request that somebody sent, and where its body begins."""

    api_key: int
    version: int
    correlation_id: int
    rest: int


def request_head(payload: bytes) -> RequestHead:
    """The header of a request, up to its client id; `payload` is the frame without its length.

    Raises:
        MalformedMessageError: the bytes end early.
    """
    try:
        api_key, version, correlation_id = _HEAD.unpack_from(payload)
        length: int = _CLIENT_LENGTH.unpack_from(payload, _HEAD.size)[0]
    except struct.error as error:
        raise MalformedMessageError(f"a request of {len(payload)} bytes: expected a header, {error}") from error
    return RequestHead(api_key, version, correlation_id, _HEAD.size + _CLIENT_LENGTH.size + max(length, 0))


def request_values(message: Message, head: RequestHead, payload: bytes) -> dict[str, Any]:
    """The fields of a request whose header was read.

    Raises:
        MalformedMessageError: it cannot be read.
    """
    return decode(message, head.version, payload, head.rest + message.is_flexible(head.version))


def response_frame(answer: Message, version: int, correlation_id: int, values: Values) -> bytes:
    """A response with its length and header.

    Args:
        answer: which message.
        version: of the request, and so of the response.
        correlation_id: of the request.
        values: its fields, see `codec.encode`.
    """
    tags = b"\0" if answer.is_flexible(version) else b""
    return framed(_LENGTH.pack(correlation_id) + tags + encode(answer, version, values))


def framed(payload: bytes) -> bytes:
    """A payload behind its length."""
    return _LENGTH.pack(len(payload)) + payload


def payload_length(prefix: bytes) -> int:
    """The length that the first four bytes of a frame announce.

    Raises:
        MalformedMessageError: no length of Kafka's protocol; the other side speaks something else, TLS perhaps.
    """
    length: int = _LENGTH.unpack(prefix)[0]
    if not 0 <= length <= FRAME_BYTES_MAX:
        raise MalformedMessageError(
            f"a frame of {length} bytes announced ({prefix!r}): expected at most {FRAME_BYTES_MAX}; "
            "is the listener of another security protocol?"
        )
    return length


def response_values(answer: Message, version: int, correlation_id: int, payload: bytes) -> dict[str, object]:
    """The fields of the response to the request of `correlation_id`.

    Args:
        answer: which message.
        version: of the request, and so of the response.
        correlation_id: of the request.
        payload: the frame without its length.

    Raises:
        MalformedMessageError: the response belongs to another request, or cannot be read.
    """
    if len(payload) < _LENGTH.size or _LENGTH.unpack_from(payload)[0] != correlation_id:
        raise MalformedMessageError(
            f"{answer.name}: expected the response to request {correlation_id}, found {payload[:4]!r}; connect again"
        )
    return decode(answer, version, payload, _LENGTH.size + answer.is_flexible(version))
