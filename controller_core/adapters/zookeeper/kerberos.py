"""Kerberos logins to ZooKeeper: a ticket for each server is looked for first, for kazoo's connection ends without a word where there is none.

The keys are the operator's: a client keytab (`KRB5_CLIENT_KTNAME`), or a cache of tickets (`KRB5CCNAME`); no password passes through here.
Source: MIT Kerberos 1.20, "keytab" and "Credential cache"; pure-sasl 0.6 `GSSAPIMechanism`; ZooKeeper 3.9 `SaslServerPrincipal`.
"""

from typing import Any, Final

from controller_core.adapters.host_names import hosts_in
from controller_core.model.errors import NoAuthError

SERVICE: Final = "zookeeper"


def client_options(principal: str) -> dict[str, Any]:
    """Arguments of `KazooClient`."""
    return {"sasl_options": {"mechanism": "GSSAPI", "service": SERVICE, "principal": principal}}


def require_tickets(principal: str, hosts: str) -> None:
    """Have Kerberos give `principal` a ticket for each server, `zookeeper/HOST` by the name that `hosts` has for it.

    Raises:
        NoAuthError: it does not, with its own reason; or this Python has no Kerberos.
    """
    try:
        import kerberos  # noqa: PLC0415 - an extra: it is built with the headers of the machine's Kerberos
    except ImportError as error:
        raise NoAuthError(
            f"{hosts}: login of {principal} by Kerberos not tried: this Python has no package kerberos; install the headers of Kerberos "
            "(Debian: libkrb5-dev), then: pip install 'kafka-maintenance[kerberos]'"
        ) from error
    for host in hosts_in(hosts):
        try:
            _, context = kerberos.authGSSClientInit(f"{SERVICE}@{host}", principal=principal)
            kerberos.authGSSClientStep(context, "")
            kerberos.authGSSClientClean(context)
        except kerberos.GSSError as error:
            raise NoAuthError(
                f"{hosts}: {principal} got no ticket for {SERVICE}/{host}: {_reason(error)}; expected the keys of {principal} in the "
                f"keytab that KRB5_CLIENT_KTNAME names, or a ticket in the cache that KRB5CCNAME names, and a principal {SERVICE}/{host} "
                "in the realm"
            ) from error


def _reason(error: Exception) -> str:
    """What libkrb5 said: the minor status, where the error has one."""
    last = error.args[-1] if error.args else error
    return str(last[0] if isinstance(last, tuple) else last)
