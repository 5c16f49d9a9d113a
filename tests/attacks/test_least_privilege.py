"""Boundary: a login that writes holds the rights of docs/zookeeper.md and no more. Each right is enough together with the others, and none is too many."""

import re
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from kazoo.security import ACL, Id

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from controller_core.model.errors import NoAuthError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.znodes import encode_config
from controller_core.znodes.configs import ConfigZnode
from kafka_maintenance.operations.apply.plan import apply_plan
from kafka_maintenance.operations.cluster.rights import WRITES, missing_writes
from kafka_maintenance.operations.errors import NotFinishedError
from kafka_maintenance.operations.plans.deletions import plan_deletions
from kafka_maintenance.operations.plans.drain import plan_drain
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.servers import ZooKeeperServer
from tests.kafka_maintenance.kafka_world import RealServer, three_brokers
from tests.source_files import ROOT

KAFKA = ZooKeeperAuth(scheme="sasl", username="kafka", password="k")
TOOL = ZooKeeperAuth(scheme="sasl", username="tool", password="t")
BITS = {"write": 2, "create": 4, "delete": 8}
PAGE = ROOT / "docs" / "zookeeper.md"
ROW = re.compile(r"^\| (.+?) \| `(/.*?)` \| ((?:create|write|delete)(?:, (?:create|write|delete))*) \|", re.MULTILINE)
OLD = TopicPartition("old", 0)


def _table():
    """(operation, path, right), a row for each right of the page."""
    rows = ROW.findall(PAGE.read_text())
    return [(operation, path, right) for operation, path, rights in rows for right in rights.split(", ")]


TABLE = _table()


def _in_an_hour():
    """When the server's own times, such as that of a notification, are long past."""
    return datetime.now(UTC) + timedelta(hours=1)


class SecuredServer(RealServer):
    """Whoever plays the brokers logs in as they do: what they create is theirs, and the world may read it."""

    def session(self):
        return self._open.enter_context(connect(self.hosts, create_chroot=True, auth=KAFKA))


def _elections(store, world):
    return plan_elections(store, "demo", zookeeper=world.own, now=_in_an_hour())


def _deletion(store, world):
    return plan_deletions(store, "demo", topics=["old"], zookeeper=world.own, now=_in_an_hour())


def _drain(store, world):
    world.notify(OLD)
    return plan_drain(store, "demo", zookeeper=world.own, now=_in_an_hour())


def _moves(store, world, **throttle):
    waves = [[Target(*OLD, tuple(map(BrokerId, (3, 1))))]]
    return plan_reassignment(store, "demo", waves=waves, zookeeper=world.own, now=_in_an_hour(), **throttle)


def _throttled(store, world):
    return _moves(store, world, throttle_bytes_per_s=10_000_000)


def _delete(world):
    world.own.client.delete("/brokers/topics/old", recursive=True)
    world.own.client.delete("/admin/delete_topics/old")


OPERATIONS = {
    "`elect_preferred_leaders`": (_elections, lambda world: world.wake()),
    "`reassign_partitions`": (_moves, lambda world: world.wake()),
    "`reassign_partitions` with a throttle": (_throttled, lambda world: world.wake()),
    "`delete_topics`": (_deletion, _delete),
    "`drain_isr_notifications`": (_drain, lambda world: world._fail_over()),
}
"""How each is planned, and what Kafka does when it was asked."""


@pytest.fixture(scope="module")
def hosts():
    with ZooKeeperServer(users={"kafka": "k", "tool": "t"}) as server:
        yield server.hosts


def _rights(operation, without=None):
    """Path → bits that the login needs, but for one right."""
    found = {}
    for row in TABLE:
        if row[0] == operation.removesuffix(" with a throttle") or row[0] == operation:
            found[row[1]] = found.get(row[1], 0) | (0 if row == without else BITS[row[2]])
    return found


def _grant(world, rights):
    """The ACL of Kafka with `zookeeper.set.acl` everywhere, and what `rights` say for our login."""
    client = world.own.client
    for path, bits in rights.items():
        for named in [path.replace("<topic>", "old").replace("<broker>", name) for name in ("1", "2", "3")]:
            ours = [ACL(bits, Id("sasl", "tool"))] if bits else []
            if client.exists(named):
                client.set_acls(named, [ACL(31, Id("sasl", "kafka")), ACL(1, Id("world", "anyone")), *ours])


_chroots = count()


def _world(server, rights):
    world = three_brokers(server=server)
    world.topic("orders", ((1, 2, 3), 2, (1, 2, 3)))
    world.topic("old", ((1, 2), 1, (1, 2)))
    for path in ("/config/topics", "/config/brokers", "/config/changes"):
        world.own.create(path, make_parents=True)
    for path in ("/config/topics/old", "/config/brokers/1", "/config/brokers/2", "/config/brokers/3"):
        world.own.create(path, encode_config(ConfigZnode({})))
    _grant(world, {"/": 0, "/admin": 0})
    _grant(world, rights)
    return world


def _carried_out(hosts, operation, rights):
    server = SecuredServer(f"{hosts}/least-{next(_chroots)}")
    try:
        world = _world(server, rights)
        make, obey = OPERATIONS[operation]
        store = MemoryStore()
        plan = make(store, world)
        for resumed in (False, True):
            try:
                apply_plan(
                    store=store,
                    plan_uri=plan.uri,
                    approved_digest=plan.digest,
                    approver="ann",
                    zookeeper=ClusterAddress(server.hosts, auth=TOOL),
                    now=_in_an_hour(),
                    run_id="run",
                    patience_s=0,
                    settle_timeout_s=0,
                    resumed=resumed,
                )
            except NotFinishedError:
                assert not resumed
                obey(world)
        assert world.own.children("/admin") == ["delete_topics"]
    finally:
        server.close()


def test_the_page_names_every_operation():
    assert {row[0] for row in TABLE} == OPERATIONS.keys()


@pytest.mark.services
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_rights_of_the_page_are_enough(hosts, operation):
    _carried_out(hosts, operation, _rights(operation))


@pytest.mark.services
@pytest.mark.parametrize("row", TABLE, ids=" ".join)
def test_without_one_of_them_the_operation_is_refused(hosts, row):
    with pytest.raises(NoAuthError):
        _carried_out(hosts, row[0], _rights(row[0], without=row))


@pytest.mark.services
@pytest.mark.parametrize("without", [None, *dict.fromkeys((path, right) for _, path, right in TABLE)])
def test_the_button_test_names_the_right_that_is_missing_and_writes_nothing(hosts, without):
    server = SecuredServer(f"{hosts}/least-{next(_chroots)}")
    try:
        rights = {}
        for _, path, right in TABLE:
            rights[path] = rights.get(path, 0) | (0 if (path, right) == without else BITS[right])
        world = _world(server, {"/admin/delete_topics": 0} | rights)
        before = _everything(world.own)
        with connect(server.hosts, auth=TOOL) as session:
            missing = missing_writes(session)
        assert [(each.path, each.right) for each in missing] == ([] if without is None else [without])
        assert _everything(world.own) == before
    finally:
        server.close()


def test_the_button_tries_what_the_page_names():
    assert {(operation, each.path, each.right) for each in WRITES for operation in each.needed_for} == {
        (operation.replace("`", ""), path, right) for operation, path, right in TABLE
    }


def _everything(session, path="/"):
    """Data and stat of each znode, read by whoever may read it."""
    children = session.children(path)
    found = {path: session.get(path)}
    for name in children:
        found |= _everything(session, f"{path.rstrip('/')}/{name}")
    return found
