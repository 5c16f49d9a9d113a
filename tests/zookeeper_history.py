"""A history that a real ZooKeeper server writes into its files, with what the server itself showed at some moments of it.

One client does everything that a client can do; another one writes all the time, so that snapshot files hold changes of
transactions after the one that they are named after.
"""

import json
import os
import random
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import int_struct, long_struct, read_string, write_buffer, write_string
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from controller_core.adapters.snapshot.reader import ReadOptions, read_cut
from tests.snapshot_writer import client_of

ACLS = (
    OPEN_ACL_UNSAFE,
    OPEN_ACL_UNSAFE,
    [make_acl("world", "anyone", all=True), make_acl("ip", "127.0.0.1", all=True)],
    [make_acl("digest", "tool:x5Mqpb0hBvcEFTSZHKAKKhLTdV0=", read=True), make_acl("world", "anyone", all=True)],
)


@dataclass(frozen=True)
class CreateContainer:
    path: str
    acl: list
    type = 19

    def serialize(self):
        out = write_string(self.path) + write_buffer(b"container") + int_struct.pack(len(self.acl))
        for entry in self.acl:
            out += int_struct.pack(entry.perms) + write_string(entry.id.scheme) + write_string(entry.id.id)
        return bytes(out + int_struct.pack(4))

    def deserialize(self, content, offset):
        return read_string(content, offset)[0]


class CreateTtl(CreateContainer):
    type = 21

    def serialize(self):
        return super().serialize()[:-4] + int_struct.pack(5) + long_struct.pack(86_400_000)


@dataclass(frozen=True)
class Seen:
    """What the server showed after a transaction: path → (data, stat, ACL as JSON)."""

    zxid: int
    znodes: dict


def shown(cut):
    return {path: (znode.data, znode.stat, cut.acls.get(path)) for path, znode in cut.znodes.items()}


def read_of(hosts):
    with client_of(hosts) as client:
        everything = frozenset(f"/{name}" for name in client.get_children("/")) - {"/zookeeper"}
        cut = read_cut(client, ReadOptions(roots=everything))
    return Seen(cut.zxid, shown(cut))


def write_history(server, *, steps, looks, seed=1, features=True):
    """Writes `steps` random changes and looks at the tree at `looks` random moments between them."""
    chance = random.Random(seed)
    moments = set(chance.sample(range(10, steps), looks))
    seen = []
    with client_of(server.hosts) as client:
        paths = ["/"]
        for step in range(steps):
            with suppress(KazooException):
                _step(client, chance, paths, step, features=features)
            if step in moments:
                seen.append(read_of(server.hosts))
    return seen


def _step(client, chance, paths, step, *, features):
    match chance.choices(("create", "set", "acl", "delete", "multi", "special"), (40, 30, 6, 14, 8, 3))[0]:
        case "create":
            path = f"{chance.choice(paths[-30:]).rstrip('/')}/n{step}"
            client.create(
                path, os.urandom(chance.randrange(40)), acl=chance.choice(ACLS), ephemeral=chance.random() < 0.1
            )
            paths.append(path)
        case "set":
            client.set(chance.choice(paths), os.urandom(chance.randrange(60)))
        case "acl":
            client.set_acls(chance.choice(paths), chance.choice(ACLS))
        case "delete" if len(paths) > 1:
            client.delete(chance.choice(paths[1:]))
        case "multi":
            transaction = client.transaction()
            for number in range(3):
                transaction.create(f"/multi{step}-{number}", b"together")
            transaction.set_data("/", b"%d" % step)
            if chance.random() < 0.3:
                transaction.check("/", 999_999)  # fails, and all of it with it
            transaction.commit()
        case "special" if features:
            kind = chance.choice((CreateContainer, CreateTtl))
            result = client.handler.async_result()
            client._call(kind(f"/special{step}", OPEN_ACL_UNSAFE), result)
            paths.append(result.get(timeout=30))


@contextmanager
def busy_writer(hosts):
    """A client that makes, writes and deletes znodes all the time."""
    stop = threading.Event()

    def write():
        with client_of(hosts) as client:
            number = 0
            while not stop.is_set():
                pending = [client.create_async(f"/busy/{number + more}", b"x" * 50) for more in range(50)]
                pending += [client.set_async(f"/busy/{number + more}", b"y") for more in range(50)]
                pending += [client.delete_async(f"/busy/{number + more - 200}") for more in range(50)]
                for each in pending:
                    with suppress(KazooException):
                        each.get(timeout=30)
                number += 50

    with client_of(hosts) as client:
        client.ensure_path("/busy")
    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def differences(tree, seen):
    """What a tree of files has otherwise than the server showed it; an ACL that was not looked at in time is no difference."""
    found = {
        path or "/": (node.data, node.stat(), json.dumps(node.acl))
        for path, node in tree.nodes.items()
        if not f"{path}/".startswith("/zookeeper/")
    }
    return [
        (path, found.get(path), seen.znodes.get(path))
        for path in sorted(found.keys() | seen.znodes.keys())
        if found.get(path, ())[:2] != seen.znodes.get(path, ())[:2]
        or seen.znodes[path][2] not in (None, found[path][2])
    ]
