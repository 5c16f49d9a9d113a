"""A new controller for notifications and requests that linger."""

import pytest

from controller_core.model.partitions import BrokerId
from controller_core.plans.conditions import (
    NotificationsGone,
    RequestAbandoned,
    RequestAbsent,
    RequestIdle,
    StateReadable,
)
from controller_core.plans.kinds import Refused, drain_plan, lingering_notifications, makes_no_notifications
from controller_core.plans.plan import LeftOut
from controller_core.plans.request_znodes import DeleteController
from tests.broker_ids import ids
from tests.controller_core.plans.observed import (
    A0,
    A1,
    A2,
    ELECTION,
    GONE,
    IDLE,
    NEW,
    OLD,
    ORIGIN,
    REASSIGN,
    planned,
    seen,
)


def test_a_lingering_notification_calls_for_a_new_controller():
    plan = planned(drain_plan(seen(notifications=(NEW, OLD)), ORIGIN, now_ms=60_000))
    assert plan.effects == (DeleteController(controller_id=BrokerId(1), version=0, epoch_version=3),)
    assert plan.steps[0].outcomes[1:] == (
        NotificationsGone(names=(OLD.name,)), StateReadable(*A0), StateReadable(*A1),
    )  # fmt: skip
    assert plan.left_out == (LeftOut(NEW.name, "younger than 60 s"),)
    assert plan.predicted[1] == "/controller_epoch  3 → at least 4"


def test_a_request_that_names_only_what_is_gone_calls_for_a_new_controller():
    plan = planned(drain_plan(seen(reassign_requests={GONE: ids(1)}), ORIGIN, now_ms=0))
    assert plan.effects == (DeleteController(controller_id=BrokerId(1), version=0, epoch_version=3),)
    assert plan.steps[0].expectations[1:] == (RequestAbandoned(path=REASSIGN),)
    assert plan.steps[0].outcomes[1:] == (RequestAbsent(path=REASSIGN),)
    assert plan.predicted[2:] == (f"{REASSIGN}  names only gone-0, gone: 1 in all; the new controller removes it",)


def test_a_request_is_cleared_on_kafka_1_0_too_and_its_notifications_stay():
    both = seen(reassign_requests={GONE: ids(1)}, notifications=(OLD,))
    plan = planned(drain_plan(both, ORIGIN, now_ms=60_000, failover_deletes_notifications=False))
    assert plan.steps[0].expectations[1:] == (RequestAbandoned(path=REASSIGN),)
    assert plan.left_out == (LeftOut(OLD.name, "a new controller of Kafka 1.0 or older does not take it"),)


def test_requests_that_the_controller_has_not_begun_call_for_a_new_one():
    asked = {"reassign_requests": {A0: ids(3)}, "election_requests": frozenset({A1})}
    plan = planned(drain_plan(seen(**asked, **IDLE), ORIGIN, now_ms=60_000))
    idle = (RequestIdle(path=REASSIGN, czxid=21), RequestIdle(path=ELECTION, czxid=22))
    assert plan.steps[0].expectations[1:] == idle
    assert plan.steps[0].outcomes[1:] == (RequestAbsent(path=ELECTION),)
    assert plan.predicted[2:] == (
        f"{REASSIGN}  asks for a-0, not begun: 1 in all; the new controller takes it up",
        f"{ELECTION}  asks for a-1, not begun: 1 in all; the new controller takes it up",
    )


@pytest.mark.parametrize(
    ("changed", "now_ms"),
    [
        pytest.param({"election_requests": frozenset({A1})}, 59_999, id="an election of just now"),
        pytest.param({"reassign_requests": {A2: ids(3)}}, 60_000, id="a reassignment that is begun"),
        pytest.param({"reassign_requests": {A0: ids(3), A2: ids(3)}}, 60_000, id="begun in part"),
        pytest.param(
            {"reassign_requests": {A0: ids(3)}, "topic_json_versions": frozenset({1})}, 60_000, id="Kafka 2.3 does not show it"
        ),
    ],
)  # fmt: skip
def test_a_request_that_the_controller_may_work_at_is_left_to_it(changed, now_ms):
    assert planned(drain_plan(seen(**{**IDLE, **changed}), ORIGIN, now_ms=now_ms)).steps == ()


@pytest.mark.parametrize(
    ("now_ms", "lingering"),
    [pytest.param(59_999, (), id="a moment too young"), pytest.param(60_000, (OLD,), id="exactly old enough")],
)
def test_a_notification_lingers_from_an_age_on(now_ms, lingering):
    assert lingering_notifications(seen(notifications=(OLD, NEW)), now_ms=now_ms) == lingering


def test_fresh_notifications_are_the_controllers_business():
    assert planned(drain_plan(seen(notifications=(NEW,)), ORIGIN, now_ms=60_000)).steps == ()


def test_up_to_kafka_1_0_a_re_election_drains_nothing():
    made = drain_plan(seen(notifications=(OLD,)), ORIGIN, now_ms=60_000, failover_deletes_notifications=False)
    assert isinstance(made, Refused)
    assert "expected Kafka 1.1 or newer" in str(made.reasons[0])


@pytest.mark.parametrize(
    ("versions", "never"),
    [
        pytest.param({1: 5, 2: 5}, True, id="all speak 2.7"),
        pytest.param({1: 5, 2: 4}, False, id="one speaks less"),
        pytest.param({}, False, id="nobody is there"),
    ],
)
def test_from_protocol_2_7_on_no_notifications_are_written(versions, never):
    assert makes_no_notifications(seen(broker_json_versions=versions)) is never
