"""Parts of docs/ that are made from the code: `python -m tests.generated_docs` writes them, a test compares them.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `python -m tests.diagrams` draws the diagrams.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import grimp

from controller_core.model.states import (
    VALID_PREVIOUS_PARTITION_STATES,
    VALID_PREVIOUS_REPLICA_STATES,
    PartitionState,
    ReplicaState,
    previous_replica_states,
)
from kafka_maintenance.operations.analysis.metrics import METRICS, PREFIX
from tests import reference_docs, reference_files
from tests.differential import scenario_table
from tests.source_files import ROOT

DOCS = ROOT / "docs"
DIAGRAMS = DOCS / "diagrams"
PACKAGES = ("kafka_maintenance", "spark_jobs", "controller_core")
Arrow = tuple[str, str, str]
"""From which state to which, and what is to be said of it."""
_PART = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def parts() -> dict[str, str]:
    """Every generated part by its name."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {f"rooms-of-{package}": _rooms(graph, package) for package in PACKAGES} | {
        **{name: _arrows_table(arrows) for name, (_, arrows) in _STATES.items()},
        "metrics": "".join(f"| `{PREFIX}{name}` | {_labels(name)} | {says} |\n" for name, says in METRICS.items()),
        "commands": reference_docs.commands(),
        "tables": reference_docs.tables(),
        "files": reference_files.files(),
        "scenarios": scenario_table.table(),
    }


def _labels(metric: str) -> str:
    return "cluster, severity" if metric.startswith("findings") else "cluster"


def written(page: str, made: Mapping[str, str]) -> str:
    """The page with its generated parts as they are made now."""
    return _PART.sub(lambda found: found[1] + made[found[2]] + found[3], page)


def parts_of_dags(found: Mapping[str, Any]) -> dict[str, str]:
    """Those that are made from the DAGs of a bag."""
    return {"dags": reference_docs.dags(found)}


def pages(made: Mapping[str, str]) -> list[Path]:
    """Pages of docs/ that have such parts."""
    names = {
        page: {name for _, name, _ in _PART.findall(page.read_text(encoding="utf-8"))} for page in DOCS.rglob("*.md")
    }
    return sorted(page for page, found in names.items() if found & set(made))


def _rooms(graph: grimp.ImportGraph, package: str) -> str:
    """One line per room, from the highest floor to the lowest: its name, and the rooms of the package that it uses."""
    uses: dict[str, set[str]] = {child.rpartition(".")[2]: set() for child in graph.find_children(package)}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            room, used = _room(module, package), _room(imported, package)
            if room in uses and used in uses and room != used:
                uses[room].add(used)
    floors: dict[str, int] = {}

    def floor(room: str) -> int:
        if room not in floors:
            floors[room] = 1 + max(map(floor, uses[room]), default=0)
        return floors[room]

    order = sorted(uses, key=lambda room: (-floor(room), room))
    width = max(map(len, order))
    lines = (f"{floor(room):>2}  {room:<{width}}  {' '.join(sorted(uses[room]))}".rstrip() for room in order)
    return "\n".join(("```text", f"{package}: floor, room, the rooms that it uses", *lines, "```")) + "\n"


def _room(module: str, package: str) -> str:
    names = module.split(".")
    return names[1] if names[0] == package and len(names) > 1 else ""


def diagrams() -> dict[str, str]:
    """Name → Mermaid source of each diagram that is made from the code."""
    return {name: _diagram(first, arrows) for name, (first, arrows) in _STATES.items()}


def _arrows(
    previous: Mapping[Enum, frozenset[Enum]], notes: Mapping[tuple[Enum, Enum], str] = MappingProxyType({})
) -> Sequence[Arrow]:
    return [
        (origin.value, target.value, notes.get((origin, target), ""))
        for origin in previous
        for target in previous
        if origin in previous[target]
    ]


def _diagram(first: str, arrows: Sequence[Arrow]) -> str:
    lines = [f"    {origin} --> {target}{f' : {note}' if note else ''}" for origin, target, note in arrows]
    return "\n".join(("stateDiagram-v2", f"    [*] --> {first}", *lines)) + "\n"


def _arrows_table(arrows: Sequence[Arrow]) -> str:
    """A line per state: where it may go."""
    after: dict[str, list[str]] = {}
    for origin, target, note in arrows:
        after.setdefault(origin, []).append(f"`{target}`{f' ({note})' if note else ''}")
    lines = [f"| `{origin}` | {', '.join(targets)} |" for origin, targets in after.items()]
    return "\n".join(("| from | to |", "| --- | --- |", *lines)) + "\n"


def _since_2_3() -> dict[tuple[Enum, Enum], str]:
    return {
        (origin, target): "since Kafka 2.3"
        for target, origins in VALID_PREVIOUS_REPLICA_STATES.items()
        for origin in origins - previous_replica_states(target, ineligible_from_offline=False)
    }


_STATES: Final = {
    "partition-states": (PartitionState.NON_EXISTENT.value, _arrows(VALID_PREVIOUS_PARTITION_STATES)),
    "replica-states": (ReplicaState.NON_EXISTENT.value, _arrows(VALID_PREVIOUS_REPLICA_STATES, _since_2_3())),
}


def main() -> None:
    from tests import airflow_home  # isort: skip

    from airflow.dag_processing.dagbag import DagBag

    made = parts() | parts_of_dags(DagBag(dag_folder=str(airflow_home.ROOT / "dags")).dags)
    for page in pages(made):
        page.write_text(written(page.read_text(encoding="utf-8"), made), encoding="utf-8")
    for name, source in diagrams().items():
        (DIAGRAMS / f"{name}.mmd").write_text(source, encoding="utf-8")


if __name__ == "__main__":
    main()
