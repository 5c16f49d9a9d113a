"""The reference in docs/reference/, made from the command line, the tables and the DAGs."""

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

from kafka_maintenance.cli.arguments import STORE_VARIABLE
from kafka_maintenance.cli.command_parser import PROGRAM, leaves
from kafka_maintenance.cli.examples import EXAMPLES, FOUND, REFUSED
from kafka_maintenance.cli.main import parser
from spark_jobs.schemas import INPUTS, OUTPUTS


def commands() -> str:
    """A section per command."""
    with patch.dict(os.environ):
        os.environ.pop(STORE_VARIABLE, None)  # it would make --store optional
        found = dict(leaves(parser()))
    return "\n".join(line for name, each in found.items() for line in _command(name, each)) + "\n"


def tables() -> str:
    """A section per table: those of snapshots, then those of analyses."""
    groups = (("Of a snapshot", INPUTS), ("Of an analysis", OUTPUTS))
    return "\n".join(line for title, found in groups for line in (f"## {title}", "", *_tables(found))) + "\n"


def dags(found: Mapping[str, Any]) -> str:
    """A section per DAG of the bag."""
    return "\n".join(line for name in sorted(found) for line in _dag(name, found[name])) + "\n"


def _command(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    yield from (f"## {name}", "", _cell(command.description or ""), "", "| argument | meaning |", "| --- | --- |")
    for action in command._actions:
        if "--help" not in action.option_strings:
            yield f"| {_argument(action)} | {_cell(_help(action, command))} |"
    yield from ("", "```sh", *(f"{PROGRAM} {each}" for each in EXAMPLES.get(name, ())), "```", "")
    ends = {1: REFUSED.get(name), 4: FOUND.get(name)}
    said = "; ".join(f"{status}: {meaning}" for status, meaning in ends.items() if meaning)
    if said:
        yield from (f"Exit status {said}.", "")


def _argument(action: argparse.Action) -> str:
    word = action.metavar if isinstance(action.metavar, str) else ",".join(map(str, action.choices or ()))
    if not action.option_strings:
        return f"`{word or action.dest}`"
    needed = ", required" if action.required else ""
    return f"`{action.option_strings[0]}{f' {word}' if action.nargs != 0 else ''}`{needed}"


def _help(action: argparse.Action, command: argparse.ArgumentParser) -> str:
    return (action.help or "") % {**vars(action), "prog": command.prog}


def _tables(found: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in found.items():
        yield from (f"### {name}", "", "| column | type |", "| --- | --- |")
        yield from (f"| `{field.name}` | {_cell(field.dataType.simpleString())} |" for field in schema.fields)
        yield ""


def _dag(name: str, dag: Any) -> Iterator[str]:
    schedule = getattr(dag.timetable, "expression", None)
    yield from (f"## {name}", "", *_lower(dag.doc_md), "")
    yield from (
        f"Schedule: {f'`{schedule}`' if schedule else 'none, started by a person or by another DAG'}. Tags: {', '.join(sorted(dag.tags))}.",
        "",
    )
    if dag.params:
        yield from ("| param | type | default | meaning |", "| --- | --- | --- | --- |")
        for each in dag.params:
            param = dag.params.get_param(each)
            kinds = param.schema.get("type", "any")
            kind = kinds if isinstance(kinds, str) else " or ".join(kinds)
            yield f"| `{each}` | {kind} | `{dag.params.dump()[each]!r}` | {_cell(param.description)} |"
        yield ""
    yield from ("| task | what it does |", "| --- | --- |")
    for task in dag.topological_sort():
        yield f"| `{task.task_id}` | {_cell((task.doc_md or '').strip())} |"
    yield ""


def _lower(markdown: str) -> Iterator[str]:
    """The text of a DAG, its title as bold text: the name of the DAG is the heading."""
    for line in markdown.strip().splitlines():
        yield f"**{line.removeprefix('### ')}**" if line.startswith("### ") else line


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
