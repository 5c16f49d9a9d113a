"""A store in memory for each test of an operation; a module or folder may have its own."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore


@pytest.fixture
def store(request):
    return MemoryStore(request.node.name)
