"""What the tests of this folder share."""

import pytest

from kafka_maintenance.operations.analysis.tables import CACHE


@pytest.fixture(autouse=True)
def nothing_kept():
    """Stores in memory have one address: what was read of one is no part of the next."""
    CACHE.clear()
