"""A public function with four and more parameters says what each of them is, and which errors it raises."""

import ast

import pytest

from tests.source_files import ROOT

FILES = sorted(
    path for package in ("controller_core", "plugins", "spark_jobs") for path in (ROOT / package).rglob("*.py")
)
OF_AIRFLOW = {"task"}  # params of a DAG, which its form describes
OF_PAGES = {"app.get", "app.post"}  # parts of an address
FRAMES = ("In: ", "Out: ")  # a transform of Spark names the schemas of its frames
PORTS = {"create"}  # methods whose arguments the port describes
AS_IN = {"select"}  # `select.select`


def public_functions(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node


def parameters(node):
    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return [each for each in every if each.arg not in {"self", "cls"}]


def is_described_elsewhere(path, node):
    decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
    return (
        (node.name in PORTS and "ports" not in path.parts) or node.name in AS_IN or decorators & (OF_AIRFLOW | OF_PAGES)
    )


def many_parameters(path):
    for node in public_functions(path):
        if len(parameters(node)) >= 4 and not is_described_elsewhere(path, node):
            yield node, ast.get_docstring(node) or ""


def to_describe(node, document):
    """Names of the parameters that have a line each: all, but for frames whose schemas are named."""
    has_schemas = any(text in document for text in FRAMES)
    return [each.arg for each in parameters(node) if not (has_schemas and ast.unparse(each.annotation) == "DataFrame")]


def raised(node):
    return [each for each in ast.walk(node) if isinstance(each, ast.Raise) and each.exc is not None]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_many_parameters_are_described(path):
    for node, document in many_parameters(path):
        missing = [name for name in to_describe(node, document) if f"\n    {name}: " not in document]
        assert missing == [], f"{node.name} at line {node.lineno}"
        assert not raised(node) or "\nRaises:\n" in document, f"{node.name} at line {node.lineno}: which errors?"


def test_an_error_is_told_in_one_form():
    assert [str(path.relative_to(ROOT)) for path in FILES if "    Errors: " in path.read_text(encoding="utf-8")] == []
