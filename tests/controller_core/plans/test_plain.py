"""Text of strangers: it cannot hide a line, forge one, or order a terminal about."""

import pytest

from controller_core.plans.plain import code, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("orders-0", "orders-0", id="a name stays"),
        pytest.param("Grüße → 7", "Grüße → 7", id="letters of other languages stay"),
        pytest.param("a\n## Approved", r"a\n## Approved", id="a line of its own"),
        pytest.param("\x1b[2J\x1b[1A", r"\x1b[2J\x1b[1A", id="ESC sequences"),
        pytest.param("a\u202eb", r"a\u202eb", id="right to left"),
        pytest.param("a\u200bb", r"a\u200bb", id="no width"),
        pytest.param("a\ud800", r"a\ud800", id="half a character"),
    ],
)
def test_what_is_not_printable_is_its_escape(text, shown):
    assert plain(text) == shown


def test_long_text_is_cut_and_says_so():
    assert plain("x" * 10_000, letters_max=3) == "xxx… (9997 more characters)"


@pytest.mark.parametrize("text", ["<!-- hidden", "a ` b", "```", "a | b", "[x](http://y)", "**bold**"])
def test_a_code_span_is_closed_by_us_alone(text):
    shown = code(text)
    assert shown[0] == shown[-1] == "`"
    assert not {"`", "|"} & set(shown[1:-1])
