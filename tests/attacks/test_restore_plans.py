"""Boundary: who may write the store, against what a restore writes and what its approver reads of it."""

import json
from dataclasses import asdict

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import InvalidPlanError
from kafka_maintenance.operations.restore.content import RestoreScope
from kafka_maintenance.operations.restore.document import (
    PLAN_SCHEMA_VERSION,
    RestoreStep,
    content_sum,
    load_restore,
    plan_digest,
)

DATA = b'{"config":{"retention.ms":"1"},"version":1}'


def step(path="/config/topics/orders", **changed):
    of_set = {"expected_mzxid": 7, "notice": True, "before": "{}", "after": DATA.decode()}
    return asdict(RestoreStep(path=path, **{**of_set, **content_sum(DATA), **changed}))


def removal(path="/config/topics/orders"):
    return step(path, delete=True, after=None, **content_sum(None))


WHOLE = {"content_sha256": "c" * 64, "sequence_id_version": 0}


def document(*steps, scope=None, **changed):
    """A plan of one changed config as a restore of a part stores it."""
    given = RestoreScope(**(scope or {"topics": ("orders",)}))
    steps = steps or (step(),)
    found = {
        "schema_version": PLAN_SCHEMA_VERSION,
        "kind": "restore",
        "cluster": "alpha",
        "kafka_cluster_id": "memory",
        "zookeeper": "zk:2181",
        "snapshot": {"manifest": "memory://s/m.json", "digest": "d" * 64, "id": "s", "date": "2026-11-01"},
        "scope": asdict(given),
        "step_count": len(steps),
        "steps": list(steps),
        "left_out_count": 0,
        "left_out": {},
        "notes": [],
        "assumed_acls": [],
        "code_version": "0.2.0",
    }
    return found | changed


def loaded(plan):
    """What is read of the plan, which has the digest of its content."""
    store = MemoryStore()
    plan = json.loads(json.dumps(plan))
    store.put("plan.json", json.dumps({**plan, "digest": plan_digest(plan)}).encode())
    return load_restore(store, store.uri_of("plan.json"))


def test_an_honest_plan_is_read_and_its_text_is_made_of_its_steps():
    text = loaded(document()).text
    assert "1 znode: 0 created, 1 set, 0 deleted" in text
    assert "  set    /config/topics/orders\n    - {}\n    + {" in text


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        pytest.param(document(text=["nothing is deleted"]), "'text' was unexpected", id="a text of its own"),
        pytest.param(document(summary="harmless"), "'summary' was unexpected", id="a summary of its own"),
        pytest.param(document(step() | {"run": "sh"}), "'run' was unexpected", id="an unknown field"),
        pytest.param(document(steps=[]), "0 steps in a plan of a part", id="no steps"),
        pytest.param(
            document(step_count=1, steps=[step(), removal("/x")]), "step_count 1 beside 2", id="one step hidden"
        ),
        pytest.param(document(step_count=2), "step_count 2 beside 1 step", id="one step too many"),
        pytest.param(
            document(step("/config/users/eve"), scope={"whole": True}, **WHOLE),
            "a step for data below the root",
            id="a set in a plan of an empty tree",
        ),
        pytest.param(
            document(step("/brokers", expected_mzxid=None, acl="[]", after="[]"), scope={"whole": True}, **WHOLE),
            "an ACL that the scope leaves alone of '/brokers'",
            id="an ACL of a znode that is not there",
        ),
        pytest.param(document(removal()), "a deletion that nobody asked for", id="a deletion that nobody asked for"),
        pytest.param(
            document(removal("/brokers/topics/pay"), scope={"paths": ("/config",), "mirror": True}),
            "a deletion outside the scope of '/brokers/topics/pay'",
            id="a deletion elsewhere",
        ),
        pytest.param(
            document(removal("/admin/kafka_maintenance"), scope={"whole": True, "mirror": True}),
            "content_sha256",
            id="the whole tree without the digest of its content",
        ),
        pytest.param(
            document(removal(), scope={"corrections": (("/config/topics/orders", "{}"),)}),
            "a deletion that nobody asked for",
            id="a deletion instead of a correction",
        ),
        pytest.param(document(step("/config/users/eve")), "a step outside the scope", id="another znode"),
        pytest.param(document(step("/config/topics/../users/eve")), "a path that is none", id="dots"),
        pytest.param(document(step(), step()), "two steps for '/config/topics/orders'", id="twice"),
        pytest.param(
            document(step(acl="[]", after="[]"), scope={"topics": ("orders",), "acls": False}),
            "an ACL that the scope leaves alone",
            id="an ACL that nobody asked for",
        ),
        pytest.param(
            document(step(acl="[1]", after="[2]")), "an ACL that the scope leaves alone", id="another ACL shown"
        ),
        pytest.param(document(step(before=None)), "a text that does not belong to its step", id="shown as new"),
        pytest.param(document(step(after=None)), "a text that does not belong to its step", id="shown as empty"),
        pytest.param(document(scope={"topics": ("orders",)}) | {"scope": {}}, "is a required property", id="no scope"),
    ],
)
def test_a_plan_that_no_planner_makes_is_refused_by_what_is_wrong(plan, found):
    with pytest.raises(InvalidPlanError, match=found):
        loaded(plan)


def test_nothing_that_is_deleted_hides_behind_the_number_of_steps():
    many = [step(f"/config/topics/t{number:03}") for number in range(120)]
    gone = [removal(f"/config/topics/x{number:03}") for number in range(120)]
    plan = loaded(document(*many, *gone, scope={"paths": ("/config/topics",), "mirror": True}))
    assert all(f"  delete /config/topics/x{number:03}" in plan.markdown for number in range(120))
    assert "not shown: 0 created and 120 set" in plan.text
    assert "t000" not in plan.text


@pytest.mark.parametrize("text", ["```\n## Nothing is deleted", "\x1b[2J", "\u202egniteled ton", "x\ny"])
def test_no_data_of_a_znode_forges_a_line(text):
    honest = loaded(document()).markdown
    hostile = loaded(document(step(before=text, after=text), notes=[text], left_out={text: 1})).markdown
    assert hostile.count("\n") == honest.count("\n") + 2
    assert hostile.count("```") == 2
    assert all(letter.isprintable() or letter == "\n" for letter in hostile)
