"""The certificates of a fleet: order, what is missing most often, and a cluster that cannot be read."""

from types import SimpleNamespace

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.operations.kraft import fleet as operation
from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.fleet import certify_fleet, fleet_json, fleet_of, fleet_text
from spark_jobs.kraft.fleet import in_the_way
from tests.kafka_maintenance.operations.kraft.trees import MANIFEST, MIGRATION, STATE, TOPIC, config, state, topic, tree

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


def test_a_cluster_that_cannot_be_read_hides_no_other(monkeypatch):
    from controller_core.model.errors import ObjectDamagedError

    def newest(_, cluster):
        if cluster == "broken":
            raise ObjectDamagedError("manifest is damaged")

    monkeypatch.setattr(operation, "newest_snapshot", newest)
    monkeypatch.setattr(
        operation,
        "manifest_keys",
        lambda _: [f"v1/cluster={name}/date=2026-11-23/snap=1/manifest.json" for name in ("broken", "empty")],
    )
    assert dict(certify_fleet(MemoryStore("x")).unusable) == {"broken": "manifest is damaged"}
