"""The classes of differences: what a snapshot says against the records, Kafka's own count, and the tree afterwards."""

import pytest

from kafka_maintenance.operations.kraft.rehearsal.compare import compared
from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.operations.kraft.rehearsal.difference import Kind
from kafka_maintenance.operations.kraft.rehearsal.records import Migrated, Record
from tests.kafka_maintenance.operations.kraft.trees import GONE, STATE, config, state, tree

TOPIC_ID = "bXktdG9waWMtb25lLTAwMQ"
PARTITION = {"partitionId": 0, "topicId": TOPIC_ID, "replicas": [1, 2], "isr": [1, 2], "removingReplicas": [], "addingReplicas": [],
             "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}  # fmt: skip


def quota(entity, key, value):
    named = [{"entityType": kind, "entityName": name} for kind, name in entity.items()]
    return Record("CLIENT_QUOTA", {"entity": named, "key": key, "value": value, "remove": False})


HEALTHY_RECORDS = (
    Record("NO_OP", {}),
    Record("TOPIC", {"name": "orders", "topicId": TOPIC_ID}),
    Record("CONFIG", {"resourceType": 2, "resourceName": "orders", "name": "cleanup.policy", "value": "delete"}),
    Record("CONFIG", {"resourceType": 2, "resourceName": "orders", "name": "retention.ms", "value": "1000"}),
    Record("PARTITION", PARTITION),
    Record("CONFIG", {"resourceType": 4, "resourceName": "", "name": "log.cleaner.threads", "value": "2"}),
    quota({"user": "ada"}, "producer_byte_rate", 1e6),
    quota({"user": "ada"}, "request_percentage", 12.5),
    quota({"client-id": "c d"}, "consumer_byte_rate", 2048.0),
    quota({"ip": "10.0.0.1"}, "connection_creation_rate", 5.0),
    Record("ZK_MIGRATION_STATE", {"zkMigrationState": 1}),
)  # fmt: skip


def log_of(records):
    counts = {}
    for kind, _ in records:
        if kind not in {"NO_OP", "ZK_MIGRATION_STATE"}:
            counts[f"{kind}_RECORD"] = counts.get(f"{kind}_RECORD", 0) + 1
    told = ", ".join(f"{kind}={count}" for kind, count in counts.items())
    return f"Completed migration of metadata from ZooKeeper to KRaft. {sum(counts.values())} records were generated in 9 ms. The record types were {{{told}}}."


def told(changes=None, records=HEALTHY_RECORDS, after=None, log=None):
    """The differences that are not the same, with their class."""
    copy = copy_of(tree(changes))
    left = {path: znode.data for path, znode in copy.tree.znodes.items()} | (after or {})
    left = {path: data for path, data in left.items() if data is not GONE}
    found = compared(copy.tree, Migrated(tuple(records), ended=True), log or log_of(records), left)
    return {(each.kind, each.what.split(":")[0]) for each in found if each.kind not in {Kind.SAME, Kind.NOTATION}}


def without(kind, name):
    return [each for each in HEALTHY_RECORDS if not (each.type == kind and name in each.data.values())]


def test_a_tree_that_became_its_records_differs_in_nothing():
    assert told() == set()


@pytest.mark.parametrize(
    ("arguments", "difference"),
    [
        pytest.param({"records": without("CONFIG", "retention.ms")}, (Kind.UNCLASSIFIED, "CONFIG 2 orders retention.ms"), id="a config is missing"),
        pytest.param({"records": without("TOPIC", "orders")}, (Kind.UNCLASSIFIED, "TOPIC orders"), id="a topic is missing"),
        pytest.param({"records": [*HEALTHY_RECORDS, quota({"user": "eve"}, "producer_byte_rate", 1.0)]},
                     (Kind.UNCLASSIFIED, "CLIENT_QUOTA (('user', 'eve'),) producer_byte_rate"), id="a quota from nowhere"),
        pytest.param({"records": [*HEALTHY_RECORDS, Record("FEATURE_LEVEL", {})]}, (Kind.UNCLASSIFIED, "FEATURE_LEVEL {}"), id="an unknown record"),
        pytest.param({"records": [*without("PARTITION", 0), Record("PARTITION", {**PARTITION, "isr": [1]})]},
                     (Kind.UNCLASSIFIED, "PARTITION orders 0"), id="another ISR"),
        pytest.param({"log": log_of(HEALTHY_RECORDS[:-2])}, (Kind.UNCLASSIFIED, "CLIENT_QUOTA"), id="Kafka counts fewer"),
        pytest.param({"log": "nothing"}, (Kind.UNCLASSIFIED, 'the controller\'s log has no line "Completed migration of metadata"'), id="Kafka counts nothing"),
        pytest.param({"after": {STATE: GONE}}, (Kind.UNCLASSIFIED, STATE), id="a state was deleted"),
        pytest.param({"after": {STATE: b"{}"}}, (Kind.UNCLASSIFIED, STATE), id="a state was rewritten"),
        pytest.param({"after": {"/new": b"x"}}, (Kind.UNCLASSIFIED, "/new"), id="a znode appeared"),
        pytest.param({"changes": {STATE: GONE}}, (Kind.INVENTED, "PARTITION orders 0"), id="a state is invented"),
        pytest.param({"changes": {"/config/topics/ghost": config(a="b")}, "after": {"/config/topics/ghost": GONE}},
                     (Kind.LOST, "/config/topics/ghost"), id="a config without its topic"),
        pytest.param({"changes": {"/admin/reassign_partitions": b"{}"}}, (Kind.MEANT, "/admin/reassign_partitions"), id="a request"),
        pytest.param({"changes": {"/spark/x": b"y"}}, (Kind.LOST, "/spark"), id="a foreign tree"),
        pytest.param({"after": {"/migration": b"{}"}}, (Kind.REHEARSAL, "/migration"), id="what the controller writes itself"),
    ],
)  # fmt: skip
def test_each_difference_has_its_class(arguments, difference):
    assert difference in told(**arguments)


def test_a_state_that_makes_no_sense_is_copied_and_of_no_use():
    records = [*without("PARTITION", 0), Record("PARTITION", {**PARTITION, "leader": 7})]
    assert told({STATE: state(leader=7)}, records) == {(Kind.UNUSABLE, STATE)}


def test_of_a_config_exactly_the_settings_that_kafka_does_not_take_are_of_no_use():
    settings = {"cleanup.policy": "wrong", "delete.retention.ms": "abc", "no.such.key": "1", "retention.ms": "1000"}
    fields = {"resourceType": 2, "resourceName": "orders"}
    records = [each for each in HEALTHY_RECORDS if "orders" not in each.data.values() or each.type != "CONFIG"]
    records += [Record("CONFIG", {**fields, "name": name, "value": value}) for name, value in settings.items()]
    copy = copy_of(tree({"/config/topics/orders": config(**settings)}))
    left = {path: znode.data for path, znode in copy.tree.znodes.items()}
    found = compared(copy.tree, Migrated(tuple(records), ended=True), log_of(records), left)
    assert sorted(each.what.split(": ")[1] for each in found if each.kind is Kind.UNUSABLE) == [
        "cleanup.policy='wrong' is neither compact nor delete, nor both",
        "delete.retention.ms='abc' is no whole number",
        "no.such.key is no config of a topic in Kafka 3.9",
    ]
