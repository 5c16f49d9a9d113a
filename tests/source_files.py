"""Where the repository lies, and its own files as tests read them."""

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python_files(*folders):
    names = subprocess.run(
        ["git", "ls-files", "--", *(f"{folder}/*.py" for folder in folders)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    found = [name for name in names if (ROOT / name).is_file()]
    assert len(found) > 100
    return found


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def tree_of(name):
    return ast.parse(text(name))


def kinds_of_findings():
    """The literals that stand as `kind` in the transforms: an argument of `finding`, or a literal with that alias."""
    trees = [tree_of(f"spark_jobs/transforms/{name}_findings.py") for name in ("cluster", "disk", "partition")]
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        match call:
            case ast.Call(func=ast.Name(id="finding"), args=[_, ast.Constant(value=str(kind)), *_]):
                yield kind
            case ast.Call(
                func=ast.Attribute(attr="alias", value=ast.Call(args=[ast.Constant(value=str(kind))])),
                args=[ast.Constant(value="kind")],
            ):
                yield kind
