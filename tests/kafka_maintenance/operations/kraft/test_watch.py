"""What the watch advises from two looks at a tree, and what it refuses."""

from datetime import timedelta
from unittest.mock import Mock

import pytest

from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.asked import NoBrokerAnsweredError
from kafka_maintenance.operations.kraft.brokers_say import Told, Topic
from kafka_maintenance.operations.kraft.drift import LogSays
from kafka_maintenance.operations.kraft.watch import (
    Advice,
    Seen,
    judge,
    judgement_text,
    settled,
    watch,
)
from spark_jobs.kraft.tree import Tree, Znode
from tests.kafka_maintenance.operations.kraft.trees import (
    GONE,
    KRAFT,
    MIGRATION,
    NOW,
    STATE,
    TOPIC,
    config,
    state,
    topic,
    tree,
)

STARTED = {"/migration": {**MIGRATION, "kraft_metadata_offset": -1}}
CLAIMED = {**STARTED, "/controller": KRAFT}
HYBRID = {"/migration": MIGRATION, "/controller": KRAFT}
ALL_GONE = {**HYBRID, "/brokers/ids/1": GONE, "/brokers/ids/2": GONE}
KRAFT_BROKERS = {1: False, 2: False}


def seen(changes, after_s=0, version=0):
    found = tree(changes)
    znodes = dict(found.znodes)
    if "/migration" in znodes:
        znodes["/migration"] = Znode(znodes["/migration"].data, version)
    return Seen(Tree(znodes), NOW + timedelta(seconds=after_s))


def advised(changes, *, after_s=6, rises=True, registrations=None):
    return judge(seen(changes), seen(changes, after_s, version=9 if rises else 0), registrations)


@pytest.mark.parametrize(
    ("changes", "options", "advice"),
    [
        pytest.param({}, {}, Advice.GO, id="P0"),
        pytest.param({"/admin/reassign_partitions": b"{}"}, {}, Advice.WAIT, id="P0, a request is pending"),
        pytest.param({STATE: state(isr=[1])}, {}, Advice.WAIT, id="P0, a replica is not in sync"),
        pytest.param(STARTED, {}, Advice.GO, id="P1"),
        pytest.param({**STARTED, "/brokers/ids/2": GONE}, {}, Advice.WAIT, id="P2, a broker is being rolled"),
        pytest.param(CLAIMED, {}, Advice.WAIT, id="claimed for seconds"),
        pytest.param(CLAIMED, {"after_s": 61}, Advice.GO_BACK, id="claimed for a minute: the copy died"),
        pytest.param(HYBRID, {}, Advice.GO, id="P3"),
        pytest.param(HYBRID, {"rises": False}, Advice.GO_BACK, id="P3, /migration stands still"),
        pytest.param(HYBRID, {"rises": False, "after_s": 2}, Advice.WAIT, id="P3, looked too shortly"),
        pytest.param({**HYBRID, "/admin/delete_topics/orders": None}, {}, Advice.WAIT, id="P3, somebody else writes"),
        pytest.param({**HYBRID, "/brokers/topics/t2": topic(1)}, {}, Advice.WAIT, id="P3, somebody made a topic: it has no states"),
        pytest.param({**HYBRID, "/config/topics/t2": config()}, {}, Advice.WAIT, id="P3, somebody left a config without its topic"),
        pytest.param({**HYBRID, "/brokers/ids/2": GONE}, {}, Advice.GO, id="P4: a broker that is not in /brokers/ids is no outage"),
        pytest.param({**HYBRID, "/brokers/ids/2": GONE, STATE: state(isr=[1])}, {}, Advice.WAIT, id="P4, a replica is not in sync"),
        pytest.param(ALL_GONE, {"registrations": KRAFT_BROKERS}, Advice.GO, id="P5"),
        pytest.param(ALL_GONE, {}, Advice.WAIT, id="P5, registrations are not known"),
        pytest.param(ALL_GONE, {"registrations": {1: False, 2: True}}, Advice.WAIT, id="P5, one is still registered as a ZooKeeper broker"),
        pytest.param(ALL_GONE, {"registrations": {1: False}}, Advice.WAIT, id="P5, one is not registered"),
        pytest.param(ALL_GONE, {"registrations": KRAFT_BROKERS, "rises": False}, Advice.WAIT, id="P5 or P6, /migration stands still"),
        pytest.param({"/migration": MIGRATION}, {}, Advice.GO_BACK, id="a /migration left over"),
    ],
)  # fmt: skip
def test_what_is_advised(changes, options, advice):
    found = advised(changes, **options)
    assert found.advice is advice
    assert found.advice is Advice.GO or found.reasons
    assert judgement_text(found).startswith(advice.value.upper())


def test_finalise_is_never_advised_before_all_brokers_are_kraft_brokers():
    for changes in ({}, STARTED, CLAIMED, HYBRID, {**HYBRID, "/brokers/ids/2": GONE}):
        assert "finalise" not in advised(changes, registrations=KRAFT_BROKERS).next_step
    assert "finalise" in advised(ALL_GONE, registrations=KRAFT_BROKERS).next_step


def test_a_claim_that_lasts_is_told_over_many_looks():
    looks = iter([seen({}), seen(STARTED, 10), *(seen(CLAIMED, 20 + 20 * number) for number in range(5))])
    found = watch(lambda: next(looks), lambda: None, None)
    assert [next(found).advice for _ in range(6)] == [Advice.GO, *[Advice.WAIT] * 3, *[Advice.GO_BACK] * 2]


def test_one_look_of_the_dag_waits_until_a_claim_has_ended_or_lasted():
    claims = [seen(CLAIMED, 20 * number) for number in range(6)]
    assert settled(watch(iter(claims).__next__, lambda: None, None)).advice is Advice.GO_BACK
    copied = [*claims[:2], seen(HYBRID, 30, 1), seen(HYBRID, 40, 2)]
    assert settled(watch(iter(copied).__next__, lambda: None, None)).advice is Advice.GO


