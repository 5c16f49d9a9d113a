"""`kafka-maintenance status`: a line per cluster, the worst first, and an exit status by severity."""

import json
import os
import subprocess
import sys

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.analysis.overviews import keep_overview
from kafka_maintenance.operations.record.departures import Departure, record_departure
from tests.kafka_maintenance.web.fleet import Sick, publish_date, today

CLUSTERS = (Sick("calm"), Sick("warned", warnings=4), Sick("broken", critical=2, warnings=1))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("status")
    for day in (1, 0):
        publish_date(open_store(str(folder)), CLUSTERS, day)
    return folder


def test_clusters_are_listed_the_worst_first_with_their_change(stored, capsys):
    assert main(["status", "--store", str(stored)]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["critical", "broken"],
        ["warning", "warned"],
        ["healthy", "calm"],
    ]
    assert "critical 2 (+2)" in lines[0]
    assert "warnings 4 (+2)" in lines[1]
    assert lines[3] == f"3 clusters, analysis of {today()}"


@pytest.mark.parametrize(("fail_on", "status"), [("critical", 4), ("warning", 4), ("never", 0)])
def test_the_exit_status_is_that_of_the_severity_asked_for(stored, fail_on, status, capsys):
    assert main(["status", "--store", str(stored), "--fail-on", fail_on]) == status


def test_warnings_do_not_fail_where_critical_is_asked_for(tmp_path, capsys):
    publish_date(open_store(str(tmp_path)), CLUSTERS[:2], 0)
    assert main(["status", "--store", str(tmp_path)]) == 0
    assert main(["status", "--store", str(tmp_path), "--fail-on", "warning"]) == 4


def test_a_relative_store_will_do_and_json_has_all_counts(stored, capsys, monkeypatch):
    monkeypatch.chdir(stored.parent)
    main(["status", "--store", stored.name, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["date"] == str(today())
    assert document["clusters"][0]["offline_count"] == 2


@pytest.mark.parametrize("command", [("report", "--html"), ("metrics", "--output")])
def test_a_file_that_cannot_be_written_is_bad_input_and_named(stored, tmp_path, capsys, command):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "page", tmp_path):
        assert main([*command, str(place), "--store", str(stored)]) == 2
        told = capsys.readouterr().err
        assert (f"{place} not written: " in told, ".part" in told) == (True, False)


def test_a_store_without_an_analysis_says_what_to_run(tmp_path, capsys):
    assert main(["status", "--store", str(tmp_path)]) == 2
    assert "run nightly_analysis" in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("status --store {store}", 4, ""),
        ("restore --help", 0, ""),
        ("snapshots list --store {store} --cluster nobody --json", 2, "cluster 'nobody' not found"),
    ],
)
def test_a_closed_pipe_ends_quietly(stored, line, status, said, unbuffered):
    command = [sys.executable, "-m", "kafka_maintenance", *line.format(store=stored).split()]
    known = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=known) as process:
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, said in told, told.count("\n")) == (status, True, int(bool(said)))


def test_a_cluster_that_leaves_zookeeper_or_has_left_it_says_so(tmp_path, capsys):
    store = open_store(str(tmp_path))
    publish_date(store, (*CLUSTERS[:2], Sick("broken", critical=2, migrating=True)), 0)
    at = "2026-11-24T12:00:00+00:00"
    record_departure(store, Departure("calm", "ann", "finalised", at, "/s/manifest.json"))
    assert main(["status", "--store", str(tmp_path), "--fail-on", "never"]) == 0
    lines = {line.split()[1]: line for line in capsys.readouterr().out.splitlines()[:3]}
    assert [name for name, line in lines.items() if line.endswith("KRaft since 2026-11-24")] == ["calm"]
    assert [name for name, line in lines.items() if line.endswith("migrating to KRaft (P3)")] == ["broken"]
    assert [name for name, line in lines.items() if line.endswith("ZooKeeper (P0)")] == ["warned"]


def test_a_cluster_of_which_nobody_knows_whether_it_has_left_hides_no_other(tmp_path, capsys):
    store = open_store(str(tmp_path))
    publish_date(store, CLUSTERS, 0)
    record_departure(store, Departure("calm", "ann", "finalised", "2026-11-24T12:00:00+00:00", "/s/manifest.json"))
    (key,) = store.list("v1/kraft/")
    store.put(key, b"{")
    assert main(["status", "--store", str(tmp_path)]) == 4
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:3]] == ["broken", "warned", "calm"]
    assert last.startswith("calm: whether it has left ZooKeeper is not known: record ")
    main(["status", "--store", str(tmp_path), "--json"])
    assert list(json.loads(capsys.readouterr().out)["cannot_be_read"]) == ["calm"]


def test_what_the_analysis_did_not_look_for_is_a_dash(tmp_path, capsys):
    document = {"format_version": 1, "date": "2026-11-20", "run_id": "r", "created_at": "2026-11-20T03:00:00+00:00"}
    key = "v1/analysis/date=2026-11-20/run=r/manifest.json"
    keep_overview(open_store(str(tmp_path)), key, document | {"summary": {"clusters": {"calm": {"topic_count": 7}}}})
    assert main(["status", "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == [
        *("not", "analysed", "calm", "critical", "-", "warnings", "-"),
        *("offline", "-", "under-replicated", "-", "partitions", "-", "-"),
    ]
