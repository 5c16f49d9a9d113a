"""The throttle of a step: what it overrides, beside what others set, and how it is taken back."""

import pytest

from controller_core.admin.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from controller_core.model.partitions import TopicPartition
from controller_core.plans.conditions import AssignedTo
from controller_core.plans.plan import PlanStep
from controller_core.plans.request_znodes import CreateDeleteTopic, CreateReassignPartitions, Target
from controller_core.plans.rules import ThrottleBand
from controller_core.plans.step_throttle import (
    Throttled,
    overridden,
    rate_of_step,
    step_throttle,
    taken_back,
    to_set,
)
from tests.broker_ids import ids

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


STEP = PlanStep(
    effects=(
        CreateReassignPartitions(targets=(Target(*A0, ids(3, 2)), Target(*A1, ids(2, 1)))),
        CreateDeleteTopic(topic="b"),
    ),
    expectations=(AssignedTo(*A0, replicas=ids(1, 2)), AssignedTo(*A1, replicas=ids(1, 2))),
    outcomes=(),
)
RATES = {LEADER_RATE: "100", FOLLOWER_RATE: "100"}
WANTED = {
    "topics/a": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"},
    "brokers/1": RATES,
    "brokers/2": RATES,
    "brokers/3": RATES,
}


def test_a_throttle_names_what_is_copied_and_limits_who_sends_and_receives():
    assert step_throttle(STEP, 100) == WANTED
    assert step_throttle(PlanStep(effects=STEP.effects[1:], expectations=(), outcomes=()), 100) == {}


def test_rates_of_others_are_overridden_and_their_lists_are_not():
    found = {"topics/a": {LEADER_REPLICAS: "*"}, "brokers/1": {LEADER_RATE: "7", "other": "1"}}
    assert to_set({name: WANTED[name] for name in ("topics/a", "brokers/1")}, found) == (
        Throttled("brokers/1", LEADER_RATE, "100", "7"),
        Throttled("brokers/1", FOLLOWER_RATE, "100", None),
        Throttled("topics/a", FOLLOWER_REPLICAS, "0:3", None),
    )


def test_what_somebody_changed_since_it_was_found_is_not_overridden():
    found = {LEADER_RATE: "7", "other": "1"}
    ours = to_set({name: WANTED[name] for name in ("topics/a", "brokers/1")}, {"brokers/1": found})
    assert overridden("brokers/1", found, ours) == {**RATES, "other": "1"}
    assert overridden("brokers/1", {LEADER_RATE: "8"}, ours) == {LEADER_RATE: "8", FOLLOWER_RATE: "100"}
    assert overridden("brokers/2", found, ours) == found


@pytest.mark.parametrize(
    ("overrides", "left"),
    [
        pytest.param(
            {LEADER_RATE: "100", "other": "1"}, {LEADER_RATE: "7", "other": "1"}, id="what was there is put back"
        ),
        pytest.param({FOLLOWER_RATE: "100"}, {}, id="where nothing was, nothing is left"),
        pytest.param({LEADER_RATE: "8"}, {LEADER_RATE: "8"}, id="what somebody changed since stays"),
        pytest.param({}, {}, id="what somebody took away stays away"),
    ],
)
def test_what_is_taken_back(overrides, left):
    ours = Throttled("brokers/1", LEADER_RATE, "100", "7"), Throttled("brokers/1", FOLLOWER_RATE, "100", None)
    assert taken_back("brokers/1", overrides, ours) == left
    assert taken_back("brokers/2", overrides, ours) == overrides


@pytest.mark.parametrize(
    ("replicas", "left"),
    [
        pytest.param("10:1,10:2,9:1,9:2", None, id="in the order of Kafka's tool"),
        pytest.param("9:1,9:2", None, id="without what was done when the tool wrote it"),
        pytest.param("9:1,9:2,8:1", "9:1,9:2,8:1", id="with a move of somebody else"),
        pytest.param("9:1,9:3", "9:1,9:3", id="with another replica"),
        pytest.param("*", "*", id="of all replicas"),
        pytest.param("", "", id="of none"),
    ],
)
def test_a_list_that_kafkas_tool_wrote_anew_is_taken_back_where_it_names_nothing_but_ours(replicas, left):
    ours = (Throttled("topics/a", LEADER_REPLICAS, "9:1,9:2,10:1,10:2", None),)
    kept = {} if left is None else {LEADER_REPLICAS: left}
    assert taken_back("topics/a", {LEADER_REPLICAS: replicas, "x": "1"}, ours) == {**kept, "x": "1"}


BAND = ThrottleBand(100, 350)


@pytest.mark.parametrize(
    ("throttle", "before", "was_calm", "written", "rate"),
    [
        pytest.param(70, 50, True, 900.0, 70, id="a given rate stays"),
        pytest.param(BAND, None, True, 0.0, 100, id="the first step gets the least"),
        pytest.param(BAND, 100, True, 0.0, 200, id="doubled after a calm step"),
        pytest.param(BAND, 200, True, 0.0, 350, id="up to the limit"),
        pytest.param(BAND, 350, False, 0.0, 175, id="halved after trouble"),
        pytest.param(BAND, 120, False, 0.0, 100, id="down to the least"),
        pytest.param(BAND, None, True, 60.2, 121, id="twice what is written"),
        pytest.param(BAND, None, True, 900.0, 350, id="and not over the limit"),
    ],
)
def test_the_rate_of_a_step(throttle, before, was_calm, written, rate):
    assert rate_of_step(throttle, before, was_calm=was_calm, written_bytes_per_s=written) == rate
