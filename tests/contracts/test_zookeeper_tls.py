"""Snapshots over TLS with client certificates, and what an operator reads when the certificates are wrong."""

import ssl
import subprocess
import threading

import pytest
from cryptography.hazmat.primitives import serialization

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.reader import ReadOptions, read_cut
from controller_core.adapters.snapshot.tree_writer import WriteOptions, write_tree
from controller_core.adapters.zookeeper import tls as zookeeper_tls
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperTls, connect
from controller_core.model.errors import NoAuthError, TlsSettingsError, ZooKeeperUnreachableError
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests import snapshot_consistency
from tests.contracts.certificates import PEM, PKCS8, issued, started, tls
from tests.kafka_maintenance import snapshot_world

TOPICS, PARTITIONS = 100, 20


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return issued(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(files):
    with started(files, "server") as running:
        with connect(f"{running.hosts}/kafka", create_chroot=True) as session:
            snapshot_world.fill(session, brokers=(), controller=None)
            write_tree(
                session.client,
                (z for z in snapshot_consistency.topics_tree(TOPICS, PARTITIONS) if "topic-" in z.path),
                WriteOptions(),
            )
        yield running


pytestmark = pytest.mark.services


def test_a_snapshot_over_mutual_tls_is_the_tree(server, files):
    hosts = f"{server.secure_hosts}/kafka"
    with connect(hosts, tls=tls(files)) as secured, connect(f"{server.hosts}/kafka") as plain:
        assert read_cut(secured.client).znodes == read_cut(plain.client).znodes
    result = take_snapshot(
        address=ClusterAddress(hosts, tls=tls(files)),
        cluster="a",
        store=MemoryStore("tls"),
        run_id="r",
        now=snapshot_world.NOON,
    )
    assert result.consistent
    assert result.counts["partitions"] == TOPICS * PARTITIONS + 3


def test_a_cut_over_tls_settles_while_somebody_writes(server, files):
    """Events and replies share TLS records; none may wait for the next one to come."""
    stop = threading.Event()

    def write():
        with connect(f"{server.hosts}/kafka") as writer:
            while not stop.is_set():
                for topic in range(TOPICS):
                    writer.client.set_async(f"/brokers/topics/topic-{topic:05}/partitions/0/state", b"{}")
                writer.sync("/")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with connect(f"{server.secure_hosts}/kafka", tls=tls(files)) as session:
            cuts = [read_cut(session.client, ReadOptions(batch_count=100)) for _ in range(5)]
    finally:
        stop.set()
        thread.join()
    assert [(cut.consistent, cut.attempts) for cut in cuts] == [(True, 1)] * 5


def test_certificate_and_key_may_be_one_file(server, files):
    both = ZooKeeperTls(ca=str(files / "ours.pem"), certificate=str(files / "client-both.pem"))
    with connect(server.secure_hosts, tls=both) as session:
        assert session.exists("/kafka") is not None


@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        pytest.param({"certificate": None}, NoAuthError, "refused us.*without a certificate", id="none shown"),
        pytest.param({"certificate": "stranger"}, NoAuthError, r"refused us.*stranger\.pem", id="of another authority"),
        pytest.param({"ca": "theirs"}, ZooKeeperUnreachableError, r"not trusted.*theirs\.pem", id="server not trusted"),
    ],
)
def test_certificates_that_do_not_fit(server, files, choice, error, message):
    with pytest.raises(error, match=message), connect(server.secure_hosts, tls=tls(files, **choice), timeout_s=2):
        pass


def test_a_certificate_of_another_host(files):
    with started(files, "elsewhere") as server:
        with (
            pytest.raises(ZooKeeperUnreachableError, match=r"not trusted.*IP address mismatch.*host name"),
            connect(server.secure_hosts, tls=tls(files), timeout_s=2),
        ):
            pass
        with connect(server.secure_hosts, tls=tls(files, check_hostname=False)) as session:
            assert session.exists("/") is not None


@pytest.mark.parametrize(
    "closed", [ConnectionResetError, BrokenPipeError, EOFError, ssl.SSLEOFError, ssl.SSLZeroReturnError]
)
def test_however_a_server_closes_both_causes_are_named(files, monkeypatch, closed):
    def refused(host, port, context):
        raise closed

    monkeypatch.setattr(zookeeper_tls, "_shake_hands", refused)
    told = zookeeper_tls.tls_refusal("127.0.0.1:2281", tls(files))
    assert isinstance(told, NoAuthError)
    assert "secureClientPort" in str(told)
    assert "our certificate" in str(told)


def test_the_wrong_port_is_told(server, files):
    with (
        pytest.raises((ZooKeeperUnreachableError, NoAuthError), match="secureClientPort"),
        connect(server.hosts, tls=tls(files), timeout_s=2),
    ):
        pass
    with (
        pytest.raises(ZooKeeperUnreachableError, match="secureClientPort answers only to TLS"),
        connect(server.secure_hosts, timeout_s=2),
    ):
        pass


def test_nobody_there_is_not_a_matter_of_tls(files):
    with pytest.raises(ZooKeeperUnreachableError, match="no ZooKeeper server answered"):  # noqa: SIM117 -- one error
        with connect("127.0.0.1:1", tls=tls(files), timeout_s=1):
            pass


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"ca": "absent.pem"}, r"CA file .*absent\.pem.*No such file", id="no CA file"),
        pytest.param({"ca": "client.key"}, r"CA file .*client\.key.*certificates in PEM", id="a key as CA"),
        pytest.param({"certificate": "absent.pem"}, "certificate and key.*No such file", id="no certificate"),
        pytest.param({"certificate": "client.pem"}, "certificate and key.*unencrypted key", id="no key in it"),
        pytest.param({"certificate": "client.pem", "key": "stranger.key"}, "(?i)mismatch", id="another key"),
        pytest.param({"certificate": "client.pem", "key": "locked.key"}, "unencrypted key", id="an encrypted key"),
        pytest.param({"key": "client.key"}, "a key .* without a certificate", id="a key alone"),
    ],
)
def test_files_that_cannot_be_used_are_named_before_anybody_is_asked(files, fields, message):
    key = serialization.load_pem_private_key((files / "client.key").read_bytes(), None)
    locked = key.private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(b"secret"))
    (files / "locked.key").write_bytes(locked)
    settings = ZooKeeperTls(**{name: str(files / file) for name, file in fields.items()})
    with pytest.raises(TlsSettingsError, match=message), connect("192.0.2.1:2281", tls=settings):
        pass


def test_the_command_takes_the_files(server, files, tmp_path):
    import os
    import sys

    options = ("ca", "ours.pem"), ("certificate", "client.pem"), ("key", "client.key")
    command = [
        *(sys.executable, "-m", "kafka_maintenance", "snapshot", "--cluster", "blue", "--store", str(tmp_path)),
        *("--zookeeper", f"{server.secure_hosts}/kafka"),
        *(text for name, file in options for text in (f"--zookeeper-{name}", str(files / file))),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (found.returncode, "consistent" in found.stdout) == (0, True), found.stderr
    command[-1] = str(files / "absent.key")
    refused = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert refused.returncode == 2
    assert "certificate and key" in refused.stderr
