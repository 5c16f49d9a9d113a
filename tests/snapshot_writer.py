"""A process that writes to ZooKeeper at a given rate and logs every transaction with its zxid: the ground truth.

    python -m tests.snapshot_writer HOSTS/CHROOT RATE LOG SEED

70 % random states, 15 % fifty hot ones, 10 % two far ones in one transaction, 5 % topics made and removed. It speaks
ZooKeeper's protocol by a pipelined socket of its own: kazoo, beside a server and a reader on two cores, ends below 3,000
transactions a second. Ends at SIGTERM; any failure ends it with another status than 0.
"""

import json
import random
import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.serialization import Connect, Create, Delete, SetData, Transaction
from kazoo.security import OPEN_ACL_UNSAFE

STATE = '{{"controller_epoch":1,"leader":{leader},"version":1,"leader_epoch":{epoch},"isr":[1,2,3]}}'
HOT_COUNT = 50
IN_FLIGHT_MAX = 2000
TICK_S = 0.005
TIMEOUT_MS = 20_000

_LENGTH = struct.Struct("!i")
_REQUEST = struct.Struct("!iii")  # length, xid, type
_REPLY = struct.Struct("!iqi")  # xid, zxid, error
_MZXID = struct.Struct("!8xq")

Operations = list[list[str]]


@contextmanager
def client_of(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts, timeout=TIMEOUT_MS / 1000)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


class Session:
    """A ZooKeeper session on one socket; requests are sent together and answered in their order."""

    def __init__(self, host: str) -> None:
        name, _, port = host.partition(":")
        self._socket = socket.create_connection((name, int(port)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unsent = bytearray()
        self._unread = bytearray()
        self._xid = 0
        opening = Connect(0, 0, TIMEOUT_MS, 0, b"\0" * 16, False).serialize()
        self._socket.sendall(_LENGTH.pack(len(opening)) + opening)
        while not list(self._frames()):  # the answer to the opening
            self._receive()

    def submit(self, request: Any) -> None:
        """Adds a request of kazoo's to what `flush` sends."""
        body = request.serialize()
        self._xid += 1
        self._unsent += _REQUEST.pack(len(body) + 8, self._xid, request.type) + body

    def flush(self) -> None:
        self._socket.sendall(self._unsent)
        self._unsent.clear()

    def replies(self, timeout_s: float) -> Iterator[tuple[int, bytes]]:
        """(error, body) of each reply that is there, or comes within `timeout_s`."""
        if select.select([self._socket], [], [], timeout_s)[0]:
            self._receive()
        for frame in self._frames():
            xid, _, error = _REPLY.unpack_from(frame)
            if xid < 0:
                raise RuntimeError(f"the writer got what it did not ask for: xid {xid}")
            yield error, frame[_REPLY.size :]

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> None:
        found = self._socket.recv(1 << 20)
        if not found:
            raise RuntimeError("the writer lost its connection")
        self._unread += found

    def _frames(self) -> Iterator[bytes]:
        start = 0
        while len(self._unread) >= start + _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(self._unread, start)[0]
            if len(self._unread) < end:
                break
            yield bytes(self._unread[start + _LENGTH.size : end])
            start = end
        del self._unread[:start]


class Writer:
    """Makes transactions at a rate and remembers each with its zxid."""

    def __init__(self, session: Session, chroot: str, states: Sequence[str], rate: int, seed: int) -> None:
        self._session = session
        self._chroot = chroot
        self._states = states
        self._hot = states[: len(states) : max(1, len(states) // HOT_COUNT)][:HOT_COUNT]
        self._rate = rate
        self._seed = seed  # the topics of an earlier writer stay
        self._random = random.Random(seed)
        self._own: deque[str] = deque()
        self._made = 0
        self._in_flight: deque[Operations] = deque()
        self.log: list[tuple[int, Operations]] = []

    def run(self, stop: list[bool]) -> float:
        """Writes until `stop` is filled; the rate that was reached, in transactions a second."""
        began = time.monotonic()
        count = 0
        while not stop:
            due = int((time.monotonic() - began) * self._rate) + 1
            while count < due and len(self._in_flight) < IN_FLIGHT_MAX:
                operations = self._next()
                self._session.submit(self._request(operations))
                self._in_flight.append(operations)
                count += 1
            self._session.flush()
            self._settle(TICK_S)
            time.sleep(TICK_S)  # the rate is the point: what is due by then goes out together
        elapsed = time.monotonic() - began
        while self._in_flight:
            self._settle(60)
        return count / elapsed

    def _next(self) -> Operations:
        dice = self._random.random()
        if dice < 0.70:
            return [self._set(self._random.choice(self._states))]
        if dice < 0.85:
            return [self._set(self._random.choice(self._hot))]
        if dice < 0.95:
            return [self._set(path) for path in self._random.sample(self._states, 2)]
        if dice < 0.98 or not self._own:
            topic = f"/brokers/topics/made-{self._seed}-{self._made:06}"
            self._made += 1
            self._own.append(topic)
            return [
                ["create", topic, "{}"],
                ["create", f"{topic}/partitions", ""],
                ["set", topic, '{"version":1,"partitions":{}}'],
            ]
        topic = self._own.popleft()
        return [
            ["delete", f"{topic}/partitions", ""],
            ["delete", topic, ""],
            self._set(self._random.choice(self._states)),
        ]

    def _set(self, path: str) -> list[str]:
        return ["set", path, STATE.format(leader=self._random.randint(1, 3), epoch=self._random.randint(0, 10**6))]

    def _request(self, operations: Operations) -> Any:
        requests = [self._operation(*each) for each in operations]
        return requests[0] if len(requests) == 1 else Transaction(requests)

    def _operation(self, kind: str, path: str, data: str) -> Any:
        full = self._chroot + path
        if kind == "set":
            return SetData(full, data.encode(), -1)
        return Create(full, data.encode(), OPEN_ACL_UNSAFE, 0) if kind == "create" else Delete(full, -1)

    def _settle(self, timeout_s: float) -> None:
        for error, body in self._session.replies(timeout_s):
            operations = self._in_flight.popleft()
            answers: list[Any] = []
            if not error and len(operations) > 1:
                answers = Transaction.deserialize(body, 0)
            failed = [answer for answer in answers if isinstance(answer, Exception)]
            if error or failed:
                raise RuntimeError(f"the writer failed at {operations}: {error or failed}")
            # The zxid as the written znode itself has it, not as the reply's header says.
            zxids = {each.mzxid for each in answers if hasattr(each, "mzxid")} or set(_MZXID.unpack_from(body))
            (zxid,) = zxids
            self.log.append((zxid, operations))


def main(hosts: str, rate: int, log_file: str, seed: int) -> None:
    """See the module."""
    stop: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    host, _, chroot = hosts.partition("/")
    with client_of(hosts) as client:
        states = [
            f"/brokers/topics/{topic}/partitions/{partition}/state"
            for topic in sorted(client.get_children("/brokers/topics"))
            if topic.startswith("topic-")
            for partition in client.get_children(f"/brokers/topics/{topic}/partitions")
        ]
    random.Random(seed).shuffle(states)
    session = Session(host)
    writer = Writer(session, f"/{chroot}", states, rate, seed)
    Path(f"{log_file}.ready").touch()
    reached = writer.run(stop)
    session.close()
    Path(log_file).write_text(json.dumps({"rate": reached, "log": writer.log}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
