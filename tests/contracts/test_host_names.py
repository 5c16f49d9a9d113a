"""Names that nobody knows, and ports at which nothing listens, are told before any client tries to connect."""

import socket
import threading

import pytest

from controller_core.adapters.host_names import hosts_in, unknown_hosts
from controller_core.adapters.zookeeper.session import connect
from controller_core.model.errors import ZooKeeperUnreachableError
from kafka_maintenance.operations.cluster import brokers_asked
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.errors import OperationError


@pytest.mark.parametrize(
    ("servers", "hosts"),
    [
        pytest.param("zk1:2181,zk2:2181/kafka", ("zk1", "zk2"), id="chroot"),
        pytest.param("zk1", ("zk1",), id="no port"),
        pytest.param("[::1]:2181", ("::1",), id="IPv6"),
    ],
)
def test_names_of_an_address(servers, hosts):
    assert hosts_in(servers) == hosts


@pytest.fixture
def name_service(monkeypatch):
    """Answers by name: an error number, or None for a known one."""
    answers = {}

    def ask(host, *_args, **_options):
        if (number := answers[host]) is not None:
            raise socket.gaierror(number, "as the test says")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    return answers


@pytest.mark.parametrize(
    ("first", "second", "unknown"),
    [
        pytest.param(socket.EAI_NONAME, socket.EAI_NONAME, ("a", "b"), id="nobody knows them"),
        pytest.param(socket.EAI_NONAME, None, (), id="one is known"),
        pytest.param(socket.EAI_AGAIN, socket.EAI_NONAME, (), id="the name service does not answer"),
    ],
)
def test_unknown_are_those_of_which_the_name_service_says_so(name_service, first, second, unknown):
    name_service.update(a=first, b=second)
    assert unknown_hosts(("a", "b")) == unknown


def test_zookeeper_is_not_waited_for(name_service):
    name_service.update(zk1=socket.EAI_NONAME)
    with (
        pytest.raises(ZooKeeperUnreachableError, match="zk1:2181/kafka: no host of that name is known: zk1"),
        connect("zk1:2181/kafka", timeout_s=3600),
    ):
        pass


@pytest.mark.parametrize("host", ["zk1..example.com", "z" * 64, "\udcff"], ids=ascii)
def test_what_cannot_be_a_name_is_told_beside_one_that_is_known(host):
    """Within kazoo it ends the thread that connects, with a traceback, and the caller waits."""
    assert unknown_hosts(("localhost", host)) == (host,)
    with (
        pytest.raises(ZooKeeperUnreachableError, match="no host of that name is known: "),
        connect(f"localhost:1,{host}:2181/kafka", timeout_s=3600),
    ):
        pass


def test_brokers_are_not_waited_for(name_service):
    name_service.update(broker=socket.EAI_NONAME)
    asked = ("sizes not read", BrokersAsked("broker:9092"), 3600, OperationError)
    with (
        pytest.raises(OperationError, match=r"sizes not read: .* no host of that name is known: broker"),
        admin_client(*asked),
    ):
        pass


class Ports:
    """Two ports of this machine; nothing listens at one before `listen`."""

    def __init__(self) -> None:
        self.sockets = [socket.socket(), socket.socket()]
        for each in self.sockets:
            each.bind(("127.0.0.1", 0))
        self.servers = ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in self.sockets)

    def listen(self) -> None:
        self.sockets[1].listen()

    def close(self) -> None:
        for each in self.sockets:
            each.close()


@pytest.fixture
def ports():
    opened = Ports()
    yield opened
    opened.close()


def test_brokers_that_all_refuse_are_not_waited_for_as_long_as_an_answer(ports, monkeypatch):
    monkeypatch.setattr(brokers_asked, "REFUSED_S", 0.1)
    with (
        pytest.raises(
            OperationError, match=rf"sizes not read: brokers expected at {ports.servers}, every .* for 0.1 s"
        ),
        admin_client("sizes not read", BrokersAsked(ports.servers), 3600, OperationError),
    ):
        pass


def test_one_that_listens_or_begins_to_is_left_to_the_client(ports):
    threading.Timer(0.2, ports.listen).start()
    assert brokers_asked._all_refuse(ports.servers, 60.0) is False
    assert brokers_asked._all_refuse(ports.servers, 60.0) is False


def test_what_names_no_port_is_left_to_the_client():
    assert brokers_asked._all_refuse("127.0.0.1", 60.0) is False
