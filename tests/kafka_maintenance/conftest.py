"""A real ZooKeeper for all modules that ask for one; a chroot, a filled tree and a folder for processes for each test. A module may have its own."""

import pytest

from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.workspace import Workspace
from tests.kafka_maintenance import snapshot_world


@pytest.fixture(scope="session")
def server():
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def chroot(server, request):
    return f"{server.hosts}/{abs(hash(request.node.nodeid))}"


@pytest.fixture
def kafka(chroot):
    """Session on a filled tree."""
    with snapshot_world.session(chroot) as session:
        snapshot_world.fill(session)
        yield session


@pytest.fixture
def workspace(tmp_path):
    """A folder for processes, which are ended with it."""
    with Workspace(tmp_path / "stack") as found:
        yield found
