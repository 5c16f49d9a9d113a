"""What is said of a topic that somebody uses, and what a plan makes of it."""

from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.plans import deletions
from kafka_maintenance.operations.plans.deletions import plan_deletions
from kafka_maintenance.operations.plans.topic_use import (
    NOBODY_ASKED,
    GroupUse,
    TopicUse,
    UseUnknownError,
    in_words,
    use_of_topics,
    why_in_use,
)
from tests.kafka_maintenance.kafka_world import three_brokers

MOMENT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
IDLE = TopicUse(0, None, written_since=False, groups=(), acls=None)
READ = IDLE._replace(groups=(GroupUse("billing", 2, has_offsets=True),))


@pytest.mark.parametrize(
    ("use", "why"),
    [
        pytest.param(IDLE, "", id="nobody"),
        pytest.param(READ, "members of group billing read it", id="a living group"),
        pytest.param(
            IDLE._replace(groups=(GroupUse("a", 0, has_offsets=True), GroupUse("b", 0, has_offsets=True))),
            "groups a, b committed offsets of it that are still kept", id="groups that left their offsets",
        ),
        pytest.param(
            IDLE._replace(newest=MOMENT, written_since=True),
            "was written to within 30 days, at 2026-11-21 03:00:00+00:00 last", id="a writer",
        ),
        pytest.param(IDLE._replace(written_since=True), "was written to within 30 days", id="a writer, before Kafka 3.0"),
        pytest.param(IDLE._replace(newest=MOMENT, acls=("User:a ALLOW READ from *",)), "", id="an old record, and an ACL"),
    ],
)  # fmt: skip
def test_use_is_a_reason(use, why):
    assert why_in_use(use) == why


def test_all_that_was_found_is_said():
    used = READ._replace(byte_count=7, newest=MOMENT, acls=("User:a ALLOW READ from *",))
    assert in_words(used) == (
        "7 bytes in one replica of each, newest record of 2026-11-21 03:00:00+00:00, groups: billing (2 members), "
        "ACLs: User:a ALLOW READ from *"
    )
    assert (
        in_words(IDLE) == "0 bytes in one replica of each, no record whose time is known, groups: none, ACLs not known"
    )
    many = IDLE._replace(groups=tuple(GroupUse(f"g{n}", 0, has_offsets=True) for n in range(7)), acls=())
    assert "g4 (0 members) and 2 more, ACLs: none" in in_words(many)


def deletion(monkeypatch, use, **what):
    world = three_brokers()
    world.topic("old", ((1, 2), 1, (1, 2)))
    world.topic("pay", ((1, 2), 1, (1, 2)))
    monkeypatch.setattr(deletions, "ask_use", lambda *_, **__: use)
    plan = plan_deletions(MemoryStore(), "demo", zookeeper=world.zookeeper(), topics=["old", "pay"], now=MOMENT, **what)
    assert plan is not None
    return plan.markdown


def test_a_topic_in_use_is_left_out_with_its_evidence(monkeypatch):
    text = deletion(monkeypatch, {"old": IDLE, "pay": READ}, brokers=BrokersAsked("b:1"))
    assert "* `pay: members of group billing read it; 0 bytes in one replica of each" in text
    assert "1 topic to delete in 1 step, 1 left out" in text
    assert "are deleted; 0 bytes in one replica of each, no record whose time is known, groups: none" in text
    assert NOBODY_ASKED not in text


def test_by_an_explicit_word_it_goes_and_the_approver_is_warned(monkeypatch):
    text = deletion(monkeypatch, {"old": IDLE, "pay": READ}, brokers=BrokersAsked("b:1"), even_if_used=True)
    assert "* `pay is in use: members of group billing read it." in text
    assert "2 topics to delete in 1 step" in text


def test_that_nobody_was_asked_is_said(monkeypatch):
    assert NOBODY_ASKED in deletion(monkeypatch, {})


def test_where_every_topic_is_in_use_nothing_is_planned(monkeypatch):
    with pytest.raises(RefusedError, match="no topic is eligible: old: members of group billing read it"):
        deletion(monkeypatch, {"old": READ, "pay": READ}, brokers=BrokersAsked("b:1"))


def test_nobody_listens():
    with pytest.raises(
        UseUnknownError, match=r"use of 1 topic asked of the brokers at 127\.0\.0\.1:1: .* every connection was refused"
    ):
        use_of_topics(BrokersAsked("127.0.0.1:1"), {"old": 1}, timeout_s=0.1)


@pytest.mark.parametrize("option", [("--unused-days", "3"), ("--client-settings", "c.json")])
def test_a_question_without_anybody_to_ask_is_refused(option, capsys):
    assert main(["plan", "deletions", "old", "--cluster", "c", "--store", "/nowhere", *option]) == 2
    assert "are for --bootstrap-servers, which is missing" in capsys.readouterr().err
