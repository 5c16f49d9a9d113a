"""The run-book: what it takes from the cluster, and what no phase may lack."""

import re

from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.runbook import brokers_in_order, controller_ids, runbook
from tests.kafka_maintenance.operations.kraft.trees import BROKER, MANIFEST, TOPIC, acl, config, state, topic, tree

REHEARSAL = {
    "digest": "d" * 64,
    "passed": True,
    "kafka_version": "3.9",
    "repaired": None,
    "as_it_is": {"records": {"TOPIC": 2, "PARTITION": 7}, "cost": {"migrated_s": 3.4}},
}


def written(changes=None, rehearsal=None):
    found = tree(changes)
    return runbook(certify(found, MANIFEST), found, rehearsal)


def phases(text):
    return {part[0]: part for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]}


def test_each_phase_has_its_check_and_its_way_back():
    found = phases(written())
    assert list(found) == ["0", "1", "2", "3", "4", "5", "6"]
    for number, part in found.items():
        assert "- [ ]" in part
        assert ("Way back:" in part) == (number != "6")
    for number in "12345":
        assert "/migration`" in found[number].split("Way back:")[1]
    for number in "345":
        assert "`/controller` **and `/migration`**" in found[number]
    assert "point of no return" in found["6"]
    for number, state_is in (("1", 2), ("3", 1), ("6", 3)):  # as Kafka 3.9.2 counts: `ZkMigrationState`
        assert re.findall(r"`ZkMigrationState` is (\d)", found[number]) == [str(state_is)]


def test_brokers_go_rack_by_rack_with_the_fewest_leaders_first():
    changes = {
        "/brokers/ids/1": BROKER | {"rack": "b"},
        "/brokers/ids/2": BROKER | {"rack": "a"},
        "/brokers/ids/3": BROKER | {"rack": "a"},
        TOPIC: topic(partitions={"0": [2, 1], "1": [2, 3]}),
        f"{TOPIC}/partitions/0/state": state(2, (2, 1)),
        f"{TOPIC}/partitions/1/state": state(2, (2, 3)),
    }
    assert [tuple(line) for line in brokers_in_order(tree(changes))] == [(3, "a", 0, 1), (2, "a", 2, 2), (1, "b", 0, 1)]
    order = [int(number) for number in re.findall(r"- \[ \] Broker (\d)", phases(written(changes))["2"])]
    assert order == [3, 2, 1]


def test_the_quorum_is_described_from_the_cluster():
    quorum = phases(written())["1"]
    assert "format -t SL7T6HJ2QjKdAvdTomaNnQ" in quorum
    assert "inter.broker.listener.name=PLAINTEXT" in quorum
    assert "authorizer" not in quorum
    secured = phases(
        written({"/kafka-acl/Topic/t": acl(), "/config/brokers/1": config(**{"ssl.key.password": "geheim"})})
    )["1"]
    assert "StandardAuthorizer" in secured
    assert "password.encoder.secret" in secured
    assert "geheim" not in secured


def test_no_controller_has_a_brokers_id():
    assert controller_ids(tree({TOPIC: topic(3001, 3000)})) == [3002, 3003, 3004]


def test_counts_and_times_are_those_of_the_rehearsal_of_this_snapshot():
    text = written(rehearsal=REHEARSAL)
    assert "PARTITION_RECORD=7, TOPIC_RECORD=2" in text
    assert "copy took 3 s" in text
    assert "Rehearsed with a controller of Kafka 3.9: passed." in text
    assert "another snapshot" in written(rehearsal=REHEARSAL | {"digest": "e" * 64})
    assert "start no migration" in written(rehearsal=REHEARSAL | {"passed": False})
    assert "No rehearsal is known" in written()


def test_what_stands_against_it_stands_at_its_head():
    before = phases(written({TOPIC: topic(1, 2, 9)}))["0"]
    assert "- [ ] R4 not met, mend: /brokers/ids: broker 9 is missing; it holds orders-0" in before
    assert before.index("R4 not met") < before.index("R17 ask")
