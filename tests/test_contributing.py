"""CONTRIBUTING's lists are true: what they name exists, and a place that a recipe names and a change misses fails here."""

import ast
import inspect
import json
import re
from dataclasses import fields
from typing import get_args

import pytest

from controller_core.adapters.snapshot.tables import TABLES
from controller_core.messages.effects import Effect, Unwatch, Watch, ZooKeeperEffect
from controller_core.model.dialect import MINOR_VERSIONS, Dialect
from controller_core.plans.plan import PlanKind
from kafka_maintenance.cli.command_parser import leaves
from kafka_maintenance.cli.main import parser
from tests.source_files import ROOT, kinds_of_findings, python_files, text, tree_of

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
OPERATIONS = [str(kind) for kind in PlanKind]
FOLDERS = ("controller_core/", "plugins/", "spark_jobs/", "dags/", "tests/", "docs/")


def sources(folder):
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py")))


@pytest.mark.parametrize(
    "name", sorted({name for name in re.findall(r"`([^`\s]+)`", CONTRIBUTING) if name.startswith(FOLDERS)})
)
def test_what_contributing_names_is_there(name):
    assert (ROOT / name).exists()


@pytest.mark.parametrize(("name", "place"), re.findall(r"(?m)^\| [^|]+\| `(\w+)` \| `([^`]+)` \|$", CONTRIBUTING))
def test_a_behaviour_is_where_the_list_says(name, place):
    source = text(place) if place.endswith(".py") else sources(place)
    assert re.search(rf"(?m)^\s*(?:def|class) {name}\b|^{name}\b.* = ", source)


def test_the_tests_of_a_room_lie_in_the_folder_of_its_name_or_where_the_list_says():
    rooms = {name.rpartition("/")[0] for name in python_files("controller_core", "plugins", "spark_jobs", "dags")}
    tests = {name.rpartition("/")[0] for name in python_files("tests") if "/test_" in name}
    elsewhere = dict(re.findall(r"(?m)^\| `([^`]+)` \| `(tests/[^`]+)` \| ", CONTRIBUTING))

    def has_tests(folder):
        return any(f"{each}/".startswith(f"{folder}/") for each in tests)

    assert {room for room in rooms if not has_tests(f"tests/{room.removeprefix('plugins/')}")} == set(elsewhere)
    assert set(elsewhere.values()) <= tests


@pytest.mark.parametrize("kind", sorted(set(kinds_of_findings())))
@pytest.mark.parametrize(
    "places",
    [
        ("docs/analysis.md",),
        (
            *(f"tests/spark_jobs/transforms/test_{of}_findings.py" for of in ("cluster", "disk", "partition")),
            *("tests/spark_jobs/transforms/test_racks.py", "tests/spark_jobs/sick/oracle.py"),
        ),
    ],
)
def test_a_finding_is_documented_and_tested(kind, places):
    assert re.search(rf"[`\"']{kind}[`\"']", "".join(map(text, places)))


@pytest.mark.parametrize("switch", [field.name for field in fields(Dialect)])
def test_a_switch_of_a_version_is_read_by_the_code_that_differs(switch):
    elsewhere = sources("controller_core").replace(text("controller_core/model/dialect.py"), "")
    assert re.search(rf"\.{switch}\b", elsewhere + sources("plugins") + sources("spark_jobs"))


def test_a_version_is_named_in_the_readme_and_has_a_dialect_before_it_has_jars():
    assert f"({MINOR_VERSIONS[0]} to {MINOR_VERSIONS[-1]})" in text("README.md")
    assert set(json.loads(text("plugins/kafka_maintenance/servers/kafka_jars.lock.json"))) <= set(MINOR_VERSIONS)


def performer_of(effect):
    """Where an effect is performed, and where it is simulated."""
    if effect in get_args(ZooKeeperEffect):
        watched = effect in {Watch, Unwatch}
        return ["runtime/perform_effects.py", *([] if watched else ["runtime/simulated/answers.py"])]
    return ["runtime/simulated/cluster.py"]


@pytest.mark.parametrize(
    ("effect", "place"), [(effect.__name__, place) for effect in get_args(Effect) for place in performer_of(effect)]
)
def test_an_effect_is_performed_and_simulated(effect, place):
    assert re.search(rf"case .*\be\.{effect}\(", text(f"controller_core/{place}"))


@pytest.mark.parametrize(
    "module",
    [
        "controller_core/runtime/perform_effects",
        "controller_core/runtime/simulated/answers",
        "controller_core/runtime/simulated/brokers",
        "tests/conformance/request_fields",
    ],
)
def test_a_match_over_effects_forgets_none(module):
    """mypy proves it where the last case is `assert_never`."""
    assert "case _:\n                assert_never(" in text(f"{module}.py").replace(
        "        case _:\n            assert_never(", "            case _:\n                assert_never("
    )


@pytest.mark.parametrize("table", TABLES)
def test_the_columns_of_a_table_are_decoded_and_documented_in_its_row(table):
    """The first three are those of every table."""
    columns = TABLES[table].names[3:]
    documented = re.findall(rf"(?m)^\| `{table}` \| ([^|]+) \|", text("docs/snapshots.md"))
    assert documented == [", ".join(columns)]
    assert [
        column for column in columns if f'"{column}"' not in text("controller_core/adapters/snapshot/decode.py")
    ] == []


def planner_of(kind):
    """Module and name of the task with which the DAG of that kind begins."""
    return [
        (node.module.rpartition(".")[2], alias.name)
        for node in ast.walk(tree_of(f"dags/{kind}.py"))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("kafka_maintenance.tasks.")
        for alias in node.names
        if alias.name.startswith("plan_")
    ]


@pytest.mark.parametrize("kind", OPERATIONS)
def test_an_operation_has_its_planner_its_command_its_task_and_its_dag(kind):
    """DAG, task, planner and command are bound by one name, `plan_…`."""
    ((module, planner),) = planner_of(kind)
    assert f"\ndef {planner}(" in text(f"plugins/kafka_maintenance/tasks/{module}.py")
    (made_in,) = [
        path.stem
        for path in (ROOT / "plugins/kafka_maintenance/operations/plans").glob("*.py")
        if f"\ndef {planner}(" in path.read_text(encoding="utf-8")
    ]
    imported = rf"from kafka_maintenance\.operations\.plans\.{made_in} import .*\b{planner}\b"
    runs = {name: inspect.getsource(command.get_default("run")) for name, command in leaves(parser())}
    (command,) = [name for name, run in runs.items() if name.startswith("plan ") and re.search(imported, run)]
    assert re.search(rf"(?m)^\| `plan (.*`)?{command.removeprefix('plan ')}`", text("docs/cli.md"))


PLACES_OF_AN_OPERATION = {
    "docs/airflow.md": r"(?m)^\| `{kind}` \|",
    "docs/operations.md": r"(?m)^\| `{kind}` \|",
    "docs/security.md": r"(?m)^\| .*`{kind}`.* \|(?: [^|]+ \|){{4}}$",
    "docs/zookeeper.md": r"`{kind}`",
    "tests/dags/test_rules.py": r'(?m)^    "{kind}",$',
    "plugins/kafka_maintenance/demo/stack.py": r'(?m)^ +"{kind}",$',
}


@pytest.mark.parametrize("kind", OPERATIONS)
@pytest.mark.parametrize("place", PLACES_OF_AN_OPERATION)
def test_an_operation_is_named_in_its_place(kind, place):
    assert re.search(PLACES_OF_AN_OPERATION[place].format(kind=kind), text(place))
