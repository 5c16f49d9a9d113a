"""One contract for every object store: memory, folder, and S3 over HTTP."""

import functools
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller_core.adapters.object_store.dry_run import DryRunStore
from controller_core.adapters.object_store.open import (
    INCOMING,
    FolderStore,
    MemoryStore,
    ObjectStore,
    open_store,
)
from controller_core.adapters.object_store.s3 import S3Store
from controller_core.model.errors import (
    ObjectDamagedError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
    StoreAccessDeniedError,
    StoreUnreachableError,
    StoreUnwritableError,
)
from kafka_maintenance.servers import ObjectStoreServer
from kafka_maintenance.servers.process import wait_until
from kafka_maintenance.servers.s3 import gateway_program

BUCKET = "snapshots"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Callable[[str], ObjectStoreServer]]:
    """Real S3 servers over HTTP by kind, each with one bucket; versitygw only where Go is there to build it."""
    with ExitStack() as stack:

        @functools.cache
        def started(kind: str) -> ObjectStoreServer:
            if kind == "versitygw" and gateway_program() is None:
                pytest.skip("versitygw is not built and there is no Go to build it; moto runs the same tests")
            server = stack.enter_context(ObjectStoreServer(kind=kind))
            server.create_bucket(BUCKET)
            return server

        yield started


def store_at(server: ObjectStoreServer, prefix: str, **login: str) -> ObjectStore:
    return open_store(
        f"s3://{BUCKET}/{prefix}",
        endpoint_url=server.endpoint_url,
        access_key=login.get("access_key", server.access_key),
        secret_key=login.get("secret_key", server.secret_key),
    )


@pytest.fixture(
    params=[
        "memory",
        "folder",
        "dry run",
        *(pytest.param(kind, marks=pytest.mark.services) for kind in ("moto", "versitygw")),
    ]
)
def store(request, tmp_path, s3_server) -> ObjectStore:
    match request.param:
        case "memory":
            return MemoryStore("contract")
        case "folder":
            return FolderStore(tmp_path / "store")
        case "dry run":
            return DryRunStore(FolderStore(tmp_path / "store"), lambda _: None)
        case kind:
            return store_at(s3_server(kind), hashlib.sha256(request.node.name.encode()).hexdigest()[:12])


def test_what_was_put_is_got(store):
    store.put("v1/a.bin", b"\x00\xff" * 1000)
    assert store.get("v1/a.bin") == b"\x00\xff" * 1000
    assert store.size("v1/a.bin") == 2000


def test_empty_object(store):
    store.put("v1/empty", b"")
    assert (store.get("v1/empty"), store.size("v1/empty")) == (b"", 0)


def test_put_replaces(store):
    store.put("k", b"old, longer")
    store.put("k", b"new")
    assert store.get("k") == b"new"


def test_put_new_creates(store):
    store.put_new("v1/manifest.json", b"one")
    assert store.get("v1/manifest.json") == b"one"


def test_put_new_never_replaces(store):
    store.put_new("v1/manifest.json", b"one")
    with pytest.raises(ObjectExistsError, match=r"v1/manifest\.json.*exists already"):
        store.put_new("v1/manifest.json", b"two")
    assert store.get("v1/manifest.json") == b"one"


