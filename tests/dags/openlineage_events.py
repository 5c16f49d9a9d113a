"""The events that Airflow's provider of OpenLineage emits of a gated run, held to the classes that OpenLineage makes of its JSON schema.

`test_lineage.py` runs this file in a pytest of its own, with the provider on the path and the name of the file of events in `EVENTS_OF_TESTS`.
"""

import importlib
import json
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

from tests.dags.test_gates import _answer, _run, answering


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


@pytest.fixture
def events(bag, clients, plan):
    with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Approve")):
        run, _ = _run(bag, plan)
    assert str(run.state) == "success"
    receipt = run.get_task_instance("apply_plan").xcom_pull(task_ids="apply_plan")["receipt"]
    return [json.loads(line) for line in Path(os.environ["EVENTS_OF_TESTS"]).read_text().splitlines()], receipt


def test_each_event_is_as_the_schema_says_and_the_datasets_lead_from_plan_to_receipt(events, plan):
    found, receipt = events
    known = classes()
    of_run = next(each for address, each in known.items() if address.endswith("/RunEvent"))
    assert [each for event in found for each in problems(event, of_run, known)] == []
    assert all(UUID(event["run"]["runId"]) and datetime.fromisoformat(event["eventTime"]) for event in found)
    assert {event["schemaURL"] for event in found} == {of_run._get_schema()}
    ended = {event["job"]["name"].rpartition(".")[2]: event for event in found if event["eventType"] == "COMPLETE"}
    named = {
        task: [[(each["namespace"], each["name"]) for each in event[side]] for side in ("inputs", "outputs")]
        for task, event in ended.items()
    }
    assert named["plan_elections"] == [[], [("file", plan.uri)]]
    # One process runs all tasks here, so what is collected adds up.
    assert named["apply_plan"] == [[("file", plan.uri)], [("file", plan.uri), ("file", receipt)]]


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
