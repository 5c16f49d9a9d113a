"""Plans are stored once, under the day, and read again with doubt."""

import json

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import InvalidPlanError
from kafka_maintenance import __version__
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.plans.deletions import plan_deletions
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.store import key_of, load_plan
from tests.kafka_maintenance.operations.plans.made import cluster, plan_of


def test_a_live_plan_lies_under_the_day():
    store = MemoryStore()
    plan = plan_of(plan_elections, cluster(), store)
    assert store.list("") == [
        f"v1/cluster=demo/date=2026-11-21/live/plans/elect_preferred_leaders-{plan.digest[:12]}.{ending}"
        for ending in ("json", "md")
    ] + [f"v1/plans/cluster=demo/elect_preferred_leaders-{plan.digest}"]
    assert plan.summary == "2 elections in 1 step, 1 left out"
    assert store.get(key_of(store, plan.uri.removesuffix("json") + "md")).decode() == plan.markdown


def test_the_same_cluster_gives_the_same_plan():
    store, world = MemoryStore(), cluster()
    assert plan_of(plan_elections, world, store) == plan_of(plan_elections, world, store)


def test_a_plan_made_before_by_another_version_stays_as_it_was_stored(monkeypatch):
    store, world = MemoryStore(), cluster()
    first = plan_of(plan_elections, world, store)
    monkeypatch.setattr("kafka_maintenance.operations.plans.store.__version__", "9.9")
    assert plan_of(plan_elections, world, store) == first
    assert json.loads(store.get(key_of(store, first.uri)))["code_version"] == __version__


def test_planning_writes_nothing_to_the_cluster():
    world = cluster()
    before = world.server.snapshot()
    plan_of(plan_elections, world)
    plan_of(plan_deletions, world, topics=["pay"])
    assert world.server.snapshot() == before


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        pytest.param(None, "has no snapshot of it; take one first", id="no snapshot at all"),
        pytest.param("memory:///v1/cluster=demo/date=2026-11-21/snap=x/manifest.json", "no manifest at", id="missing"),
    ],
)
def test_a_missing_snapshot_is_bad_input(manifest, said):
    with pytest.raises(BadInputError, match=said):
        plan_elections(MemoryStore(), "demo", manifest=manifest)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        pytest.param({"kind": "delete_topics"}, "expected kind 'delete_topics'", id="another kind"),
        pytest.param({"cluster": "prod"}, "expected cluster 'prod', found 'demo'", id="another cluster"),
    ],
)
def test_a_plan_of_something_else_is_not_taken(wanted, said):
    store = MemoryStore()
    plan = plan_of(plan_elections, cluster(), store)
    with pytest.raises(InvalidPlanError, match=said):
        load_plan(store, plan.uri, **wanted)
    assert load_plan(store, plan.uri, kind=plan.kind, cluster="demo") == plan


@pytest.mark.parametrize(
    "uri",
    ["nowhere", "v1/", "memory://other/v1/cluster=demo/plans/x.json"],
    ids=["no address", "no key", "other store"],
)
def test_an_address_outside_the_store_is_bad_input(uri):
    with pytest.raises(BadInputError):
        load_plan(MemoryStore(), uri)


def test_a_stored_plan_is_never_overwritten():
    store, world = MemoryStore(), cluster()
    plan = plan_of(plan_elections, world, store)
    store.put(key_of(store, plan.uri), b"{}")
    with pytest.raises(InvalidPlanError, match="make the plan again"):
        plan_of(plan_elections, world, store)
