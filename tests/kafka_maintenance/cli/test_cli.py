"""The command: what it prints, how it ends, and that no error is a traceback."""

import argparse
import getpass
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from controller_core.adapters.object_store.open import FolderStore
from kafka_maintenance import __version__
from kafka_maintenance.cli import analyse
from kafka_maintenance.cli.arguments import STORE_VARIABLE
from kafka_maintenance.cli.main import parser
from kafka_maintenance.cli.zookeeper_arguments import PASSWORD_VARIABLE
from kafka_maintenance.demo import stack
from kafka_maintenance.operations.analysis.run import LOG
from kafka_maintenance.operations.plans import elections
from kafka_maintenance.operations.plans.store import StoredPlan
from kafka_maintenance.servers.ports import free_port
from tests.kafka_maintenance.cli.commands import TIMEOUT_S, run
from tests.kafka_maintenance.snapshot_world import stored_day
from tests.source_files import ROOT


def test_help_names_every_command_and_status(capsys):
    status, out, _ = run(capsys, "--help")
    assert status == 0
    for word in (
        "snapshot",
        "analyse",
        "plan",
        "apply",
        "drain",
        "stack",
        "3 the outside",
        "  kafka-maintenance plan elections --",
    ):
        assert word in out


def test_version(capsys):
    assert run(capsys, "--version")[:2] == (0, f"kafka-maintenance {__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="no command"),
        pytest.param(["fly"], id="an unknown command"),
        pytest.param(["plan"], id="no kind of plan"),
        pytest.param(["plan", "elections", "--cluster", "c"], id="no store"),
        pytest.param(["plan", "elections", "--cluster", "c", "--store", "s", "--election-count-max", "0"], id="zero"),
        pytest.param(["analyse", "--store", "s", "--date", "21.11."], id="no date"),
        pytest.param(["analyse", "--store", "s", "--history-days", "0"], id="no date"),
        pytest.param(["snapshots", "list", "--store", "s", "--date", "2026-3-1"], id="a date that no key has"),
        pytest.param(["snapshots", "fetch", "newest", "--store", "s", "--output", ""], id="a variable that nobody set"),
        pytest.param(["executions", "list", "--store", " "], id="a store of blanks"),
        pytest.param(["lab", "--zookeeper", "z", "--controller-id", "3000000000"], id="a broker id beyond Kafka's"),
        pytest.param(["stack", "up", "--brokers", "101"], id="more brokers than a machine runs"),
        pytest.param(
            ["import", "d", "--store", "s", "--cluster", "c", "--at", "0001-01-01T00:00+14:00"],
            id="a time before the first year",
        ),
        pytest.param(["blame", "", "--cluster", "c", "--store", "s"], id="an empty subject"),
        pytest.param(["query", "SELECT 1", "--store", "s", "--rows-max", "0"], id="no rows"),
        pytest.param(
            ["query", "SELECT 1", "--store", "s", "--rows-max", "9" * 30], id="more rows than an engine counts"
        ),
        pytest.param(
            ["alarms", "acknowledge", "k", "--cluster", "c", "--store", "s", "--reason", "r", "--days", "9" * 8],
            id="days beyond any date",
        ),
        pytest.param(
            ["explain", "--cluster", "c", "--store", "s", "--broker-fails", "9" * 5000], id="digits beyond Python's"
        ),
        pytest.param(
            ["plan", "reassignment", "--cluster", "c", "--store", "s", "--throttle-bytes-per-s", "9" * 5000],
            id="the same of a throttle",
        ),
    ],
)
def test_a_wrong_command_line_is_bad_input(capsys, monkeypatch, arguments):
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    status, out, err = run(capsys, *arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert " --help` has every argument, and examples" in err
    status, out, _ = run(capsys, *arguments, "--js")  # argparse takes the beginning of an option
    assert (status, json.loads(out)) == (
        2,
        {"error": "BadInputError", "message": err.removeprefix("kafka-maintenance: ").strip(), "exit_status": 2},
    )


def test_the_store_may_come_from_the_environment(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv(STORE_VARIABLE, str(tmp_path))
    status, _, err = run(capsys, "plan", "elections", "--cluster", "c")
    assert status == 2
    assert f"the store {tmp_path} has no snapshot of it" in err


def test_a_plan_can_be_read_before_it_is_approved(capsys, stored):
    assert run(capsys, "plan", "show", stored.uri)[:2] == (0, f"{stored.markdown}\n")
    status, out, _ = run(capsys, "plan", "show", stored.uri, "--json")
    assert (status, json.loads(out)["plan"]["digest"]) == (0, stored.digest)


def test_without_approval_nothing_is_applied(capsys, stored):
    status, out, err = run(capsys, "apply", stored.uri)
    assert (status, out) == (1, f"{stored.markdown}\n")
    assert f"nothing applied; after reading the plan: --approve {stored.digest}" in err
    assert run(capsys, "apply", stored.uri, "--dry-run") == (0, out, "")


def test_an_approved_plan_needs_a_cluster(capsys, stored):
    status, _, err = run(capsys, "apply", stored.uri, "--approve", stored.digest)
    assert (status, "no cluster named; give --zookeeper" in err) == (2, True)


@pytest.mark.parametrize("hosts", ["foo:bar/k", ",", "zk1:99999"])
def test_hosts_that_are_none_are_bad_input(capsys, hosts):
    status, _, err = run(capsys, "drain", "--zookeeper", hosts)
    assert (status, "expected host:port,host:port/chroot" in err) == (2, True)


def test_somebody_is_named_as_approver(capsys, stored, monkeypatch):
    monkeypatch.setattr(getpass, "getuser", Mock(side_effect=KeyError("getpwuid(): uid not found: 1234")))
    arguments = ("apply", stored.uri, "--approve", stored.digest, "--zookeeper", f"127.0.0.1:{free_port()}")
    status, _, err = run(capsys, *arguments)
    assert (status, "uid not found" in err, "give --approver" in err) == (2, True, True)


def damaged(stored: StoredPlan, how: str) -> None:
    path = Path(stored.uri)
    if how == "altered":
        path.write_bytes(path.read_bytes().replace(b"orders", b"ordres"))
    elif how == "no json":
        path.write_bytes(b"{")
    else:
        path.unlink()


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        pytest.param("altered", 1, "was altered: it names digest", id="altered"),
        pytest.param("no json", 2, "is no JSON document", id="no plan at all"),
        pytest.param("gone", 2, "has no such object", id="missing"),
    ],
)
def test_a_plan_that_is_not_what_it_was(capsys, stored, how, status, said):
    damaged(stored, how)
    for arguments in (
        ("plan", "show", stored.uri),
        ("apply", stored.uri, "--approve", stored.digest),
    ):
        where = ("--zookeeper", f"127.0.0.1:{free_port()}") if arguments[0] == "apply" else ()
        found = run(capsys, *arguments, *where)
        assert (found[0], said in found[2]) == (status, True)


