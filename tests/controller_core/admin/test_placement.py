"""Where Kafka's tools put replicas: tables from the algorithm's own documentation, and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.admin.placement import assign_replicas, rack_alternated, validate_new_topic
from controller_core.model.errors import PlacementError

THREE_RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


@pytest.mark.parametrize(
    ("racks", "brokers"),
    [
        pytest.param(THREE_RACKS, [0, 3, 1, 5, 4, 2], id="racks take turns by name, brokers by id"),
        pytest.param({7: "b", 3: "b", 5: "a"}, [5, 3, 7], id="a small rack drops out"),
        pytest.param({}, [], id="nobody"),
    ],
)
def test_rack_alternated(racks, brokers):
    assert rack_alternated(racks) == brokers


@pytest.mark.parametrize(
    ("racks", "arguments", "assignment"),
    [
        pytest.param(
            THREE_RACKS,
            {"partition_count": 7, "replication_factor": 3, "start_index": 0, "first_shift": 0},
            {0: (0, 3, 1), 1: (3, 1, 5), 2: (1, 5, 4), 3: (5, 4, 2), 4: (4, 2, 0), 5: (2, 0, 3), 6: (0, 4, 2)},
            id="every partition on three racks; the second round shifts",
        ),
        pytest.param(
            dict.fromkeys(range(5)),
            {"partition_count": 10, "replication_factor": 3, "start_index": 0, "first_shift": 0},
            {
                0: (0, 1, 2),
                1: (1, 2, 3),
                2: (2, 3, 4),
                3: (3, 4, 0),
                4: (4, 0, 1),
                5: (0, 2, 3),
                6: (1, 3, 4),
                7: (2, 4, 0),
                8: (3, 0, 1),
                9: (4, 1, 2),
            },
            id="without racks",
        ),
        pytest.param(
            dict.fromkeys(range(3)),
            {
                "partition_count": 2,
                "replication_factor": 1,
                "start_index": 1,
                "first_shift": 1,
                "start_partition": 4,
            },
            {4: (2,), 5: (0,)},
            id="partitions added to a topic",
        ),
        pytest.param(
            {1: "a", 2: "a", 3: "b"},
            {"partition_count": 1, "replication_factor": 3, "start_index": 0, "first_shift": 0},
            {0: (1, 3, 2)},
            id="more replicas than racks",
        ),
        pytest.param(
            {1: "a", 2: "a", 3: "a", 4: "b"},
            {"partition_count": 1, "replication_factor": 2, "start_index": 2, "first_shift": 0},
            {0: (2, 4)},
            id="two more brokers of the leader's rack are passed over",
        ),
        pytest.param(
            {9: None},
            {"partition_count": 2, "replication_factor": 1, "start_index": 0, "first_shift": 0, "start_partition": -1},
            {0: (9,), 1: (9,)},
            id="one broker",
        ),
    ],
)
def test_assign_replicas(racks, arguments, assignment):
    assert assign_replicas(racks, **arguments) == assignment


@pytest.mark.parametrize(
    ("racks", "partition_count", "replication_factor", "kafka_name"),
    [
        pytest.param({0: "a"}, 0, 0, "InvalidPartitionsException", id="no partitions"),
        pytest.param({0: "a"}, 1, 0, "InvalidReplicationFactorException", id="no replicas"),
        pytest.param({0: "a"}, 1, 2, "InvalidReplicationFactorException", id="more replicas than brokers"),
        pytest.param({0: "a", 1: None}, 1, 1, "AdminOperationException", id="a broker without a rack among racks"),
    ],
)
def test_what_cannot_be_placed(racks, partition_count, replication_factor, kafka_name):
    with pytest.raises(PlacementError) as refusal:
        assign_replicas(
            racks,
            partition_count=partition_count,
            replication_factor=replication_factor,
            start_index=0,
            first_shift=0,
        )
    assert refusal.value.kafka_name == kafka_name


@given(
    racks=st.lists(st.sampled_from("abc"), min_size=1, max_size=8),
    partition_count=st.integers(1, 30),
    data=st.data(),
)
def test_replicas_stand_on_as_many_racks_as_there_are(racks, partition_count, data):
    by_broker = dict(enumerate(racks))
    factor = data.draw(st.integers(1, len(racks)))
    start, shift = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 20))
    assignment = assign_replicas(
        by_broker, partition_count=partition_count, replication_factor=factor, start_index=start, first_shift=shift
    )
    assert list(assignment) == list(range(partition_count))
    for replicas in assignment.values():
        assert len(set(replicas)) == factor
        assert len({by_broker[broker] for broker in replicas}) == min(factor, len(set(racks)))


@pytest.mark.parametrize(
    ("topic", "assignment", "kafka_name"),
    [
        pytest.param("new", {0: (0, 0)}, "InvalidReplicaAssignmentException", id="a broker twice"),
        pytest.param("new", {0: ()}, "InvalidReplicaAssignmentException", id="no replica"),
        pytest.param("new", {}, "InvalidReplicaAssignmentException", id="no partition"),
        pytest.param("new", {0: (1,), 1: (1, 2)}, "InvalidReplicaAssignmentException", id="lists of two lengths"),
        pytest.param("new", {0: (1,), 2: (1,)}, "InvalidReplicaAssignmentException", id="a gap"),
        pytest.param("old", {0: (1,)}, "TopicExistsException", id="it exists"),
        pytest.param("going", {0: (1,)}, "TopicExistsException", id="it waits for its deletion"),
        pytest.param("a_b", {0: (1,)}, "InvalidTopicException", id="it collides"),
        pytest.param("..", {0: (1,)}, "InvalidTopicException", id="two dots"),
        pytest.param("x" * 250, {0: (1,)}, "InvalidTopicException", id="too long"),
        pytest.param("a b", {0: (1,)}, "InvalidTopicException", id="a space"),
    ],
)
def test_a_topic_that_kafka_would_not_create(topic, assignment, kafka_name):
    with pytest.raises(PlacementError) as refusal:
        validate_new_topic(topic, assignment, topics=("old", "a.b"), topics_marked_for_deletion=("going",))
    assert refusal.value.kafka_name == kafka_name


def test_a_topic_that_kafka_would_create():
    assignment = {0: (9, 8), 1: (8, 7)}
    validate_new_topic("new", assignment, topics=("old",))
    with pytest.raises(PlacementError) as refusal:
        validate_new_topic("new", assignment, topics=("old", "new"))
    assert refusal.value.kafka_name == "TopicExistsException"
