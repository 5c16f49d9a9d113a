"""docs/traceability.md leads somewhere: each class, test and proof that it names is there, and no method of Kafka is left out.

So do the rows on bad input of docs/reliability.md.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import controller_core.controller
from controller_core.engine.turn import Task

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "traceability.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| rule |", "| --- |"))
]
SUITES = {path.name.removesuffix(".jsonl.xz") for path in (TESTS / "differential" / "vectors").glob("*.jsonl.xz")}


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def is_there(target: str) -> bool:
    """Whether `folder/file.py::test_name`, or a file alone, exists below tests/."""
    name, _, test = target.removeprefix("tests/").partition("::")
    path = TESTS / name
    if not test or not path.is_file():
        return path.is_file()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def is_code(target: str) -> bool:
    """Whether `module.Name`, or a module alone, exists below controller_core."""
    try:
        importlib.import_module(f"controller_core.{target}")
    except ModuleNotFoundError:
        module, _, name = f"controller_core.{target}".rpartition(".")
        return hasattr(importlib.import_module(module), name)
    return True


def named_after_kafka() -> dict[str, str]:
    """Class → the method or event of Kafka that its docstring begins with."""
    found = {}
    for module in pkgutil.walk_packages(controller_core.controller.__path__, "controller_core.controller."):
        for name, kind in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(kind) and issubclass(kind, Task) and kind.__module__ == module.name:
                start = re.match(r"`(\w+)`", kind.__doc__ or "")
                if start:
                    found[f"{module.name.removeprefix('controller_core.')}.{name}"] = start[1]
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_leads_to_code_test_and_proof(row):
    _, kafka, code, tests, proof = row
    assert quoted(kafka)
    assert [target for target in quoted(code) if not is_code(target)] == []
    assert [target for target in quoted(tests) if not is_there(target)] == []
    suites = (
        {each.strip() for each in proof.split(",")}
        - {f"`{target}`" for target in quoted(proof)}
        - {"lockstep", "histories"}
    )
    assert suites <= SUITES
    assert [target for target in quoted(proof) if not is_there(target)] == []
    assert all((quoted(code), quoted(tests), proof))


def test_each_bad_input_of_the_page_on_reliability_is_held_by_a_test():
    page = (TESTS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
    _, _, section = page.partition("## Bad input")
    rows = [line.strip("|").split("|") for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")][
        2:
    ]
    assert len(rows) > 10
    assert [given for given, tests in rows if not quoted(tests)] == []
    assert [target for _, tests in rows for target in quoted(tests) if not is_there(target)] == []


def test_a_target_that_is_gone_is_noticed():
    assert not is_code("controller.topics.NoSuchTask")
    assert not is_there("scenarios/no_such.txt")
    assert not is_there("controller_core/model/test_states.py::test_that_is_gone")


def test_no_method_of_kafka_is_left_out():
    told = {(name, word) for _, kafka, code, *_ in ROWS for name in quoted(code) for word in re.findall(r"\w+", kafka)}
    after = named_after_kafka()
    assert len(after) > 40
    assert [f"{name}: {method}" for name, method in after.items() if (name, method) not in told] == []
