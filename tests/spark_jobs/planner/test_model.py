"""What a state may look like, and how a wrong one is refused."""

import pytest

from spark_jobs.planner.errors import InvalidStateError
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.planning import optimal_plan

BROKERS = [{"id": 1, "rack": None, "live": True}, {"id": 2, "rack": None}, {"id": 3, "rack": None, "drain": True}]


def partition(number=0, replicas=(1, 2), **more):
    return {"topic": "t", "partition": number, "replicas": list(replicas), **more}


@pytest.mark.parametrize(
    ("brokers", "partitions", "said"),
    [
        pytest.param(BROKERS, [], "'partitions' as a non-empty list", id="no partitions"),
        pytest.param([], [partition()], "'brokers' as a non-empty list", id="no brokers"),
        pytest.param(BROKERS, [partition(), partition()], r"once expected, \[t-0\]", id="a partition twice"),
        pytest.param([*BROKERS, BROKERS[0]], [partition()], r"\[1\] found more than once", id="a broker twice"),
        pytest.param(BROKERS, [partition(replicas=[1, 9])], r"unknown broker \[9\]", id="an unknown broker"),
        pytest.param(BROKERS, [partition(leader=9)], r"unknown broker \[9\]", id="an unknown leader"),
        pytest.param(BROKERS, [partition(replicas=[])], "an empty list", id="no replicas"),
        pytest.param(BROKERS, [partition(rf=0)], r"partitions\[0\]: 'rf' from 1 to", id="a factor of zero"),
        pytest.param(
            BROKERS, [partition(), partition(1, rf=2**32 + 1)], r"partitions\[1\]: 'rf' from 1", id="a huge factor"
        ),
        pytest.param(BROKERS, [partition(size=-1)], r"partitions\[0\]: 'size' from 0 to", id="a negative size"),
        pytest.param(
            BROKERS, [partition(size=2**53)], "'size' from 0 to 9007199254740991", id="a size that is no float"
        ),
        pytest.param(BROKERS, [partition(size=2**70)], "'size' from 0 to", id="a size beyond 64 bits"),
        pytest.param([{"id": 2**32 + 1}], [partition()], r"brokers\[0\]: 'id' from 0 to 2147483647", id="a huge id"),
        pytest.param([*BROKERS, {"id": 2**70}], [partition()], r"brokers\[3\]: 'id' from 0", id="an id beyond 64 bits"),
        pytest.param([{"id": -1}], [partition()], r"brokers\[0\]: 'id' from 0", id="a negative id"),
        pytest.param(BROKERS, [partition(-1)], r"partitions\[0\]: 'partition' from 0", id="a negative number"),
        pytest.param(BROKERS, [partition(2**32)], r"partitions\[0\]: 'partition' from 0", id="a huge number"),
        pytest.param(
            BROKERS,
            [partition(), partition(1, [1, 2**32 + 1])],
            r"partitions\[1\]: 'replicas' from 0 to 2147483647 expected, 4294967297 found",
            id="a huge replica",
        ),
        pytest.param(
            BROKERS, [partition(isr=[]), partition(1, isr=[-1])], r"partitions\[1\]: 'isr' from 0", id="a negative ISR"
        ),
        pytest.param(BROKERS, [partition(leader=-3)], r"partitions\[0\]: 'leader' from -2", id="a leader below none"),
        pytest.param(BROKERS, [{**partition(), "topic": None}], r"partitions\[0\]: 'topic' as a text", id="no topic"),
        pytest.param(BROKERS, [partition(replicas=["1"])], "list of broker ids", id="ids as text"),
        pytest.param(
            BROKERS, [{"topic": "t", "replicas": [1]}], r"partitions\[0\]: 'partition' is missing", id="no number"
        ),
        pytest.param(
            [{"id": True, "rack": None}], [partition()], r"brokers\[0\]: 'id' as a whole number", id="true is no id"
        ),
        pytest.param([{"id": 1, "live": "yes"}], [partition()], "true or false", id="live as text"),
        pytest.param(
            [{"id": 1, "rack": "a"}, {"id": 2, "rack": None}],
            [partition()],
            r"brokers \[2\] have none",
            id="half the racks",
        ),
    ],
)
def test_a_wrong_state_is_refused(brokers, partitions, said):
    with pytest.raises(InvalidStateError, match=said):
        ClusterState.from_json({"brokers": brokers, "partitions": partitions})


def test_unregistered_brokers_of_a_snapshot_are_dead():
    state = ClusterState.from_columns(
        broker_ids=[1, 2],
        racks=["a", "b"],
        topics=["t"],
        partitions=[0],
        replica_offsets=[0, 2],
        replica_ids=[1, 7],
        isr_offsets=[0, 2],
        isr_ids=[1, 7],
    )
    assert state.broker_ids.tolist() == [1, 2, 7]
    assert state.live.tolist() == [True, True, False]
    assert state.in_sync.tolist() == [[True, False]]


def test_racks_can_be_ignored():
    document = {"brokers": [{"id": 1, "rack": "a"}, {"id": 2, "rack": None}], "partitions": [partition()]}
    assert ClusterState.from_json(document, ignore_racks=True).rack_names == ("",)


def test_a_broker_named_twice_in_a_list_counts_once_and_is_repaired():
    state = ClusterState.from_json({"brokers": BROKERS[:2], "partitions": [partition(replicas=[1, 1], rf=2)]})
    plan = optimal_plan(state)
    assert plan.reassignment_json()["partitions"][0]["replicas"] in ([1, 2], [2, 1])
    assert "1 partition names a broker twice" in " ".join(plan.remarks)


def test_columns_must_have_one_length():
    with pytest.raises(InvalidStateError, match=r"'leaders' read: 1 values expected, 2 found"):
        ClusterState.from_columns(
            broker_ids=[1],
            racks=[None],
            topics=["t"],
            partitions=[0],
            replica_offsets=[0, 1],
            replica_ids=[1],
            leaders=[1, 1],
        )
