"""`snapshots ls`, `cat` and `find` on the stored corpus."""

import json
import shutil

import pyarrow as pa
import pytest

from controller_core.adapters.snapshot.tables import RAW
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.snapshots import znodes
from tests.kafka_maintenance.operations.snapshots.corpus import FORMAT_1


@pytest.fixture
def snapshots(tmp_path, capsys):
    shutil.copytree(FORMAT_1, tmp_path / "store")

    def run(action, *arguments):
        status = main(["snapshots", action, "newest", *arguments, "--store", str(tmp_path / "store")])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def paths(text):
    return [line.split()[-1] for line in text.splitlines()[:-1]]


def test_ls_lists_what_is_right_below(snapshots):
    _, text, _ = snapshots("ls")
    assert {"/brokers", "/config", "/controller"} <= set(paths(text))
    _, text, _ = snapshots("ls", "/brokers/topics")
    assert paths(text) == ["/brokers/topics/broken", "/brokers/topics/orders", "/brokers/topics/payments"]
    assert text.splitlines()[-1] == "3 znodes"
    _, text, _ = snapshots("ls", "/brokers/topics/orders/partitions/0/state")
    assert text == "0 znodes\n"


def test_cat_prints_the_data(snapshots):
    status, text, _ = snapshots("cat", "/brokers/topics/orders")
    assert status == 0
    assert set(json.loads(text)["partitions"]) == {"0", "1"}
    _, text, _ = snapshots("cat", "/brokers/topics/orders", "--json")
    found = json.loads(text)
    assert (found["path"], found["left_out"], found["data_base64"]) == ("/brokers/topics/orders", None, None)
    assert json.loads(found["data"])["partitions"]
    assert found["czxid"] > 0


def test_a_secret_is_said_to_be_one(snapshots):
    _, text, _ = snapshots("cat", "/config/users/alice")
    assert text == "(secret: not in the snapshot as text)\n"
    _, text, _ = snapshots("cat", "/config/users/alice", "--json")
    assert (json.loads(text)["data"], json.loads(text)["left_out"]) == (None, "secret")


def test_find_takes_a_pattern_and_a_text(snapshots):
    _, text, _ = snapshots("find", "/brokers/topics/*/state")
    assert paths(text) == [
        "/brokers/topics/orders/partitions/0/state",
        "/brokers/topics/orders/partitions/1/state",
        "/brokers/topics/payments/partitions/0/state",
    ]
    _, text, _ = snapshots("find", "*", "--containing", "cleanup.policy")
    assert paths(text) == ["/config/topics/orders"]


def test_what_is_not_there_is_bad_input(snapshots):
    for action in ("ls", "cat"):
        status, _, error = snapshots(action, "/nothing")
        assert status == 2
        assert "the snapshot has none of that path; `snapshots find`" in error


def test_data_can_neither_forge_a_line_nor_be_lost():
    nothing = dict.fromkeys(RAW.names)
    rows = [
        nothing | {"path": "/a\nb", "data": b"x\x1b[2J"},
        nothing | {"path": "/c", "data": b"\xff\x00"},
        nothing | {"path": "/d"},
    ]
    rows = pa.Table.from_pylist(rows, schema=RAW).to_pylist()
    assert [znodes.data_text(row) for row in rows] == [
        "x\\x1b[2J",
        "(2 bytes that are no UTF-8 text; --json has them)",
        "(no data)",
    ]
    assert znodes.znode_json(rows[1])["data_base64"] == "/wA="
    assert next(iter(znodes.listing(rows[:1])))[-1] == "/a\\nb"
