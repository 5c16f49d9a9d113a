"""Names that nobody knows are told before any client tries to connect."""

import socket

import pytest

from controller_core.adapters.host_names import hosts_in, unknown_hosts
from controller_core.adapters.zookeeper.session import connect
from controller_core.model.errors import ZooKeeperUnreachableError
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


def test_brokers_are_not_waited_for(name_service):
    name_service.update(broker=socket.EAI_NONAME)
    asked = ("sizes not read", BrokersAsked("broker:9092"), 3600, OperationError)
    with (
        pytest.raises(OperationError, match=r"sizes not read: .* no host of that name is known: broker"),
        admin_client(*asked),
    ):
        pass