def test_of_racing_writers_exactly_one_wins(store):
    winners: list[bytes] = []
    barrier = threading.Barrier(8)

    def write(body: bytes) -> None:
        barrier.wait()
        try:
            store.put_new("race", body)
        except ObjectExistsError:
            return
        winners.append(body)

    threads = [threading.Thread(target=write, args=(b"%d" % number * 100,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.get("race")] == winners


@pytest.mark.parametrize("ask", ["get", "size"])
def test_a_missing_object_is_named(store, ask):
    store.put("other", b"")
    with pytest.raises(ObjectMissingError, match="v1/absent"):
        getattr(store, ask)("v1/absent")


def test_list_is_by_prefix_and_sorted_by_bytes(store):
    for key in ("a/é", "a/b/c", "a/b.x", "ab", "a/Z", "b"):
        store.put(key, b"x")
    assert list(store.list("a/")) == ["a/Z", "a/b.x", "a/b/c", "a/é"]
    assert list(store.list("a")) == ["a/Z", "a/b.x", "a/b/c", "a/é", "ab"]
    assert list(store.list("a/b")) == ["a/b.x", "a/b/c"]
    assert list(store.list("nothing/here/")) == []


@pytest.mark.parametrize("prefix", ["a/../b/", "a/../../../../../../../../../usr/bin/", "../", "/usr/bin/", "a//b/"])
def test_nothing_is_listed_below_a_prefix_that_no_key_has(store, prefix):
    for key in ("a/b/c", "b/c"):
        store.put(key, b"x")
    assert list(store.list(prefix)) == []


def test_list_goes_beyond_one_page(store):
    keys = sorted(f"p/{number:04}" for number in range(1005))
    for key in keys:
        store.put(key, b"")
    assert list(store.list("p/")) == keys


def await_later_time(store: ObjectStore) -> None:
    """Comes back when a write has a later time than those before, as the store tells times: a server tells seconds, one in memory counts writes."""
    if isinstance(store, MemoryStore | DryRunStore):
        return

    def time_of_a_write() -> object:
        store.put("clock", b"")
        return (
            dict(store._listed("clock"))["clock"]
            if isinstance(store, S3Store)
            else Path(store.uri_of("clock")).stat().st_mtime_ns
        )

    before = time_of_a_write()
    wait_until(lambda: time_of_a_write() != before, what="a write has a later time", timeout_s=10)
    store.delete("clock")


def test_what_was_written_last_is_listed_first(store):
    for key in ("n/b", "n/a", "n/c", "m/z", "n/b"):
        store.put(key, key.encode())
        await_later_time(store)
    store.delete("n/c")
    assert list(store.list_newest_first("n/")) == ["n/b", "n/a"]
    assert list(store.list_newest_first("")) == ["n/b", "m/z", "n/a"]
    assert list(store.list_newest_first("none/")) == []


def test_delete_removes_and_may_be_repeated(store):
    store.put("d/one", b"1")
    store.put("d/two", b"2")
    store.delete("d/one")
    store.delete("d/one")
    assert list(store.list("d/")) == ["d/two"]


def test_a_deleted_key_can_be_put_again(store):
    store.put("d/one", b"1")
    store.delete("d/one")
    store.put("d/one", b"2")
    assert store.get("d/one") == b"2"


def test_files_go_in_and_out(store, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_000))
    store.put_file("v1/raw.parquet", source)
    store.get_to_file("v1/raw.parquet", tmp_path / "there" / "copy")
    assert (tmp_path / "there" / "copy").read_bytes() == source.read_bytes()
    assert [entry.name for entry in (tmp_path / "there").iterdir()] == ["copy"]


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/./b", "a/../b", "a\0b", "a\\b", f"{INCOMING}/x"])
def test_keys_that_could_leave_the_store_are_refused(store, key):
    with pytest.raises(ObjectStoreError, match="refused"):
        store.put(key, b"x")
    with pytest.raises(ObjectStoreError, match="refused"):
        store.get(key)


def test_a_key_is_never_the_folder_of_another_one(store):
    """Not a promise of Amazon S3; the folder and the fake refuse it, so that nobody relies on it."""
    if isinstance(store, S3Store):
        return
    store.put("o/a", b"x")
    with pytest.raises(ObjectStoreError, match="o/a/b"):
        store.put("o/a/b", b"x")


def test_probe_accepts_a_good_store_and_leaves_nothing(store):
    store.probe()
    assert list(store.list("probe")) == []


def test_addresses(store):
    assert store.uri_of("v1/x").endswith("/v1/x")
    assert store.uri_of("v1/x").startswith(store.uri)


# ------------------------------------------------------------------------------------------------- one store only


class OverwritingStore(MemoryStore):
    """A store that ignores the condition, as `rclone serve s3` does."""

    def put_new(self, key: str, data: bytes) -> None:
        self.put(key, data)


def test_a_dry_run_reads_what_is_there_and_writes_nothing(tmp_path):
    base, told = FolderStore(tmp_path), []
    base.put("kept", b"1")
    base.put("removed", b"2")
    store = DryRunStore(base, told.append)
    store.delete("removed")
    store.put_new("made", b"three")
    with pytest.raises(ObjectExistsError):
        store.put_new("kept", b"4")
    with pytest.raises(ObjectMissingError):
        store.get("removed")
    assert (list(store.list("")), list(base.list(""))) == (["kept", "made"], ["kept", "removed"])
    assert list(store.list_newest_first("")) == ["made", "kept"]
    assert told == [f"would remove {tmp_path}/removed", f"would write {tmp_path}/made (5 bytes)"]


def test_a_name_that_is_no_text_is_listed_in_a_dry_run_too(tmp_path):
    base = FolderStore(tmp_path)
    base.put("a", b"1")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    assert list(DryRunStore(base, lambda _: None).list("")) == list(base.list("")) == ["a", "\udcff"]


def test_a_store_without_conditional_writes_is_refused(monkeypatch):
    from controller_core.adapters.object_store.probe import probe_store

    with pytest.raises(StoreUnwritableError, match="If-None-Match"):
        probe_store(OverwritingStore("bad"))


@pytest.mark.parametrize(
    ("uri", "kind", "address"),
    [
        pytest.param("s3://bucket/some/prefix/", S3Store, "s3://bucket/some/prefix", id="bucket and prefix"),
        pytest.param("s3://bucket", S3Store, "s3://bucket", id="bucket alone"),
        pytest.param("/var/store", FolderStore, "/var/store", id="folder"),
        pytest.param("file:///var/my%20store", FolderStore, "/var/my store", id="folder as URL"),
        pytest.param("/var/my#store?", FolderStore, "/var/my#store?", id="folder with signs of an address"),
        pytest.param("file://localhost/var/store", FolderStore, "/var/store", id="folder as URL of this machine"),
        pytest.param("memory://m", MemoryStore, "memory://m", id="memory"),
    ],
)
def test_open_store(uri, kind, address):
    opened = open_store(uri, region="us-east-1")
    assert (type(opened), opened.uri) == (kind, address)


@pytest.mark.parametrize(
    "uri",
    [
        *("", "gs://bucket", "s3:///prefix"),
        *("s3://bucket/pre#fix", "s3://bucket/prefix?versionId=1", "file:///var/store#2"),
        *("file://backups/kafka", "file:", "file:kafka"),
    ],
)
def test_an_address_of_no_known_kind_is_refused(uri):
    with pytest.raises(ObjectStoreError, match="not opened"):
        open_store(uri)


def test_the_memory_of_a_name_is_one():
    open_store("memory://same").put("k", b"v")
    assert open_store("memory://same").get("k") == b"v"


def test_nobody_listens():
    store = S3Store("b", endpoint_url="http://127.0.0.1:9", access_key="a", secret_key="b")
    with pytest.raises(StoreUnreachableError, match=r"127\.0\.0\.1:9.*check the endpoint"):
        store.get("k")


def test_no_credentials(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StoreAccessDeniedError, match="AWS_ACCESS_KEY_ID"):
        S3Store("b", endpoint_url="http://127.0.0.1:9").get("k")


@pytest.mark.services
def test_an_object_damaged_in_the_store_is_not_returned(s3_server):
    """versitygw keeps plain files: one is changed behind its back, and the checksum it stored does not match any more."""
    server = s3_server("versitygw")
    store = store_at(server, "damage")
    store.put("k", b"precious bytes")
    (file,) = server.workspace.folder.rglob("damage/k")
    file.write_bytes(b"precious bytez")
    with pytest.raises(ObjectDamagedError, match="checksum does not match"):
        store.get("k")


@pytest.mark.services
@pytest.mark.parametrize("login", [{"secret_key": "wrong"}, {"access_key": "nobody"}])
def test_a_wrong_login_is_told(s3_server, login):
    store = store_at(s3_server("versitygw"), "login", **login)
    with pytest.raises(StoreAccessDeniedError, match="refuses these credentials"):
        store.probe()


@pytest.mark.services
def test_a_bucket_that_is_not_there(s3_server):
    server = s3_server("moto")
    store = S3Store("absent", endpoint_url=server.endpoint_url, access_key="a", secret_key="b")
    with pytest.raises(StoreUnreachableError, match="no bucket 'absent'"):
        store.put("k", b"")
