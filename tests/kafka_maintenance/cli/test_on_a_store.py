"""Commands that need a store alone, on the sample history: each is done, as text and as one JSON document, and a dry run writes nothing."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller_core.adapters.object_store.open import FolderStore
from kafka_maintenance.cli.main import main
from kafka_maintenance.demo.sample_history import RECORDED
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog
from tests.kafka_maintenance.cli.commands import run

OLDEST = "0000000000000083"
KNOWN = "alarms acknowledge broker_down --cluster sample-history --reason ordered --days 3"
LEFT = "kraft left --cluster sample-history --reason migrated --approver anna"
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


@pytest.mark.parametrize("line", [*(line for line in WRITING if not line.startswith("plan")), LEFT])
def test_a_dry_run_does_not_say_that_it_was_done(capsys, places, line):
    assert "dry run, nothing was written; without it: " in ran(capsys, places, line, "--dry-run")
    assert "dry run" not in ran(capsys, places, line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("query SELECT --cluster nosuch", "no snapshots of cluster 'nosuch' in", id="a query"),
        pytest.param("kraft readiness --cluster nosuch", "'newest' of cluster 'nosuch' not found", id="newest"),
        pytest.param("snapshots compact --month 2026-1x", "a month as YYYY-MM, found '2026-1x';", id="a month"),
        pytest.param(
            "snapshots list --bogus", "--bogus; `kafka-maintenance snapshots list --help` has", id="unknown option"
        ),
        pytest.param("snapshots --bogus list", "--bogus; `kafka-maintenance snapshots --help` has", id="of a group"),
        pytest.param(
            "snapshots show s3://other/v1/cluster=c/date=d/snap=s", "name its store (--store)", id="another store's"
        ),
        pytest.param("diff newest newest --zookeeper-tls", "would have no effect", id="TLS of no ZooKeeper"),
        pytest.param("diff newest newest --zookeeper-user u", "would have no effect", id="a login of no ZooKeeper"),
        pytest.param(
            "blame t --cluster sample-history --log-dir /x", "are for --zookeeper-data", id="logs of no server"
        ),
        pytest.param(
            "blame t --cluster sample-history --chroot /x", "are for --zookeeper-data", id="a tree of no server"
        ),
        pytest.param(
            "kraft readiness --client-settings /x", "for --bootstrap-servers, which is missing", id="of no brokers"
        ),
        pytest.param(
            "analyse --dry-run --clusters sample-history --history-days 99999",
            "dates, found 99999; correct the number",
            id="more dates than are read",
        ),
        pytest.param("snapshots copy --to s3:///kafka", "not opened: expected s3://bucket", id="no bucket"),
        pytest.param("snapshots copy --to ftp://host/kafka", "not opened: expected a folder", id="no store"),
    ],
)
def test_a_message_names_what_was_given(capsys, places, line, said):
    status, _, err = run(capsys, *line.split(), "--store", str(places[0]))
    assert (status, said in err) == (2, True), err


@pytest.mark.parametrize(
    "line",
    [
        "snapshots fetch newest --output {place}",
        "kit newest --topics * --output {place}",
        "export newest --incomplete --zookeeper-snapshot {place}",
        "query SELECT --folder {place}",
        "analyse --folder {place}",
    ],
)
def test_a_place_that_cannot_be_written_is_bad_input_and_named(capsys, places, tmp_path, line):
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "snapshot.16a"
    status, _, err = run(capsys, *line.format(place=place).split(), "--store", str(places[0]))
    assert (status, f"{place} not written: " in err, ".part" in err) == (2, True, False), err


@pytest.mark.parametrize("last", [EventKind.DONE, EventKind.OVER])
def test_a_plan_that_has_ended_is_not_stopped(capsys, tmp_path, last):
    store, now = FolderStore(tmp_path), datetime(2026, 11, 21, tzinfo=UTC)
    log = ReceiptLog(store, cluster="demo", digest="1a" * 32, run="r", approver="anna", now=now)
    log.append(EventKind.STARTED)
    stop = ("stop", "1a1a", "--cluster", "demo", "--reason", "x", "--approver", "anna", "--store", str(tmp_path))
    assert "dry run, nothing was written; without it: asked for" in run(capsys, *stop, "--dry-run")[1]
    log.append(last)
    assert run(capsys, *stop)[0] == 1
    assert not store.list("v1/stops/")


@pytest.mark.parametrize("started", [{"plan": f"/plans/restore-{'a' * 12}.json"}, {"kind": "retain_snapshots"}])
def test_a_plan_whose_run_looks_for_no_stop_is_not_said_to_be_stopped(capsys, tmp_path, started):
    store, now = FolderStore(tmp_path), datetime(2026, 11, 21, tzinfo=UTC)
    log = ReceiptLog(store, cluster="demo", digest="1a" * 32, run="r", approver="anna", now=now)
    log.append(EventKind.STARTED, **started)
    stop = ("stop", "1a1a", "--cluster", "demo", "--reason", "x", "--approver", "anna", "--store", str(tmp_path))
    status, _, err = run(capsys, *stop)
    assert (status, "whose run looks for no such wish; end its process" in err) == (1, True)
    assert not store.list("v1/stops/")


def test_what_a_store_has_no_cluster_of_is_not_acknowledged(capsys, places):
    before = written(places)
    line = KNOWN.replace("sample-history", "sample")
    assert main([*line.split(), "--store", str(places[0])]) == 2
    assert "known are sample-history" in capsys.readouterr().err
    assert written(places) == before


TWICE = (
    '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1]}, {"topic": "a", "partition": 0, "replicas": [2]}]}'
)
TWO_LINES = '{"partitions": [\nx\n]}'
REASSIGNMENT = "plan reassignment --cluster sample-history --targets {file}"
POLICY = "snapshots retain --approve 0 --approver anna --policy {file}"


CHANGED = (
    (
        "a changed rehearsal",
        "kraft runbook --rehearsal {file}",
        (
            '{"digest": 1, "passed": 1, "kafka_version": 3, "repaired": null, "as_it_is": null}',
            '{"digest": "d", "passed": true, "kafka_version": "3.9", "repaired": null, "as_it_is": {"records": []}}',
            '{"digest": "d", "passed": true, "kafka_version": "3.9", "repaired": null, "as_it_is": {"records": {"TOPIC": 1}, "cost": {"migrated_s": "x"}}}',
        ),
    ),
    (
        "a changed certificate",
        "kraft readiness --since {file}",
        (
            '{"cluster": "sample-history", "rules": []}',
            '{"cluster": "sample-history", "phase": {"id": "P0"}, "rules": {"R1": "met"}}',
            '{"cluster": "sample-history", "phase": {"id": "P0"}, "rules": [{"id": "R1"}]}',
        ),
    ),
)


@pytest.mark.parametrize(
    ("line", "content", "said"),
    [
        pytest.param("analyse --dry-run --settings {file}", "[]", "settings not read: a JSON object", id="settings"),
        pytest.param("analyse --dry-run --goals {file}", "[]", "goals not read: a JSON object", id="goals"),
        pytest.param("kraft runbook --rehearsal {file}", None, "No such file", id="no rehearsal"),
        pytest.param("kraft runbook --rehearsal {file}", "[]", "found []", id="a rehearsal that is a list"),
        pytest.param("kraft runbook --rehearsal {file}", "{", "a JSON object expected in", id="a cut rehearsal"),
        pytest.param("kraft runbook --rehearsal {file}", "{}", "found none of its fields digest", id="no fields"),
        pytest.param("kraft readiness --since {file}", None, "earlier certificate not read", id="no certificate"),
        *(
            pytest.param(line, content, "found it changed", id=f"{what} {number}")
            for what, line, contents in CHANGED
            for number, content in enumerate(contents)
        ),
        pytest.param(
            "kraft rehearse --controller-config {file}", None, "the quorum's properties not read", id="no properties"
        ),
        pytest.param(
            "kraft rehearse --with-brokers 1 --broker-config {file}",
            None,
            "a broker's properties not read",
            id="no properties of a broker",
        ),
        pytest.param(REASSIGNMENT, TWICE, "each partition once in {file}, found a-0 more than once", id="twice"),
        pytest.param(REASSIGNMENT, TWO_LINES, "cannot be read", id="targets of several lines"),
        pytest.param(
            "explain --cluster sample-history --reassign {file}", TWO_LINES, "cannot be read", id="as targets"
        ),
        pytest.param(POLICY, "a: {\nb: [\n", "expected YAML", id="a policy of several lines"),
    ],
)
def test_a_file_that_holds_something_else_is_bad_input_in_one_line(capsys, places, tmp_path, line, content, said):
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    assert main([*line.format(file=file).split(), "--store", str(places[0])]) == 2
    told = capsys.readouterr().err
    assert (told.count("\n"), said.format(file=file) in told) == (1, True), told


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


def misplaced(store):
    """A folder that was copied by hand, beside snapshots that are to go."""
    shutil.copytree(store / "v1/cluster=sample-history", store / "v1/cluster=copied")


def leftovers(store):
    """What a killed run left of a cluster that has no snapshot."""
    FolderStore(store).put("v1/cluster=gone/date=2026-01-01/snap=x/raw.parquet", b"x")


@pytest.mark.parametrize("beside", [misplaced, leftovers])
@pytest.mark.parametrize(("says", "status"), [("yes", 0), ("never", 1)])
def test_what_retention_plans_it_carries_out_as_the_policy_of_each_cluster_says(
    capsys, places, tmp_path, beside, says, status
):
    store, policy = places[0], tmp_path / "policy.yaml"
    beside(store)
    named = "gone" if beside is leftovers else "sample-history"
    policy.write_text(f"version: 1\nclusters: {{{named}: {{command_may_apply: '{says}'}}}}\n")
    keep = ["snapshots", "retain", "--keep-last=1", "--keep-daily=0", "--keep-weekly=0", "--keep-monthly=0"]
    assert main([*keep, "--store", str(store), "--json"]) == 1
    digest = json.loads(capsys.readouterr().out)["digest"]
    before = FolderStore(store).list("v1/cluster=")
    assert main([*keep, "--store", str(store), "--approve", digest, "--policy", str(policy)]) == status
    assert (FolderStore(store).list("v1/cluster=") == before) is (says == "never")
