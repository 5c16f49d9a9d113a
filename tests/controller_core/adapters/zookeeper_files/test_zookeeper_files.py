"""Files of a ZooKeeper server that no server of today writes, or that are damaged: made here byte by byte."""

import errno
import struct
import zlib
from pathlib import Path

import pytest

from controller_core.adapters.zookeeper_files.data_directory import DataDirectory
from controller_core.adapters.zookeeper_files.jute import INT, LONG, UNKNOWN_ACL, acl_bytes, text_bytes
from controller_core.adapters.zookeeper_files.snapshot_file import read_snapshot, write_snapshot
from controller_core.adapters.zookeeper_files.transactions import is_session
from controller_core.adapters.zookeeper_files.tree import ROOT, DataTree
from controller_core.model.errors import ZooKeeperFileError
from tests.zookeeper_logs import SESSION, create, log, multi, old_snapshot, set_data, transaction, znode


def data(directory, zxid):
    return {path: node.data for path, node in directory.moment(zxid).tree.nodes.items()}


@pytest.fixture
def folder(tmp_path):
    """snapshot.0 and three creations."""
    old_snapshot(tmp_path, 0, [(ROOT, znode())])
    log(
        tmp_path,
        1,
        transaction(1, -10, INT.pack(30_000)),
        transaction(2, 1, create("/a", b"one", parent_cversion=1)),
        transaction(3, 5, set_data("/a", b"two", 1)),
    )
    return tmp_path


def test_zeros_after_the_last_entry_are_the_end(folder):
    log(folder, 4, transaction(4, 5, set_data("/a", b"three", 2)), tail=bytes(1000))
    directory = DataDirectory(folder)
    assert (list(directory.zxids), directory.notes) == ([1, 2, 3, 4], [])
    assert [data(directory, zxid).get("/a") for zxid in (1, 2, 3, 4)] == [None, b"one", b"two", b"three"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(lambda last: last[:-1], "incomplete", id="without its end mark"),
        pytest.param(lambda last: last[:20], "incomplete", id="cut off in the content"),
        pytest.param(lambda last: last[:5], "incomplete", id="cut off in the checksum"),
        pytest.param(lambda last: last[:30] + b"!" + last[31:], "does not have its checksum", id="a changed byte"),
    ],
)
def test_a_torn_tail_is_named_and_not_read(folder, damage, reason):
    log(folder, 4, damage(transaction(4, 5, set_data("/a", b"three", 2))))
    directory = DataDirectory(folder)
    assert directory.newest == 3
    assert len(directory.notes) == 1
    assert directory.notes[0].startswith("log.4: ")
    assert reason in directory.notes[0]
    with pytest.raises(ZooKeeperFileError, match="found zxids 0x0 to 0x3"):
        directory.moment(4)


def test_an_empty_log_is_that_of_a_server_that_died_at_once(folder):
    (folder / "log.4").write_bytes(b"")
    assert DataDirectory(folder).newest == 3


def test_a_missing_transaction_ends_what_a_snapshot_leads_to(folder):
    log(folder, 6, transaction(6, 5, set_data("/a", b"six", 4)))
    directory = DataDirectory(folder)
    assert data(directory, 3)["/a"] == b"two"
    with pytest.raises(ZooKeeperFileError, match="the transactions between 0x3 and 0x6 are missing"):
        directory.moment(6)
    old_snapshot(folder, 5, [(ROOT, znode(cversion=1)), ("/a", znode(b"five", 5))])
    assert data(DataDirectory(folder), 6)["/a"] == b"six"


def test_a_server_before_3_5_writes_no_file_of_its_empty_tree(folder):
    (folder / "snapshot.0").unlink()
    moment = DataDirectory(folder).moment(2)
    assert (moment.tree.nodes["/a"].data, moment.doubt) == (b"one", None)
    (folder / "log.1").rename(folder / "other")
    log(folder, 2, transaction(2, 1, create("/a", b"one", parent_cversion=1)))
    with pytest.raises(ZooKeeperFileError, match=r"expected files snapshot\.N"):
        DataDirectory(folder)


def test_the_first_transaction_of_a_new_leader_follows_the_last_of_the_old_one(folder):
    log(folder, 1 << 32 | 1, transaction(1 << 32 | 1, 5, set_data("/a", b"new leader", 2)))
    assert data(DataDirectory(folder), 1 << 32 | 1)["/a"] == b"new leader"


