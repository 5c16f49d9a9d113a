"""Which names of servers nobody knows: found at once, instead of after the time that a client tries to connect.

Source: getaddrinfo(3): EAI_NONAME and EAI_NODATA are answers, EAI_AGAIN is none.
"""

import socket
from collections.abc import Sequence
from typing import Final

_NO_SUCH_NAME: Final = frozenset(
    number for name in ("EAI_NONAME", "EAI_NODATA") if isinstance(number := getattr(socket, name, None), int)
)


def hosts_in(servers: str) -> tuple[str, ...]:
    """The names in `host:port,host:port/chroot`, `[::1]:2181` included."""
    found = (each.strip() for each in servers.partition("/")[0].split(","))
    return tuple((each.rpartition(":")[0] or each).strip("[]") for each in found if each)


def unknown_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """Those of `hosts` that cannot be a name; else all of them, if the name service says of each that there is no such name; else none."""
    if impossible := tuple(host for host in hosts if not _may_be_a_name(host)):
        return impossible  # with one of them among others kazoo connects to none, and does not say so
    for host in hosts:
        try:
            socket.getaddrinfo(host, None)
        except socket.gaierror as error:
            if error.errno not in _NO_SUCH_NAME:
                return ()
        except OSError:
            return ()
        else:
            return ()
    return tuple(hosts)


def _may_be_a_name(host: str) -> bool:
    """Not where a label is empty, as in `zk1..example.com`, or too long: the name service is not even asked."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
