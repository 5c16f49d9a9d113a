"""Applying an approved plan: what is done, and what is refused."""

from collections.abc import Callable

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import InvalidPlanError, StoreUnwritableError
from controller_core.model.partitions import BrokerId
from controller_core.plans.plan import plan_to_bytes
from controller_core.plans.rules import STOP_ON_DIFFERENCE
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from controller_core.znodes import ControllerZnode, encode_cluster_id, encode_controller
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.plan import verify
from kafka_maintenance.operations.errors import (
    BadInputError,
    ClusterBusyError,
    PlanChangedError,
    PlanStaleError,
)
from kafka_maintenance.operations.plans.store import load_plan, read_plan
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, read_events
from tests.broker_ids import ids
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.apply.applying import (
    CARRIED_OUT,
    NOW,
    ORDERS_0,
    apply,
    deletion,
    draining,
    elections,
    events,
    isr_shrunk,
    left_behind,
    moves,
    planned,
    under_rule,
)

# ------------------------------------------------------------------------------------------------- carried out


@pytest.mark.parametrize(
    ("make", "wrote", "steps"),
    [
        pytest.param(elections, ["/admin/preferred_replica_election"], 1, id="elections"),
        pytest.param(moves, ["/admin/reassign_partitions"] * 2, 2, id="moves in two waves"),
        pytest.param(deletion, ["/admin/delete_topics/old"], 1, id="a deletion"),
        pytest.param(draining, [], 1, id="a forced re-election"),
    ],
)
def test_an_approved_plan_is_carried_out_and_verified(make, wrote, steps):
    store, world, plan = planned(make)
    receipt = apply(store, plan, world)
    assert world.wrote == wrote
    assert (receipt.already_applied, receipt.step_count) == (False, steps)
    assert events(store, plan) == ["started", *CARRIED_OUT[1:4] * steps, "done"]
    assert verify(store=store, plan_uri=plan.uri, zookeeper=world.zookeeper()).done


def test_another_cluster_verifies_nothing():
    store, world, plan = planned(deletion)
    apply(store, plan, world)
    another_cluster(world)
    found = verify(store=store, plan_uri=plan.uri, zookeeper=world.zookeeper())
    assert (found.done, "this is another cluster or another chroot" in found.text) == (False, True)


def test_elections_give_the_leadership_back():
    store, world, plan = planned(elections)
    apply(store, plan, world)
    assert [world.state("orders", number).leader for number in range(3)] == [1, 2, 3]


def test_moves_end_at_their_targets():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    assert [world.replicas("orders", number) for number in range(2)] == [(3, 2, 1), (1, 3, 2)]


def test_a_rollback_leads_back():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    apply(store, load_plan(store, plan.rollback_uri), world)
    assert [world.replicas("orders", number) for number in range(2)] == [(1, 2, 3), (2, 3, 1)]


def test_after_a_rollback_the_same_moves_are_another_plan():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    apply(store, load_plan(store, plan.rollback_uri), world)
    again = moves(store, world)
    assert again is not None
    assert again.digest != plan.digest
    assert not apply(store, again, world).already_applied


def test_a_forced_re_election_drains_under_a_new_controller():
    store, world, plan = planned(draining)
    apply(store, plan, world)
    with world.zookeeper() as session:
        assert session.children(znode.ISR_CHANGE_NOTIFICATION) == []
        assert session.get(znode.CONTROLLER_EPOCH)[0] == b"2"


def test_lock_and_fence_are_gone_afterwards():
    store, world, plan = planned(elections)
    apply(store, plan, world)
    assert left_behind(world) == []


@pytest.mark.parametrize("make", [elections, moves, deletion, draining])
def test_the_same_plan_twice_writes_once(make):
    store, world, plan = planned(make)
    apply(store, plan, world)
    before, recorded = world.server.snapshot(), events(store, plan)
    again = apply(store, plan, world, approver="bob")
    assert again.already_applied
    assert "approved by 'ann'" in again.text
    assert (world.server.snapshot(), events(store, plan)) == (before, recorded)


# ----------------------------------------------------------------------------------------------------- refused


def migrating(world: KafkaWorld) -> None:
    world.own.create(znode.MIGRATION, b'{"version":0,"kraft_controller_id":-1}')


def kraft_claimed(world: KafkaWorld) -> None:
    for broker in list(world.sessions):
        world.kill(broker)
    controller = ControllerZnode(broker_id=BrokerId(3000), kraft_controller_epoch=1)
    world.own.create(znode.CONTROLLER, encode_controller(controller))


def another_cluster(world: KafkaWorld) -> None:
    world.own.set(znode.CLUSTER_ID, encode_cluster_id("AnotherClusterAltogetr"), ANY_VERSION)


def no_active_controller(world: KafkaWorld) -> None:
    for broker in (1, 2, 3):
        world.kill(broker)