def test_errors_are_documents_with_json(capsys, tmp_path):
    status, out, err = run(capsys, "--json", "plan", "elections", "--cluster", "c", "--store", str(tmp_path))
    document = json.loads(out)
    assert (status, document["error"], document["exit_status"]) == (2, "BadInputError", 2)
    assert document["message"] in err


def test_a_user_needs_a_password_in_the_environment(capsys, monkeypatch):
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    status, _, err = run(capsys, "drain", "--zookeeper", "127.0.0.1:1", "--zookeeper-user", "kafka")
    assert status == 2
    assert f"expected a password in ${PASSWORD_VARIABLE}" in err


def test_a_way_to_log_in_needs_a_user(capsys):
    status, _, err = run(capsys, "drain", "--zookeeper", "127.0.0.1:1", "--zookeeper-scheme", "kerberos")
    assert (status, "--zookeeper-scheme kerberos needs --zookeeper-user; give them together" in err) == (2, True)


def test_manifest_and_live_cluster_exclude_each_other(capsys, tmp_path):
    source = ("--snapshot", "x", "--zookeeper", "y")
    status, _, err = run(capsys, "plan", "elections", "--cluster", "c", "--store", str(tmp_path), *source)
    assert (status, "exclude each other" in err) == (2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [pytest.param(None, "No such file", id="missing"), pytest.param(b"{]", "cannot be read", id="no JSON")],
)
def test_targets_that_cannot_be_read_are_bad_input(capsys, tmp_path, content, said):
    path = tmp_path / "targets.json"
    if content is not None:
        path.write_bytes(content)
    where = ("--cluster", "c", "--store", str(tmp_path))
    status, _, err = run(capsys, "plan", "reassignment", *where, "--targets", str(path))
    assert (status, said in err) == (2, True)


def test_nothing_to_analyse_is_bad_input(capsys, tmp_path):
    status, _, err = run(capsys, "analyse", "--store", str(tmp_path))
    assert (status, "found none; take one first" in err) == (2, True)


