"""What the code takes of Airflow beside its public interface stands in ADR 19, name by name and in one module each."""

import ast
import re

from tests.source_files import ROOT, python_files, tree_of

PUBLIC = (
    "airflow",
    "airflow.sdk",
    "airflow.sdk.configuration",
    "airflow.sdk.exceptions",
    "airflow.sdk.lineage",
    "airflow.sdk.observability.stats",
    "airflow.listeners",
    "airflow.plugins_manager",
    "airflow.policies",
    "airflow.triggers.base",
)
"""And every provider. `airflow` itself is its version alone: a module that is imported of it is looked at by its own name."""
INTERNALS = ROOT / "docs" / "adr" / "0019-internals-of-airflow.md"


def taken():
    """(module of ours, name in Airflow) of each import that is not of the public interface."""
    for name in python_files("plugins", "dags"):
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "airflow":
                for each in node.names:
                    public = node.module in PUBLIC or node.module.startswith("airflow.providers.")
                    if not public or (node.module == "airflow" and each.name != "__version__"):
                        yield name.removeprefix("plugins/kafka_maintenance/"), f"{node.module}.{each.name}"
            elif isinstance(node, ast.Import):
                assert not any(each.name.partition(".")[0] == "airflow" for each in node.names), (
                    f"{name}: from … import"
                )


def listed():
    """The same out of the table of the decision."""
    for line in INTERNALS.read_text().splitlines():
        if line.startswith("| `"):
            module, names = line.split("|")[1:3]
            for name in re.findall(r"`([\w.]+)`", names):
                yield module.strip().strip("`"), name


def test_every_internal_of_airflow_is_listed_and_none_that_is_not_used():
    assert sorted({*taken()}) == sorted({*listed()})