def moved_meanwhile(world: KafkaWorld) -> None:
    world._reassign(ORDERS_0, ids(2, 1, 3))


def created_again(world: KafkaWorld) -> None:
    world.own.create(znode.delete_topic_path("old"))
    world.topic("old", ((1, 2), 1, (1, 2)))


def drained_by_itself(world: KafkaWorld) -> None:
    for name in world.own.children(znode.ISR_CHANGE_NOTIFICATION):
        world.own.delete(f"{znode.ISR_CHANGE_NOTIFICATION}/{name}", ANY_VERSION)


def another_controller(world: KafkaWorld) -> None:
    world.own.delete(znode.CONTROLLER, ANY_VERSION)
    world.notify(ORDERS_0)


def reassigned(world: KafkaWorld) -> None:
    world.reassigning("old", 0, adding=(2,))


def asked_to(path: str) -> Callable[[KafkaWorld], None]:
    """Another tool's request for the topic `old` stands at `path`, and the controller has not taken it yet."""

    def ask(world: KafkaWorld) -> None:
        world.hangs = True
        world.own.create(path, b'{"version":1,"partitions":[{"topic":"old","partition":0,"replicas":[1,3]}]}')

    return ask


def written_by_an_old_tool(world: KafkaWorld) -> None:
    """Kafka 2.0 and newer refuses the document, 1.1 and older carries it out."""
    world.hangs = True
    entry = b'{"topic":"old","partition":0,"replicas":[1,3],"log_dirs":["any"]}'
    world.own.create(znode.REASSIGN_PARTITIONS, b'{"version":1,"partitions":[%s]}' % entry)


def unreadable(world: KafkaWorld) -> None:
    world.hangs = True
    world.own.create(znode.REASSIGN_PARTITIONS, b"{")


def namesake(world: KafkaWorld) -> None:
    """Somebody deleted `orders` and created it again, with the same lists, leaders and ISRs."""
    world.own.create(znode.delete_topic_path("orders"))
    world.topic("orders", ((1, 2, 3), 2, (1, 2, 3)), ((2, 3, 1), 3, (2, 3)), ((3, 1, 2), 3, (3, 1, 2)))


def queued(world: KafkaWorld) -> None:
    world.hangs = True
    world.own.create(znode.delete_topic_path("orders"))


def leader_died(world: KafkaWorld) -> None:
    world.set_state("orders", 0, leader=9, isr=(1, 2, 3))


def broker_gone(world: KafkaWorld) -> None:
    world.kill(3)


@pytest.mark.parametrize(
    ("make", "disturb", "said"),
    [
        pytest.param(elections, migrating, "KRaft", id="a migration to KRaft has begun"),
        pytest.param(elections, kraft_claimed, "kraftControllerEpoch 1", id="a KRaft controller is active"),
        pytest.param(elections, another_cluster, "another cluster", id="the chroot holds another cluster"),
        pytest.param(elections, no_active_controller, "/controller", id="there is no active controller"),
        pytest.param(elections, moved_meanwhile, "orders-0: expected replicas [1, 2, 3]", id="replicas moved"),
        pytest.param(elections, isr_shrunk, "found leader 2, ISR [2, 3]", id="the ISR shrank"),
        pytest.param(moves, moved_meanwhile, "found replicas [2, 1, 3]", id="moved by somebody else"),
        pytest.param(moves, broker_gone, "found no broker [3]", id="a target broker died"),
        pytest.param(deletion, created_again, "created at zxid", id="deleted and created again"),
        pytest.param(deletion, reassigned, "found [old-0, which adds or removes replicas]", id="being reassigned"),
        pytest.param(
            deletion, asked_to(znode.REASSIGN_PARTITIONS), "[old-0 in /admin/reassign_partitions]", id="asked to move"
        ),
        pytest.param(
            deletion, written_by_an_old_tool, "[old-0 in /admin/reassign_partitions]", id="asked by an old tool"
        ),
        pytest.param(deletion, unreadable, "nobody knows which topics it names", id="nobody can read what is asked"),
        pytest.param(
            deletion,
            asked_to(znode.PREFERRED_REPLICA_ELECTION),
            "[old-0 in /admin/preferred_replica_election]",
            id="an election of it is asked for",
        ),
        pytest.param(
            elections, namesake, "topic orders: expected the topic created at", id="an election for a namesake"
        ),
        pytest.param(moves, namesake, "topic orders: expected the topic created at", id="moves for a namesake"),
        pytest.param(
            elections, queued, "topic orders: expected no request to delete it", id="an election before its end"
        ),
        pytest.param(moves, queued, "topic orders: expected no request to delete it", id="moves before its end"),
        pytest.param(elections, leader_died, "found leader 9, ISR [1, 2, 3]", id="an election without a leader"),
        pytest.param(
            moves, leader_died, "expected a leader that is registered, found leader 9", id="a move without a leader"
        ),
        pytest.param(draining, drained_by_itself, "nothing to do", id="the controller woke up"),
        pytest.param(draining, another_controller, "another controller", id="another controller was elected"),
    ],
)
def test_a_stale_plan_is_refused_and_nothing_is_asked(make, disturb, said):
    store, world, plan = planned(make)
    plan = under_rule(store, plan, STOP_ON_DIFFERENCE)
    disturb(world)
    wrote, epoch = list(world.wrote), world.own.get(znode.CONTROLLER_EPOCH)
    with pytest.raises(PlanStaleError) as refused:
        apply(store, plan, world)
    assert said in str(refused.value)
    assert world.wrote == wrote
    assert world.own.get(znode.CONTROLLER_EPOCH) == epoch
    assert world.own.exists(LOCK_PATH) is None
    assert "requested" not in events(store, plan)


