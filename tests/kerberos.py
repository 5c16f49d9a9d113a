"""A real KDC on loopback for tests: Apache Kerby in the shape of Hadoop's MiniKdc, from Maven Central, pinned, checked on every use.

`data/kdc_jars.lock.json` names every jar with its SHA-256; it is written by `python -m tests.kerberos lock`.
Source: Hadoop 3.5 `MiniKdc`; ZooKeeper 3.9, "Client-Server mutual authentication".
"""

import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.jar_sets import JarSet, ivy_module
from kafka_maintenance.servers.java import QUIET_SERVER, SHORT_RUN, find_java
from kafka_maintenance.servers.ports import LOOPBACK, check_port
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.service import Server

HADOOP_VERSION = "3.5.0"
LOCK_FILE = Path(__file__).parent / "data" / "kdc_jars.lock.json"
REALM = "EXAMPLE.COM"
SETTINGS = """\
org.name=EXAMPLE
org.domain=COM
kdc.bind.address={host}
kdc.port={port}
transport=TCP
instance=kdc
debug=false
max.ticket.lifetime=86400000
min.ticket.lifetime=1
max.renewable.lifetime=604800000
"""
CLIENT = """\
[libdefaults]
  default_realm = {realm}
  dns_canonicalize_hostname = false
  dns_lookup_kdc = false
  dns_lookup_realm = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = {host}:{port}
  }}
"""


def jar_set() -> JarSet:
    """MiniKdc and what it needs, without the test framework that it names."""
    return JarSet(
        title=f"MiniKdc {HADOOP_VERSION}",
        folder=f"kdc-jars/{HADOOP_VERSION}",
        module=ivy_module("kdc", [("org.apache.hadoop", "hadoop-minikdc", HADOOP_VERSION)]),
        main_jar=f"hadoop-minikdc-{HADOOP_VERSION}.jar",
        digests=json.loads(LOCK_FILE.read_text(encoding="utf-8")) if LOCK_FILE.exists() else {},
    )


class Kdc(Server):
    """A KDC of the realm EXAMPLE.COM that knows `principals`; a context manager. The keys of all of them are in `keytab`."""

    def __init__(self, principals: Sequence[str]) -> None:
        super().__init__(None, name="kdc", port=None)
        self._principals = tuple(principals)
        folder = self.workspace.subfolder(self.name)
        self.keytab = folder / "all.keytab"
        self.client_settings = folder / "client.conf"
        self.tickets = folder / "tickets"

    def start(self) -> Self:
        """Start it and wait until it has made the keys."""
        folder = self.keytab.parent
        check_port(self.port, self.name)
        self.tickets.mkdir(mode=0o700)
        self.client_settings.write_text(CLIENT.format(realm=REALM, host=LOOPBACK, port=self.port), encoding="utf-8")
        settings = folder / "kdc.properties"
        settings.write_text(SETTINGS.format(host=LOOPBACK, port=self.port), encoding="utf-8")
        command = [
            *(str(find_java().program), "-Xmx128m", *SHORT_RUN, *QUIET_SERVER),
            *("--add-exports", "java.security.jgss/sun.security.krb5=ALL-UNNAMED"),
            *("-cp", f"{jar_set().cached()}/*", "org.apache.hadoop.minikdc.MiniKdc"),
            *(str(folder), str(settings), str(self.keytab), *self._principals),
        ]
        self._child = start_child(self.workspace, self.name, command, stop_signal=signal.SIGTERM, stop_timeout_s=5)
        wait_until(
            lambda: "Standalone MiniKdc Running" in self.child.log.read_text(encoding="utf-8"),
            what="the KDC has made its keys",
            timeout_s=120,
            children=[self.child],
        )
        return self

    @property
    def environment(self) -> Mapping[str, str]:
        """With which a client takes its keys from the keytab, and keeps the tickets of several principals apart."""
        return {
            "KRB5_CONFIG": str(self.client_settings),
            "KRB5_CLIENT_KTNAME": str(self.keytab),
            "KRB5CCNAME": f"DIR:{self.tickets}",
        }


@contextmanager
def kerberos_zookeeper(kdc: Kdc) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper that is `zookeeper/localhost` to the KDC."""
    jaas = kdc.keytab.parent / "server.jaas"
    jaas.write_text(
        "Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false "
        f'keyTab="{kdc.keytab}" principal="zookeeper/localhost@{REALM}"; }};\n',
        encoding="utf-8",
    )
    server = ZooKeeperServer(
        config={"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
        java_options=(
            f"-Djava.security.krb5.conf={kdc.client_settings}",
            f"-Djava.security.auth.login.config={jaas}",
        ),
    )
    with server:
        yield server


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["lock"]:
            LOCK_FILE.write_text(json.dumps(jar_set().fetched_digests(), indent=1) + "\n", encoding="utf-8")
        case ["fetch"]:
            print(jar_set().cached())
        case _:
            sys.exit("usage: python -m tests.kerberos lock|fetch")
