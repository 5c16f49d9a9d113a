"""What keeps the house in order and no linter knows: matches are total, functions and files stay short or say why not."""

import ast
import re
import subprocess
from functools import cache

import pytest

from controller_core.messages import answers, effects, events
from controller_core.plans import conditions, plan
from tests.source_files import ROOT, python_files, text, tree_of

PACKAGES = ("controller_core", "plugins", "spark_jobs", "dags")
LINES_OF_FUNCTION, LINES_OF_FILE = 60, 400
LONG_FUNCTIONS = {
    "controller_core/model/dialect.py _dialect": "a table: one line for each difference between versions",
    "spark_jobs/planner/model.py from_columns": "a table: its columns are its parameters",
    "tests/kafka_maintenance/web/fleet.py _rows": "a table: one row of each table of an analysis",
    "tests/scenarios/world.py _command": "one case for each sentence of a scenario",
    "tests/benchmarks/bench_spark.py bench_rows": "one row of the printed table after the other",
}
LONG_FILES = {
    "controller_core/adapters/zookeeper/session.py": "a session: every call of the port, on kazoo",
    "controller_core/runtime/simulated/zookeeper.py": "a simulated server and its session, which share the tree",
    "spark_jobs/planner/flow.py": "one network of flows",
    "tests/benchmarks/bench_spark.py": "one printed table",
    "tests/conformance/flows.py": "one operation of the contract after the other",
    "tests/conformance/scenario.py": "one scenario, step after step",
    "tests/conformance/world.py": "one world, as a vector describes it",
    "tests/contracts/test_kafka_zk.py": "one contract: Kafka's operations on ZooKeeper, in memory and on a real server",
    "tests/contracts/test_snapshot_reader.py": "one contract: the reader of whole trees",
    "tests/dags/test_pages.py": "one loop over the pages: a browser looks at each",
    "tests/differential/random_events.py": "one program",
    "tests/kafka_maintenance/operations/apply/test_kafka.py": "one plan of each kind on real brokers",
}
CLOSED = {
    name
    for module in (answers, effects, events, conditions, plan)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and kind.__module__ == module.__name__ and not issubclass(kind, Exception)
}
OPEN_ENDS = {  # the rest goes on to a function whose parameter mypy narrows to what is left
    ("controller_core/controller/step.py", "_not_active(turn, event)"),
    ("controller_core/runtime/laboratory.py", "return self._zookeeper.perform(effect)"),
    ("controller_core/runtime/perform_effects.py", "return self._read(effect) if isinstance(effect, e.ReadEffect) else self._write(effect)"),
    ("controller_core/runtime/render.py", "return [_plain(effect)]"),
    ("controller_core/runtime/simulated/cluster.py", "answer = self._zookeeper.perform(effect)"),
}  # fmt: skip

REPLACED_WORDS = {
    r"office": "active controller, controller epoch",
    r"(?:KRaft|ZooKeeper|broker|controller|who) rules|ruled[ _]by": "is the active controller",
    r"(?<![-`\"_])nights?(?!_)|tonight": "date, daily run",
    r"photographs?": "takes a snapshot",
    r"weather": "transient errors",
    r"foretold|foretells?": "predicted",
    r"doomed": "to be deleted",
    r"deeds?": "effect",
    r"(?:hangs?|hung|hanging) up": "close",
    r"heirs?": "replacement broker",
    r"cannot be meant": "is invalid",
    r"as of (?=`(?!zxid))": "see",
}
"""Words that once stood here without the meaning that they have in the field, and what is written instead."""
TEXTS = (".py", ".md", ".js", ".css", ".html", ".yml", ".mmd", "Makefile")


def classes_of(match):
    """Names of the classes that the cases of a match are about."""
    patterns = [node.cls for case in match.cases for node in ast.walk(case.pattern) if isinstance(node, ast.MatchClass)]
    return {ast.unparse(node).rpartition(".")[2] for node in patterns}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_match_over_a_closed_union_has_no_open_end(package):
    matches = [
        (name, node) for name in python_files(*PACKAGES) if name.startswith(package)
        for node in ast.walk(tree_of(name)) if isinstance(node, ast.Match) and classes_of(node) & CLOSED
    ]  # fmt: skip
    open_ends = []
    for name, match in matches:
        last = match.cases[-1]
        is_open = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        end = ast.unparse(last.body[0])
        if is_open and not end.startswith(("assert_never(", "raise ")) and (name, end) not in OPEN_ENDS:
            open_ends.append(f"{name}:{match.lineno}: {end}")
    assert open_ends == [], "end it in assert_never, so that mypy names the place when the union grows"


def lines_of_docstring(node):
    first = node.body[0] if node.body else None
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return first.end_lineno - first.lineno + 1 if is_text else 0


def length_of(function):
    """Lines without the docstring."""
    return function.end_lineno - function.lineno + 1 - lines_of_docstring(function)


def is_long(name):
    """Whether a file has more than so many lines beside its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    surplus = (ROOT / name).read_text(encoding="utf-8").count("\n") - LINES_OF_FILE
    return surplus > 0 and surplus > sum(
        lines_of_docstring(node) for node in ast.walk(tree_of(name)) if isinstance(node, documented)
    )


def test_a_function_is_short_or_says_why_it_is_long():
    long = {
        f"{name} {node.name}"
        for name in python_files(*PACKAGES, "tests")
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length_of(node) > LINES_OF_FUNCTION
    }
    assert long == set(LONG_FUNCTIONS)


def test_a_file_is_short_or_has_one_subject():
    assert set(filter(is_long, python_files(*PACKAGES, "tests"))) == set(LONG_FILES)


def files_of_tests_with(pattern):
    return [name for name in python_files("tests") if re.search(pattern, text(name), re.MULTILINE)]


def test_no_file_of_tests_is_a_library_of_another():
    assert files_of_tests_with(r"^\s*(?:from|import) tests(?:\.\w+)*\.test_\w+") == []


def test_a_file_of_tests_can_be_moved_to_another_folder():
    """One that finds the repository by counting the folders above it goes on after a move, with a wrong one."""
    counting = r"__file__\)(?:\.resolve\(\))?\.(?:parents\[|parent\.parent)"
    assert files_of_tests_with(counting) == ["tests/source_files.py"]


@cache
def lines_of_packages_and_docs():
    listed = subprocess.run(
        ["git", "ls-files", "--", *PACKAGES, "docs", ":(glob)*.md", "Makefile"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    names = [name for name in listed if name.endswith(TEXTS) and (ROOT / name).is_file()]
    assert len(names) > 500
    return [(f"{name}:{number}", line) for name in names for number, line in enumerate(text(name).splitlines(), 1)]


@pytest.mark.parametrize(("word", "instead"), REPLACED_WORDS.items(), ids=REPLACED_WORDS.values())
def test_a_word_that_was_replaced_does_not_come_back(word, instead):
    replaced = re.compile(rf"(?i)(?<![a-z])(?:{word})(?![a-z])")
    found = [f"{place}: {line.strip()[:160]}" for place, line in lines_of_packages_and_docs() if replaced.search(line)]
    assert found == [], f"write: {instead}"
