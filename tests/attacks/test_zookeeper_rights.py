"""Boundary: whoever reaches ZooKeeper without our credentials. He may read what Kafka lets the world read, and alter nothing of ours."""

import logging

import pytest

from controller_core.adapters.zookeeper.session import ZooKeeperAuth, _client, acl_beside, connect
from controller_core.model.errors import NoAuthError
from controller_core.ports.zookeeper import CREATOR_ALL, Acl, Create, Set
from kafka_maintenance.operations.apply.cluster_lock import FENCE_PREFIX, LOCK_PATH, Holder, cluster_lock
from kafka_maintenance.servers import ZooKeeperServer
from tests.contracts.certificates import issued, started, tls

REQUEST = "/admin/reassign_partitions"
HOLDER = Holder(plan="p", run="r", approver="ada", since="2026-11-23T00:00:00Z")


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    """By scheme: hosts and credentials of an authenticated session, of one with another principal, and hosts for anybody."""
    files = issued(tmp_path_factory.mktemp("tls"))
    with ZooKeeperServer(users={"kafka": "t35ting", "tool": "t"}) as sasl, started(files, "server") as mutual:
        yield {
            "sasl": (sasl.hosts, _sasl("kafka", "t35ting"), _sasl("tool", "t"), sasl.hosts),
            "digest": (sasl.hosts, _digest("kafka"), _digest("tool"), sasl.hosts),
            "mutual TLS": (
                mutual.secure_hosts,
                {"tls": tls(files)},
                {"tls": tls(files, certificate="elsewhere")},
                mutual.hosts,
            ),
        }


def _sasl(username, password):
    return {"auth": ZooKeeperAuth(scheme="sasl", username=username, password=password)}


def _digest(username):
    return {"auth": ZooKeeperAuth(scheme="digest", username=username, password="secret")}


@pytest.mark.parametrize(
    ("hosts", "auth", "is_told"),
    [
        ("192.0.2.1:2181,192.0.2.2:2181/kafka", _digest("kafka"), True),
        ("127.0.0.1:2181/kafka", _digest("kafka"), False),
        ("192.0.2.1:2181", _sasl("kafka", "k"), False),
        ("192.0.2.1:2181", {"auth": None}, False),
    ],
    ids=["digest", "digest on this machine", "sasl", "anonymous"],
)
def test_a_password_that_travels_in_clear_text_is_told(hosts, auth, is_told, caplog):
    _client(hosts, tls=None, session_timeout_s=1.0, **auth)
    assert ("travels in clear text" in caplog.text) == is_told
    assert "secret" not in caplog.text


@pytest.mark.services
@pytest.mark.parametrize("scheme", ["sasl", "digest"])
def test_no_log_of_any_level_holds_a_login_or_a_secret_znode(ways, scheme, caplog, monkeypatch):
    hosts, ours, *_ = ways[scheme]
    for name, logger in logging.getLogger().manager.loggerDict.items():
        if name.startswith("kazoo") and isinstance(
            logger, logging.Logger
        ):  # a set-up of Airflow's logs may have silenced it
            monkeypatch.setattr(logger, "disabled", False)
            monkeypatch.setattr(logger, "propagate", True)
            monkeypatch.setattr(logger, "level", logging.NOTSET)
    caplog.set_level(1)
    with connect(f"{hosts}/logged-{scheme}", create_chroot=True, **ours) as session:
        session.create("/config/users/ada", b"stored_key=5ecret", make_parents=True)
        session.multi([Set(path="/config/users/ada", data=b"stored_key=5ecret!", version=0)])
        assert session.get("/config/users/ada")[0] == b"stored_key=5ecret!"
        assert session.get_many(["/config/users/ada"])
    assert "connection established" in caplog.text
    assert not [word for word in ("secret", "5ecret", "t35ting") if word in caplog.text]


@pytest.mark.services
@pytest.mark.parametrize("scheme", ["sasl", "digest", "mutual TLS"])
def test_nobody_without_credentials_alters_a_request_the_lock_or_its_fence(ways, scheme):
    hosts, ours, _, open_hosts = ways[scheme]
    chroot = f"/{scheme.replace(' ', '-')}"
    with connect(hosts + chroot, create_chroot=True, **ours) as session, connect(open_hosts) as anybody:
        session.create("/admin")
        session.multi([Create(path=REQUEST, data=b"plan")])
        with cluster_lock(session, HOLDER, wait_s=0):
            fences = [f"/admin/{name}" for name in session.children("/admin") if name.startswith(FENCE_PREFIX[7:])]
            for path in (REQUEST, LOCK_PATH, *fences):
                assert anybody.exists(chroot + path)
                for attack in (
                    lambda path=path: anybody.set(chroot + path, b"forged", 0),
                    lambda path=path: anybody.multi([Set(path=chroot + path, data=b"forged", version=0)]),
                    lambda path=path: anybody.delete(chroot + path, 0),
                ):
                    with pytest.raises(NoAuthError):
                        attack()
            assert anybody.get(chroot + REQUEST)[0] == b"plan"
            assert len(fences) == 1


@pytest.mark.services
@pytest.mark.parametrize("scheme", ["sasl", "mutual TLS"])
def test_brokers_of_another_principal_rewrite_and_remove_our_request(ways, scheme):
    """They made /admin with the ACL of `zookeeper.set.acl`, and let us create below it."""
    hosts, brokers, ours, _ = ways[scheme]
    chroot = f"/two-{scheme.replace(' ', '-')}"
    with connect(hosts + chroot, create_chroot=True, **brokers) as kafka, connect(hosts + chroot, **ours) as session:
        me = session.client.get_acls(session.create("/mine"))[0]
        (principal,) = [each.id for each in me if each.perms == 31 and each.id.scheme != "world"][:1]
        kafka.create("/admin", acl=(*CREATOR_ALL, Acl(4, principal.scheme, principal.id), Acl(1, "world", "anyone")))
        session.create(REQUEST, b"plan")
        kafka.set(REQUEST, b"what is left of the plan", 0)
        assert session.get(REQUEST)[0] == b"what is left of the plan"
        kafka.delete(REQUEST, 1)
        assert session.exists(REQUEST) is None


@pytest.mark.services
def test_what_is_created_where_the_world_may_not_read_is_hidden_too(ways):
    hosts, ours, _, open_hosts = ways["sasl"]
    with connect(f"{hosts}/hidden", create_chroot=True, **ours) as session, connect(f"{open_hosts}/hidden") as anybody:
        session.create("/config/users", acl=CREATOR_ALL, make_parents=True)
        session.create("/config/users/ada", b"secret")
        with pytest.raises(NoAuthError):
            anybody.get("/config/users/ada")


def test_a_digest_that_zookeeper_masks_is_not_copied():
    parent = [Acl(31, "digest", "kafka:x"), Acl(31, "sasl", "host:x"), Acl(1, "world", "anyone")]
    assert acl_beside(parent) == (Acl(31, "auth", ""), Acl(31, "sasl", "host:x"), Acl(1, "world", "anyone"))
