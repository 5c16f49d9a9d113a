"""The arguments of a cluster's ZooKeeper, login and TLS included, and the address that they name."""

import argparse
import os
from typing import Final, Literal

from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, ZooKeeperTls
from kafka_maintenance.operations.errors import BadInputError

PASSWORD_VARIABLE: Final = "KAFKA_MAINTENANCE_ZOOKEEPER_PASSWORD"  # noqa: S105 - the name of a variable, no password


def add_zookeeper_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """`--zookeeper` and as whom to connect; a password comes from the environment, never from the command line."""
    parser.add_argument(
        "--zookeeper", metavar="HOSTS[/CHROOT]", required=required, help="as zookeeper.connect of the brokers"
    )
    parser.add_argument("--zookeeper-user", metavar="NAME", help=f"as whom; the password is in ${PASSWORD_VARIABLE}")
    parser.add_argument(
        "--zookeeper-scheme",
        choices=("digest", "sasl", "kerberos"),
        help="how to log in (default: sasl); of kerberos the user is the principal, and there is no password",
    )
    parser.add_argument("--zookeeper-tls", action="store_true", help="TLS; any of the following asks for it, too")
    parser.add_argument("--zookeeper-ca", metavar="FILE", help="authorities as PEM (default: those of the system)")
    parser.add_argument("--zookeeper-certificate", metavar="FILE", help="our certificate as PEM, for mutual TLS")
    parser.add_argument("--zookeeper-key", metavar="FILE", help="its key (default: in the certificate's file)")
    parser.add_argument(
        "--zookeeper-any-hostname", action="store_true", help="the server's certificate may name another host"
    )


def address_of(arguments: argparse.Namespace) -> ClusterAddress:
    """The cluster that `add_zookeeper_arguments` names.

    Raises:
        BadInputError: a user without a password, or a scheme without a user.
    """
    return ClusterAddress(arguments.zookeeper, _auth(arguments), _tls(arguments))


def require_zookeeper(arguments: argparse.Namespace) -> None:
    """Refuses a login or TLS for a ZooKeeper that is not named.

    Raises:
        BadInputError: they would have no effect.
    """
    if not arguments.zookeeper and (arguments.zookeeper_user or arguments.zookeeper_scheme or _tls(arguments)):
        raise BadInputError(
            "--zookeeper-… without --zookeeper would have no effect; give the address, or leave them out"
        )


def _auth(arguments: argparse.Namespace) -> ZooKeeperAuth | None:
    if not arguments.zookeeper_user:
        if arguments.zookeeper_scheme:
            raise BadInputError(
                f"nobody logged in: --zookeeper-scheme {arguments.zookeeper_scheme} needs --zookeeper-user; give them together"
            )
        return None
    if arguments.zookeeper_scheme == "kerberos":
        return ZooKeeperAuth(scheme="kerberos", username=arguments.zookeeper_user)
    password = os.environ.get(PASSWORD_VARIABLE)
    if not password:
        raise BadInputError(
            f"user {arguments.zookeeper_user!r} not logged in: expected a password in ${PASSWORD_VARIABLE}, found none"
        )
    scheme: Literal["digest", "sasl"] = "digest" if arguments.zookeeper_scheme == "digest" else "sasl"
    return ZooKeeperAuth(scheme=scheme, username=arguments.zookeeper_user, password=password)


def _tls(arguments: argparse.Namespace) -> ZooKeeperTls | None:
    found = ZooKeeperTls(
        ca=arguments.zookeeper_ca,
        certificate=arguments.zookeeper_certificate,
        key=arguments.zookeeper_key,
        check_hostname=not arguments.zookeeper_any_hostname,
    )
    return found if arguments.zookeeper_tls or found != ZooKeeperTls() else None
