"""What the button *Test* of a connection says of the rights of its login."""

import pytest

from controller_core.model.errors import NoAuthError
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from kafka_maintenance.operations.cluster.rights import READ_FOR, read_rights


class Denying(MemoryZooKeeper):
    """A tree of which some paths may not be read."""

    denied: frozenset[str] = frozenset()

    def get(self, path, *, watch=None):
        if path in self.denied:
            raise NoAuthError(path)
        return super().get(path, watch=watch)


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
