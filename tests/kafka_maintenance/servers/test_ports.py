"""Ports on loopback: given out once, and named with their listener when taken."""

import os
import socket
import subprocess
import sys

import pytest

from kafka_maintenance.servers import ports
from kafka_maintenance.servers.errors import PortTakenError
from kafka_maintenance.servers.ports import bypass_proxy, check_port, free_ports


def test_a_taken_port_names_its_listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"starting ZooKeeper on 127.0.0.1:{port}.*pid {os.getpid()}"):
            check_port(port, "ZooKeeper")


def test_free_ports_are_given_out_once():
    assert len({port for _ in range(5) for port in free_ports(4)}) == 20


def test_another_process_is_not_given_a_port_that_waits_for_its_server():
    taken, other = free_ports(2)
    ask = "import sys; from kafka_maintenance.servers import ports; port = int(sys.argv[1]); ports.PORTS = range(port, port + 1); print(ports.free_port())"

    def asked(port):
        command = [sys.executable, "-c", ask, str(port)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert "PortTakenError: looking for 1 free ports" in asked(taken).stderr
    ports._PORTS_GIVEN.pop(other).close()
    assert asked(other).stdout == f"{other}\n"


@pytest.mark.parametrize(
    ("given", "lower", "upper"),
    [
        pytest.param({}, "127.0.0.1,localhost", "127.0.0.1,localhost", id="nothing is excepted yet"),
        pytest.param(
            {"no_proxy": "a.example", "NO_PROXY": "b.example"},
            "a.example,127.0.0.1,localhost",
            "b.example,127.0.0.1,localhost",
            id="what is there stays",
        ),
        pytest.param(
            {"NO_PROXY": "b.example, localhost"},
            "b.example,localhost,127.0.0.1",
            "b.example,localhost,127.0.0.1",
            id="a new no_proxy does not hide the NO_PROXY that is there",
        ),
        pytest.param({"no_proxy": "*"}, "*", "*", id="everything is excepted"),
    ],
)
def test_no_proxy_stands_before_loopback(given, lower, upper):
    for _ in range(2):
        bypass_proxy(given)
        assert given == {"no_proxy": lower, "NO_PROXY": upper}
