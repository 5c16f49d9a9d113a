"""Predicted and happened: what the certificate says of each tree, and the page; with a real controller a few of each kind of end."""

import pytest

from kafka_maintenance.servers import Workspace, ZooKeeperServer
from tests.kafka_maintenance.operations.kraft.cases import CASES, MIGRATED, Stage, predicted, row
from tests.source_files import ROOT

PAGE = (ROOT / "docs" / "kraft.md").read_text(encoding="utf-8")
NAMES = [f"E{case.e} {case.title}" for case in CASES]
IN_CI = ("a field is missing", "a fraction for a client", "an empty controller epoch", "SCRAM at a client")


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_certificate_says_it_before(case):
    assert predicted(case) == case.rules
    if case.happens != MIGRATED or case.kinds:
        assert case.rules


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_page_has_its_row(case):
    assert row(case.e, case.title, case.rules, case.happens, case.kinds) in PAGE.splitlines()


@pytest.fixture(scope="module")
def stage():
    with Workspace.create_temporary() as workspace, ZooKeeperServer(workspace) as zookeeper:
        yield Stage(workspace, zookeeper, "3.9")


@pytest.mark.kafka
@pytest.mark.parametrize("title", IN_CI)
def test_a_real_controller_does_it(stage, title):
    (case,) = (case for case in CASES if case.title == title)
    end, kinds, *_ = stage.happened(case)
    assert (end, kinds) == (case.happens, case.kinds)
