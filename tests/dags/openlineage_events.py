"""The events that Airflow's provider of OpenLineage emits of runs, held to the classes that OpenLineage makes of its JSON schema.

`test_lineage.py` runs this file in a pytest of its own, with the provider on the path and the name of the file of events in `EVENTS_OF_TESTS`.
"""

import importlib
import json
import multiprocessing
import os
import pkgutil
import types
import typing
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from uuid import UUID

import attr
import pytest

from tests.dags.archive import OLD_DAYS, take_old
from tests.dags.runs import answered_by, answering, run_plan, xcom_of

# The provider forks for each event; beside the threads of `dag.test()` such a child may wait for ever for a lock of SQLite.
os.environ["AIRFLOW__OPENLINEAGE__EXECUTE_IN_THREAD"] = "True"  # of tasks
multiprocessing.set_start_method("spawn")  # of runs


def classes():
    """The generated classes by the address of the part of the schema that each was made of."""
    generated = importlib.import_module("openlineage.client.generated")
    modules = [
        importlib.import_module(f"{generated.__name__}.{each.name}")
        for each in pkgutil.iter_modules(generated.__path__)
    ]
    found = [each for module in modules for each in vars(module).values() if hasattr(each, "_get_schema")]
    return {each._get_schema(): each for each in found}


def problems(value, hint, known, where="event") -> Iterator[str]:
    """What of a JSON value is not as its type says; `hint` is a type of the generated classes."""
    parts = typing.get_args(hint)
    if typing.get_origin(hint) in {types.UnionType, typing.Union}:
        tries = [list(problems(value, each, known, where)) for each in parts]
        yield from () if [] in tries else max(tries, key=len)
    elif typing.get_origin(hint) is list:
        yield from () if isinstance(value, list) else [f"{where}: no list"]
        for number, each in enumerate(value):
            yield from problems(each, parts[0], known, f"{where}[{number}]")
    elif typing.get_origin(hint) is dict:
        for name, each in value.items():
            yield from problems(each, known.get(dict(each).get("_schemaURL"), parts[1]), known, f"{where}.{name}")
    elif attr.has(hint):
        yield from problems_of_object(value, hint, known, where)
    elif issubclass(hint, Enum):
        yield from () if value in {each.value for each in hint} else [f"{where}: {value!r} is none of {hint.__name__}"]
    elif not isinstance(value, hint):
        yield f"{where}: expected {hint.__name__}, found {value!r}"


def problems_of_object(value, hint, known, where):
    fields = {field.name: field for field in attr.fields(attr.resolve_types(hint))}
    is_facet = "_schemaURL" in fields  # the schema lets these alone have more than it names
    needed = {"_producer", "_schemaURL"} if is_facet else {"producer", "schemaURL", "eventType"} & set(fields)
    needed |= {name for name, field in fields.items() if field.default is attr.NOTHING}
    yield from (f"{where}: {name} is missing" for name in sorted(needed - set(value)))
    yield from (f"{where}: nobody knows {name}" for name in sorted(set(value) - set(fields)) if not is_facet)
    for name in sorted(set(value) & set(fields)):
        yield from problems(value[name], fields[name].type, known, f"{where}.{name}")


@pytest.fixture(autouse=True)
def collected_anew():
    """What tasks tell in one process adds up; in an Airflow each has its own, here each test."""
    from airflow.sdk.lineage import get_hook_lineage_collector

    get_hook_lineage_collector.cache_clear()


@pytest.fixture
def datasets():
    """`datasets()`: the objects that the events since the test began name, by task; every event is held to the classes of the schema."""
    file = Path(os.environ["EVENTS_OF_TESTS"])
    before = len(file.read_text().splitlines()) if file.exists() else 0
    known = classes()
    of_run = next(each for address, each in known.items() if address.endswith("/RunEvent"))

    def read():
        found = [json.loads(line) for line in file.read_text().splitlines()[before:]]
        assert [each for event in found for each in problems(event, of_run, known)] == []
        assert all(UUID(event["run"]["runId"]) and datetime.fromisoformat(event["eventTime"]) for event in found)
        assert {event["schemaURL"] for event in found} == {of_run._get_schema()}
        assert {"START", "COMPLETE"} <= {event["eventType"] for event in found}
        ended = {event["job"]["name"].rpartition(".")[2]: event for event in found if event["eventType"] == "COMPLETE"}
        return {
            task: [{(each["namespace"], each["name"]) for each in event[side]} for side in ("inputs", "outputs")]
            for task, event in ended.items()
        }

    return read


def test_the_datasets_of_a_gated_run_lead_from_plan_to_receipt(bag, clients, plan, datasets):
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")):
        run, _ = run_plan(bag, plan)
    assert str(run.state) == "success"
    receipt = run.get_task_instance("apply_plan").xcom_pull(task_ids="apply_plan")["receipt"]
    named = datasets()
    assert named["plan_elections"] == [set(), {("file", plan.uri)}]
    # One process runs all tasks of a run here, so what is collected adds up.
    assert named["apply_plan"] == [{("file", plan.uri)}, {("file", plan.uri), ("file", receipt)}]


def test_the_datasets_of_a_day_lead_from_snapshot_to_analysis(bag, request, datasets):
    zookeeper, store, _ = (request.getfixturevalue(name) for name in ("zookeeper", "store", "spark"))
    run = bag.dags["snapshot_metadata"].test(logical_date=None, run_conf={"clusters": ["alpha"]})
    taken = xcom_of(run, "take_snapshot", 0)["manifest"]
    assert datasets()["take_snapshot"] == [set(), {("file", taken)}]

    earlier, day = take_old(zookeeper, store, OLD_DAYS[0]).manifest, datetime.fromisoformat(f"{OLD_DAYS[0]}T03:00Z")
    run = bag.dags["nightly_analysis"].test(logical_date=day, run_after=day)
    analysis = xcom_of(run, "publish_report")["manifest"]
    assert f"/date={OLD_DAYS[0]}/" in analysis
    assert datasets()["publish_report"] == [{("file", earlier.uri)}, {("file", taken), ("file", analysis)}]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"run": {"runId": 7}}, "event.run.runId: expected str, found 7"),
        ({"colour": "red"}, "event: nobody knows colour"),
        ({"eventType": "END"}, "event.eventType: 'END' is none of EventType"),
        ({"outputs": [{"name": "x"}]}, "event.outputs[0]: namespace is missing"),
    ],
)
def test_an_event_that_is_not_as_the_schema_says_is_told(change, problem):
    known = classes()
    of_run = next(each for address, each in known.items() if address.endswith("/RunEvent"))
    told = {"producer": "p", "schemaURL": "s", "eventTime": "t", "eventType": "START"}
    event = told | {"run": {"runId": "r"}, "job": {"namespace": "n", "name": "m"}}
    assert list(problems(event, of_run, known)) == []
    assert list(problems(event | change, of_run, known)) == [problem]
