"""What Kafka's reassignment tools write to throttle a move."""

import pytest

from controller_core.admin import throttles
from controller_core.admin.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    PartitionMove,
)
from controller_core.model.errors import InvalidMetadataError
from controller_core.model.partitions import ReplicaAssignment, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
MOVES = {
    A0: PartitionMove(frozenset({1, 2}), frozenset({3})),
    A1: PartitionMove(frozenset({10, 9}), frozenset()),
    B0: PartitionMove(frozenset({1}), frozenset({4, 1})),
}


@pytest.mark.parametrize(
    ("under_way", "proposed", "current", "moves"),
    [
        pytest.param(
            {}, {A0: (2, 3)}, {A0: (1, 2)}, {A0: PartitionMove(frozenset({1, 2}), frozenset({3}))}, id="a new move"
        ),
        pytest.param(
            {A0: ReplicaAssignment((3, 1, 2), (3,), (1,))},
            {},
            {},
            {A0: PartitionMove(frozenset({1, 2}), frozenset({3}))},
            id="a move under way, of a partition nobody asked about",
        ),
        pytest.param(
            {A0: ReplicaAssignment((3, 1, 2), (3,), (1,))},
            {A0: (4, 2)},
            {A0: (3, 1, 2)},
            {A0: PartitionMove(frozenset({1, 2}), frozenset({4}))},
            id="a move that is replaced keeps its sources",
        ),
    ],
)
def test_move_map(under_way, proposed, current, moves):
    assert throttles.move_map(under_way, proposed, current) == moves


def test_a_move_of_an_unknown_partition_is_refused():
    with pytest.raises(InvalidMetadataError, match="a-0"):
        throttles.move_map({}, {A0: (1,)}, {})
    with pytest.raises(InvalidMetadataError, match="a-0"):
        throttles.assign_throttled_replicas({}, {A0: (1,)}, {})


def test_throttled_replicas_of_a_move():
    assert throttles.leader_throttles(MOVES) == {"a": "0:1,0:2,1:9,1:10", "b": "0:1"}
    assert throttles.follower_throttles(MOVES) == {"a": "0:3", "b": "0:4"}


def test_brokers_of_a_move():
    assert throttles.reassigning_brokers(MOVES) == [1, 2, 3, 4, 9, 10]
    assert throttles.moving_brokers([(A0, 4), (A1, 2), (B0, 4)]) == [2, 4]


@pytest.mark.parametrize(
    ("existing", "proposed", "leaders", "followers"),
    [
        pytest.param({A0: (1, 2), A1: (1, 3)}, {A0: (2, 3), A1: (1, 3)}, "0:1,0:2", "0:3", id="one of two moves"),
        pytest.param({A0: (1, 2)}, {A0: (3, 4)}, "0:1,0:2", "0:3,0:4", id="two replicas of one partition"),
        pytest.param({A0: (1, 2)}, {A0: (2,)}, "", "", id="a replica only goes"),
    ],
)
def test_throttled_replicas_of_the_old_tool(existing, proposed, leaders, followers):
    changes = throttles.assign_throttled_replicas(existing, proposed, {"a": {"kept": "x", LEADER_REPLICAS: "old"}})
    assert changes.topics == {"a": {"kept": "x", LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers}}
    assert changes.write_count == 1


def test_limits_of_the_old_tool():
    changes = throttles.limit_brokers({A0: (1, 2), A1: (5,), B0: (7,)}, {A0: (2, 3)}, {2: {"kept": "x"}}, 1000)
    rates = {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"}
    assert changes.brokers == {1: rates, 2: {"kept": "x", **rates}, 5: rates, 3: rates}
    assert throttles.limit_brokers({A0: (1,)}, {A0: (2,)}, {}, -1).write_count == 0


def test_throttles_go_when_all_is_done():
    changes = throttles.remove_throttles(
        [1, 2],
        {A0: throttles.COMPLETED},
        {"a": {LEADER_REPLICAS: "0:1", "kept": "x"}, "b": {LEADER_REPLICAS: "0:1"}},
        {1: {FOLLOWER_RATE: "9", "kept": "y"}, 2: {"kept": "z"}},
    )
    assert changes.topics == {"a": {"kept": "x"}}
    assert changes.brokers == {1: {"kept": "y"}}
    assert changes.write_count == 2


def test_throttles_stay_while_a_partition_moves():
    status = {A0: throttles.COMPLETED, A1: "in progress"}
    assert throttles.remove_throttles([1], status, {}, {1: {LEADER_RATE: "1"}}).write_count == 0
