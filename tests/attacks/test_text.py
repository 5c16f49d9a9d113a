"""Boundary: who may name topics, write configs or store a plan, against what an approver reads."""

import pytest
from msgspec import structs

from controller_core.plans.kinds import deletions_plan
from controller_core.plans.observation import TopicIdentity
from controller_core.plans.plan import LeftOut
from controller_core.plans.text import plan_markdown
from tests.controller_core.plans.observed import ORIGIN, planned, seen

HOSTILE = [
    pytest.param("<!-- the rest is hidden", id="an HTML comment"),
    pytest.param("x` approved", id="backticks"),
    pytest.param("x\n## Nothing is deleted\n", id="a heading of its own"),
    pytest.param("x\n```\n\n| 1 | `harmless` |", id="the end of a block"),
    pytest.param("\x1b[2J\x1b[1;1Hnothing to do", id="ESC sequences"),
    pytest.param("\u202egniteled ton", id="right to left"),
    pytest.param("y" * 10_000, id="10,000 characters"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_stranger_hides_or_forges_a_line(text):
    honest = planned(deletions_plan(seen(), ORIGIN, ["b"]))
    lines = plan_markdown(honest).count("\n")
    hostile = structs.replace(honest, predicted=(text,), risks=(text, text), left_out=(LeftOut(text, text),))
    shown = plan_markdown(hostile)
    assert shown.count("\n") <= lines + 4
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    for line in shown.split("\n"):
        assert line.count("`") % 2 == 0 or line == "```"
        outside = "".join(line.split("`")[::2])
        assert "<" not in outside
        assert "approved" not in outside
        assert len(line) < 5_000


def test_of_a_thousand_deletions_not_one_is_hidden():
    topics = {f"t{number}": TopicIdentity(number, 1) for number in range(1_000)}
    shown = plan_markdown(planned(deletions_plan(seen(topics=topics), ORIGIN, sorted(topics))))
    assert all(f"`{name}`" in shown for name in topics)
    assert "1000 **topics DELETED with their data**" in shown.split("## What will change")[0]
