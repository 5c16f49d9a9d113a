"""How many of what, and the first of many, in words."""

import pytest

from controller_core.model.words import counted, first_lines, first_names, first_reasons


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 clusters"), (1, "1 cluster"), (2, "2 clusters"), (12_345, "12,345 clusters")]
)
def test_one_has_no_plural(number, said):
    assert counted(number, "cluster") == said


@pytest.mark.parametrize(
    ("values", "names", "reasons", "lines"), [
        pytest.param((), "", "", (), id="nothing"),
        pytest.param((1, 2), "1, 2", "1; 2", ("1", "2"), id="as many as are shown"),
        pytest.param((1, 2, 3), "1, 2 and 1 more", "1; 2; and 1 more", ("1", "2", "… and 1 more"), id="one more"),
    ],
)  # fmt: skip
def test_the_first_are_shown_and_the_others_are_counted(values, names, reasons, lines):
    assert (first_names(values, 2), first_reasons(values, 2), first_lines(values, 2)) == (names, reasons, lines)


def test_only_a_line_that_is_shown_is_made_a_text():
    assert first_lines((1, 1, 0), 2, text=lambda value: f"{1 // value}") == ("1", "1", "… and 1 more")