def test_a_date_in_the_future_is_analysed_only_when_it_is_named(capsys, tmp_path):
    store, now = FolderStore(tmp_path), datetime.now(UTC)
    for days_ago in (-30, 3):
        stored_day(store, now, days_ago)
    status, out, _ = run(capsys, "analyse", "--store", str(tmp_path), "--dry-run")
    assert (status, str((now - timedelta(days=3)).date()) in out) == (0, True)


def test_a_folder_without_a_stack_is_down(capsys, tmp_path):
    status, out, _ = run(capsys, "stack", "status", "--folder", str(tmp_path), "--json")
    assert (status, json.loads(out)["state"]) == (0, "down")
    assert run(capsys, "stack", "down", "--folder", str(tmp_path))[0] == 0


def test_a_folder_whose_name_is_too_long_for_the_system_is_named(capsys):
    status, _, err = run(capsys, "stack", "status", "--folder", "x" * 300)
    assert (status, "expected records in /" in err, "name the stack's own folder" in err) == (3, True, True)


def test_an_airflow_that_does_not_load_makes_no_pools_and_says_what_to_correct(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "kafka_maintenance.tasks.pools", None)
    status, _, err = run(capsys, "make-pools")
    assert (status, err.count("\n")) == (3, 1)
    assert "expected an Airflow that loads with its settings, found ModuleNotFoundError" in err
    assert "until `airflow db check` succeeds" in err


def test_of_an_interrupted_analysis_nothing_stays_and_of_a_failed_one_the_log(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for raised, left in ((KeyboardInterrupt, []), (ValueError, [LOG])):
        with pytest.raises(raised), analyse._folder(None) as folder:
            (folder / "input").mkdir()
            (folder / LOG).touch()
            raise raised
        assert [path.name for path in tmp_path.glob("*/*")] == left


def test_a_stack_is_told_in_lines_that_can_be_copied(capsys, monkeypatch, tmp_path):
    """Each value stands last on its line, and the lines of a shell can be run as they are."""
    known = {
        "kafka": {"1": "127.0.0.1:9092"},
        "store": "s3://here",
        "environment": {"AWS_SECRET_ACCESS_KEY": "a b"},
        "airflow": "http://127.0.0.1:8080",
        "login": {"admin": "secret"},
    }
    monkeypatch.setattr(stack, "up", lambda *_, **__: known)
    lines = [
        "kafka 1: 127.0.0.1:9092",
        "store: s3://here",
        "airflow: http://127.0.0.1:8080",
        "login admin: secret",
        "export KAFKA_MAINTENANCE_STORE=s3://here",
        "export AWS_SECRET_ACCESS_KEY='a b'",
    ]
    assert run(capsys, "stack", "up", "--folder", str(tmp_path))[:2] == (0, "\n".join(lines) + "\n")
    monkeypatch.setattr(stack, "status", lambda *_: {"state": "up", "addresses": known})
    told = run(capsys, "stack", "status", "--folder", str(tmp_path))[1]
    assert told.splitlines() == ["state: up", *lines]


def test_a_bug_is_a_message_too(capsys, monkeypatch, tmp_path):
    def broken(*_: object, **__: object) -> None:
        raise TypeError("surprise,\n    in two lines")

    monkeypatch.setattr(elections, "plan_elections", broken)
    status, _, err = run(capsys, "plan", "elections", "--cluster", "c", "--store", str(tmp_path))
    assert (status, "internal error, TypeError: surprise, in two lines; set KAFKA_MAINTENANCE_TRACEBACK=1" in err) == (
        3,
        True,
    )


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "kafka_maintenance", "--version"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"kafka-maintenance {__version__}\n")


def actions_of(command):
    """The sub-commands of a parser by name."""
    return {
        name: each
        for action in command._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, each in action.choices.items()
    }


def test_the_page_names_every_command_with_its_actions():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    cells = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    named = {}
    for cell in cells:
        words = re.findall(r"`([a-z-]+)([^`]*)`", cell)
        for word, rest in words:
            named.setdefault(words[0][0], set()).update({word, *re.findall(r"^ ([a-z-]+)", rest)})
    every = {word for words in named.values() for word in words}
    commands = actions_of(parser())
    assert set(commands) - every == set()
    for name in ("plan", "executions", "alarms", "audit", "kraft", "stack"):
        assert set(actions_of(commands[name])) - named.get(name, set()) == set(), name
