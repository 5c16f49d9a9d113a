"""A step that is over without all that it wanted: what is told of each partition, and whether the others go on."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import StoreUnreachableError
from controller_core.model.partitions import ReplicaAssignment
from controller_core.plans.rules import STOP_ON_DIFFERENCE
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes import decode_topic, encode_topic
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH
from kafka_maintenance.operations.apply.plan import verify
from kafka_maintenance.operations.errors import ClusterBusyError, NotFinishedError, PlanStaleError, RefusedError
from kafka_maintenance.operations.plans.store import StoredPlan
from kafka_maintenance.operations.record.receipts import read_events
from tests.broker_ids import ids
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.apply.applying import (
    ORDERS_0,
    ORDERS_1,
    ActsAfter,
    apply,
    deletion,
    draining,
    elections,
    events,
    isr_shrunk,
    moves,
    planned,
    under_rule,
)
from tests.kafka_maintenance.operations.apply.one_wave import OLD_0, one_wave


def begun(make: Callable[[MemoryStore, KafkaWorld], StoredPlan | None] = one_wave):
    """A plan whose first step was asked for; its run waited in vain, and the controller works."""
    store, world, plan = planned(make)
    world.slow = True
    with pytest.raises(NotFinishedError):
        apply(store, plan, world)
    return store, world, plan


def cancelled(world: KafkaWorld) -> None:
    world.cancel(OLD_0)


def sent_elsewhere(world: KafkaWorld) -> None:
    world._assign(OLD_0, ReplicaAssignment(ids(2, 3)))
    world._drop_entry(OLD_0)


def deleted(world: KafkaWorld) -> None:
    world._drop_entry(OLD_0)
    world.own.create(znode.delete_topic_path("old"))


def deleted_and_created_again(world: KafkaWorld) -> None:
    deleted(world)
    world.topic("old", ((1, 2), 1, (1, 2)))


@pytest.mark.parametrize(
    ("disturb", "said"),
    [
        pytest.param(cancelled, "old-0: reverted, found replicas [1, 2]", id="cancelled, its list rotated"),
        pytest.param(sent_elsewhere, "old-0: elsewhere, found replicas [2, 3]", id="sent elsewhere"),
        pytest.param(deleted, "old-0: gone, found no such topic", id="its topic was deleted"),
        pytest.param(deleted_and_created_again, "old-0: gone, found one created at", id="deleted and created again"),
    ],
)
def test_one_partition_that_ends_otherwise_is_named_and_the_others_are_done(disturb, said):
    store, world, plan = begun()
    world.finish(ORDERS_0)
    disturb(world)
    receipt = apply(store, plan, world)
    assert len(receipt.exceptions) == 1
    assert receipt.exceptions[0].startswith(said)
    assert "1 partition(s) not as planned" in receipt.text
    assert world.wrote[:1] == [znode.REASSIGN_PARTITIONS]
    assert world.own.exists(EXECUTION_PATH) is None
    found = verify(store=store, plan_uri=plan.uri, zookeeper=world.zookeeper())
    assert found.done
    assert "1 partition(s) were left out or differed" in found.text


@pytest.mark.parametrize("make", [one_wave, deletion])
def test_a_topic_that_is_created_again_right_before_the_request_is_not_touched(make):
    store, world, plan = planned(make)
    world.slow = True
    version = world.own.get(znode.topic_path("old"))[1].version
    acting = ActsAfter(store, {"intended.json": lambda: deleted_and_created_again(world)})
    with pytest.raises(ClusterBusyError, match=r"not asked: topic old: .*created at zxid .*: run again"):
        apply(acting, plan, world)
    assert world.own.get(znode.topic_path("old"))[1].version == version  # no version tells it from the former one
    assert world.wrote == [znode.delete_topic_path("old")]  # by whoever created it again
    assert events(store, plan)[-1] == "refused"
    assert world.own.exists(EXECUTION_PATH) is None


def test_a_cancelled_partition_keeps_its_rotated_list():
    _, world, _ = begun()
    world.cancel(ORDERS_0)
    assert world.replicas("orders", 0) == (3, 2, 1)


def test_a_cancel_between_the_write_and_its_record_is_no_reason_to_ask_again():
    class DiesBeforeItRecords(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            if key.endswith("-requested.json"):
                raise StoreUnreachableError("the run was killed here")
            super().put_new(key, data)

    store, world, plan = planned(one_wave)
    world.slow = True
    dying = DiesBeforeItRecords()
    dying._objects = store._objects
    with pytest.raises(StoreUnreachableError):
        apply(dying, plan, world)
    world._assign(ORDERS_0, ReplicaAssignment(ids(1, 2, 3)))
    world._drop_entry(ORDERS_0)
    world.cancel(OLD_0)
    with pytest.raises(RefusedError, match=r"over, and not as planned \(2 reverted\)"):
        apply(store, plan, world)
    assert world.wrote == [znode.REASSIGN_PARTITIONS]
    assert events(store, plan) == ["started", "intended", "started", "requested", "over"]
    assert world.own.exists(EXECUTION_PATH) is None
    with pytest.raises(RefusedError, match=r"it ended at .*old-0: reverted"):
        apply(store, plan, world)
    assert events(store, plan)[-1] == "over"


def test_under_the_rule_to_stop_one_partition_ends_the_run():
    store, world, plan = planned(one_wave)
    plan = under_rule(store, plan, STOP_ON_DIFFERENCE)
    world.slow = True
    with pytest.raises(NotFinishedError):
        apply(store, plan, world)
    world.finish(ORDERS_0)
    world.cancel(OLD_0)
    with pytest.raises(RefusedError, match=r"\(1 done, 1 reverted\): old-0: reverted"):
        apply(store, plan, world)
    assert events(store, plan)[-1] == "over"


@pytest.mark.parametrize("make", [moves, deletion])
def test_what_somebody_has_withdrawn_is_not_asked_again(make):
    store, world, plan = planned(make)
    world.hangs = True
    with pytest.raises(NotFinishedError):
        apply(store, plan, world)
    (asked,) = world.wrote
    world.own.delete(asked, ANY_VERSION)
    world.hangs = False
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"over, and not as planned|it ended at"):
            apply(store, plan, world)
    assert world.wrote == [asked]
    assert events(store, plan)[3:] == ["unfinished", "started", "over"]


def test_a_deletion_that_kafka_drops_is_told_at_once():
    store, world, plan = planned(deletion)
    world.deletes = False
    with pytest.raises(RefusedError, match=r"look at delete\.topic\.enable"):
        apply(store, plan, world, step_timeout_s=600.0)
    assert events(store, plan)[-1] == "over"


def test_replicas_outside_the_isr_are_waited_for():
    store, world, plan = begun()
    world.finish(ORDERS_0)
    world.finish(OLD_0)
    world.set_state("old", 0, leader=1, isr=(1,))
    with pytest.raises(NotFinishedError, match=r"old-0: expected \[3, 1\] in the ISR"):
        apply(store, plan, world)
    world.set_state("old", 0, leader=1, isr=(3, 1))
    assert apply(store, plan, world).exceptions == ()


def of_both_lists(json_version: int):
    """As `begun`, with `orders-0` done and `old-0` on its former and its new replicas, in topics of that format."""
    store, world, plan = begun()
    world.finish(ORDERS_0)
    world._assign(OLD_0, ReplicaAssignment(ids(3, 1, 2)))
    world._drop_entry(OLD_0)
    for path in map(znode.topic_path, ("orders", "old")):
        topic = decode_topic(world.own.get(path)[0], path=path)
        world.own.set(path, encode_topic(replace(topic, version=json_version)), ANY_VERSION)
    return store, world, plan


def test_the_lists_of_both_are_waited_for_where_kafka_names_no_others():
    store, world, plan = of_both_lists(1)
    with pytest.raises(NotFinishedError, match="not seen in time"):
        apply(store, plan, world)


def test_the_lists_of_both_are_somebody_elses_where_kafka_would_name_what_it_adds():
    store, world, plan = of_both_lists(2)
    assert apply(store, plan, world).exceptions == ("old-0: elsewhere, found replicas [3, 1, 2]",)


def test_an_election_in_vain_is_named_and_the_others_are_done():
    store, world, plan = planned(elections)
    world.refuses = {ORDERS_1}
    receipt = apply(store, plan, world)
    assert receipt.exceptions == ("orders-1: not elected, found leader 3, ISR [2, 3]",)


def thin(world: KafkaWorld) -> None:
    isr_shrunk(world)


def moved_meanwhile(world: KafkaWorld) -> None:
    world._reassign(ORDERS_0, ids(2, 1, 3))


def leaderless(world: KafkaWorld) -> None:
    world.set_state("orders", 0, leader=9, isr=(1, 2, 3))


@pytest.mark.parametrize(
    ("make", "disturb"),
    [
        pytest.param(elections, thin, id="an election, its ISR is thin"),
        pytest.param(elections, moved_meanwhile, id="an election, its replicas moved"),
        pytest.param(moves, moved_meanwhile, id="a move of what somebody moved"),
        pytest.param(moves, leaderless, id="a move without a leader"),
    ],
)
def test_a_partition_that_differs_before_its_step_is_left_out_and_named(make, disturb):
    store, world, plan = planned(make)
    disturb(world)
    receipt = apply(store, plan, world)
    (exception,) = receipt.exceptions
    assert exception.startswith("orders-0: orders-0: expected")
    assert events(store, plan)[-1] == "done"
    intended = next(each for each in read_events(store, "demo", plan.digest) if each.event == "intended")
    assert [row["topic"] for row in intended.detail["left_out"]] == ["orders"]
    if make is elections:
        assert world.state("orders", 1).leader == 2
    else:
        assert world.replicas("orders", 1) == (1, 3, 2)
        assert len(world.wrote) == 1


def test_a_plan_of_which_nothing_fits_is_refused():
    store, world, plan = planned(elections)
    isr_shrunk(world)
    world.set_state("orders", 1, leader=2, isr=(2,))
    with pytest.raises(PlanStaleError, match=r"orders-0: expected .*orders-1: expected"):
        apply(store, plan, world)
    assert not world.wrote


def test_while_a_step_is_under_way_no_other_plan_begins():
    store, world, plan = begun()
    other = elections(store, world)
    assert other is not None
    with pytest.raises(
        ClusterBusyError, match=f"step 1 of plan {plan.digest}, approved by 'ann', was asked for"
    ) as busy:
        apply(store, other, world)
    assert "let that run finish, or, where it has ended, apply that plan again" in str(busy.value)
    drain = draining(store, world)
    assert drain is not None
    assert not apply(store, drain, world).already_applied
    assert world.own.exists(EXECUTION_PATH) is not None


def test_what_a_finished_plan_left_behind_stops_nobody():
    store, world, plan = planned(one_wave)
    kept: list[bytes] = []

    class Keeps(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            super().put_new(key, data)
            if key.endswith("-requested.json"):
                kept.append(world.own.get(EXECUTION_PATH)[0])

    keeping = Keeps()
    keeping._objects = store._objects
    apply(keeping, plan, world)
    world.own.create(EXECUTION_PATH, kept[0])
    other = elections(store, world)
    assert other is not None
    assert not apply(store, other, world).already_applied
    assert world.own.exists(EXECUTION_PATH) is None


def test_an_execution_that_nobody_can_read_is_named():
    store, world, plan = planned(moves)
    world.own.create(EXECUTION_PATH, b"?")
    with pytest.raises(ClusterBusyError, match=f"{EXECUTION_PATH} cannot be read"):
        apply(store, plan, world)