def test_a_file_that_may_hold_later_changes_is_doubted_or_passed_over(folder):
    """snapshot.2 holds the change of transaction 3 already, and no digest tells."""
    old_snapshot(folder, 2, [(ROOT, znode(cversion=1, pzxid=2)), ("/a", znode(b"two", 2))])
    assert data(DataDirectory(folder), 2)["/a"] == b"one", "snapshot.0 leads there, too"
    for name in ("snapshot.0", "log.1"):
        (folder / name).unlink()
    log(folder, 3, transaction(3, 5, set_data("/a", b"two", 1)))
    found = DataDirectory(folder).moment(2)
    assert "may hold changes of later transactions" in found.doubt
    assert DataDirectory(folder).moment(3).doubt is None, "no transaction can come after the last one"


def test_a_file_that_was_begun_within_a_multi_transaction_gets_all_of_it(folder):
    """Before ZooKeeper 3.5.5 the first operation of a multi-transaction names the file (ZOOKEEPER-3127)."""
    operations = [
        (1, create("/b", parent_cversion=2)),
        (1, create("/c", parent_cversion=3)),
        (5, set_data("/a", b"multi", 2)),
    ]
    log(folder, 4, multi(4, *operations), transaction(5, 5, set_data("/a", b"later", 3)))
    whole = DataDirectory(folder).moment(5).tree
    a = znode(b"later", 2, mzxid=5, mtime=1_700_000_005_000, ctime=1_700_000_002_000, version=3)
    b = znode(b"", 4, ctime=1_700_000_004_000, mtime=1_700_000_004_000)
    old_snapshot(folder, 4, [(ROOT, znode(cversion=2, pzxid=4)), ("/a", a), ("/b", b)])
    for name in ("snapshot.0", "log.1"):
        (folder / name).unlink()
    found = DataDirectory(folder).moment(5)
    assert found.doubt is None
    assert found.tree.nodes == whole.nodes


def test_an_acl_that_came_while_the_file_was_written_is_in_the_transaction(folder):
    """ZooKeeper writes the ACLs before the znodes; one that a znode got in between is not among them."""
    closed = ((31, "digest", "tool:hash"),)
    nodes = [(ROOT, znode(cversion=1, pzxid=2)), ("/a", znode(b"two", 2, acl=closed))]
    old_snapshot(folder, 2, nodes)
    path = folder / "snapshot.2"
    body = path.read_bytes()[:-13].replace(LONG.pack(2) + acl_bytes(closed), LONG.pack(99) + acl_bytes(closed))
    path.write_bytes(body + LONG.pack(zlib.adler32(body)) + text_bytes("/"))
    assert read_snapshot(path, 2).tree.nodes["/a"].acl == UNKNOWN_ACL
    for name in ("snapshot.0", "log.1"):
        (folder / name).unlink()
    acl = text_bytes("/a") + acl_bytes(closed) + INT.pack(1)
    log(folder, 3, transaction(3, -10, INT.pack(1)), transaction(4, 7, acl))
    assert DataDirectory(folder).moment(4).tree.nodes["/a"].acl == closed


def test_a_digest_that_differs_is_a_doubt(tmp_path):
    nodes = [(ROOT, znode())]
    right = write_snapshot(tmp_path / "snapshot.0", 0, nodes, {})
    log(tmp_path, 1, transaction(1, -10, INT.pack(1), digest=right), transaction(2, -10, INT.pack(1), digest=right + 1))
    directory = DataDirectory(tmp_path)
    assert directory.moment(1).doubt is None
    assert "digest at 0x2 is not the one" in directory.moment(2).doubt


def test_a_creation_of_zookeeper_3_3_counts_at_the_parent(folder):
    log(folder, 4, transaction(4, 1, create("/b")))
    root = DataDirectory(folder).moment(4).tree.nodes[ROOT]
    assert (root.cversion, root.pzxid, root.child_count) == (2, 4, 2)


@pytest.mark.parametrize("fails", [False, True])
def test_a_multi_transaction_is_done_whole_or_not_at_all(folder, fails):
    operations = [
        (1, create("/b", parent_cversion=2)),
        (5, set_data("/a", b"multi", 2)),
        (13, text_bytes("/a") + INT.pack(2)),
    ]
    if fails:
        operations = [(-1, INT.pack(0)), (-1, INT.pack(0)), (-1, INT.pack(-103))]
    log(folder, 4, multi(4, *operations))
    found = data(DataDirectory(folder), 4)
    assert (found["/a"], "/b" in found) == ((b"two", False) if fails else (b"multi", True))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="as before 3.6"),
        pytest.param(struct.pack("!iq", 2, 99), id="only a digest"),
        pytest.param(INT.pack(1) + text_bytes("/e"), id="with its paths"),
    ],
)
def test_a_closed_session_takes_its_znodes_along(folder, body):
    log(folder, 4, transaction(4, 1, create("/e", ephemeral=True, parent_cversion=2)), transaction(5, -11, body))
    directory = DataDirectory(folder)
    open_tree = directory.moment(4).tree
    assert (open_tree.nodes["/e"].owner, set(open_tree.sessions)) == (SESSION, {SESSION})
    closed = DataDirectory(folder).moment(5).tree
    assert ("/e" in closed.nodes, closed.sessions, closed.nodes[ROOT].pzxid) == (False, {}, 5)


