"""For each kind of finding and each class of error there is what to do; what the run-books name exists."""

import importlib
import pkgutil
import re

import pytest

import controller_core
import kafka_maintenance.operations
import kafka_maintenance.spark
import spark_jobs
from kafka_maintenance.cli.command_parser import leaves
from kafka_maintenance.cli.main import parser
from kafka_maintenance.connections.fields import SettingsMissingError
from tests.source_files import ROOT, kinds_of_findings

RUNBOOKS = ROOT / "docs" / "runbooks"
FINDINGS = (RUNBOOKS / "findings.md").read_text(encoding="utf-8")
ERRORS = (RUNBOOKS / "errors.md").read_text(encoding="utf-8")
REQUESTS = ("delete_topics", "reassign_partitions", "preferred_replica_election")
KINDS = {
    *kinds_of_findings(), "broker_down", "analysis_disagrees", "stale_isr_change", "stale_log_dir_event",
    *(f"stuck_{request}" for request in REQUESTS),
}  # fmt: skip
SECTIONS = dict(re.findall(r"(?ms)^### `(\w+)`\n(.*?)(?=^##|\Z)", FINDINGS))
ROWS = re.findall(r"(?m)^\| `(\w+)` \| (.+?) \| (.+?) \|$", ERRORS)


def errors():
    """Every public exception of the packages that an operator can meet."""
    found = {SettingsMissingError.__name__}
    for package in (controller_core, spark_jobs, kafka_maintenance.operations, kafka_maintenance.spark):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, kind in vars(importlib.import_module(module.name)).items():
                if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == module.name:
                    found.add(name)
    return {name for name in found if not name.startswith("_")}


def test_each_kind_of_finding_has_a_section_and_no_other_has():
    assert set(SECTIONS) == KINDS


@pytest.mark.parametrize("kind", sorted(SECTIONS))
def test_a_section_says_what_it_means_and_what_to_do(kind):
    assert re.findall(r"\*\*(\w+)\*\*", SECTIONS[kind]) in (["Means", "Look", "Do"], ["Means", "Do"])


def test_the_kinds_that_are_made_of_a_name_are_those_of_the_snapshot():
    source = (RUNBOOKS.parents[1] / "controller_core/adapters/snapshot/decode.py").read_text(encoding="utf-8")
    for name in (*REQUESTS, "isr_change", "log_dir_event"):
        assert f'"kind": "{name}"' in source


def test_each_error_has_a_row_and_no_other_has():
    assert {name for name, _, _ in ROWS} == errors()
    assert len(ROWS) == len(errors())


COMMANDS = dict(leaves(parser()))
NAMED = sorted(
    {
        (name, snippet)
        for snippet in re.findall(r"`([^`\n]+)`", FINDINGS + ERRORS)
        for name in COMMANDS
        if re.match(rf"(?:kafka-maintenance )?{name}(?: [-A-Z]|$)", snippet)
    }
)


@pytest.mark.parametrize(("command", "snippet"), NAMED)
def test_a_command_that_is_named_has_these_options(command, snippet):
    known = {option for action in COMMANDS[command]._actions for option in action.option_strings}
    assert set(re.findall(r"--[a-z-]+", snippet)) <= known


def test_the_run_books_name_many_commands():
    assert len(NAMED) > 15