def test_a_refusal_is_recorded_with_its_reasons():
    store, world, plan = planned(elections)
    plan = under_rule(store, plan, STOP_ON_DIFFERENCE)
    isr_shrunk(world)
    with pytest.raises(PlanStaleError):
        apply(store, plan, world)
    last = read_events(store, "demo", plan.digest)[-1]
    assert (last.event, last.approver) == ("refused", "ann")
    assert "orders-0" in last.detail["reasons"][0]


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        pytest.param([], True, id="never begun"),
        pytest.param(["started", "intended", "refused"], True, id="intended, and refused in the last moment"),
        pytest.param(["started", "intended"], False, id="intended, and its worker died"),
    ],
)
def test_whether_the_approval_still_counts_is_asked_until_the_plan_is_begun(before, asked):
    store, world, plan = planned(elections)
    log = ReceiptLog(store, cluster="demo", digest=plan.digest, run="before", approver="ann", now=NOW)
    for event in before:
        log.append(EventKind(event), step=None if event == "started" else 0)
    permits = []
    apply(store, plan, world, permit=lambda: permits.append(events(store, plan)))
    assert permits == ([before] if asked else [])
    assert world.wrote == ["/admin/preferred_replica_election"]


@pytest.mark.parametrize(
    ("make", "path"),
    [
        pytest.param(elections, znode.PREFERRED_REPLICA_ELECTION, id="an election is pending"),
        pytest.param(moves, znode.REASSIGN_PARTITIONS, id="a reassignment is pending"),
    ],
)
def test_another_tools_request_is_left_alone(make, path):
    store, world, plan = planned(make)
    world.hangs = True
    world.own.create(path, b'{"version":1,"partitions":[{"topic":"other","partition":0}]}')
    with pytest.raises(ClusterBusyError, match='"topic":"other"'):
        apply(store, plan, world)
    assert b"other" in world.own.get(path)[0]


def test_an_altered_plan_is_refused():
    store, world, plan = planned(elections)
    key = plan.uri.removeprefix(f"{store.uri}/")
    store.put(key, store.get(key).replace(b"[1,2,3]", b"[1,3,2]"))
    with pytest.raises(InvalidPlanError, match="was altered"):
        apply(store, plan, world)
    assert not world.wrote


def test_a_plan_altered_with_a_new_digest_is_not_the_approved_one():
    store, world, plan = planned(elections)
    world.set_state("orders", 1, leader=2, isr=(2, 3))
    other = elections(store, world)
    assert other is not None
    store.put(plan.uri.removeprefix(f"{store.uri}/"), plan_to_bytes(read_plan(store, other.uri)))
    with pytest.raises(PlanChangedError, match=f"approved digest '{plan.digest}', stored digest '{other.digest}'"):
        apply(store, plan, world)
    assert not world.wrote


def test_a_plan_that_nobody_approved_is_refused():
    store, world, plan = planned(elections)
    with pytest.raises(PlanChangedError, match="nobody is named"):
        apply(store, plan, world, approver=" ")
    assert not world.wrote


def test_a_missing_plan_is_bad_input():
    store, world, plan = planned(elections)
    with pytest.raises(BadInputError, match="no such object"):
        apply(store, plan, world, plan_uri=f"{store.uri}/v1/cluster=demo/plans/none.json")


def test_a_tree_without_kafka_is_bad_input():
    store, world, plan = planned(elections)
    with pytest.raises(BadInputError, match="check host and chroot"):
        apply(store, plan, world, zookeeper=MemoryZooKeeper())


def test_an_unwritable_store_stops_everything_before_the_first_request():
    class ReadOnly(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            raise StoreUnwritableError(f"object {key!r} not written: the store is read-only")

    store, world, plan = planned(elections)
    full = ReadOnly()
    full._objects = store._objects
    with pytest.raises(StoreUnwritableError):
        apply(full, plan, world)
    assert not world.wrote
    assert world.own.exists(LOCK_PATH) is None