def test_the_topics_of_a_moving_reassignment_are_named():
    changes = {TOPIC: topic(1, 2, adding_replicas={"0": [2]})}
    assert "adding [2]" in judgement_text(advised(changes))


@pytest.mark.parametrize(
    ("changes", "log", "since", "advice"),
    [
        pytest.param(HYBRID, {("orders", 0): (1, 2)}, {}, Advice.GO, id="all there, both the same"),
        pytest.param({**HYBRID, TOPIC: topic(1), STATE: state(isr=[1])}, None, {}, Advice.WAIT, id="a replica was lost"),
        pytest.param(HYBRID, {("orders", 0): (1, 3)}, {}, Advice.WAIT, id="the metadata log says otherwise"),
        pytest.param({}, {("orders", 0): (1, 3)}, {}, Advice.GO, id="P0: the metadata log says nothing yet"),
        pytest.param({"/migration": MIGRATION}, None, {"/brokers/topics/t2": topic(1)}, Advice.GO_BACK, id="the way back stays the way back"),
    ],
)  # fmt: skip
def test_what_is_lost_or_differs_is_a_reason_to_wait(changes, log, since, advice):
    looks = iter([seen(changes), seen(changes, 6, 9)])
    says = None if log is None else lambda: LogSays(KRAFT_BROKERS, log)
    found = next(watch(looks.__next__, lambda: None, says, tree(since)))
    assert found.advice is advice
    assert (advice is Advice.GO) == (not found.reasons)


def test_a_copy_of_the_log_that_is_renewed_is_read_again():
    looks = iter([seen(ALL_GONE), *(seen(ALL_GONE, 6 * number, number) for number in (1, 2, 3))])
    replicas = {("orders", 0): (1, 2)}
    one_left, torn, finished = (
        LogSays({1: False, 2: True}, replicas),
        BadInputError("found none"),
        LogSays(KRAFT_BROKERS, replicas),
    )
    found = watch(looks.__next__, lambda: None, Mock(side_effect=[one_left, torn, finished]))
    assert [next(found).advice for _ in range(2)] == [Advice.WAIT] * 2
    assert next(found).advice is Advice.GO


def test_a_log_that_cannot_be_read_is_a_reason_to_wait():
    looks = iter([seen(HYBRID), seen(HYBRID, 6, 9)])
    found = next(watch(looks.__next__, lambda: None, Mock(side_effect=FileNotFoundError("00.log"))))
    assert (found.advice, found.reasons) == (Advice.WAIT, ("what the metadata log says is not known: 00.log",))


BOTH = {"orders": Topic("bXktdG9waWMtb25lLTAwMQ", {0: Told(1, (1, 2))})}


@pytest.mark.parametrize(
    ("answers", "advice", "reason"),
    [
        pytest.param([BOTH, BOTH], Advice.GO, None, id="they agree"),
        pytest.param([{}, {}], Advice.GO_BACK, "the brokers tell clients of none of 1 topic: nothing", id="clients are cut off"),
        pytest.param([{}, BOTH], Advice.GO, None, id="cut off for one look"),
        pytest.param([NoBrokerAnsweredError("nobody")] * 2, Advice.WAIT, "nobody", id="nobody answers"),
        pytest.param([{"orders": Topic("b" * 22, {0: Told(1, (1, 2))})}] * 2, Advice.WAIT, "id bXktdG9waWMtb25lLTAwMQ in ZooKeeper", id="another id"),
        pytest.param([{"orders": Topic(None, {0: Told(1, (2, 1))})}] * 2, Advice.WAIT, "orders-0: replicas [1, 2] in ZooKeeper, [2, 1] on the brokers", id="other replicas"),
        pytest.param([{"orders": Topic(None, {0: Told(2, (1, 2))})}] * 2, Advice.WAIT, "orders-0: leader 1 in ZooKeeper, 2 on the brokers", id="another leader"),
        pytest.param([{"orders": Topic(None, {0: Told(2, (1, 2))})}, BOTH], Advice.GO, None, id="a leader that ZooKeeper learns late"),
        pytest.param([{"orders": Topic(None, {0: Told(2, (1, 2))})}, {"orders": Topic(None, {0: Told(1, (2, 1))})}], Advice.GO, None, id="another difference in each look"),
        pytest.param([{"orders": Topic(None, {})}] * 2, Advice.WAIT, "orders-0: only ZooKeeper knows of it", id="no partition"),
        pytest.param([{**BOTH, "new": Topic(None, {})}] * 2, Advice.WAIT, "new: only the brokers tell of it", id="a topic that is not in ZooKeeper"),
    ],
)  # fmt: skip
def test_what_brokers_tell_clients_is_held_against_the_tree(answers, advice, reason):
    looks = iter([seen(HYBRID, after_s=6 * turn, version=turn) for turn in range(3)])
    told = iter(answers)

    def ask():
        found = next(told)
        if isinstance(found, Exception):
            raise found
        return found

    judgements = watch(lambda: next(looks), lambda: None, ask=ask)
    first = next(judgements)
    assert first.again == (answers[0] != BOTH and not isinstance(answers[0], Exception))
    second = next(judgements)
    assert second.advice is advice
    assert [each for each in second.reasons if reason and reason in each] == list(second.reasons)
    assert bool(second.reasons) == bool(reason)


def test_before_the_copy_no_broker_is_asked():
    looks = iter([seen({}), seen({}, after_s=6)])
    assert next(watch(lambda: next(looks), lambda: None, ask=lambda: 1 / 0)).advice is Advice.GO
