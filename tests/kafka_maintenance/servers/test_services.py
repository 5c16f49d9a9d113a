"""The real servers of the local stack: they serve, and nothing of them stays after stop."""

import os
import signal
import subprocess
import sys
import textwrap

import boto3
import httpx
import psutil
import psycopg2
import pytest
from botocore.exceptions import ClientError

from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from kafka_maintenance.demo import stack as stacks
from kafka_maintenance.servers import ObjectStoreServer, PostgresServer, Workspace, ZooKeeperEnsemble, ZooKeeperServer
from kafka_maintenance.servers.errors import LocalStackError, PortTakenError
from kafka_maintenance.servers.ports import listens
from kafka_maintenance.servers.s3 import REGION, gateway_program

pytestmark = pytest.mark.services


def client_of(server: ObjectStoreServer, secret_key: str | None = None):
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint_url,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=secret_key or server.secret_key,
        region_name=REGION,
    )


def test_zookeeper_keeps_its_data_over_a_crash_and_leaves_nothing():
    with ZooKeeperServer() as server:
        with connect(server.hosts) as session:
            session.create("/kept", b"data")
        server.kill()
        server.start()
        with connect(server.hosts) as session:
            assert session.get("/kept")[0] == b"data"
        folder, pid = server.workspace.folder, server.child.pid
    assert (folder.exists(), psutil.pid_exists(pid), listens(server.port)) == (False, False, False)


def test_a_zookeeper_with_users_lets_them_log_in():
    with ZooKeeperServer(users={"kafka": "geheim"}) as server:
        auth = ZooKeeperAuth(scheme="sasl", username="kafka", password="geheim")
        with connect(server.hosts, auth=auth) as session:
            session.create("/owned", b"")
            assert session.children("/owned") == []


def test_two_servers_on_one_port_are_refused():
    with ZooKeeperServer() as first, pytest.raises(PortTakenError, match=rf"127\.0\.0\.1:{first.port}.*java"):
        ZooKeeperServer(first.workspace, name="second", port=first.port).start()


def test_an_ensemble_elects_another_leader():
    with ZooKeeperEnsemble() as ensemble:
        first = ensemble.leader()
        first.kill()
        with connect(ensemble.hosts) as session:
            assert session.children("/") == ["zookeeper"]
        assert ensemble.leader() is not first


@pytest.mark.parametrize("kind", ["versitygw", "moto"])
def test_object_store_serves_a_bucket_and_leaves_nothing(kind, capsys):
    if kind == "versitygw" and gateway_program() is None:
        pytest.skip("versitygw is not built and there is no Go to build it")
    with ObjectStoreServer(kind=kind) as server:
        assert (server.create_bucket("bucket"), server.create_bucket("bucket")) == ("s3://bucket", "s3://bucket")
        client_of(server).put_object(Bucket="bucket", Key="a/b", Body=b"x")
        assert client_of(server).get_object(Bucket="bucket", Key="a/b")["Body"].read() == b"x"
        folder = server.workspace.folder
    assert (folder.exists(), listens(server.port)) == (False, False)
    assert ("moto stands in" in capsys.readouterr().err) == (kind == "moto")


def test_a_proxy_does_not_stand_before_the_object_store(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "intranet.example")
    with ObjectStoreServer(kind="moto") as server:
        assert server.create_bucket("bucket") == "s3://bucket"
        assert client_of(server).list_buckets()["Buckets"][0]["Name"] == "bucket"


def test_versitygw_refuses_a_wrong_login():
    if gateway_program() is None:
        pytest.skip("versitygw is not built and there is no Go to build it")
    with ObjectStoreServer(kind="versitygw") as server, pytest.raises(ClientError, match=r"403|SignatureDoesNotMatch"):
        client_of(server, secret_key="wrong").list_buckets()


def test_a_bucket_name_that_s3_refuses_is_told():
    with ObjectStoreServer() as server, pytest.raises((LocalStackError, httpx.HTTPError), match="creating bucket"):
        server.create_bucket("A")


def test_postgres_wants_its_password_and_leaves_nothing():
    with PostgresServer() as server:
        with psycopg2.connect(server.url.replace("+psycopg2", "")) as connection:
            assert connection.server_version >= 180000
        connection.close()
        with pytest.raises(psycopg2.OperationalError, match="password"):
            psycopg2.connect(server.url.replace("+psycopg2", "").replace(server.password, "wrong"))
        folder = server.workspace.folder
    assert (folder.exists(), listens(server.port)) == (False, False)


def test_postgres_works_in_a_folder_that_others_cannot_reach(tmp_path):
    tmp_path.chmod(0o700)
    with Workspace(tmp_path / "stack") as workspace, PostgresServer(workspace) as server:
        connection = psycopg2.connect(server.url.replace("+psycopg2", ""))
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchall() == [(1,)]
        connection.close()


def test_down_stops_real_servers_after_kill_9_of_their_parent(tmp_path):
    script = f"""
        from pathlib import Path
        from kafka_maintenance.servers import ObjectStoreServer, PostgresServer, Workspace, ZooKeeperServer
        workspace = Workspace(Path({str(tmp_path / "stack")!r}))
        servers = [kind(workspace).start() for kind in (ZooKeeperServer, ObjectStoreServer, PostgresServer)]
        print(*(server.port for server in servers), flush=True)
        import time; time.sleep(600)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    ports = [int(word) for word in parent.stdout.readline().split()]
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert [listens(port) for port in ports] == [True, True, True]
    assert sorted(stacks.down(tmp_path / "stack")) == ["postgres", "s3", "zookeeper"]
    assert [listens(port) for port in ports] == [False, False, False]
