"""A plan as a person reads it."""

import pytest

from controller_core.model.partitions import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.plans.kinds import Origin, deletions_plan, drain_plan, elections_plan, reassignment_plan
from controller_core.plans.observation import Observation, TopicIdentity
from controller_core.plans.plan import LeftOut
from controller_core.plans.request_znodes import Target
from controller_core.plans.text import plan_markdown, plan_size
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, OLD, ORIGIN, planned, seen


def test_a_plan_in_words_names_before_and_after():
    text = plan_markdown(planned(elections_plan(seen(), ORIGIN, [A0], left_out=[LeftOut("a-1", "lags")])))
    assert "# Elect preferred leaders on `demo`\n\n1 election in 1 step, 1 left out.\n" in text
    assert "| 1 | `a-0` | `2` | `1` | `1, 2` |" in text
    assert "* `a-1: lags`" in text
    assert "made from | `s3://b/v1/manifest.json`" in text


@pytest.mark.parametrize(
    ("made", "row", "size"),
    [
        pytest.param(
            reassignment_plan(seen(), Origin("demo"), [[Target(*A0, ids(3, 1))]]), "| 1 | `a-0` | `1, 2` | `3, 1` |", 1, id="moves"
        ),
        pytest.param(deletions_plan(seen(), Origin("demo"), ["b"]), "| 1 | `b` | `1` | `0xa` |", 1, id="deletions"),
        pytest.param(
            drain_plan(seen(notifications=(OLD,)), Origin("demo"), now_ms=60_000), "| 1 | `delete   /controller  of broker 1", 1,
            id="drain",
        ),
    ],
)  # fmt: skip
def test_each_kind_has_its_table(made, row, size):
    text = plan_markdown(planned(made))
    assert row in text
    assert "made from | a live read" in text
    assert plan_size(planned(made)) == size


def _moved(count: int) -> Observation:
    """So many topics of one partition, on the brokers 1 and 2."""
    names = [TopicPartition(f"t{n}", 0) for n in range(count)]
    return seen(
        topics={each.topic: TopicIdentity(9, 1) for each in names},
        assignments=dict.fromkeys(names, ReplicaAssignment(ids(1, 2))),
        states=dict.fromkeys(names, LeaderAndIsr(BrokerId(2), 4, ids(2, 1))),
    )


def test_long_tables_are_cut_and_say_how_many_of_what_are_not_shown():
    observed = _moved(5)
    text = plan_markdown(planned(elections_plan(observed, ORIGIN, list(observed.assignments))), rows_max=2)
    assert "* `/admin/preferred_replica_election`: 5 elections\n" in text
    assert "**3 of 5 elections are not shown here**" in text
    assert "… 3 of 5 predictions are not shown here" in text
    assert "… 4 of 6 lines of this step are not shown here" in text


def test_what_is_deleted_is_listed_in_full():
    topics = {f"t{n}": TopicIdentity(n, 1) for n in range(5)}
    plan = planned(deletions_plan(seen(topics=topics), ORIGIN, sorted(topics), topic_count_max=2))
    text = plan_markdown(plan, rows_max=1)
    assert "5 **topics DELETED with their data**" in text
    assert text.count("create   /admin/delete_topics/t") == text.count("| `t") == 5
    assert "not shown" not in text


def test_of_many_steps_the_first_requests_are_shown():
    observed = _moved(5)
    plan = planned(elections_plan(observed, ORIGIN, list(observed.assignments), partition_count_max=1))
    text = plan_markdown(plan, rows_max=3)
    assert "Step 2" in text
    assert "3 more steps are in the stored plan." in text
    assert "Step 3" not in text
