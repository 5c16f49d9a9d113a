"""What keeps the house in order and no linter knows: matches are total, functions and files stay short or say why not."""

import ast
import re
import subprocess
from functools import cache

import pytest

from controller_core.messages import answers, effects, events
from controller_core.plans import conditions, plan, request_znodes
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
    for module in (answers, effects, events, conditions, plan, request_znodes)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and kind.__module__ == module.__name__ and not issubclass(kind, Exception)
}
OPEN_ENDS = {  # the rest goes on to a function whose parameter mypy narrows to what is left, or that answers all of the union
    ("controller_core/controller/step.py", "_not_active(turn, event)"),
    ("controller_core/runtime/laboratory.py", "return self._zookeeper.perform(effect)"),
    ("controller_core/runtime/perform_effects.py", "return self._read(effect) if isinstance(effect, e.ReadEffect) else self._write(effect)"),
    ("controller_core/runtime/render.py", "return [_plain(effect)]"),
    ("controller_core/runtime/simulated/cluster.py", "answer = self._zookeeper.perform(effect)"),
    ("spark_jobs/planner/predict.py", "elif isinstance(effect, WritePartitionStates)"),
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
    """Names of the classes, and of the enums, that the cases of a match are about."""
    parts = [node for case in match.cases for node in ast.walk(case.pattern)]
    named = [node.cls for node in parts if isinstance(node, ast.MatchClass)]
    named += [
        node.value.value for node in parts if isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Attribute)
    ]
    return {ast.unparse(node).rpartition(".")[2] for node in named}


def ends_of_matches(tree):
    """Line, and what is done with the rest, of each match over a closed union."""
    for match in ast.walk(tree):
        if isinstance(match, ast.Match) and classes_of(match) & CLOSED:
            last = match.cases[-1]
            if isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None:
                yield match.lineno, ast.unparse(last.body[0])


def asked_about(test):
    """What `isinstance(this, Closed)` asks about; None of any other test."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[subject, classes]):
            return ast.unparse(subject) if set(re.findall(r"\w+", ast.unparse(classes))) & CLOSED else None
        case _:
            return None


def ends_of_chains(tree):
    """Likewise of each `if isinstance(…) … elif isinstance(…)`, all of whose tests ask which class of a closed union one thing has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            tests, rest = [node.test], node.orelse
            while len(rest) == 1 and isinstance(rest[0], ast.If):
                tests, rest = [*tests, rest[0].test], rest[0].orelse
            subjects = set(map(asked_about, tests))
            if len(tests) > 1 and len(subjects) == 1 and None not in subjects:
                yield node.lineno, ast.unparse(rest[0]) if rest else f"elif {ast.unparse(tests[-1])}"


@pytest.mark.parametrize("ends_of", [ends_of_matches, ends_of_chains])
@pytest.mark.parametrize("package", PACKAGES)
def test_what_tells_the_classes_of_a_closed_union_apart_has_no_open_end(package, ends_of):
    open_ends = [
        f"{name}:{line}: {end}"
        for name in python_files(*PACKAGES) if name.startswith(package)
        for line, end in ends_of(tree_of(name))
        if not end.startswith(("assert_never(", "raise ")) and (name, end) not in OPEN_ENDS
    ]  # fmt: skip
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
