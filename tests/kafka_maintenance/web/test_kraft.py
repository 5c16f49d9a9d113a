"""The page KRaft: the certificate of a stored snapshot, rule by rule, and its run-book."""

from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.demo.sample_history import CLUSTER, copy_into
from kafka_maintenance.operations.kraft.certificate import RULES
from kafka_maintenance.web.blocks import Facts, Note
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views.kraft import kraft_page

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
    assert [block.title[0] for block in page.sections[-1].blocks] == list("0123456")
    assert not any(isinstance(block, Note) for block in page.head)
    html = page_html(page, nonce="n")
    assert "no obstacle in the snapshot" in html
    assert "- [ ]" not in html


def test_an_expired_certificate_says_so(store):
    head = kraft_page(store, [CLUSTER], CLUSTER, LATER).head
    assert any(isinstance(block, Note) and block.text.startswith("Expired at") for block in head)


def test_a_cluster_without_a_snapshot_and_no_cluster_at_all(store):
    assert "no snapshot yet" in kraft_page(store, ["new"], "", LATER).head[-1].text
    assert not any(isinstance(block, Facts) for block in kraft_page(store, [], "", LATER).head)