def test_an_unknown_kind_of_transaction_is_refused(folder):
    log(folder, 4, transaction(4, 77, b""))
    with pytest.raises(ZooKeeperFileError, match="found number 77"):
        DataDirectory(folder).moment(4)


@pytest.mark.parametrize(
    ("owner", "session"),
    [
        pytest.param(0, False, id="persistent"),
        pytest.param(SESSION, True, id="a session"),
        pytest.param(-(1 << 63), False, id="a container"),
        pytest.param(-(1 << 56) | 86_400_000, False, id="a TTL znode"),
        pytest.param(-(1 << 56) | 0x1234 << 40 | 7, True, id="a session of server 255"),
    ],
)
def test_owners(owner, session):
    assert is_session(owner) is session
    assert struct.unpack_from("!q", znode(owner=owner).stat(), 44)[0] == (owner if session else 0)


def test_every_byte_of_a_snapshot_counts(tmp_path):
    path = tmp_path / "snapshot.7"
    nodes = [(ROOT, znode(cversion=1)), ("/a", znode(b"some data", 7)), ("/a/b", znode(None, 7, owner=SESSION))]
    write_snapshot(path, 7, nodes, {SESSION: 6000})
    found = read_snapshot(path, 7)
    assert {name: node.data for name, node in found.tree.nodes.items()} == {"": b"", "/a": b"some data", "/a/b": None}
    assert (found.tree.sessions, found.tree.ephemerals) == ({SESSION: 6000}, {SESSION: {"/a/b"}})
    assert found.tree.digest == found.digest.value
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        if at < len(content) - len(text_bytes("/")):  # what stands behind the last checksum
            with pytest.raises(ZooKeeperFileError):
                read_snapshot(path, 7)


@pytest.mark.parametrize("length", [0, 3, 10, 40, 100])
def test_a_torn_snapshot_is_refused(tmp_path, length):
    path = tmp_path / "snapshot.7"
    write_snapshot(path, 7, [(ROOT, znode(cversion=1)), ("/a", znode(b"some data", 7))], {})
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ZooKeeperFileError, match=r"snapshot\.7"):
        read_snapshot(path, 7)


def test_no_file_is_overwritten(tmp_path):
    path = tmp_path / "snapshot.7"
    path.write_bytes(b"mine")
    with pytest.raises(ZooKeeperFileError, match="expected no such file"):
        write_snapshot(path, 7, [(ROOT, znode())], {})
    assert [each.name for each in tmp_path.iterdir()] == ["snapshot.7"]


@pytest.mark.parametrize("there", [False, True], ids=["no folder", "nothing in it"])
def test_what_is_no_data_directory_is_named(tmp_path, there):
    if there:
        (tmp_path / "data").mkdir()
    with pytest.raises(ZooKeeperFileError, match="data"):
        DataDirectory(tmp_path / "data")


def test_a_folder_of_logs_without_a_log_is_named_and_a_server_without_one_is_told(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        ZooKeeperFileError, match=r"empty' not read: expected files log\.N .*name the server's dataLogDir"
    ):
        DataDirectory(folder, tmp_path / "empty")
    assert DataDirectory(folder).notes == []
    for path in folder.rglob("log.*"):
        path.unlink()
    assert DataDirectory(folder).notes == [
        "no file log.N is there: what was written after the newest snapshot file is not known"
    ]


def test_a_folder_that_may_not_be_read_is_named(folder, monkeypatch):
    def refused(_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(ZooKeeperFileError, match="not read: Permission denied; read it as a user who may"):
        DataDirectory(folder)


def test_the_digest_leaves_zookeepers_own_tree_out():
    """All below /zookeeper, but not itself; Source: ZooKeeper `NodeHashMapImpl.addDigest`."""
    trees = [DataTree(), DataTree()]
    for tree, names in zip(trees, (["", "/zookeeper"], ["", "/zookeeper", "/zookeeper/config"]), strict=True):
        for name in names:
            tree.put(name, znode())
    assert trees[0].digest == trees[1].digest != 0
