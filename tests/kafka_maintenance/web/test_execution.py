"""The pages Executions and Execution: what they say of a record, step by step and replica by replica."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import json
from datetime import timedelta

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import ObjectDamagedError
from kafka_maintenance.operations.analysis.tables import CACHE
from kafka_maintenance.operations.apply.executions import executions, record_of
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.record.entry import UNKNOWN_KIND
from kafka_maintenance.web.blocks import Launches, Note
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views import executions as executions_view
from kafka_maintenance.web.views import record
from kafka_maintenance.web.views.execution import STEPS_SHOWN_MAX, Act, execution_page
from kafka_maintenance.web.views.executions import executions_page, newest_recorded
from kafka_maintenance.web.views.record import read_record
from tests.kafka_maintenance.web.records import BEGAN, DONE, STUCK, UNDER_WAY, copied, led, put_record, started

assert airflow_home

DIGEST = "d" * 64
NOW = BEGAN + timedelta(minutes=70)


def page_of(events, withheld=lambda *_: ""):
    store = MemoryStore()
    put_record(store, "alpha", DIGEST, events)
    return execution_page(
        read_record(store, "alpha", DIGEST), dag_of=lambda name: f"{name}__alpha", withheld=withheld, now=NOW
    )


def launches(page):
    (block,) = [block for section in page.sections for block in section.blocks if isinstance(block, Launches)]
    return {launch.text: launch for launch in block.launches}


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_each_step_tells_bytes_rate_and_time_to_go():
    first, second, third = texts(page_of(UNDER_WAY).table("steps-table"))
    assert first == [
        *("step 1", "verified", "4 of 4", "6 of 6", "90.0 GB", "90.0 GB", "100 %", "-", "-"),
        *("50.0 MB/s", "30 min", "2026-11-24 02:00:00", "31 min"),
    ]
    assert second == [
        *("step 2", "in progress", "0 of 4", "2 of 6", "54.0 GB", "160.0 GB", "34 %", "50.0 MB/s", "35 min"),
        *("50.0 MB/s", "53 min", "2026-11-24 02:31:00", "-"),
    ]
    assert third[:4] == ["step 3", "not asked for yet", "-", "-"]


def test_each_replica_that_lags_tells_its_rate_and_why():
    assert texts(page_of(UNDER_WAY).table("replicas-table")) == [
        ["orders-1", "4", "4.0 GB", "40.0 GB", "10 %", "50.0 MB/s", "12 min", "is being copied"],
        [
            *("orders-2", "5", "8.0 GB", "40.0 GB", "20 %", "0 bytes/s", "-"),
            "nothing came since the observation before: look at throttle, log directory and ReplicaFetcherThread",
        ],
        [
            *("orders-3", "6", "2.0 GB", "40.0 GB", "5 %", "0 bytes/s", "-"),
            "broker 6 is not registered: start it, or cancel",
        ],
        [
            *("orders-5", "4", "40.0 GB", "40.0 GB", "100 %", "0 bytes/s", "-"),
            "all bytes are there: it joins the ISR when it has caught up",
        ],
    ]


def test_a_step_that_is_over_tells_which_partition_went_from_which_state_to_which():
    assert texts(page_of(UNDER_WAY).table("state-changes-table")) == [
        [
            *("step 1", "orders-0", "(Leader:1,ISR:1,2,LeaderEpoch:1,Replicas:1,2)"),
            *("(Leader:4,ISR:2,4,LeaderEpoch:4,Replicas:4,2)", "/admin/reassign_partitions"),
        ]
    ]
    assert page_of(DONE).table("state-changes-table").rows == []


def test_what_is_stuck_says_why_and_is_read_again():
    page = page_of(STUCK)
    assert isinstance(page.head[0], Note)
    assert "start broker(s) [6]" in page.head[0].text
    assert page.refresh_s == 30
    assert page_of(DONE).refresh_s is None


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        (UNDER_WAY, ["Stop, or pause", "Cancel the step", "Roll back"]),
        (UNDER_WAY[:1], ["Stop, or pause", "Cancel the step"]),
        ((*UNDER_WAY, ("stopped", 1, 40, {"reason": "x"})), ["Go on", "Cancel the step", "Roll back"]),
        ((*UNDER_WAY, ("unfinished", 1, 40, {})), ["Go on", "Cancel the step", "Roll back"]),
        ((*UNDER_WAY, ("refused", 1, 40, {})), ["Cancel the step", "Roll back"]),
        ((*UNDER_WAY, ("interrupted", 1, 40, {})), ["Stop, or pause", "Cancel the step", "Roll back"]),
        ((*UNDER_WAY, ("over", 1, 40, {"reasons": ["x"]})), ["Roll back"]),
        ((("started", None, 0, started(kind="elect_preferred_leaders")),), ["Stop, or pause"]),
        ((("started", None, 0, started()), ("over", None, 1, {})), []),
        (DONE, ["Roll back"]),
    ],
)
def test_what_a_person_may_do_follows_from_the_last_event(events, wanted):
    assert list(launches(page_of(events))) == wanted


def test_a_launch_names_the_dag_of_the_cluster_and_what_is_asked_of_it():
    found = launches(page_of(UNDER_WAY))
    plan = {"cluster": "alpha", "plan": DIGEST}
    asked = {
        "Stop, or pause": ("stop_execution", plan, ["reason"]),
        "Cancel the step": ("cancel_execution", plan, ["reason", "approve"]),
        "Roll back": ("reassign_partitions", {"cluster": "alpha", "rollback_of": DIGEST}, []),
    }
    for text, (dag, conf, blanks) in asked.items():
        launch = found[text]
        assert launch.href == f"/dags/{dag}__alpha"
        assert launch.request == f"../api/v2/dags/{dag}__alpha/dagRuns"
        assert json.loads(launch.body_json) == {"logical_date": None, "conf": conf}
        assert [blank.name for blank in launch.blanks] == blanks
    assert [blank.required for blank in found["Cancel the step"].blanks] == [True, False]


def test_going_on_clears_the_applying_task_of_the_run_that_stopped():
    launch = launches(page_of((*UNDER_WAY, ("stopped", 1, 40, {}))))["Go on"]
    assert launch.href == "/dags/reassign_partitions/runs/manual__2026-11-24/tasks/apply_plan"
    assert launch.request == "../api/v2/dags/reassign_partitions/clearTaskInstances"
    body = json.loads(launch.body_json)
    assert (body["dag_run_id"], body["task_ids"], body["dry_run"]) == ("manual__2026-11-24", ["apply_plan"], False)


def test_what_the_reader_may_not_do_is_said_in_place_of_its_button():
    events = (*UNDER_WAY, ("stopped", 1, 40, {}))
    page = page_of(
        events, lambda dag_id, act: f"not {act.value} of {dag_id}" if "cancel" in dag_id or act is Act.CLEAR else ""
    )
    html = page_html(page, nonce="n")
    assert {name: launch.withheld for name, launch in launches(page).items()} == {
        "Go on": "not clear a task of reassign_partitions",
        "Cancel the step": "not start a run of cancel_execution__alpha",
        "Roll back": "",
    }
    assert html.count("data-request=") == 1
    assert "not clear a task of reassign_partitions</p>" in html


def test_the_list_has_what_is_not_over_first():
    store = MemoryStore()
    put_record(store, "alpha", "a" * 64, DONE)
    put_record(store, "beta", "b" * 64, STUCK)
    page = executions_page(executions(store), now=NOW)
    assert [row[:3] for row in texts(page.table("executions"))] == [
        ["reassign partitions on beta", "stuck", "4 min"],
        ["reassign partitions on alpha", "done", "68 min"],
    ]
    assert executions_page((), now=NOW).table("executions").rows == []


class Counting(MemoryStore):
    """Keeps the keys of what was read."""

    def __init__(self):
        super().__init__("counting")
        self.read = []

    def get(self, key):
        self.read.append(key)
        return super().get(key)


def test_each_record_is_read_once_and_again_when_it_went_on_or_could_not_be_read():
    store = Counting()
    put_record(store, "alpha", "a" * 64, DONE)
    put_record(store, "beta", "b" * 64, STUCK)
    assert [each.last for each in newest_recorded(store, "")[0]] == ["done", "stuck"]
    assert len(store.read) == 4
    assert [each.last for each in newest_recorded(store, "beta")[0]] == ["stuck"]
    assert len(store.read) == 4
    put_record(store, "beta", "b" * 64, (*STUCK, ("done", None, 60, {})))
    assert [each.last for each in newest_recorded(store, "")[0]] == ["done", "done"]
    assert len(store.read) == 6
    store.put(store.list("v1/receipts/cluster=alpha/")[0], b"{")
    CACHE.clear()
    assert [each.last for each in newest_recorded(store, "alpha")[0]] == ["damaged"]
    put_record(store, "alpha", "a" * 64, DONE)
    assert [each.last for each in newest_recorded(store, "alpha")[0]] == ["done"]


def test_of_many_plans_those_that_are_not_over_and_the_newest_are_read_and_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr(executions_view, "ROWS_SHOWN_MAX", 3)
    store = Counting()
    put_record(store, "alpha", "f" * 64, STUCK)
    for digest in "edcba":
        put_record(store, "alpha", digest * 64, DONE)
    recorded, unread = newest_recorded(store, "alpha")
    assert (sorted(each.digest[0] for each in recorded), unread) == (["a", "b", "f"], 3)
    assert len(store.read) == 6
    page = executions_page(recorded, now=NOW, unread=unread)
    assert page.table("executions").hidden == 3
    assert page.head[1].text.startswith("3 more plans are not read: ")
    assert dict(page.head[0].facts)["Begun, of those read"].text == "3"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        pytest.param("v1/receipts/cluster=alpha/stray.json", "stray.json not read", id="beside the records"),
        pytest.param(
            "v1/receipts/cluster=alpha/b\\c/0001-started.json", "refused: expected names", id="a name that no key has"
        ),
        pytest.param("v1/receipts/cluster=alpha/d/gone.json", "not found", id="removed meanwhile"),
    ],
)
def test_what_somebody_else_put_among_the_records_hides_none(key, said):
    store = MemoryStore()
    put_record(store, "alpha", "a" * 64, DONE)
    store._objects[key] = b"{"
    get = store.get
    store.get = lambda asked: get("gone" if asked.endswith("gone.json") else asked)
    page = executions_page(newest_recorded(store, "")[0], now=NOW)
    assert [row[1] for row in texts(page.table("executions"))] == ["damaged", "done"]
    assert said in page_html(page, nonce="n")


def test_what_is_not_there_or_damaged_is_said():
    store = MemoryStore()
    with pytest.raises(BadInputError, match="expected a plan that was begun"):
        read_record(store, "alpha", DIGEST)
    put_record(store, "alpha", "a" * 64, DONE)
    store.put(f"v1/receipts/cluster=alpha/{DIGEST}/0001-started.json", b"{")
    assert read_record(store, "alpha", DIGEST).kind == UNKNOWN_KIND
    store._objects[f"v1/receipts/cluster=alpha/{DIGEST}/0001-started.json"] = store.get(
        f"v1/receipts/cluster=alpha/{'a' * 64}/0001-started.json"
    )
    assert read_record(store, "alpha", DIGEST).kind != UNKNOWN_KIND
    store._objects[f"v1/receipts/cluster=alpha/{DIGEST}/0001-started.json"] = b"{"
    page = executions_page(executions(store), now=NOW)
    assert [row[:3] for row in texts(page.table("executions"))] == [
        ["a plan on alpha", "damaged", "-"],
        ["reassign partitions on alpha", "done", "68 min"],
    ]
    assert "0001-started.json not read: Expecting" in page_html(page, nonce="n")


@pytest.mark.parametrize(
    ("read_max", "unread", "first"),
    [(record.EVENTS_READ_MAX, "", "verified"), (900, "1,202 events after the first one are not read", "not read")],
)
def test_a_long_record_ends_with_its_last_event(monkeypatch, read_max, unread, first):
    """The middle of one that is too long to be read is left out."""
    monkeypatch.setattr(record, "EVENTS_READ_MAX", read_max)
    asked = [(event, step, 1, {}) for step in range(700) for event in ("intended", "requested", "verified")]
    page = page_of([("started", None, 0, started(steps=700)), *asked, ("done", None, 2, {})])
    facts = {name: cell.text for block in page.head for name, cell in getattr(block, "facts", ())}
    assert (facts["State"], page.refresh_s, list(launches(page))) == ("done", None, ["Roll back"])
    assert "; ".join(block.text for block in page.head if isinstance(block, Note)).startswith(unread)
    assert [row[1] for row in texts(page.table("steps-table"))[::699]] == [first, "verified"]


ENTRY = {"event": "started", "step": None, "at": BEGAN.isoformat(), "run": "r", "approver": "olivia", "detail": {}}


def test_a_restore_is_of_the_kind_that_the_name_of_its_plan_tells():
    plan = {"plan": f"s3://b/v1/cluster=alpha/date=2026-11-24/snap=1/plans/restore-{DIGEST[:12]}.json"}
    page = page_of([("started", None, 0, plan)])
    assert (page.title, page.trail[-1][1]) == (
        "Restore on alpha",
        f"stored-plan?cluster=alpha&kind=restore&digest={DIGEST}",
    )


@pytest.mark.parametrize(
    "content",
    [
        b"null",
        b"[]",
        b"[" * 5000,
        json.dumps(ENTRY | {"event": []}).encode(),
        json.dumps(ENTRY | {"step": "0"}).encode(),
        json.dumps(ENTRY | {"step": -1}).encode(),
        json.dumps(ENTRY | {"at": 5}).encode(),
        json.dumps(ENTRY | {"at": "yesterday"}).encode(),
        json.dumps(ENTRY | {"at": "2026-11-24T02:00:00"}).encode(),
        json.dumps(ENTRY | {"detail": None}).encode(),
        *(
            json.dumps(ENTRY | {"event": "observed", "step": 1, "detail": {**UNDER_WAY[-1][3], **detail}}).encode()
            for detail in (
                {"lagging": [5]},
                {"lagging": [{"topic": "orders", "partition": 1, "broker": "4"}]},
                {"lagging": [{**copied(1, 4, 5), "bytes": None}]},
                {"seconds": "180"},
                {"bytes": 10**400},
                {"bytes_per_s": float("nan")},
                {"paths": 5},
                {"reasons": 5},
                {"before": [{"topic": "orders"}]},
                {"after": [{**led(0, 4, 4, 2), "isr": 2}]},
                {"left_out": [{"topic": "orders", "partition": "1"}]},
            )
        ),
    ],
    ids=lambda content: content[-90:].decode(),
)
def test_an_entry_that_no_run_writes_is_damaged_and_hides_no_other_one(content):
    store = MemoryStore()
    put_record(store, "alpha", DIGEST, UNDER_WAY)
    store.put(store.list("v1/receipts/")[-1], content)
    record = read_record(store, "alpha", DIGEST)
    page = execution_page(record, dag_of=str, withheld=lambda *_: "", now=NOW)
    assert [row[1] for row in texts(page.table("receipt"))][-2:] == ["observed", "damaged"]
    (state,) = (cell for block in page.head for name, cell in getattr(block, "facts", ()) if name == "State")
    assert state.text == "damaged"
    (row,) = texts(executions_page(executions(store), now=NOW).table("executions"))
    assert row[1] == "damaged"
    with pytest.raises(
        ObjectDamagedError, match=r"record memory://.* not read: .*; `kafka-maintenance audit verify` names"
    ):
        record_of(store, "alpha", DIGEST)


@pytest.mark.parametrize(
    "detail", [{"kind": []}, {"kind": {}, "steps": "9"}, {"steps": [1]}, {"steps": 10**9}], ids=str
)
def test_a_beginning_that_no_run_writes_is_shown_within_bounds(detail):
    page = page_of([("started", None, 0, detail), *UNDER_WAY[1:]])
    table = page.table("steps-table")
    assert len(table.rows) + table.more == max(2, detail["steps"] if isinstance(detail.get("steps"), int) else 0)
    assert len(table.rows) <= STEPS_SHOWN_MAX


@pytest.mark.parametrize("kind", [json.loads(r'"\ud800"'), [], "<b>", "a" * 101, 5, None], ids=repr)
def test_a_kind_that_no_plan_has_is_not_known_and_takes_no_page(kind):
    store = MemoryStore()
    put_record(store, "alpha", DIGEST, [("started", None, 0, {"kind": kind})])
    record = read_record(store, "alpha", DIGEST)
    page = execution_page(record, dag_of=str, withheld=lambda *_: "", now=NOW)
    assert (record.kind, page.title) == (UNKNOWN_KIND, "A plan on alpha")
    ((title, *_),) = texts(executions_page(executions(store), now=NOW).table("executions"))
    assert title == "a plan on alpha"
