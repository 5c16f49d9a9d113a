"""Kerberos on a real ZooKeeper with a real KDC: who logs in, what he creates, who is refused and why.

Boundary of docs/security.md: whoever reaches ZooKeeper without our credentials.
"""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import json
import sys
import time

import pytest

from controller_core.adapters.zookeeper.kerberos import require_tickets
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from controller_core.model.errors import NoAuthError
from controller_core.ports.zookeeper import Acl, Create, Set
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH, Holder, cluster_lock
from kafka_maintenance.servers.process import wait_until
from tests.kerberos import Kdc, kerberos_zookeeper

assert airflow_home
HOLDER = Holder(plan="p", run="r", approver="ada", since="2026-11-23T00:00:00Z")
KAFKA = ZooKeeperAuth(scheme="kerberos", username="kafka@EXAMPLE.COM")
TOOL = ZooKeeperAuth(scheme="kerberos", username="tool@EXAMPLE.COM")
TICKET_S = 3


def test_a_python_without_kerberos_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "kerberos", None)
    with pytest.raises(NoAuthError, match=r"no package kerberos; install .*kafka-maintenance\[kerberos\]"):
        connect("localhost:1", auth=KAFKA).__enter__()


@pytest.fixture(scope="module")
def kdc():
    pytest.importorskip(
        "kerberos", reason="no package kerberos: .ci/kerberos builds it where it may install the headers of Kerberos"
    )
    with Kdc(["zookeeper/localhost", "kafka", "tool"]) as started:
        yield started


@pytest.fixture(scope="module")
def server(kdc):
    with kerberos_zookeeper(kdc) as started:
        yield started


@pytest.fixture
def hosts(kdc, server, monkeypatch):
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    return f"localhost:{server.port}"


@pytest.mark.services
def test_nobody_without_a_ticket_alters_a_request_or_the_lock(hosts):
    with connect(f"{hosts}/attacked", auth=KAFKA, create_chroot=True) as session, connect(hosts) as anybody:
        session.create("/admin")
        session.multi([Create(path="/admin/reassign_partitions", data=b"plan")])
        with cluster_lock(session, HOLDER, wait_s=0):
            for path in ("/attacked/admin/reassign_partitions", f"/attacked{LOCK_PATH}"):
                assert anybody.exists(path)
                for attack in (
                    lambda path=path: anybody.set(path, b"forged", 0),
                    lambda path=path: anybody.multi([Set(path=path, data=b"forged", version=0)]),
                    lambda path=path: anybody.delete(path, 0),
                ):
                    with pytest.raises(NoAuthError):
                        attack()
        found, _ = session.client.get_acls("/admin/reassign_partitions")
    assert {(each.perms, each.id.scheme, each.id.id) for each in found} == {
        (31, "sasl", "kafka@EXAMPLE.COM"),
        (1, "world", "anyone"),
    }


@pytest.mark.services
def test_two_principals_of_one_process_are_told_apart(hosts):
    """One reads every day, another one writes: two connections of a cluster."""
    with connect(f"{hosts}/two", auth=KAFKA, create_chroot=True) as brokers, connect(f"{hosts}/two", auth=TOOL) as tool:
        mine = (Acl(31, "auth", ""), Acl(4, "sasl", "tool@EXAMPLE.COM"), Acl(1, "world", "anyone"))
        brokers.create("/admin", acl=mine)
        brokers.create("/brokers")
        tool.create("/admin/preferred_replica_election", b"plan")
        brokers.set("/admin/preferred_replica_election", b"what is left of it", 0)
        with pytest.raises(NoAuthError):
            tool.create("/brokers/mine")


