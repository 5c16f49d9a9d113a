"""A store that the last commit before 0.2 wrote (a123d96, version 0.1.0): what of it counts today, and what is refused.

Snapshots, pins, receipts and retention plans are read; plans of deletions and re-elections are read with their digests, and a plan of
deletions still carries out. Plans of elections, moves and restores are to be made again. An approval does not count: no audit chain holds it.

`tests/data/stores/0.1` was written by that commit's own code, on its simulated cluster and on a real ZooKeeper. Add stores, never make one
again.
"""

import re
import shutil

import pytest

from controller_core.adapters.object_store.open import FolderStore
from controller_core.model.errors import InvalidPlanError
from kafka_maintenance.operations.gate.approvals import asked
from kafka_maintenance.operations.plans.store import load_plan
from kafka_maintenance.operations.record.audit import UntrustedRecordError
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.operations.restore.document import load_restore
from kafka_maintenance.operations.retention.plan import pins
from kafka_maintenance.operations.retention.store import load_retention
from kafka_maintenance.operations.snapshots.verify import verify_snapshot
from tests.kafka_maintenance.operations.apply import applying
from tests.source_files import ROOT
from tests.visible_snapshots import visible_snapshots

WRITTEN = ROOT / "tests" / "data" / "stores" / "0.1"


@pytest.fixture
def store(tmp_path):
    shutil.copytree(WRITTEN, tmp_path / "store")
    return FolderStore(tmp_path / "store")


def plan_of(store, kind):
    (key,) = [key for key in store.list("v1/cluster=demo/") if re.search(rf"/{kind}-\w{{12}}\.json$", key)]
    return load_plan(store, store.uri_of(key))


@pytest.mark.parametrize(
    ("kind", "count", "digest"), [("delete_topics", 1, "ddd406008c44"), ("drain_isr_notifications", 1, "5119f0585350")]
)
def test_plans_are_read_with_their_digests(store, kind, count, digest):
    plan = plan_of(store, kind)
    assert (plan.kind, plan.count, plan.digest[:12]) == (kind, count, digest)


@pytest.mark.parametrize("kind", ["elect_preferred_leaders", "reassign_partitions"])
def test_plans_that_do_not_say_which_topics_they_mean_are_made_again(store, kind):
    """A namesake that was created since is another topic; 0.1 did not look."""
    with pytest.raises(InvalidPlanError, match=r"step 1: no expectation of topic.*make the plan again"):
        plan_of(store, kind)


def test_a_plan_that_was_approved_then_is_carried_out_now(store):
    _, world, _ = applying.planned(applying.deletion)
    kept = plan_of(store, "delete_topics")
    for key in store.list("v1/receipts/cluster=demo/"):
        store.delete(key)
    assert not applying.apply(store, kept, world).already_applied
    assert applying.events(store, kept)[-1] == "done"
    assert world.wrote


def test_receipts_are_read(store):
    (key,) = [key for key in store.list("v1/receipts/cluster=demo/16a7b18f12ce") if key.endswith("-done.json")]
    events = read_events(store, "demo", key.split("/")[3])
    assert [event.event for event in events] == applying.CARRIED_OUT
    assert {event.code_version for event in events} == {None}


def test_an_answer_of_a_gate_counts_no_more_as_no_chain_holds_it(store):
    with pytest.raises(UntrustedRecordError, match="the chain holds no such record"):
        asked(store, cluster="demo", run="manual__1")


def test_snapshots_are_whole_and_one_is_pinned(store):
    manifests = visible_snapshots(store, "alpha")
    assert [manifest.code_version for manifest in manifests] == ["0.1.0"] * 3
    assert [verify_snapshot(store, manifest) for manifest in manifests] == [[]] * 3
    assert list(pins(store, "alpha").values()) == ["audit"]


def test_a_retention_plan_is_read(store):
    (key,) = store.list("v1/retention/")
    assert load_retention(store, store.uri_of(key), cluster="alpha").count == 1


def test_a_restore_plan_without_the_rules_for_acls_is_made_again(store):
    (key,) = [key for key in store.list("") if "/plans/restore-" in key]
    with pytest.raises(
        InvalidPlanError, match=r"schema version 4, found 2 \(made by kafka-maintenance 0\.1\); plan again"
    ):
        load_restore(store, store.uri_of(key))
