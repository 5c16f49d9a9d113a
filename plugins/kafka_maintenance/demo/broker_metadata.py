"""What one broker tells its clients of leaders and ISRs: Kafka's Metadata request, sent to exactly that broker.

A client library asks whichever broker it likes; here each broker's own view is wanted.
Source: Kafka protocol guide, Metadata version 1 (brokers 0.10.0 to 3.9).
"""

import socket
import struct
from dataclasses import dataclass
from io import BytesIO

from controller_core.model.partitions import TopicPartition

API_KEY, API_VERSION, CORRELATION_ID = 3, 1, 1
CLIENT = b"kafka-maintenance"
ALL_TOPICS = -1
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition in a broker's eyes; leader -1 for none."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def broker_metadata(host: str, port: int) -> dict[TopicPartition, PartitionView]:
    """Every partition as the broker at `host:port` describes it to clients.

    Raises:
        OSError: it does not answer within 5 s.
    """
    header = struct.pack(f">hhih{len(CLIENT)}s", API_KEY, API_VERSION, CORRELATION_ID, len(CLIENT), CLIENT)
    request = header + struct.pack(">i", ALL_TOPICS)
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4).rjust(4, b"\0"))
            answer = stream.read(size)
    if size == 0 or len(answer) < size:
        raise ConnectionError(f"asking broker {host}:{port} for its metadata: it closed the connection; is it running?")
    return _decode(_Reader(BytesIO(answer)))


class _Reader:
    """Kafka's primitive types, from a stream."""

    def __init__(self, stream: BytesIO) -> None:
        self._stream = stream

    def number(self, form: str) -> int:
        value: int = struct.unpack(f">{form}", self._stream.read(struct.calcsize(f">{form}")))[0]
        return value

    def text(self) -> str:
        length = self.number("h")
        return self._stream.read(length).decode() if length > 0 else ""

    def numbers(self) -> tuple[int, ...]:
        return tuple(self.number("i") for _ in range(self.number("i")))


def _decode(reader: _Reader) -> dict[TopicPartition, PartitionView]:
    reader.number("i")  # correlation id
    for _ in range(reader.number("i")):  # brokers: id, host, port, rack
        reader.number("i"), reader.text(), reader.number("i"), reader.text()
    reader.number("i")  # controller id
    found = {}
    for _ in range(reader.number("i")):
        reader.number("h")  # error
        topic = reader.text()
        reader.number("b")  # internal
        for _ in range(reader.number("i")):
            reader.number("h")  # error
            partition = TopicPartition(topic, reader.number("i"))
            found[partition] = PartitionView(reader.number("i"), reader.numbers(), reader.numbers())
    return found
