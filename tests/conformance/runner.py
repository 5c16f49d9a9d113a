"""The runner of the conformance contract: `python -m tests.conformance IN.json OUT.json`.

It reads vectors (a situation and an action), carries each out with `controller_core`, and writes outcomes. It translates
shapes and decides nothing. A vector that raises does not stop the others.
"""

from __future__ import annotations

import argparse
import importlib
import json
import traceback
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.conformance.vector import Document, Operation, UnsupportedError, vector_of

MODULES = (
    "tests.conformance.core",
    "tests.conformance.flows",
    "tests.conformance.reassignment",
    "tests.conformance.znodes",
    "tests.conformance.placement",
    "tests.conformance.scenario",
)
"""Each has `OPS`: operation name → function; `sequence` goes to the scenarios where a step is one of theirs."""
SCENARIO_STEPS = frozenset({"submit_reassignment", "start_brokers"})


def outcome_of(document: Mapping[str, Any]) -> Document:
    name = document["name"]
    try:
        operation = _operation(document["action"])
        return {"name": name, "outcome": operation(vector_of(document))}
    except UnsupportedError as error:
        return {"name": name, "unsupported": str(error)}
    except Exception as error:  # noqa: BLE001 -- one broken vector must not stop the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        return {"name": name, "error": f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"}


def outcomes_of(vectors: Iterable[Mapping[str, Any]]) -> list[Document]:
    return [outcome_of(vector) for vector in vectors]


def _operation(action: Mapping[str, Any]) -> Operation:
    name = action["op"]
    operations = _operations()
    if name == "sequence" and any(step["op"] in SCENARIO_STEPS for step in action["steps"]):
        name = "scenario_sequence"
    if name not in operations:
        raise UnsupportedError(f"operation {name!r} is not known")
    return operations[name]


@cache
def _operations() -> Mapping[str, Operation]:
    merged: dict[str, Operation] = {}
    for module in MODULES:
        merged |= importlib.import_module(module).OPS
    return merged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, help="file with {'vectors': [...]}")
    parser.add_argument("outcomes", type=Path, help="file to write {'outcomes': [...]} to")
    options = parser.parse_args()
    document = json.loads(options.vectors.read_text())
    options.outcomes.write_text(json.dumps({"outcomes": outcomes_of(document["vectors"])}, indent=1) + "\n")
