"""Assignment arithmetic and elections, as tables and against slow obvious versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.controller import elections
from controller_core.controller.elections import ElectionStrategy, NotElected, Strategy, elect
from controller_core.model.hash_map_order import hash_map_order, table_index
from controller_core.model.partitions import LEADER_DURING_DELETE, LeaderRecoveryState, ReplicaAssignment
from tests.controller_core.clusters import cluster, led, partition

brokers = st.lists(st.integers(1, 6), max_size=5, unique=True).map(tuple)


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        pytest.param((1, 2, 3, 4), (4, 2, 5, 3), ((4, 2, 5, 3, 1), (5,), (1,)), id="one comes, one goes"),
        pytest.param((1, 2, 3), (4, 5, 6), ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)), id="all replaced"),
        pytest.param((1, 2, 3), (3, 1, 2), ((3, 1, 2), (), ()), id="another order only"),
    ],
)
def test_reassign_to(before, target, after):
    assert ReplicaAssignment(before).reassign_to(target) == ReplicaAssignment(*after)


@given(brokers.filter(bool), brokers.filter(bool), brokers.filter(bool))
def test_a_second_reassignment_starts_from_the_origin(origin, first, second):
    once = ReplicaAssignment(origin).reassign_to(first)
    twice = once.reassign_to(second)
    assert twice == ReplicaAssignment(once.origin).reassign_to(second)
    assert twice.target == second
    assert once.reassign_to(once.target) == once
    assert once.is_being_reassigned == (set(origin) != set(first))


@given(brokers, st.integers(1, 6))
def test_remove_replica_takes_it_out_of_all_lists(replicas, gone):
    after = ReplicaAssignment(replicas, replicas[:1], replicas[1:]).remove_replica(gone)
    assert all(gone not in each for each in after)


@given(brokers, brokers, brokers, st.booleans())
def test_offline_leader_against_the_obvious(assignment, isr, live, unclean):
    clean = [b for b in assignment if b in isr and b in live]
    anyone = [b for b in assignment if b in live]
    expected = (clean[0], False) if clean else (anyone[0], True) if unclean and anyone else (None, False)
    assert elections.offline_leader(assignment, isr, live, unclean=unclean) == expected


@given(brokers, brokers, brokers, brokers)
def test_other_leaders_against_the_obvious(assignment, isr, live, leaving):
    good = [b for b in assignment if b in isr and b in live]
    assert elections.reassign_leader(assignment, isr, live) == next(iter(good), None)
    preferred = assignment[0] if assignment and assignment[0] in good else None
    assert elections.preferred_leader(assignment, isr, live) == preferred
    staying = [b for b in good if b not in leaving]
    assert elections.controlled_shutdown_leader(assignment, isr, live, leaving) == next(iter(staying), None)


@pytest.mark.parametrize(
    ("version", "strategy", "leader", "isr", "outcome"),
    [
        pytest.param("3.9", "preferred", 2, (2, 1, 3), 1, id="the preferred replica is in sync"),
        pytest.param("3.9", "preferred", 2, (2, 3), elections.PREFERRED_NOT_ELECTABLE, id="the preferred replica lags"),
        pytest.param("3.9", "preferred", 1, (1, 2), 1, id="nobody asks whether it leads already"),
        pytest.param("1.0", "preferred", 1, (1, 2), elections.NOT_NEEDED, id="through 1.0 somebody asks"),
        pytest.param("1.0", "noop", 2, (2, 3), 2, id="the default selector of 1.0 chooses nothing"),
        pytest.param("3.9", "reassign", 1, (4,), elections.NO_ELECTABLE_LEADER, id="no target is in sync"),
        pytest.param("3.9", "reassign", 1, (3,), 3, id="the first target in sync"),
        pytest.param("3.9", "controlled_shutdown", 1, (1, 2), 2, id="anybody but the leaving broker"),
        pytest.param("3.9", "controlled_shutdown", 1, (1,), elections.NO_ELECTABLE_LEADER, id="nobody else in sync"),
        pytest.param("3.9", "offline", 1, (2, 3), 2, id="the first live in-sync replica"),
    ],
)
def test_elect(version, strategy, leader, isr, outcome):
    context = cluster({"t-0": (1, 2, 3)}, version=version)
    if strategy == "controlled_shutdown":
        context = cluster({"t-0": (1, 2, 3)}, version=version, shutting_down=frozenset({1}))
    found = elect(context, partition("t-0"), led(leader, isr), ElectionStrategy(Strategy(strategy)))
    assert (found.reason if isinstance(found, NotElected) else found.leadership.leader) == outcome


@pytest.mark.parametrize(("version", "recovery"), [("3.9", "RECOVERING"), ("3.1", "RECOVERED")])
def test_an_unclean_leader_recovers_where_the_version_knows_it(version, recovery):
    context = cluster({"t-0": (1, 2, 3)}, live=(2,), version=version, states={})
    found = elect(context, partition("t-0"), led(-1, (1,)), elections.OFFLINE, unclean_permitted=True)
    assert found.leadership.recovery is LeaderRecoveryState[recovery]
    assert (found.leadership.isr, found.unclean, found.recipients) == ((2,), True, (2,))


def test_a_leadership_during_deletion():
    state = led(1, (1, 2)).during_delete()
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.isr) == (LEADER_DURING_DELETE, 0, 0, (1, 2))


@pytest.mark.parametrize(
    ("ids", "order"),
    [
        (range(5), [0, 1, 2, 3, 4]),
        (range(13), [0, 5, 10, 1, 6, 9, 2, 12, 7, 3, 11, 8, 4]),
    ],
)
def test_hash_map_order_is_kafkas(ids, order):
    assert hash_map_order(ids, scala_2_13=True) == order


@pytest.mark.parametrize(
    ("ids", "order"),
    [
        ((1, 2), [2, 1]),
        ((1, 3), [1, 3]),
        ((7, 23), [23, 7]),
        ((1001, 1002, 1003), [1001, 1003, 1002]),
        (range(4), [2, 1, 3, 0]),
        (range(1, 6), [5, 1, 2, 3, 4]),
        ((101, 102, 201, 202, 301, 302), [101, 202, 301, 201, 102, 302]),
        (range(13), [0, 5, 10, 1, 6, 9, 2, 12, 7, 3, 11, 8, 4]),
    ],
)
def test_hash_map_order_of_brokers_built_for_scala_2_12_is_that_of_its_library(ids, order):
    """As `scala-library-2.12.10` gave it: a mutable map, poured into an immutable one, as `groupBy` does."""
    assert hash_map_order(ids, scala_2_13=False) == order


def test_of_brokers_in_one_bucket_of_scala_2_12_the_later_comes_first():
    collide = [each for each in range(200) if table_index(each, 16) == table_index(1, 16)][:2]
    assert hash_map_order(collide, scala_2_13=False) == collide[::-1]
