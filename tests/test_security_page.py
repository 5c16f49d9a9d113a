"""docs/security.md names for every boundary and attack the test that holds it: each of them is there."""

import ast
import re

import pytest
import yaml

from tests.attacks.mutations import MUTATIONS, missing_rows
from tests.source_files import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))
UNHELD = "who has a shell on a worker, or edits Variables and Connections"


def rows(heading):
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(("path", "name"), NAMED, ids=["::".join(filter(None, each)) for each in NAMED])
def test_each_named_test_is_there(path, name):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert not name or name in functions
    assert any(each.startswith("test_") for each in functions)


@pytest.mark.parametrize("heading", ["Who may what", "Attacks, and the tests that hold them"])
def test_each_boundary_and_each_attack_names_one(heading):
    without = [row[0] for row in rows(heading) if "`tests/" not in row[-1]]
    assert without in ([], [UNHELD])


def test_each_attack_that_is_tested_stands_on_the_page():
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert files <= {path for path, _ in NAMED}


def test_the_policy_on_the_page_is_one():
    from kafka_maintenance.operations.gate.policy import policy_from

    lines = PAGE.split("## The policy\n")[1].split("\n## ")[0].splitlines()
    document = yaml.safe_load("\n".join(line.removeprefix("    ") for line in lines if line.startswith("    ")))
    assert policy_from(document, "blue", "d", "docs/security.md").airflow_must_agree


@pytest.mark.parametrize("mutation", MUTATIONS, ids=["::".join(each.tests) for each in MUTATIONS])
def test_each_check_that_is_taken_out_is_there_once(mutation):
    """`python -m tests.attacks.mutations` takes them out and has the test fail."""
    (file, test), code = mutation.tests, (ROOT / mutation.path).read_text(encoding="utf-8")
    assert f"def {test.rpartition('::')[2]}(" in (ROOT / "tests" / "attacks" / f"test_{file}.py").read_text(
        encoding="utf-8"
    )
    assert [code.count(cut) for cut in mutation.cut] == [1] * len(mutation.cut)


def test_each_attack_test_is_shown_to_fail_without_the_check_that_it_holds():
    assert missing_rows() == []
