"""Stores that cannot be written, for real: a full disk, a read-only one, a limit on files, an S3 server that says 403.

Each leaves a complete snapshot or none, and a second run finishes once there is room, or permission.
"""

import http.client
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import ObjectStoreError, StoreAccessDeniedError
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.operations.snapshots.verify import verify_snapshot
from kafka_maintenance.servers import ObjectStoreServer, ZooKeeperServer
from tests.kafka_maintenance import full_disk, killed
from tests.kafka_maintenance import snapshot_world as world
from tests.listening import listening
from tests.visible_snapshots import visible_snapshots

pytestmark = pytest.mark.services

BUCKET = "snapshots"
OWN_MOUNTS = ("unshare", "--map-root-user", "--mount")


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with ZooKeeperServer() as server, world.session(f"{server.hosts}/kafka") as session:
        world.fill(session)
        yield f"{server.hosts}/kafka"


def mounted(hosts, folder, *sizes):
    """What attempts in a process with mounts of its own found; skipped where the system forbids such mounts."""
    allowed = subprocess.run([*OWN_MOUNTS, "mount", "-t", "tmpfs", "tmpfs", str(folder)], check=False)
    if allowed.returncode:
        pytest.skip("this system lets nobody mount a file system of one's own; RLIMIT_FSIZE is tested instead")
    command = [
        *OWN_MOUNTS,
        sys.executable,
        "-m",
        "tests.kafka_maintenance.full_disk",
        hosts,
        str(folder),
        *map(str, sizes),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_a_disk_that_is_full_at_any_moment(hosts, tmp_path):
    """From room for nothing to room for all: each size stops at another object."""
    attempts = mounted(hosts, tmp_path, *range(4, 108, 8))
    refused = [each for each in attempts if each["error"]]
    assert {each["error"] for each in refused} == {"StoreUnwritableError"}
    for each in refused:
        assert "No space left on device" in each["message"]
        assert "free space or correct the permissions, then run again" in each["message"]
        assert str(tmp_path) in each["message"]
    stopped_at = {each["message"].partition("' not written")[0].rpartition("/")[2] for each in refused}
    assert len(stopped_at) >= 5, stopped_at
    assert len(refused) < len(attempts), "the largest has room for all"
    for each in attempts:
        assert each["visible"] == (0 if each["error"] else 1)
        assert each["damage"] == []
        assert (each["afterwards"]["error"], each["afterwards"]["visible"], each["afterwards"]["damage"]) == (
            None,
            1,
            [],
        )


def test_a_disk_that_is_read_only(hosts, tmp_path):
    (attempt,) = mounted(hosts, tmp_path, "ro")
    assert (attempt["error"], attempt["visible"]) == ("StoreUnwritableError", 0)
    assert "Read-only file system" in attempt["message"]
    assert "free space or correct the permissions" in attempt["message"]
    assert (attempt["afterwards"]["error"], attempt["afterwards"]["visible"]) == (None, 1)


def take_with_small_files(hosts, folder, report):
    """In a process of its own: no file may be larger than the largest object but one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    found = full_disk.taken(hosts, folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    report.write_text(json.dumps(found))


def test_a_limit_on_the_size_of_files(hosts, tmp_path):
    report = tmp_path / "report.json"
    assert killed.in_child(take_with_small_files, hosts, tmp_path / "store", report) == 0
    found = json.loads(report.read_text())
    assert (found["error"], found["visible"]) == ("StoreUnwritableError", 0)
    assert "File too large" in found["message"]
    assert full_disk.taken(hosts, tmp_path / "store")["visible"] == 1


def test_a_folder_below_a_file(hosts, tmp_path):
    (tmp_path / "file").write_text("I am no folder")
    with pytest.raises(
        ObjectStoreError, match=r"file/store/.*' not written: expected folders on the way.*name another folder"
    ):
        take_snapshot(
            address=ClusterAddress(hosts),
            cluster="alpha",
            store=open_store(str(tmp_path / "file" / "store")),
            run_id="r",
            now=world.NOON,
        )
    assert (tmp_path / "file").read_text() == "I am no folder"


# ------------------------------------------------------------------------------------------------- S3


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectStoreServer]:
    with ObjectStoreServer(kind="moto") as server:
        server.create_bucket(BUCKET)
        yield server


@contextmanager
def gate_before(server: ObjectStoreServer, *, puts: int = 1000, lost: int | None = None) -> Iterator[str]:
    """An S3 endpoint before `server`; its URL.

    It permits so many writes, then answers 403 as Amazon does. Write number `lost` is carried out and answered with 500.
    """
    count = [0]
    fault = b'<?xml version="1.0"?><Error><Code>InternalError</Code><Message>try again</Message></Error>'
    refusal = (
        b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>not authorized: s3:PutObject</Message></Error>'
    )

    class Gate(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.command == "PUT":
                count[0] += 1
            if self.command == "PUT" and count[0] > puts:
                self.reply(403, [("Content-Type", "application/xml")], refusal)
                return
            behind = http.client.HTTPConnection(server.endpoint_url.removeprefix("http://"), timeout=30)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
            behind.request(self.command, self.path, body, headers)
            found = behind.getresponse()
            status, answered, content = found.status, found.getheaders(), found.read()
            behind.close()
            if self.command == "PUT" and count[0] == lost:
                status, answered, content = 500, [("Content-Type", "application/xml")], fault
            self.reply(status, answered, content)

        def reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in {"content-length", "transfer-encoding", "connection", "date", "server"}:
                    self.send_header(name, value)
            length = next((value for name, value in headers if name.lower() == "content-length"), str(len(body)))
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer  # noqa: N815 -- the names of http.server

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with listening(ThreadingHTTPServer(("127.0.0.1", 0), Gate)) as gate:
        yield f"http://127.0.0.1:{gate.server_port}"


def s3_store(server, prefix, endpoint):
    login = {"access_key": server.access_key, "secret_key": server.secret_key}
    return open_store(f"s3://{BUCKET}/{prefix}", endpoint_url=endpoint, **login)


@pytest.mark.parametrize("puts", [0, 1, 2, 5, 11, 12, 13])
def test_an_s3_server_that_stops_permitting_writes(hosts, s3, puts):
    """2 writes are the probe, 10 the objects, then the note and the manifest."""
    prefix = f"after-{puts}"
    with (
        gate_before(s3, puts=puts) as endpoint,
        pytest.raises(
            StoreAccessDeniedError, match=rf"s3://{BUCKET}/{prefix}/.*not written.*AccessDenied.*check the access"
        ),
    ):
        take_snapshot(
            address=ClusterAddress(hosts),
            cluster="alpha",
            store=s3_store(s3, prefix, endpoint),
            run_id="r",
            now=world.NOON,
        )
    store = s3_store(s3, prefix, s3.endpoint_url)
    assert visible_snapshots(store) == []
    result = take_snapshot(address=ClusterAddress(hosts), cluster="alpha", store=store, run_id="r", now=world.NOON)
    assert result.created == (puts < 13), "with the note written, the second run only shows what the first one made"
    (only,) = visible_snapshots(store)
    assert verify_snapshot(store, only) == []


@pytest.mark.parametrize("put", [1, 2, 3, 12, 13, 14])
def test_an_s3_server_whose_answer_is_lost(hosts, s3, put):
    """The write is done; the client asks again and meets its own object. Numbers as above."""
    prefix = f"lost-{put}"
    with gate_before(s3, lost=put) as endpoint:
        store = s3_store(s3, prefix, endpoint)
        result = take_snapshot(address=ClusterAddress(hosts), cluster="alpha", store=store, run_id="r", now=world.NOON)
        assert result.created
    (only,) = visible_snapshots(s3_store(s3, prefix, s3.endpoint_url))
    assert only == result.manifest
    assert verify_snapshot(s3_store(s3, prefix, s3.endpoint_url), only) == []
