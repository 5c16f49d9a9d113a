"""A public function of the core with four and more parameters says what each of them is."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "controller_core").rglob("*.py"))
PORTS = {"create"}  # methods whose arguments the port describes
AS_IN = {"select"}  # `select.select`


def public_functions(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def parameters(node):
    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return [each.arg for each in every if each.arg not in {"self", "cls"}]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_many_parameters_are_described(path):
    for node in public_functions(path):
        described_elsewhere = (node.name in PORTS and "ports" not in path.parts) or node.name in AS_IN
        if len(parameters(node)) < 4 or described_elsewhere:
            continue
        document = ast.get_docstring(node) or ""
        missing = [name for name in parameters(node) if f"\n    {name}: " not in document]
        assert missing == [], f"{node.name} at line {node.lineno}"
