"""The page KRaft: the certificate of a stored snapshot, rule by rule, and its run-book."""

from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.model.words import counted
from kafka_maintenance.demo.sample_history import CLUSTER, copy_into
from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.departure import leave
from kafka_maintenance.operations.kraft.runbook import runbook
from kafka_maintenance.operations.snapshots.catalog import newest_snapshot, public_configs, read_raw
from kafka_maintenance.web.blocks import Facts, Note
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views.kraft import _step, kraft_page
from spark_jobs.kraft.rules import RULES
from spark_jobs.kraft.tree import tree_of


def runbook_of(store):
    manifest = newest_snapshot(store, CLUSTER)
    tree = tree_of(read_raw(store, manifest), public_configs(store, manifest))
    return runbook(certify(tree, manifest), tree)


LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    found = open_store(str(tmp_path))
    copy_into(found)
    return found


def test_every_rule_stands_under_its_verdict_and_the_run_book_has_its_phases(store):
    page = kraft_page(store, [CLUSTER, "new"], "", datetime(2026, 10, 11, 3, tzinfo=UTC))
    rules = [row[0].text for section in page.sections[:-1] for row in section.blocks[0].rows]
    assert sorted(rules) == sorted(rule.id for rule in RULES)
    note, *phases = page.sections[-1].blocks
    assert "stays in this browser" in note.text
    assert [block.title[0] for block in phases] == list("0123456")
    names = [step.name for block in phases for step in block.steps if step.name]
    assert len(names) == len(set(names)) == runbook_of(store).count("- [ ]")
    assert not any("leaders, " in name for name in names)
    assert not any(isinstance(block, Note) for block in page.head)
    html = page_html(page, nonce="n")
    assert "no obstacle in the snapshot" in html
    assert "- [ ]" not in html


def test_a_snapshot_that_cannot_be_read_leaves_the_way_to_the_other_clusters(store, tmp_path):
    newest = max(tmp_path.rglob("raw.parquet"))
    newest.chmod(0o644)
    newest.write_bytes(newest.read_bytes()[:-1])
    form, note = kraft_page(store, [CLUSTER, "other"], "", LATER).head
    assert [name for name, _ in form.fields[0].choices] == [CLUSTER, "other"]
    assert (note.tone, str(newest) in note.text) == ("warning", True)


@pytest.mark.parametrize("leaders", [0, 1, 2, 1000])
def test_a_tick_stays_when_a_newer_snapshot_has_other_counts(leaders):
    names = {
        _step(
            "2. Roll", f"- [ ] Broker 1, rack a: {counted(leaders, 'leader')}, {counted(replicas, 'replica')}. Check: x"
        ).name
        for replicas in (1, 7)
    }
    assert names == {"2. Roll: Broker 1, rack a. Check: x"}


def test_a_cluster_that_has_left_zookeeper_is_not_told_to_go_back(store):
    leave(store, CLUSTER, by="ann", reason="finalised", now=LATER)
    page = kraft_page(store, [CLUSTER], "", LATER)
    assert page.head[-1].text.startswith(
        f"Cluster {CLUSTER} has left ZooKeeper, as ann recorded at 2030-01-01T00:00:00"
    )
    assert not page.sections


def test_a_departure_that_cannot_be_read_leaves_the_way_to_the_other_clusters(store):
    store.put(f"v1/kraft/cluster={CLUSTER}/20300101T000000000000Z-left.json", b"{}")
    form, note = kraft_page(store, [CLUSTER, "other"], "", LATER).head
    assert [name for name, _ in form.fields[0].choices] == [CLUSTER, "other"]
    assert (note.tone, "expected who said that the cluster has left ZooKeeper" in note.text) == ("warning", True)
    assert "no snapshot yet" in kraft_page(store, [CLUSTER, "other"], "other", LATER).head[-1].text


def test_an_expired_certificate_says_so(store):
    head = kraft_page(store, [CLUSTER], CLUSTER, LATER).head
    assert any(isinstance(block, Note) and block.text.startswith("Expired at") for block in head)


def test_a_cluster_without_a_snapshot_and_no_cluster_at_all(store):
    assert "no snapshot yet" in kraft_page(store, ["new"], "", LATER).head[-1].text
    assert not any(isinstance(block, Facts) for block in kraft_page(store, [], "", LATER).head)
