"""The throttle from what brokers can spare."""

import pytest

from controller_core.model.partitions import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.plans.headroom import Headroom, Spare, band_of, throttle_or_headroom
from controller_core.plans.kinds.common import Origin, Refused
from controller_core.plans.kinds.moves import reassignment_plan
from controller_core.plans.observation import ActiveController, Observation, TopicIdentity
from controller_core.plans.request_znodes import Target
from controller_core.plans.rules import ThrottleBand
from controller_core.plans.text import plan_markdown
from tests.broker_ids import ids

A0 = TopicPartition("a", 0)


def observed():
    return Observation(
        active_controller=ActiveController(BrokerId(1), 7, 0),
        brokers={each: Broker(each) for each in ids(1, 2, 3)},
        topics={"a": TopicIdentity(3, 1)},
        assignments={A0: ReplicaAssignment(ids(1, 2))},
        states={A0: LeaderAndIsr(BrokerId(1), 4, ids(1, 2))},
    )


def planned(written, replicas=(1, 3)):
    target = Target(*A0, ids(*replicas))
    return reassignment_plan(
        observed(), Origin("blue", None), [[target]], throttle_bytes_per_s=throttle_or_headroom(written)
    )


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("auto:4=50/60", Headroom({BrokerId(4): Spare(50, 60)})),
        ("auto:*=100/90,4=50/60", Headroom({BrokerId(4): Spare(50, 60)}, Spare(100, 90))),
        ("auto:1=2/2, 2=3/3", Headroom({BrokerId(1): Spare(2, 2), BrokerId(2): Spare(3, 3)})),
        ("auto:5-9", ThrottleBand(5, 9)),
        (5, 5),
        (None, None),
    ],
)
def test_headroom_as_people_write_it(written, wanted):
    assert throttle_or_headroom(written) == wanted


@pytest.mark.parametrize(
    "written", ["4=50/60", "auto:4=50", "auto:4=0/60", "auto:4=50/1", "auto:x=5/6", "auto:4=5/6,4=7/8", "auto:4=5/6,", "auto:=5/6", 2**63, f"auto:1-{2**63}", f"auto:4={2**63}/60", "9" * 5000]
)  # fmt: skip
def test_other_headroom_is_refused_with_what_is_expected(written):
    with pytest.raises(ValueError, match=r"`auto:BROKER=NETWORK/DISK,…` \(`\*` for the other brokers\) or `none`, "):
        throttle_or_headroom(written)


@pytest.mark.parametrize(
    ("spare", "band"),
    [
        pytest.param(Spare(100, 1000), ThrottleBand(25, 100), id="the network is narrower"),
        pytest.param(Spare(100, 100), ThrottleBand(12, 50), id="half of the disks counts"),
        pytest.param(Spare(1, 2), ThrottleBand(1, 1), id="as little as can be"),
    ],
)
def test_the_band_of_what_a_broker_can_spare(spare, band):
    assert band_of(spare) == band


def test_the_narrowest_broker_of_the_plan_decides_and_the_approver_reads_why():
    made = planned("auto:1=900/9000,2=800/9000,*=700/1000,7=1/2")
    assert not isinstance(made, Refused)
    assert made.rules.throttle_bytes_per_s == ThrottleBand(125, 500)
    text = plan_markdown(made)
    assert "broker 3 least, 700 bytes per second of its network and 1,000 of its disks, of which half counts" in text
    assert "The rate begins at 125 bytes per second" in text


def test_a_broker_that_only_sends_counts_too():
    made = planned("auto:1=900/9000,2=40/9000,3=700/9000")
    assert not isinstance(made, Refused)
    assert made.rules.throttle_bytes_per_s == ThrottleBand(10, 40)


def test_a_broker_of_which_nothing_is_said_refuses_the_plan():
    made = planned("auto:1=900/9000,2=800/9000")
    assert isinstance(made, Refused)
    (reason,) = made.reasons
    assert str(reason) == (
        "the throttle from headroom: expected what each broker of the plan can spare, also [3], found nothing said of them; "
        "name them, or * for all others"
    )


def test_a_plan_that_moves_nothing_needs_no_headroom():
    made = planned("auto:9=5/6", replicas=(1, 2))
    assert not isinstance(made, Refused)
    assert (made.steps, made.rules.throttle_bytes_per_s) == ((), None)
