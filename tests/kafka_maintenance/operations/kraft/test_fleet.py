"""The certificates of a fleet: order, what is missing most often, and a cluster that cannot be read."""

from types import SimpleNamespace

import pytest

from controller_core.adapters.object_store.open import FolderStore
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.departure import leave
from kafka_maintenance.operations.kraft.fleet import certify_fleet, fleet_json, fleet_of, fleet_text
from spark_jobs.kraft.fleet import in_the_way
from tests.kafka_maintenance.operations.kraft.trees import (
    MANIFEST,
    MIGRATION,
    NOW,
    STATE,
    TOPIC,
    config,
    state,
    topic,
    tree,
)
from tests.kafka_maintenance.snapshot_world import stored_day

FRACTION = {"/config/clients/c": config(consumer_byte_rate="1.5")}
WORLDS = {
    "worst": {**FRACTION, TOPIC: topic(1, 2, 9)},
    "begun": {"/migration": MIGRATION},
    "quota": FRACTION,
    "ready": {},
    "decide": {STATE: state(isr=[1, 9])},
}  # fmt: skip


def certificates():
    return [
        certify(tree(changes), SimpleNamespace(**{**vars(MANIFEST), "cluster": name}))
        for name, changes in WORLDS.items()
    ]


def test_clusters_stand_by_their_distance_to_ready():
    fleet = fleet_of(certificates(), {})
    assert [each.cluster for each in fleet.certificates] == ["ready", "decide", "quota", "worst", "begun"]
    assert not fleet.ready
    assert fleet_of(certificates()[3:], {}).ready
    assert not fleet_of(certificates()[3:], {"x": "damaged"}).ready


def test_the_rule_that_most_clusters_break_comes_first_with_its_clusters():
    fleet = fleet_of(certificates(), {"lost": "manifest is damaged"})
    assert [(rule, set(clusters)) for rule, clusters in in_the_way(fleet.standings)] == [
        ("R12", {"quota", "worst"}),
        ("R4", {"worst"}),
        ("R5", {"begun"}),
    ]
    text = fleet_text(fleet)
    assert "R12 quotas and credentials, in 2 clusters (quota, worst): correct them before any broker is rolled" in text
    assert "not judged: lost: manifest is damaged" in text
    assert [each["cluster"] for each in fleet_json(fleet)["clusters"] if each["ready"]] == ["ready", "decide"]


@pytest.fixture
def store(tmp_path):
    store = FolderStore(tmp_path)
    for cluster in ("blue", "green"):
        stored_day(store, NOW, 1, cluster=cluster)
    return store


def test_a_cluster_that_cannot_be_read_or_has_no_snapshot_hides_no_other(store):
    store.delete(store.list("v1/cluster=green/")[0])
    store.put("v1/cluster=new/date=2026-11-23/snap=1/raw.parquet", b"")
    fleet = certify_fleet(store)
    assert [each.cluster for each in fleet.certificates] == ["blue"]
    assert fleet.unusable["new"] == "expected a published snapshot of it, found none; take one"
    assert fleet.unusable.keys() == {"green", "new"}


def test_a_store_without_a_published_snapshot_is_not_called_ready(tmp_path, capsys):
    FolderStore(tmp_path).put("v1/cluster=new/date=2026-11-23/snap=1/raw.parquet", b"")
    assert main(["kraft", "fleet", "--store", str(tmp_path)]) == 4
    assert capsys.readouterr().out.splitlines()[-1].startswith("not judged: new: expected a published snapshot of it")


def test_a_cluster_that_has_left_zookeeper_stands_in_nobodys_way(store):
    leave(store, "blue", by="ann", reason="finalised", now=NOW)
    fleet = certify_fleet(store)
    assert [each.cluster for each in fleet.certificates] == ["green"]
    assert fleet_json(fleet)["left_zookeeper"] == {"blue": "2026-11-23T02:00:00+00:00"}
    assert fleet_text(fleet).endswith("not judged: blue: it has left ZooKeeper (2026-11-23T02:00:00+00:00)")
    leave(store, "green", by="ann", reason="finalised", now=NOW)
    assert certify_fleet(store).ready


def test_a_cluster_of_which_nobody_knows_whether_it_has_left_hides_no_other_and_is_not_called_ready(store):
    for cluster in ("blue", "green"):
        leave(store, cluster, by="ann", reason="finalised", now=NOW)
    store.put(store.list("v1/kraft/cluster=green/")[0], b"{")
    fleet = certify_fleet(store)
    assert not fleet.ready
    assert fleet.left.keys() == {"blue"}
    assert "kafka-maintenance audit verify" in fleet.unusable["green"]
