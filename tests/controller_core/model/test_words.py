"""How many of what, in words."""

import pytest

from controller_core.model.words import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 clusters"), (1, "1 cluster"), (2, "2 clusters"), (12_345, "12,345 clusters")]
)
def test_one_has_no_plural(number, said):
    assert counted(number, "cluster") == said