@pytest.mark.services
@pytest.mark.parametrize("expired", [False, True], ids=["its ticket holds", "its ticket has expired"])
def test_a_connection_that_broke_logs_in_again(hosts, server, kdc, monkeypatch, tmp_path, expired):
    """With the ticket that it has, or with another one where that has expired meanwhile."""
    tickets = tmp_path / "tickets"
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tickets}")
    with connect(f"{hosts}/again-{expired}", auth=KAFKA, create_chroot=True) as session:
        first = session.session_id
        server.kill()
        wait_until(lambda: not session.client.connected, what="the session has noticed", timeout_s=60)
        if expired:
            tickets.unlink()
            get_short_ticket(kdc, tmp_path / "short.conf", hosts, monkeypatch)
        held = tickets.read_bytes()
        server.start()
        wait_until(lambda: session.client.connected, what="the session is back", timeout_s=120, children=[server.child])
        session.create("/mine")
        assert session.client.get_acls("/mine")[0][0].id.id == "kafka@EXAMPLE.COM"
        assert session.session_id == first
    assert (tickets.read_bytes() != held) == expired


def get_short_ticket(kdc, settings, hosts, monkeypatch):
    """A ticket that has expired when this returns. Only it is short: a login with one of seconds fails on a busy machine."""
    settings.write_text(f"[libdefaults]\n  ticket_lifetime = {TICKET_S}s\n{kdc.client_settings.read_text()}")
    with monkeypatch.context() as short:
        short.setenv("KRB5_CONFIG", str(settings))
        require_tickets(str(KAFKA.username), hosts)
    at = time.monotonic()
    wait_until(lambda: time.monotonic() > at + TICKET_S + 1, what="the short ticket has expired", timeout_s=60)


@pytest.mark.services
@pytest.mark.parametrize(
    ("principal", "keytab", "said"),
    [
        ("stranger@EXAMPLE.COM", None, "stranger@EXAMPLE.COM got no ticket for zookeeper/localhost: Can't find client"),
        ("kafka@EXAMPLE.COM", "/nonexistent/keytab", "got no ticket .* expected the keys of kafka@EXAMPLE.COM"),
        ("kafka@ELSEWHERE.ORG", None, "got no ticket"),
    ],
    ids=["not in the keytab", "no keytab", "another realm"],
)
def test_who_gets_no_ticket_is_told_why(hosts, tmp_path, monkeypatch, principal, keytab, said):
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    if keytab:
        monkeypatch.setenv("KRB5_CLIENT_KTNAME", keytab)
    with (
        pytest.raises(NoAuthError, match=said),
        connect(hosts, auth=ZooKeeperAuth(scheme="kerberos", username=principal)),
    ):
        pass


@pytest.mark.services
def test_a_server_that_the_realm_does_not_know_is_named(hosts):
    with (
        pytest.raises(NoAuthError, match=r"got no ticket for zookeeper/127\.0\.0\.1"),
        connect(hosts.replace("localhost", "127.0.0.1"), auth=KAFKA),
    ):
        pass


@pytest.mark.services
def test_a_connection_of_airflow_and_the_command_log_in_so(hosts, tmp_path, capsys):
    from airflow.sdk import Connection

    from kafka_maintenance.connections.clusters import cluster_from

    extra = {"auth": "kerberos", "chroot": "/kafka"}
    cluster = cluster_from(
        "blue",
        Connection(
            conn_id="blue", conn_type="kafka_zookeeper", host=hosts, login="kafka@EXAMPLE.COM", extra=json.dumps(extra)
        ),
    )
    with cluster.address.session(create_chroot=True) as session:
        session.create("/brokers/ids", make_parents=True)
        session.create("/brokers/topics")
        session.create("/config/users/ada", b'{"version":1,"config":{}}', make_parents=True)
        session.client.set_acls(
            "/config/users/ada", session.client.get_acls("/brokers/ids")[0][:1]
        )  # its creator alone
    assert cluster.address.principal == "kerberos:kafka@EXAMPLE.COM"
    arguments = [
        "--zookeeper",
        f"{hosts}/kafka",
        "--zookeeper-user",
        "kafka@EXAMPLE.COM",
        "--zookeeper-scheme",
        "kerberos",
    ]
    assert main(["snapshot", "--cluster", "blue", "--store", str(tmp_path / "store"), *arguments]) == 0
    assert "unreadable" not in capsys.readouterr().out
