"""TCP ports on loopback: free ones to give out, taken ones to tell of, and no proxy before them."""

import contextlib
import os
import random
import socket
import threading
from collections.abc import MutableMapping

import psutil

from kafka_maintenance.servers.errors import PortTakenError

LOOPBACK = "127.0.0.1"
# Below Linux's range for outgoing connections (32768 and up), so that no client socket takes a port between the check
# and the server's bind.
PORTS = range(10_240, 32_000)

_PORTS_GIVEN: dict[int, socket.socket] = {}
"""Port → the mark that tells other processes of this package."""
_PORTS_LOCK = threading.Lock()


def free_ports(count: int) -> list[int]:
    """`count` loopback ports that nobody listens on now.

    None is given out twice by this process, nor by another one of this package before this one ends.

    Raises:
        PortTakenError: none was found in 10240 to 31999.
    """
    found: list[int] = []
    with _PORTS_LOCK:
        for port in random.SystemRandom().sample(PORTS, len(PORTS)):
            if len(found) == count:
                break
            if port not in _PORTS_GIVEN and (mark := _marked(port)) is not None:
                if _can_bind(port):
                    found.append(port)
                    _PORTS_GIVEN[port] = mark
                else:
                    mark.close()
    if len(found) < count:
        raise PortTakenError(
            f"looking for {count} free ports on {LOOPBACK} in {PORTS.start} to {PORTS.stop - 1}: found {len(found)};"
            " stop what listens there (`ss -ltnp` lists it) and start again"
        )
    return found


def free_port() -> int:
    """One port of `free_ports`."""
    return free_ports(1)[0]


def check_port(port: int, name: str) -> None:
    """Check that nobody listens on a port that the caller chose.

    Raises:
        PortTakenError: somebody does; the message names the process if it can be seen.
    """
    if not _can_bind(port):
        raise PortTakenError(
            f"starting {name} on {LOOPBACK}:{port}: expected a free port, found {_listener(port)} listening;"
            " stop it, or choose another port (without a port a free one is taken)"
        )


def listens(port: int) -> bool:
    """Whether a TCP connection to the loopback port is accepted."""
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1.0):
        return True
    return False


def bypass_proxy(env: MutableMapping[str, str] | None = None) -> None:
    """Have HTTP clients reach loopback directly, also where the user's environment names a proxy.

    Args:
        env: `no_proxy` and `NO_PROXY` are set here, because clients differ in which they read; what they except already
            stays. None for the environment of this process, which its children inherit.
    """
    environment = os.environ if env is None else env
    lower, upper = environment.get("no_proxy", ""), environment.get("NO_PROXY", "")
    for name, excepted in (("no_proxy", lower or upper), ("NO_PROXY", upper or lower)):
        hosts = [host.strip() for host in excepted.split(",") if host.strip()]
        own = () if "*" in hosts else (LOOPBACK, "localhost")  # beside others the * would mean nothing to some clients
        environment[name] = ",".join(dict.fromkeys((*hosts, *own)))


def _marked(port: int) -> socket.socket | None:
    """A UDP socket of the same number, as a mark that the TCP port is given out; None where another process has it."""
    mark = socket.socket(type=socket.SOCK_DGRAM)
    try:
        mark.bind((LOOPBACK, port))
    except OSError:
        mark.close()
        return None
    return mark


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _listener(port: int) -> str:
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                name = psutil.Process(connection.pid).name() if connection.pid else "a process of another user"
                return f"{name} (pid {connection.pid})"
    return "another process"
