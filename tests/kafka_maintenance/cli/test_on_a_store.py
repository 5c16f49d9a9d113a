"""Commands that need a store alone, on the sample history: each is done, as text and as one JSON document, and a dry run writes nothing."""

import json
import shutil
from pathlib import Path

import pytest

from kafka_maintenance.cli.main import main
from kafka_maintenance.demo.sample_history import RECORDED

OLDEST = "0000000000000083"
KNOWN = "alarms acknowledge broker_down --cluster sample-history --reason ordered --days 3"
READING = (
    "snapshots list",
    "snapshots show newest",
    "snapshots verify newest",
    "snapshots check",
    "snapshots ls newest /brokers/topics",
    "snapshots cat newest /cluster/id",
    "snapshots find newest /brokers/topics/returns",
    f"diff {OLDEST} newest",
    "blame returns --cluster sample-history",
    "explain --cluster sample-history --broker-fails 1",
    "kraft fleet",
    "kraft readiness newest",
    "kraft runbook newest",
    "executions list",
    "audit verify --cluster sample-history",
)
WRITING = (
    "snapshots compact",
    "snapshots copy --to {second}",
    f"snapshots pin {OLDEST} --reason kept",
    "plan elections --cluster sample-history",
    KNOWN,
)


@pytest.fixture
def places(tmp_path):
    """A copy of the sample history, and the place of a second store."""
    shutil.copytree(RECORDED, tmp_path / "store")
    return tmp_path / "store", tmp_path / "second"


def ran(capsys, places, line, *options):
    store, second = places
    status = main([*line.format(second=second).split(), "--store", str(store), *options])
    printed = capsys.readouterr()
    assert status == 0, printed
    return printed.out


def written(places):
    return {path: path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("line", [*READING, *WRITING])
def test_it_is_done_as_text_and_as_one_document(capsys, places, line):
    assert ran(capsys, places, line).strip()
    json.loads(ran(capsys, places, line, "--json"))


@pytest.mark.parametrize("line", WRITING)
def test_a_dry_run_writes_nothing_and_the_run_does(capsys, places, line):
    before = written(places)
    ran(capsys, places, line, "--dry-run")
    assert written(places) == before
    ran(capsys, places, line)
    assert written(places) != before


def test_what_a_store_has_no_cluster_of_is_not_acknowledged(capsys, places):
    before = written(places)
    line = KNOWN.replace("sample-history", "sample")
    assert main([*line.split(), "--store", str(places[0])]) == 2
    assert "known are sample-history" in capsys.readouterr().err
    assert written(places) == before


OF_ANY_STORE = ("snapshots list", "executions list")
OF_A_CLUSTER = (
    "snapshots list",
    "snapshots check",
    "snapshots repair",
    "snapshots retain",
    "snapshots compact",
    "snapshots compact --check",
    "snapshots copy --to {second}",
    "executions list",
)


@pytest.mark.parametrize("line", [*OF_A_CLUSTER, "kraft fleet", "audit verify --cluster c", "audit export --cluster c"])
@pytest.mark.parametrize("there", [False, True])
def test_a_store_that_holds_nothing_is_not_judged_well(capsys, tmp_path, line, there):
    """A mistyped address; what only lists shows nothing where the folder is there."""
    store, second = tmp_path / "store", tmp_path / "second"
    if there:
        store.mkdir()
    expected = 0 if there and line in OF_ANY_STORE else 2
    assert main([*line.format(second=second).split(), "--store", str(store)]) == expected
    assert f"{str(store)!r}" in capsys.readouterr().err or not expected
    assert not second.exists()


@pytest.mark.parametrize("line", [*OF_A_CLUSTER, "audit verify", "audit export"])
def test_a_cluster_that_the_store_does_not_know_is_not_judged_well(capsys, places, line):
    assert main([*line.format(second=places[1]).split(), "--cluster", "sample", "--store", str(places[0])]) == 2
    assert "known are sample-history" in capsys.readouterr().err
    assert not places[1].exists()


def test_an_address_in_a_folder_may_be_relative(capsys, places, monkeypatch):
    (snapshot, *_), store = json.loads(ran(capsys, places, "snapshots list --json"))["snapshots"], places[0]
    monkeypatch.chdir(store.parent)
    address = Path(snapshot["uri"]).relative_to(store.parent)
    for each in (address, f"./{address}", f"../{store.parent.name}/{address}"):
        assert main(["snapshots", "show", str(each), "--store", str(each).partition("/v1/")[0]]) == 0
    ran(capsys, places, "plan elections --cluster sample-history")
    (plan,) = store.rglob("plans/elect_preferred_leaders-*.json")
    assert main(["plan", "show", str(plan.relative_to(store.parent))]) == 0


def test_a_copy_is_whole_and_a_second_one_finds_it_there(capsys, places):
    assert "7 snapshots copied" in ran(capsys, places, "snapshots copy --to {second}")
    assert "0 snapshots copied" in ran(capsys, places, "snapshots copy --to {second}")
    store, second = places
    assert "7 of them read and decoded again: nothing is wrong" in ran(capsys, (second, store), "snapshots check")
