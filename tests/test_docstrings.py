"""A public function with four and more parameters says what each of them is, and which errors it raises."""

import ast

import pytest

from tests.source_files import ROOT

FILES = sorted(
    path for package in ("controller_core", "plugins", "spark_jobs") for path in (ROOT / package).rglob("*.py")
)
OF_AIRFLOW = ("tasks", "app.py")  # params of a DAG, which its form describes, and of an address
FRAMES = ("In: ", "Out: ")  # a transform of Spark names the schemas of its frames
PORTS = {"create"}  # methods whose arguments the port describes
AS_IN = {"select"}  # `select.select`


def public_functions(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node


def parameters(node):
    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return [each.arg for each in every if each.arg not in {"self", "cls"}]


def many_parameters(path):
    for node in public_functions(path):
        described_elsewhere = (node.name in PORTS and "ports" not in path.parts) or node.name in AS_IN
        document = ast.get_docstring(node) or ""
        if len(parameters(node)) >= 4 and not described_elsewhere and not any(text in document for text in FRAMES):
            yield node, document


def raised(node):
    return [each for each in ast.walk(node) if isinstance(each, ast.Raise) and each.exc is not None]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_many_parameters_are_described(path):
    if any(part in path.parts for part in OF_AIRFLOW):
        return
    for node, document in many_parameters(path):
        missing = [name for name in parameters(node) if f"\n    {name}: " not in document]
        assert missing == [], f"{node.name} at line {node.lineno}"
        assert not raised(node) or "\nRaises:\n" in document, f"{node.name} at line {node.lineno}: which errors?"


def test_an_error_is_told_in_one_form():
    assert [str(path.relative_to(ROOT)) for path in FILES if "    Errors: " in path.read_text(encoding="utf-8")] == []
