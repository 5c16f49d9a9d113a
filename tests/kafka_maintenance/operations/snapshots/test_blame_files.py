"""Who changed what in which transaction, from a server's own logs, by the command."""

import json

import pytest

from controller_core.adapters.zookeeper_files.jute import INT, acl_bytes, text_bytes
from controller_core.adapters.zookeeper_files.tree import ROOT
from kafka_maintenance.cli.main import main
from tests.kafka_maintenance import snapshot_world as world
from tests.zookeeper_logs import SESSION, create, log, old_snapshot, set_data, transaction, znode

TOOL = 0x2000_0001_2345_0000
STATE = "/kafka/brokers/topics/orders/partitions/3/state"


@pytest.fixture
def folder(tmp_path):
    """A broker makes a topic and writes a partition's state; a tool changes its config, and deletes it."""
    folder = tmp_path / "data"
    old_snapshot(folder, 0, [(ROOT, znode())])
    made = [
        "/kafka",
        "/kafka/brokers",
        "/kafka/brokers/ids",
        "/kafka/brokers/topics",
        "/kafka/config",
        "/kafka/config/topics",
    ]
    made += ["/kafka/config/users", "/kafka/brokers/topics/orders", "/kafka/brokers/topics/orders/partitions"]
    entries = [
        transaction(zxid, 1, create(path, parent_cversion=zxid), session=TOOL)
        for zxid, path in enumerate(made, start=1)
    ]
    zxid = len(made)
    for kind, body, session in (
        (1, create("/kafka/brokers/ids/3", b"{}", ephemeral=True, parent_cversion=1), SESSION),
        (1, create("/kafka/brokers/topics/orders/partitions/3", parent_cversion=1), SESSION),
        (1, create(STATE, world.state(1), parent_cversion=1), SESSION),
        (5, set_data(STATE, world.state(2, 5), 1), SESSION),
        (1, create("/kafka/config/topics/orders", world.config(retention_ms="1"), parent_cversion=1), TOOL),
        (7, text_bytes("/kafka/config/topics/orders") + acl_bytes([(1, "world", "anyone")]) + INT.pack(1), TOOL),
        (1, create("/kafka/config/users/bob", world.PERSISTENT["/config/users/alice"], parent_cversion=1), TOOL),
        (-1, INT.pack(-101), TOOL),
        (-11, b"", SESSION),
        (2, text_bytes("/kafka/config/topics/orders"), TOOL),
    ):
        zxid += 1
        entries.append(transaction(zxid, kind, body, session=session))
    log(folder, 1, *entries)
    return folder


@pytest.fixture
def blame(capsys, folder):
    def call(subject, *arguments, status=0):
        capsys.readouterr()
        found = main(["blame", subject, "--zookeeper-data", str(folder), "--chroot", "/kafka", *arguments])
        printed = capsys.readouterr()
        assert found == status, printed
        return printed.err if status else printed.out

    return call


def test_a_topics_transactions_newest_first(blame):
    lines = blame("orders").splitlines()
    assert lines[0] == "orders in the transactions from 2023-11-14 22:13:21.000+00:00 to 2023-11-14 22:13:39.000+00:00"
    assert lines[1:5] == [
        "2023-11-14 22:13:39.000+00:00  zxid 0x13  session 0x2000000123450000  deleted /config/topics/orders",
        (
            "2023-11-14 22:13:35.000+00:00  zxid 0xf  session 0x2000000123450000  ACL set to version 1 /config/topics/orders: "
            "[[1, 'world', 'anyone']]"
        ),
        (
            "2023-11-14 22:13:34.000+00:00  zxid 0xe  session 0x2000000123450000  created /config/topics/orders: "
            f"{world.config(retention_ms='1').decode()}"
        ),
        (
            "2023-11-14 22:13:33.000+00:00  zxid 0xd  session 0x1000000123450000 of broker 3  set to version 1 "
            f"/brokers/topics/orders/partitions/3/state: {world.state(2, 5).decode()}"
        ),
    ]
    assert len(lines) == 9


def test_a_partition_and_a_znode(blame):
    assert [line.split()[3] for line in blame("orders-3").splitlines()[1:]] == ["0xd", "0xc", "0xb"]
    document = json.loads(blame("/brokers/ids/3", "--json"))
    assert [(each["what"], each["whose"], each["zxid"]) for each in document["written"]] == [
        ("deleted with its session", "broker 3", 18),
        ("created", "broker 3", 10),
    ]


def test_a_secret_is_told_of_and_not_shown(blame):
    out = blame("/config/users/bob")
    assert "created /config/users/bob: (a secret)" in out
    assert "s3cr3t" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["nothing"], "none of 19 transactions", id="untouched"),
        pytest.param(["orders", "--cluster", "alpha"], "one of both", id="two sources"),
    ],
)
def test_bad_input(blame, arguments, message):
    assert message in blame(*arguments, status=2)


def test_no_source_at_all(capsys):
    assert main(["blame", "orders"]) == 2
    assert "one of both" in capsys.readouterr().err
