"""Plans that move leaders to chosen in-sync replicas: the fewest moves, what is left out, what is refused, what stalls."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from controller_core.model.errors import InvalidPlanError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.plans.kinds import Refused, choose_leader_moves, leader_moves_plan
from controller_core.plans.kinds.leaders import LEADERS_PER_RUN, brokers_of_racks
from controller_core.plans.plan import Plan, plan_from_bytes, plan_to_bytes
from controller_core.plans.request_znodes import LeaderMove, MoveLeaders
from controller_core.plans.text import plan_markdown
from controller_core.plans.validation import check_plan
from tests.broker_ids import ids
from tests.controller_core.plans.kinds.ring import ORIGIN, RING, observed, planned


def test_only_what_an_avoided_broker_leads_moves_and_the_load_is_spread():
    plan = planned(observed(RING))
    (effect,) = plan.effects
    assert effect == MoveLeaders(moves=(LeaderMove("t", 0, BrokerId(2)), LeaderMove("t", 3, BrokerId(3))))
    assert "t-0  leader 1 → 2, leader epoch 4 → 5, ISR [1, 2, 3] stays" in plan.predicted
    assert "broker 1 leads 2 → 0 partitions" in plan.predicted


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.permutations([1, 2, 3, 4]).flatmap(
            lambda replicas: st.integers(1, 4).map(lambda size: (tuple(replicas), tuple(replicas[:size])))
        ),
        max_size=5,
    )
)
def test_no_choice_has_fewer_moves_or_spares_the_busiest_broker_more(rows):
    """Against all choices; where each partition has its choice of the same brokers, the spread is the best there is."""
    found = observed(rows, registered=(1, 2, 3, 4))
    chosen = choose_leader_moves(found, ids(1))
    led_by_1 = [p for p, state in found.states.items() if state.leader == 1]
    helpless = [p for p in led_by_1 if len(found.states[p].isr) == 1]
    assert len(chosen.moves) == len(led_by_1) - len(helpless)
    assert {each.subject for each in chosen.left_out} == set(map(str, helpless))
    free = [p for p in led_by_1 if p not in helpless]
    if all(len(found.states[p].isr) == 4 for p in free):
        others = Counter(state.leader for state in found.states.values() if state.leader != 1)

        def busiest(leaders):
            return max((others + Counter(leaders)).values(), default=0)

        best = min(map(busiest, itertools.product(ids(2, 3, 4), repeat=len(free))), default=0)
        assert busiest([move.leader for move in chosen.moves]) == best


@pytest.mark.parametrize(
    ("rows", "registered", "reason"),
    [
        pytest.param([((1, 2), (1,))], (1, 2), "no other replica is in sync and live: ISR [1]", id="alone in the ISR"),
        pytest.param([((1, 2), (1, 2))], (1,), "no other replica is in sync and live: ISR [1, 2]", id="the other died"),
    ],
)
def test_what_cannot_be_helped_is_left_out_with_the_reason(rows, registered, reason):
    plan = planned(observed(rows, registered=registered))
    assert plan.steps == ()
    assert [each.reason for each in plan.left_out] == [reason]


def test_a_partition_that_is_reassigned_is_left_out():
    found = observed(RING)
    moving = {**found.assignments, TopicPartition("t", 0): ReplicaAssignment(ids(1, 2, 3), adding=ids(3))}
    plan = planned(replace(found, assignments=moving))
    assert [(each.subject, each.reason) for each in plan.left_out] == [("t-0", "is being reassigned")]


def test_a_new_leader_must_be_in_sync():
    found = observed([((1, 2, 3), (1, 2))])
    made = leader_moves_plan(found, ORIGIN, [LeaderMove("t", 0, BrokerId(3))])
    assert isinstance(made, Refused)
    assert "expected [3] in the ISR" in str(made.reasons[0])


def test_at_most_a_hundred_leaders_move_in_one_run():
    found = observed([((1, 2), (1, 2))] * (LEADERS_PER_RUN + 5))
    plan = planned(found)
    assert len(plan.effects[0].moves) == LEADERS_PER_RUN
    assert {each.reason for each in plan.left_out} == {f"over the {LEADERS_PER_RUN} leaders of one run"}
    assert len(plan.left_out) == 5


def test_racks_stand_for_their_brokers():
    assert brokers_of_racks(observed(RING), {"rack-2", "rack-3"}) == {2, 3}


@pytest.mark.parametrize(("version", "says"), [(5, True), (4, False)])
def test_the_approver_reads_what_stalls_and_for_how_long(version, says):
    text = plan_markdown(planned(observed(RING, version=version)))
    assert "For up to 4 s this program is the active controller" in text
    assert ("No ISR can shrink meanwhile" in text) is says
    assert ("Kafka 2.0 or older the former controller is not fenced" in text) is not says


def test_a_stored_plan_is_read_back_and_a_forged_one_refused():
    plan = planned(observed(RING))
    assert plan_from_bytes(plan_to_bytes(plan), where="here") == plan
    check_plan(plan, "here")
    for forged in (
        with_moves(plan, LeaderMove("t", 0, BrokerId(1))),
        with_moves(plan, LeaderMove("t", 0, BrokerId(9))),
        with_moves(plan, LeaderMove("t", 1, BrokerId(3))),
        structs.replace(plan, steps=(structs.replace(plan.steps[0], outcomes=()),)),
        structs.replace(plan, steps=(structs.replace(plan.steps[0], expectations=()),)),
    ):
        with pytest.raises(InvalidPlanError, match="not taken"):
            check_plan(forged, "here")


def with_moves(plan: Plan, *moves: LeaderMove) -> Plan:
    return structs.replace(plan, steps=(structs.replace(plan.steps[0], effects=(MoveLeaders(moves=moves),)),))
