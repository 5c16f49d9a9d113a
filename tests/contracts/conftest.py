"""ZooKeeper twice: in memory, and a real server over the network; a test that asks for `world` runs on both."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient

from controller_core.adapters.zookeeper.session import connect
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.runtime.simulated.zookeeper import MemoryServer
from kafka_maintenance.servers import ZooKeeperServer

EVENT_TIMEOUT_S = 20.0


class World:
    """A tree of its own, and sessions on it."""

    def __init__(self, open_session: Callable[[], Any], expire: Callable[[Any], None]) -> None:
        self.open = open_session
        self.expire = expire
        self.zookeeper: ZooKeeper = open_session()


@pytest.fixture(scope="session")
def server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as running:
        yield running


@pytest.fixture(scope="session")
def secured_server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(users={"kafka": "kafka-secret", "tool": "tool-secret"}) as running:
        yield running


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.services)])
def world(request) -> Iterator[World]:
    if request.param == "memory":
        shared = MemoryServer()
        shared.session().create("/chroot")
        yield World(lambda: shared.session(chroot="/chroot"), lambda session: shared.expire(session.session_id))
        return
    hosts = request.getfixturevalue("server").hosts
    chroot = f"/{abs(hash(request.node.nodeid))}"
    with ExitStack() as stack:

        def open_session() -> Any:
            return stack.enter_context(connect(hosts + chroot, create_chroot=True))

        yield World(open_session, lambda session: _expire(hosts, session))


def _expire(hosts: str, session: Any) -> None:
    """End a session from outside: somebody with its password closes it."""
    lost = threading.Event()
    session.client.add_listener(lambda state: lost.set() if state == "LOST" else None)
    twin = KazooClient(hosts, client_id=session.client.client_id)
    twin.start()
    twin.stop()
    twin.close()
    assert lost.wait(EVENT_TIMEOUT_S)


@pytest.fixture
def zookeeper(world: World) -> ZooKeeper:
    return world.zookeeper
