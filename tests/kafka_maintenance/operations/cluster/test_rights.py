"""What the button *Test* of a connection says of the rights of its login."""

import pytest

from controller_core.model.errors import NoAuthError
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from kafka_maintenance.operations.cluster.rights import (
    READ_FOR,
    WRITES,
    missing_writes,
    read_rights,
    writes_text,
)


class Denying(MemoryZooKeeper):
    """A tree of which some paths may not be read."""

    denied: frozenset[str] = frozenset()
    writes_denied: frozenset[str] = frozenset()

    def get(self, path, *, watch=None):
        if path in self.denied:
            raise NoAuthError(path)
        return super().get(path, watch=watch)

    def multi(self, operations):
        if any(each.path.startswith(path) for each in operations for path in self.writes_denied):
            raise NoAuthError(operations[0].path)
        return super().multi(operations)


@pytest.fixture
def zookeeper():
    made = Denying()
    for broker in ("10", "9"):
        made.create(f"/brokers/ids/{broker}", b"{}", make_parents=True)
    made.create("/config/users", b"", make_parents=True)
    return made


def test_everything_may_be_read_and_paths_that_kafka_has_not_made_yet_lack_no_right(zookeeper):
    rights = read_rights(zookeeper)
    assert rights.complete
    assert rights.text.startswith("2 brokers are registered: 9, 10. Everything that Kafka keeps may be read.")


def test_each_path_that_is_hidden_is_named_with_what_it_costs(zookeeper):
    zookeeper.denied = frozenset({"/config/users", "/brokers/ids"})
    rights = read_rights(zookeeper)
    assert not rights.complete
    for path in zookeeper.denied:
        assert f"{path} ({READ_FOR[path]})" in rights.text


def test_a_wrong_chroot_is_told():
    rights = read_rights(MemoryZooKeeper())
    assert not rights.complete
    assert "correct the chroot" in rights.text


def test_each_right_to_write_that_is_missing_is_named_with_the_plans_that_need_it_and_nothing_is_written(zookeeper):
    for path in (
        "/admin/delete_topics",
        "/config/topics/orders",
        "/config/brokers/9",
        "/config/changes",
        "/controller",
    ):
        zookeeper.create(path, b"{}", make_parents=True)
    before = {path: zookeeper.get(path) for path in ("/", "/admin", "/config/changes", "/config/topics/orders")}
    assert missing_writes(zookeeper) == ()
    zookeeper.writes_denied = frozenset({"/config/topics/orders", "/config/changes"})
    missing = missing_writes(zookeeper)
    assert [each.path for each in missing] == ["/config/topics/<topic>", "/config/changes"]
    assert "create on /config/changes (for reassign_partitions with a throttle)" in writes_text(missing)
    assert {path: zookeeper.get(path) for path in before} == before


def test_paths_that_kafka_has_not_made_yet_lack_no_right_to_write():
    assert missing_writes(MemoryZooKeeper()) == ()
    assert len(WRITES) == 7
