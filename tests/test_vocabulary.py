"""One vocabulary for all commands: an option means the same everywhere, each help has examples that parse, statuses are those that are returned."""

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict

import pytest

from kafka_maintenance.cli.arguments import STORE_VARIABLE
from kafka_maintenance.cli.command_parser import PROGRAM, leaves
from kafka_maintenance.cli.examples import EXAMPLES, FOUND, REFUSED
from kafka_maintenance.cli.main import parser
from kafka_maintenance.operations.errors import BadInputError
from tests.source_files import ROOT, python_files, text, tree_of

COMMANDS = dict(leaves(parser()))
LOCAL_FILES_ONLY = {
    "snapshots fetch": "--output",
    "kit": "--output",
    "export": "--zookeeper-snapshot",
    "report": "--html",
    "metrics": "--output",
    "plan-file": "--output",
    "audit keygen": "FILE",
    "stack up": "--folder",
    "stack down": "--folder",
    "lab": "--zookeeper",
}
"""They write nothing but what this argument names: a file, a folder, or a throw-away tree on loopback."""
ADDS = {"make-pools"}
"""Adds the pools of Airflow that are missing, and changes none that is there."""
READ_ONLY = {
    "snapshots list", "snapshots show", "snapshots verify", "snapshots check", "snapshots ls", "snapshots cat", "snapshots find",
    "diff", "blame", "query", "drill", "status", "alarms list", "plan show", "kraft readiness", "kraft fleet",
    "kraft runbook", "kraft watch", "audit verify", "audit export", "executions list", "executions show", "verify", "explain", "drain",
    "stack status", "completion",
}  # fmt: skip


def options(command):
    return [action for action in COMMANDS[command]._actions if action.option_strings]


def test_an_option_has_one_meaning_wherever_it_stands():
    meanings = defaultdict(lambda: defaultdict(list))
    for name in COMMANDS:
        for action in options(name):
            kind = (
                type(action).__name__,
                action.type,
                action.dest,
                action.metavar,
                action.nargs,
                tuple(action.choices or ()),
            )
            for option in action.option_strings:
                meanings[option][kind].append(name)
    assert {option: dict(kinds) for option, kinds in meanings.items() if len(kinds) > 1} == {}


def test_an_argument_has_one_type_and_one_word_wherever_it_stands():
    words = defaultdict(set)
    for command in COMMANDS.values():
        for action in command._actions:
            if not action.option_strings:
                words[action.dest].add((action.type, action.metavar))
    assert {name: kinds for name, kinds in words.items() if len(kinds) > 1} == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_explained(command):
    said = COMMANDS[command].format_help()
    assert COMMANDS[command].description
    assert "--json" in said
    for action in COMMANDS[command]._actions:
        assert action.help, action
        assert not action.help.startswith("("), (
            f"{action.option_strings} of {command} says what is usual, and not what it is"
        )
        assert action.metavar or action.choices or action.nargs == 0, (
            f"{action.option_strings} of {command} has no word"
        )


@pytest.mark.parametrize(("command", "example"), [(name, each) for name, some in EXAMPLES.items() for each in some])
def test_each_example_is_a_command_line_of_its_command(command, example, monkeypatch):
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    line = shlex.split(example.split(" > ")[0])
    parsed = parser().parse_args(line)
    assert parsed.run is COMMANDS[command].get_default("run")
    assert line[: len(command.split())] == command.split()


