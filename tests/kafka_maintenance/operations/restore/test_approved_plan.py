"""Exactly the approved plan is restored, to the cluster that it was made for, and nothing after a change."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from kazoo.security import ACL, Id

from controller_core.adapters.snapshot.reader import ReadOptions
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import InvalidPlanError
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH, Road
from kafka_maintenance.operations.apply.executions import request_stop
from kafka_maintenance.operations.errors import (
    BadInputError,
    ClusterBusyError,
    NotFinishedError,
    PlanChangedError,
    RefusedError,
)
from kafka_maintenance.operations.record.receipts import read_events, trusted_events
from kafka_maintenance.operations.restore import apply_steps
from kafka_maintenance.operations.restore.document import load_restore, plan_digest
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.restore.restored import apply, plan, taken

pytestmark = pytest.mark.services


@pytest.mark.parametrize(("word", "says"), [("before", "{}"), ("after", "the same as now")])
def test_a_plan_that_tells_its_approver_something_else_is_not_carried_out(kafka, snapshot, store, chroot, word, says):
    """Whoever writes the store can store a plan with a right digest: what it says of a znode is looked at again."""
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    before = kafka.get("/config/topics/orders")[0]
    stored = plan(store, snapshot, chroot, topics=("orders",))
    document = json.loads(json.dumps(dict(stored.document)))
    document["steps"][0][word] = says
    digest = plan_digest(document)
    key = f"{snapshot.prefix}/plans/restore-{digest[:12]}.json"
    store.put(key, json.dumps({**document, "digest": digest}).encode())
    forged = load_restore(store, store.uri_of(key))
    assert says in forged.text
    with pytest.raises(PlanChangedError, match="somebody wrote that plan by hand"):
        apply(store, forged, chroot)
    assert kafka.get("/config/topics/orders")[0] == before


def test_an_approval_that_was_taken_back_is_looked_at_right_before_the_first_write(kafka, snapshot, store, chroot):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    before = kafka.get("/config/topics/orders")[0]
    stored = plan(store, snapshot, chroot, topics=("orders",))

    def taken_back():
        raise RefusedError("withdrawn")

    with pytest.raises(RefusedError, match="withdrawn"):
        apply(store, stored, chroot, permit=taken_back)
    assert kafka.get("/config/topics/orders")[0] == before
    assert [each.event for each in read_events(store, "alpha", stored.digest)] == ["started"]
    apply(store, stored, chroot)
    assert [each.event for each in read_events(store, "alpha", stored.digest)][2:] == ["intended", "done"]


def test_the_times_of_a_restores_record_go_on_while_it_writes(kafka, snapshot, store, chroot, monkeypatch):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    stored = plan(store, snapshot, chroot, topics=("orders",))
    passed = [0.0]
    for module in ("restore.apply", "record.receipts"):
        monkeypatch.setattr(f"kafka_maintenance.operations.{module}.monotonic", lambda: passed[0])
    apply(store, stored, chroot, permit=lambda: passed.append(passed.pop() + 1_200.0))
    started, intended, done = (datetime.fromisoformat(each.at) for each in read_events(store, "alpha", stored.digest))
    assert intended - started >= timedelta(minutes=20)
    assert done >= intended


def test_a_restore_waits_for_a_plan_that_waits_between_its_steps_or_for_a_person_who_stops_it(
    kafka, snapshot, store, chroot
):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    before = kafka.get("/config/topics/orders")[0]
    stored = plan(store, snapshot, chroot, topics=("orders",))
    digest = world.waiting_plan(kafka, store)
    with pytest.raises(
        ClusterBusyError,
        match=f"plan {digest}, approved by 'olivia', is begun, .* waits with step 2 .*`kafka-maintenance stop`",
    ):
        apply(store, stored, chroot)
    assert kafka.get("/config/topics/orders")[0] == before
    assert [each.event for each in read_events(store, "alpha", stored.digest)] == ["started"]
    request_stop(store, "alpha", digest, by="ben", reason="a restore", now=world.NOON)
    apply(store, stored, chroot)
    assert kafka.get("/config/topics/orders")[0] == world.PERSISTENT["/config/topics/orders"]
    assert kafka.exists(EXECUTION_PATH) is None


def test_a_restore_waits_for_a_step_that_kafka_was_asked_for(kafka, snapshot, store, chroot):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    stored = plan(store, snapshot, chroot, topics=("orders",))
    digest = world.waiting_plan(kafka, store, Road.REQUEST_ZNODES)
    with pytest.raises(ClusterBusyError, match=f"step 2 of plan {digest}, .* `kafka-maintenance unlock`"):
        apply(store, stored, chroot)


def test_a_snapshot_of_no_one_moment_is_told_to_the_approver(kafka, store, chroot):
    torn = taken(chroot, store, options=ReadOptions(method="plain"))
    kafka.delete("/config/clients/slow", -1)
    first = plan(store, torn, chroot, configs=("clients/*",))
    assert "note: NOT of one moment: plain scan, as asked: no proof was tried; no snapshot of" in first.text
    later = take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="sure", now=world.NOON + timedelta(days=1)
    ).manifest
    world.stored_day(store, datetime.now(UTC), -30)  # of a clock that was wrong
    second = plan(store, torn, chroot, configs=("clients/*",))
    assert f"the newest that is of one moment is {later.snapshot_id}, of 2026-03-02" in second.text
    assert first.digest != second.digest, "the note is what is approved, too"
    assert "NOT of one moment" not in plan(store, later, f"{chroot}-new", whole=True).text


def test_another_cluster_is_refused(snapshot, store, server, chroot):
    with world.session(f"{chroot}-other") as session:
        world.fill(session)
        session.set("/cluster/id", b'{"version":"1","id":"another"}', -1)
        session.set("/config/topics/orders", world.config(), -1)
        with pytest.raises(RefusedError, match=r"expected Kafka cluster id.*found 'another'"):
            plan(store, snapshot, f"{chroot}-other", topics=("orders",))


def test_a_change_after_the_plan_is_refused(kafka, snapshot, store, chroot):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    stored = plan(store, snapshot, chroot, topics=("orders",))
    kafka.set("/config/topics/orders", world.config(retention_ms="6"), -1)
    with pytest.raises(RefusedError, match=r"expected one last written in transaction 0x.* found one last written in"):
        apply(store, stored, chroot)
    assert kafka.get("/config/topics/orders")[0] == world.config(retention_ms="6")


def test_a_config_made_anew_after_the_plan_is_another_one(kafka, snapshot, store, chroot):
    kafka.delete("/config/topics/orders", -1)
    kafka.create("/config/topics/orders", world.config(retention_ms="5"))
    stored = plan(store, snapshot, chroot, topics=("orders",))
    kafka.delete("/config/topics/orders", -1)
    kafka.create("/config/topics/orders", world.config(retention_ms="6"))  # of the same version as before
    with pytest.raises(RefusedError, match="the cluster changed since the plan"):
        apply(store, stored, chroot)
    assert kafka.get("/config/topics/orders")[0] == world.config(retention_ms="6")


def test_a_second_call_of_the_plan_leaves_the_record_of_the_first_whole(kafka, snapshot, store, chroot, monkeypatch):
    monkeypatch.setattr(apply_steps, "_LOCK_WAIT_S", 0.0)
    kafka.delete("/config/clients/slow", -1)
    stored = plan(store, snapshot, chroot, configs=("*",))

    def again(_):
        with pytest.raises(ClusterBusyError, match="cluster is busy"):
            apply(store, stored, chroot, run_id="second")

    apply(store, stored, chroot, run_id="first", progress=again)
    assert [each.event for each in trusted_events(store, "alpha", stored.digest)] == [
        "started",
        "intended",
        "started",
        "done",
    ]


def lock_lost(kafka):
    for name in kafka.children("/admin"):
        if name.startswith(LOCK_PATH.rpartition("/")[2]):
            kafka.delete(f"/admin/{name}", -1)


def test_a_restore_that_lost_its_lock_before_an_acl_stops(kafka, snapshot, store, chroot):
    kafka.client.set_acls("/config/clients/slow", [ACL(29, Id("world", "anyone"))])
    kafka.delete("/config/topics/orders", -1)
    stored = plan(store, snapshot, chroot, configs=("*",), widen_acls=True)
    with pytest.raises(NotFinishedError, match="lock /admin/kafka_maintenance_lock was lost; what was written stays"):
        apply(store, stored, chroot, progress=lambda _: lock_lost(kafka))
    receipt = apply(store, stored, chroot)
    assert (receipt.written, receipt.already_there) == (1, 1)


def test_a_restore_that_lost_its_lock_stops_and_can_be_applied_again(kafka, snapshot, store, chroot, monkeypatch):
    monkeypatch.setattr(apply_steps, "TRANSACTION_STEPS_MAX", 1)
    for path in ("/config/clients/slow", "/config/topics/orders"):
        kafka.delete(path, -1)
    stored = plan(store, snapshot, chroot, configs=("*",))

    with pytest.raises(NotFinishedError, match="lock /admin/kafka_maintenance_lock was lost; what was written stays"):
        apply(store, stored, chroot, progress=lambda _: lock_lost(kafka))
    receipt = apply(store, stored, chroot)
    assert (receipt.written, receipt.already_there) == (1, 1)


def test_only_the_approved_plan_is_applied(kafka, snapshot, store, chroot):
    kafka.delete("/config/clients/slow", -1)
    stored = plan(store, snapshot, chroot, configs=("clients/slow",))
    with pytest.raises(PlanChangedError, match="approved digest 000"):
        apply(store, stored, chroot, digest="0" * 64)
    key = stored.uri.removeprefix(f"{store.uri}/")
    store.put(key, store.get(key).replace(b"clients/slow", b"clients/fast"))
    with pytest.raises(InvalidPlanError, match="altered"):
        load_restore(store, stored.uri)
    with pytest.raises(InvalidPlanError):
        apply(store, stored, chroot)
    assert kafka.exists("/config/clients/slow") is None


def test_a_plan_is_for_one_zookeeper(kafka, snapshot, store, chroot):
    kafka.delete("/config/clients/slow", -1)
    stored = plan(store, snapshot, chroot, configs=("clients/slow",))
    with pytest.raises(RefusedError, match="it was made for"):
        apply(store, stored, f"{chroot}-other")


def test_nothing_to_do_is_said(kafka, snapshot, store, chroot):
    with pytest.raises(RefusedError, match="everything asked for is there already"):
        plan(store, snapshot, chroot, topics=("orders",))
    with pytest.raises(BadInputError, match="found nothing for topic 'no-such-topic'"):
        plan(store, snapshot, chroot, topics=("no-such-topic",))
