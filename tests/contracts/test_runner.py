"""The conformance runner on vectors of our own: what it reports, and what it says of vectors it cannot carry out."""

import json
import sys
from pathlib import Path

import pytest

from tests.conformance import runner
from tests.conformance.runner import outcome_of

DELETION_ON = {"delete.topic.enable": "true"}


def vector(given, action, dialect=">=2.4"):
    return {"name": "v", "dialect": dialect, "given": given, "action": action, "ask": {}}


def differences(expected, found, where=""):
    """Where `found` lacks something of `expected`; more keys than expected are fine."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            text for key, value in expected.items() for text in differences(value, found.get(key), f"{where}/{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [text for at, (want, have) in pairs for text in differences(want, have, f"{where}[{at}]")]
    return [] if expected == found else [f"{where}: expected {expected}, found {found}"]


def check(given, action, expected, dialect=">=2.4"):
    outcome = outcome_of(vector(given, action, dialect))
    assert "outcome" in outcome, outcome
    assert differences(expected, outcome["outcome"]) == []


def check_steps(given, op, steps, dialect=">=2.4"):
    """`steps` are pairs of a step and what is expected after it."""
    action = {"op": op, "steps": [step for step, _ in steps]}
    outcome = outcome_of(vector(given, action, dialect))
    assert "outcome" in outcome, outcome
    after = outcome["outcome"]["after_steps"]
    assert [
        text for (_, expected), found in zip(steps, after, strict=True) for text in differences(expected, found)
    ] == []


_LINES = (Path(__file__).parent / "examples.jsonl").read_text(encoding="utf-8").splitlines()
EXAMPLES = {example["name"]: example for example in map(json.loads, _LINES)}
"""What the runner said to every operation of its contract, cut to what the contract asks, once a judge had passed it."""


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_of_the_contract(name):
    told = json.loads(json.dumps(outcome_of(EXAMPLES[name])))
    assert differences(EXAMPLES[name]["expected"], told.get("outcome", told)) == []


SCENARIOS = [
    pytest.param(
        {"brokers": [4, 7], "topics": {}},
        [
            ({"op": "stop_broker", "broker": "controller"}, {"controller_exists": True, "controller_epoch": 2}),
            ({"op": "stop_broker", "broker": 7}, {"controller_exists": False, "controller_epoch": 2}),
            ({"op": "start_broker", "broker": "controller before"}, {"controller_exists": True, "controller_epoch": 3}),
        ],
        id="every election adds one to the epoch, which outlives the controllers",
    ),
    pytest.param(
        {"brokers": [1, 2, 3], "topics": {"a-0": [2, 3]}},
        [
            (
                {"op": "stop_broker", "broker": 2},
                {"partition_state": {"a-0": {"leader": 3, "isr": [3]}}, "metadata_on": {"1": {"a-0": {"leader": 3}}}},
            ),
            ({"op": "start_broker", "broker": 2}, {"partition_state": {"a-0": {"leader": 3, "isr": [3, 2]}}}),
            (
                {"op": "create_preferred_election", "partitions": ["a-0"]},
                {"partition_state": {"a-0": {"leader": 2}}, "preferred_node_exists": False},
            ),
        ],
        id="a leader dies, returns and gets its partition back",
    ),
    pytest.param(
        {"brokers": [1, 2], "topics": {"a-0": [1]}},
        [
            ({"op": "stop_broker", "broker": 2}, {}),
            (
                {"op": "submit_reassignment", "targets": {"a-0": [2]}},
                {
                    "accepted": True,
                    "tool_status": {"a-0": "in progress"},
                    "assignments": {"a-0": {"replicas": [2, 1], "adding": [2], "removing": [1]}},
                    "partitions_being_reassigned": ["a-0"],
                },
            ),
            (
                {"op": "start_broker", "broker": 2},
                {
                    "tool_status": {"a-0": "completed"},
                    "partition_state": {"a-0": {"leader": 2, "leader_epoch": 4, "isr": [2]}},
                    "logs_exist_on": {"a": {"1": False, "2": True}},
                },
            ),
            ({"op": "submit_reassignment", "targets": {"b-0": [2]}}, {"accepted": False}),
        ],
        id="a reassignment waits for its broker; an unknown partition is refused by the tool",
    ),
    pytest.param(
        {"brokers": [1, 2, 3], "topics": {"a-0": [1, 2]}, "broker_config": DELETION_ON},
        [
            ({"op": "stop_broker", "broker": 2}, {}),
            (
                {"op": "delete_topic", "topic": "a"},
                {"delete_request_exists": {"a": True}, "topic_path_exists": {"a": True}},
            ),
            ({"op": "delete_topic", "topic": "a"}, {"error": "TopicAlreadyMarkedForDeletion"}),
            ({"op": "add_partitions", "topic": "a", "assignment": {"1": [1, 3]}}, {"logs_exist": {"a-1": None}}),
            ({"op": "stop_broker", "broker": "controller"}, {"delete_request_exists": {"a": True}}),
            (
                {"op": "start_brokers", "brokers": [1, 2]},
                {"topic_path_exists": {"a": False}, "logs_exist": {"a": False}},
            ),
            ({"op": "delete_topic", "topic": "a"}, {"error": "UnknownTopicOrPartition"}),
        ],
        id="a deletion waits for a dead broker, through a failover",
    ),
    pytest.param(
        {"brokers": [1, 2, 3], "topics": {"a-0": [1, 2], "a-1": [2, 1]}},
        [
            (
                {"op": "fail_log_dir", "broker": 1, "of_partition": "a-0"},
                {"partition_state": {"a-0": {"leader": 2, "isr": [2]}, "a-1": {"leader": 2, "isr": [2, 1]}}},
            ),
            (
                {"op": "create_topic", "topic": "b", "assignment": {"b-0": [1, 2]}},
                {"partition_state": {"b-0": {"leader": 1, "isr": [1, 2]}}},
            ),
            ({"op": "create_topic", "topic": "b", "assignment": {"b-0": [1]}}, {"error": "TopicExists"}),
        ],
        id="a log directory fails, new replicas go to the healthy one",
    ),
    pytest.param(
        {"brokers": [1, 2, 3], "topics": {"a-0": [2, 1, 3]}},
        [
            (
                {"op": "controlled_shutdown", "broker": 2},
                {"still_led_count": 0, "partition_state": {"a-0": {"leader": 1}}},
            ),
            ({"op": "controlled_shutdown", "broker": 3, "broker_epoch_offset": -1}, {"error": "StaleBrokerEpoch"}),
            ({"op": "bounce_broker", "broker": 2}, {"partition_state": {"a-0": {"isr": [1, 3, 2]}}}),
        ],
        id="a controlled shutdown moves leaders",
    ),
    pytest.param(
        {"brokers": [1, 2], "topics": {"a-0": [1, 2]}},
        [
            ({"op": "start_cluster"}, {"controller_active": True, "raised": None}),
            ({"op": "block_event_thread"}, {}),
            ({"op": "submit_reassignment", "targets": {"a-0": [2]}}, {"reassign_node_contains": ["a-0"]}),
            ({"op": "replace_controller_node", "new_id": 9, "bump_epoch": True}, {"controller_epoch": 2}),
            ({"op": "unblock_event_thread"}, {"controller_active": False, "raised": "ControllerMoved"}),
        ],
        id="another controller wins while events queue up",
    ),
    pytest.param(
        {"brokers": [1, 2], "topics": {"a-0": [2, 1]}, "broker_config": {"auto.leader.rebalance.enable": "true"}},
        [
            ({"op": "stop_broker", "broker": 2, "settle": False}, {"partition_state": {"a-0": {"leader": 2}}}),
            ({"op": "start_broker", "broker": 2}, {"partition_state": {"a-0": {"leader": 2, "isr": [1, 2]}}}),
        ],
        id="the automatic rebalance follows",
    ),
]


@pytest.mark.parametrize(("given", "steps"), SCENARIOS)
@pytest.mark.parametrize("dialect", ["==3.9", "==2.8", "==2.4"])
def test_scenarios(given, steps, dialect):
    check_steps(given, "scenario", steps, dialect)


def test_a_reassignment_written_before_the_brokers_start():
    steps = [
        {"op": "submit_reassignment", "targets": {"a-0": [5, 6]}},
        {"op": "start_brokers", "brokers": [5, 6]},
    ]
    given = {"live_brokers": [], "assignments": {"a-0": [6, 7]}}
    expected = {"accepted": True, "isr_equals_replicas": True, "partition_dirs_exactly_on": [5, 6]}
    check(given, {"op": "sequence", "steps": steps}, expected)


def test_the_old_flow_walks_through_the_union():
    context = {
        "controller_id": 1,
        "live_brokers": [{"id": broker} for broker in range(1, 5)],
        "assignments": {"a-0": {"replicas": [1, 2]}},
        "leadership": {"a-0": {"leader": 1, "leader_epoch": 0, "isr": [1, 2]}},
    }
    outcome = outcome_of(
        vector({"context": context}, {"op": "reassign_walk", "partition": "a-0", "target": [3, 4]}, "<=2.3")
    )
    rows = [(sorted(row["assignment"]), row["leader"], sorted(row["isr"])) for row in outcome["outcome"]["zk_rows"]]
    assert rows == [
        ([1, 2], 1, [1, 2]),
        ([1, 2, 3, 4], 1, [1, 2]),
        ([1, 2, 3, 4], 1, [1, 2, 3, 4]),
        ([1, 2, 3, 4], 3, [1, 2, 3, 4]),
        ([1, 2, 3, 4], 3, [3, 4]),
        ([3, 4], 3, [3, 4]),
    ]


RECORD = {
    "leader": 1,
    "leader_epoch": 2,
    "isr": [1, 2],
    "recovery": "RECOVERED",
    "zk_version": 0,
    "controller_epoch": 3,
}


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        pytest.param(
            {"zk": {"/controller_epoch": "4", "/brokers/topics/a": None}, "zk_states": {"a-0": RECORD}},
            [
                ({"op": "get_states", "partitions": ["a-0", "a-1"]}, {"states": {"a-0": RECORD}}),
                ({"op": "set_states", "states": {"a-0": RECORD, "a-1": RECORD}}, {"codes": {"a-0": "OK", "a-1": "NONODE"}, "versions": {"a-0": 1}}),
                ({"op": "update_leader_and_isr", "states": {"a-0": RECORD}}, {"updated": {}, "retry": ["a-0"], "failed": {}}),
                ({"op": "leader_updates_isr", "partition": "a-0", "leadership": RECORD}, {"success": True, "zk_version": 1}),
                ({"op": "leader_updates_isr", "partition": "a-0", "leadership": {**RECORD, "isr": [1]}}, {"success": False, "zk_version": -1}),
                ({"op": "delete_topic_znode", "topic": "a", "epoch_zk_version_offset": 1}, {"error": "ControllerMoved"}),
                ({"op": "delete_topic_znode", "topic": "a"}, {}),
                ({"op": "list_topics"}, {"result": []}),
            ],
            id="states",
        ),
        pytest.param(
            {"zk": {"/controller_epoch": "4"}},
            [
                ({"op": "create_preferred_election", "partitions": ["a-b-0"]}, {}),
                ({"op": "create_preferred_election", "partitions": ["a-b-1"]}, {"error": "NodeExists"}),
                ({"op": "get_preferred_election"}, {"result": ["a-b-0"]}),
                ({"op": "delete_preferred_election"}, {}),
                ({"op": "reassignment_in_progress"}, {"result": False}),
                ({"op": "create_delete_topic", "topic": "a"}, {}),
                ({"op": "is_marked_for_deletion", "topic": "a"}, {"result": True}),
                ({"op": "delete_topic_deletions", "topics": ["a", "b"]}, {}),
                ({"op": "list_topic_deletions"}, {"result": []}),
                ({"op": "register_controller", "id": 7}, {}),
                ({"op": "register_controller", "id": 8}, {"error": "ControllerMoved"}),
                ({"op": "get_controller_id"}, {"result": 7}),
                ({"op": "get_controller_epoch"}, {"result": 5}),
            ],
            id="requests and the controller",
        ),
        pytest.param(
            {"zk": {}},
            [
                ({"op": "update_broker", "id": 1, "host": "h", "port": 9, "protocol": "SSL"}, {"error": "NoNode"}),
                ({"op": "register_broker", "id": 1, "host": "h", "port": 9, "protocol": "PLAINTEXT"}, {}),
                ({"op": "update_broker", "id": 1, "host": "h", "port": 9, "protocol": "SSL"}, {}),
                ({"op": "get_broker", "id": 1}, {"result": {"id": 1, "endpoints": ["SSL://h:9"]}}),
                ({"op": "get_broker", "id": 2}, {"result": None}),
                ({"op": "create_or_get_cluster_id", "id": "x"}, {"result": "x"}),
                ({"op": "create_or_get_cluster_id", "id": "y"}, {"result": "x"}),
                ({"op": "next_broker_sequence_id"}, {"result": 1}),
                ({"op": "list_isr_notifications"}, {"result": []}),
                ({"op": "propagate_log_dir_event", "broker": 3}, {"nodes": {"/log_dir_event_notification/log_dir_event_0000000000": '{"version":1,"broker":3,"event":1}'}}),
                ({"op": "read_log_dir_events", "sequences": ["0000000000", "0000000009"]}, {"result": [3]}),
            ],
            id="brokers, cluster, notifications",
        ),
    ],
)  # fmt: skip
def test_calls_of_the_adapter(given, steps):
    check_steps(given, "zk_sequence", steps)


@pytest.mark.parametrize(
    ("given", "action", "expected", "dialect"),
    [
        pytest.param(
            {"data": '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["x"]}]}'},
            {"op": "decode", "node": "/admin/reassign_partitions"},
            {"error": "json", "controller_treats_as": {}},
            ">=2.0",
            id="an unknown field since 2.0",
        ),
        pytest.param(
            {"data": '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["x"]}]}'},
            {"op": "decode", "node": "/admin/reassign_partitions"},
            {"targets": {"a-0": [1]}},
            "<=1.1",
            id="an unknown field up to 1.1",
        ),
        pytest.param(
            {"assignments": {"a-0": {"replicas": [2, 1], "adding": [2], "removing": []}}, "topic_id": "3tRvjlrmRXmsYOMp9Fg0AA"},
            {"op": "encode_then_decode", "node": "/brokers/topics/<t>"},
            {"assignments": {"a-0": {"replicas": [2, 1], "adding": [2], "removing": []}}, "topic_id": "3tRvjlrmRXmsYOMp9Fg0AA"},
            ">=2.8",
            id="a topic comes back",
        ),
        pytest.param(
            {"assignments": {"a-0": [1, 2]}},
            {"op": "encode", "node": "/brokers/topics/<t>"},
            {"bytes_utf8": '{"version":1,"partitions":{"0":[1,2]}}'},
            "==0.10",
            id="a topic of the oldest version; 0.10 means all of it",
        ),
        pytest.param(
            {"partitions": ["a-0"]},
            {"op": "encode", "node": "/admin/preferred_replica_election"},
            {"bytes_utf8": '{"version":1,"partitions":[{"topic":"a","partition":0}]}'},
            "2.2-2.4",
            id="an election",
        ),
        pytest.param(
            {"broker_racks": {"0": None, "1": None}},
            {"op": "assign_replicas", "partitions": 2, "replication_factor": 2, "fixed_start_index": 0, "start_partition_id": 3},
            {"assignment": {"3": [1, 0], "4": [0, 1]}},
            "any",
            id="partitions added",
        ),
        pytest.param(
            {"live_brokers": [1], "topics": {"a-0": [1]}},
            {"op": "create_topic_with_assignment", "topic": "a", "assignment": {"0": [1]}},
            {"error": "TopicExists", "topic_exists": True},
            "any",
            id="a topic that exists",
        ),
    ],
)  # fmt: skip
def test_single_operations(given, action, expected, dialect):
    check(given, action, expected, dialect)


@pytest.mark.parametrize(
    ("action", "dialect"),
    [
        pytest.param({"op": "conquer"}, "any", id="an operation"),
        pytest.param({"op": "encode", "node": "/nowhere"}, "any", id="a node"),
        pytest.param({"op": "encode", "node": "/cluster/id"}, "newest", id="a dialect"),
        pytest.param({"op": "encode", "node": "/cluster/id"}, "<=0.8", id="a version"),
        pytest.param({"op": "encode", "node": "/cluster/id"}, "tool", id="a controller where there is a tool"),
        pytest.param({"op": "zk_sequence", "steps": [{"op": "conquer"}]}, "any", id="a step"),
        pytest.param({"op": "scenario", "steps": [{"op": "conquer"}]}, "any", id="a step of a scenario"),
    ],
)
def test_what_the_runner_does_not_know_is_unsupported(action, dialect):
    assert "unsupported" in outcome_of(vector({"id": "x", "brokers": [1], "zk": {}}, action, dialect))


def test_a_vector_that_raises_does_not_stop_the_others(tmp_path, monkeypatch):
    broken = vector({}, {"op": "encode", "node": "/cluster/id"})
    sound = vector({"id": "x"}, {"op": "encode", "node": "/cluster/id"})
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps({"schema_version": 1, "vectors": [broken, sound]}))
    monkeypatch.setattr(sys, "argv", ["conformance", str(source), str(target)])
    runner.main()
    first, second = json.loads(target.read_text())["outcomes"]
    assert "KeyError" in first["error"]
    assert second["outcome"] == {"bytes_utf8": '{"version":"1","id":"x"}'}