@pytest.mark.parametrize("group", sorted({name.split()[0] for name in COMMANDS if " " in name}))
def test_a_group_of_commands_is_explained_with_an_example_of_each(group, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args([group, "--help"])
    said = capsys.readouterr().out
    described = said.index("\n\n") + 2
    assert said[described].isupper()
    assert not said[described:].startswith("Options")
    examples = [line.split()[1:3] for line in said.splitlines() if line.startswith(f"  {PROGRAM} ")]
    assert examples == [name.split() for name in COMMANDS if name.split()[0] == group]


def test_every_command_has_an_example_and_no_other_has():
    assert set(EXAMPLES) == set(COMMANDS)
    assert set(FOUND) | set(REFUSED) <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_statuses_of_a_command_are_those_that_it_returns(command):
    source = inspect.getsource(COMMANDS[command].get_default("run"))
    assert ("ExitStatus.FOUND" in source) == (command in FOUND)
    if "ExitStatus.REFUSED" in source or "not_yet_approved" in source:
        assert command in REFUSED


def test_what_writes_can_be_tried_without_writing():
    writes = set(COMMANDS) - READ_ONLY - ADDS - set(LOCAL_FILES_ONLY)
    with_dry_run = {name for name in COMMANDS if any("--dry-run" in each.option_strings for each in options(name))}
    assert with_dry_run == writes
    for name, argument in LOCAL_FILES_ONLY.items():
        assert argument in COMMANDS[name].format_help()


def test_what_is_approved_is_not_a_dry_run():
    with pytest.raises(BadInputError, match="not allowed with"):
        parser().parse_args(["apply", "plan", "--approve", "1a2b", "--dry-run"])


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        pytest.param("kafka-maintenance snapshots pi", {"pin"}, id="a command"),
        pytest.param(
            "kafka-maintenance plan elections --elec", {"--election-count-max", "--elections-per-minute"}, id="options"
        ),
        pytest.param("kafka-maintenance status --fail-on w", {"warning"}, id="a value"),
    ],
)
def test_a_shell_completes_it(line, offered, tmp_path):
    found = tmp_path / "offered"
    asked = {
        "_ARGCOMPLETE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": str(found),
    }
    done = subprocess.run(
        [sys.executable, "-m", "kafka_maintenance"],
        env={**os.environ, **asked, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0
    assert {word.strip() for word in found.read_text().split("\x0b")} == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_names_the_command(shell, capsys):
    parsed = parser().parse_args(["completion", shell])
    assert parsed.run(parsed) == 0
    assert PROGRAM in capsys.readouterr().out


GROUPS = {name.split()[0] for name in COMMANDS if " " in name}
PLACEHOLDERS = {"…", "COMMAND", "--version"}
"""What may follow the program's name and is none of its commands."""


def strings_of(tree):
    """Every string of a module as a person reads it: of an f-string the whole, with `{}` for its values."""
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in node.values}
    for node in formatted:
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def quoted_commands():
    """File and words of each command line in backquotes: what begins with the program's name, or with a group and a word."""
    texts = [
        (name, each)
        for name in python_files("controller_core", "plugins", "spark_jobs", "dags")
        for each in strings_of(tree_of(name))
    ]
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    texts += [(str(page.relative_to(ROOT)), re.sub(r"(?s)```.*?```", "", text(page))) for page in pages]
    for name, each in texts:
        for quoted in re.findall(r"`([^`]+)`", each):
            words = quoted.removeprefix(f"{PROGRAM} ").split()
            if quoted.startswith(f"{PROGRAM} ") or (len(words) > 1 and words[0] in GROUPS):
                yield name, tuple(words)


def mistake_in(words):
    """What of a quoted command line is no command, or no option of its command."""
    if words[0] in PLACEHOLDERS:
        return None
    if words[0] in GROUPS and (len(words) == 1 or not re.match(r"[a-z]", words[1])):
        return None
    command = " ".join(words[: 2 if words[0] in GROUPS else 1])
    if command not in COMMANDS:
        return "no command"
    known = {option for action in options(command) for option in action.option_strings}
    return {word for word in words if re.fullmatch("--[a-z-]+", word)} - known or None


def test_a_command_that_a_message_or_a_page_quotes_is_one():
    quoted = sorted(set(quoted_commands()))
    assert len(quoted) > 100
    assert [(name, " ".join(words), found) for name, words in quoted if (found := mistake_in(words))] == []


def test_a_password_is_no_option():
    named = {option for name in COMMANDS for action in options(name) for option in action.option_strings}
    assert not {each for each in named if "password" in each or "secret" in each}
