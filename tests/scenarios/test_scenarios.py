"""Every scenario file does what it says."""

from pathlib import Path
from typing import get_args

import pytest

from controller_core.messages import answers, effects, events
from tests.scenarios.world import World, blocks

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path, request):
    world, rewritten = World(), []
    rewrite = request.config.getoption("--rewrite", default=False)
    for block in blocks(path):
        found = world.perform(block)
        if rewrite and block.output is not None:
            block.output = found
        elif block.output is not None:
            assert found == block.output.strip("\n"), "\n".join(block.command)
        rewritten.append(block.text())
    if rewrite:
        path.write_text("\n".join(rewritten), encoding="utf-8")


@pytest.fixture(scope="module")
def worlds():
    worlds = []
    for path in FILES:
        world = World()
        for block in blocks(path):
            world.perform(block)
        worlds.append(world)
    return worlds


def test_every_command_has_a_scenario(worlds):
    told = set().union(*(world.told for world in worlds))
    answered = set().union(*(world.answered for world in worlds))
    assert set(get_args(events.Event)) - told == set()
    assert set(get_args(answers.Answer)) - answered == set()


def test_every_effect_has_a_scenario(worlds):
    asked = set().union(*(world.asked for world in worlds))
    assert set(get_args(effects.Effect)) - asked == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_begins_with_its_story_and_a_silent_set_up(path):
    first = next(blocks(path))
    assert first.head, "a sentence that says what happens"
    assert first.output is None
    assert first.command[0].startswith("given a cluster")


def test_the_flows_have_their_files():
    assert len(FILES) >= 40
