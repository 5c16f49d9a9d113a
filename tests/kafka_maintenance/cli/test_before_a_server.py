"""Commands that start servers: what cannot be used is told before, and what was found is printed whatever becomes of the store."""

import json
import re
import shutil

import pytest

from kafka_maintenance.cli.arguments import STARTED_VERSIONS
from kafka_maintenance.cli.main import main
from kafka_maintenance.demo.sample_history import RECORDED
from kafka_maintenance.operations.kraft.rehearsal import of_snapshot
from kafka_maintenance.operations.restore import drill_brokers
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.kafka_jars import VERSIONS
from tests.kafka_maintenance.cli.commands import run
from tests.kafka_maintenance.operations.kraft.rehearsals import rehearsal


@pytest.fixture
def store(tmp_path):
    return shutil.copytree(RECORDED, tmp_path / "store")


@pytest.fixture
def rehearse(capsys, store, monkeypatch):
    """Runs `kraft rehearse` with options, without its servers: the rehearsal passes."""
    monkeypatch.setattr(of_snapshot, "rehearse_snapshot", lambda *_, **__: rehearsal(41.0))
    return lambda *options: run(capsys, "kraft", "rehearse", "--store", str(store), *options)


def test_the_help_names_the_versions_that_can_be_started():
    assert re.split(", | or ", STARTED_VERSIONS) == list(VERSIONS)


@pytest.mark.parametrize(
    ("version", "status", "said"),
    [
        ("2.5", 2, "Kafka '2.5' not used: expected a version whose jars are pinned, which are 0.10.2, "),
        (
            "3.9",
            1,
            "with brokers not started: expected broker ids up to 0, because all from 1 on are started, found 4; ",
        ),
    ],
)
def test_brokers_that_a_drill_cannot_start_are_told_before_its_server_starts(
    capsys, store, monkeypatch, version, status, said
):
    monkeypatch.setattr(ZooKeeperServer, "start", lambda _: pytest.fail("started"))
    monkeypatch.setattr(drill_brokers, "_HIGHEST_ID", 0)
    monkeypatch.setattr(drill_brokers, "_IDS_PER_BROKER", 0)
    drill = ("drill", "--store", str(store), "--cluster", "sample-history", "--kafka-version", version)
    found, out, err = run(capsys, *drill)
    assert (found, out, said in err) == (status, "", True), err


def test_a_rehearsal_is_kept(rehearse, store):
    status, out, err = rehearse()
    (kept,) = store.glob("v1/rehearsals/cluster=blue/*.json")
    assert (status, "rehearsal" in out, err) == (0, True, f"kept as {kept}\n")


def test_a_dry_run_does_not_say_that_a_rehearsal_was_kept(rehearse, store):
    status, _, err = rehearse("--dry-run")
    assert (status, "dry run, nothing was written; without it: kept as " in err) == (0, True)
    assert not (store / "v1/rehearsals").exists()


def test_what_a_rehearsal_found_is_printed_where_the_store_does_not_take_it(rehearse, store):
    (store / "v1/rehearsals").touch()
    status, out, err = rehearse("--json")
    assert (status, json.loads(out)["passed"]) == (3, True)
    assert (err.count("\n"), "kafka-maintenance: object " in err, "not written" in err) == (1, True, True), err


def test_a_stack_of_a_version_that_cannot_be_started_is_bad_input(capsys, tmp_path):
    folder = tmp_path / "stack"
    assert main(["stack", "up", "--folder", str(folder), "--no-airflow", "--kafka-version", "2.5"]) == 2
    assert "Kafka '2.5' not used: " in capsys.readouterr().err
    assert not folder.exists()
