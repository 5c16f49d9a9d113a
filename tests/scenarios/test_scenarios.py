"""Every scenario file does what it says."""

from pathlib import Path
from typing import get_args

import pytest

from controller_core.messages import events
from tests.scenarios.world import World, blocks

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path, request):
    world, rewritten = World(), []
    rewrite = request.config.getoption("--rewrite", default=False)
    for block in blocks(path):
        found = world.perform(block)
        if rewrite:
            block.output = found
        else:
            assert found == block.output.strip("\n"), "\n".join(block.command)
        rewritten.append(block.text())
    if rewrite:
        path.write_text("\n".join(rewritten), encoding="utf-8")


def test_every_event_has_a_scenario():
    told = set()
    for path in FILES:
        world = World()
        for block in blocks(path):
            world.perform(block)
        told |= world.told
    assert set(get_args(events.Event)) == told
