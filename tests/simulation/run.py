"""Runs of the simulation: one seed decides everything; a failing run is shortened to what makes it fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from controller_core.model.dialect import Dialect, dialect_for
from tests.simulation.actions import Action
from tests.simulation.invariants import Watchman
from tests.simulation.world import LOST_AFTER, LOST_BEFORE, World

VERSIONS = ("3.9", "3.9", "3.9", "2.8", "2.6", "2.4", "2.3", "2.1", "1.1")
TOPICS = ("a", "b", "c")
PROGRESS_ACTIONS_MAX = 25


class Setting(NamedTuple):
    """What is decided before the first action."""

    version: str
    broker_count: int
    unclean: bool


class Failure(NamedTuple):
    """A run that broke an invariant, or raised."""

    seed: int
    setting: Setting
    actions: tuple[Action, ...]
    problem: str

    def __str__(self) -> str:
        lines = [
            f"# seed {self.seed}: {self.problem}",
            f"given Kafka {self.setting.version}, brokers 0 to {self.setting.broker_count - 1} running"
            + (", unclean elections on" if self.setting.unclean else ""),
            *[f"{number:3}  {action}" for number, action in enumerate(self.actions, start=1)],
        ]
        return "\n".join(lines)


def simulate(seed: int, step_count: int) -> Failure | None:
    """One run of `step_count` steps, then every broker comes back; None when everything held."""
    draw = random.Random(seed)
    setting = Setting(draw.choice(VERSIONS), draw.randint(3, 5), draw.random() < 0.2)
    actions: list[Action] = []
    problem = _problem(lambda: _run(setting, draw, step_count, actions))
    if problem is None:
        return None
    shortest, problem = _shortened(setting, actions, problem)
    return Failure(seed, setting, tuple(shortest), problem)


def replay(setting: Setting, actions: Sequence[Action]) -> None:
    """Do exactly these actions, with all checks."""
    world, watchman = _start(setting)
    for action in actions:
        world.do(action)
        watchman.after_step()
    _finish(world, watchman)


def _run(setting: Setting, draw: random.Random, step_count: int, actions: list[Action]) -> None:
    world, watchman = _start(setting)
    for _ in range(step_count):
        for action in _step(draw, world):
            actions.append(action)
            world.do(action)
        watchman.after_step()
    _finish(world, watchman)


def _start(setting: Setting) -> tuple[World, Watchman]:
    config = {
        "delete.topic.enable": "true",
        "auto.leader.rebalance.enable": "false",
        "unclean.leader.election.enable": str(setting.unclean).lower(),
    }
    world = World(_dialect(setting), range(setting.broker_count), config)
    watchman = Watchman(world)
    for broker in world.broker_ids:
        world.do(Action("start", (broker,)))
    world.do(Action("settle"))
    watchman.after_step()
    return world, watchman


def _finish(world: World, watchman: Watchman) -> None:
    """Disks are repaired, every broker comes back, then each restarts once; what was asked for must then be done.

    The restarts are needed: Kafka takes up some blocked deletions and stale requests only when a broker or a controller
    starts (docs/simulation.md).
    """
    for broker, disk in world.cluster.disks.items():
        if disk.failed:
            disk.failed.clear()
            world.do(Action("stop", (broker,)))
    for broker in world.broker_ids:
        world.do(Action("start", (broker,)))
    world.do(Action("settle"))
    for broker in world.broker_ids:
        for kind in ("stop", "settle", "start", "settle"):
            world.do(Action(kind, () if kind == "settle" else (broker,)))
            watchman.after_step()
    watchman.at_the_end()


def _dialect(setting: Setting) -> Dialect:
    return dialect_for(setting.version)


# ---- what happens next -----------------------------------------------------------------------------------------------


def _step(draw: random.Random, world: World) -> list[Action]:
    kind = draw.random()
    if kind < 0.5:
        return [_progress(draw, world) for _ in range(draw.randint(1, PROGRESS_ACTIONS_MAX))]
    if kind < 0.6:
        return [Action("settle")]
    if kind < 0.82:
        return [_command(draw, world)]
    return [_fault(draw, world)]


def _progress(draw: random.Random, world: World) -> Action:
    nodes = world.nodes
    choices = [Action("advance", (broker,)) for broker, node in nodes.items() if node.controller.is_busy] * 3
    for broker, node in nodes.items():
        choices += [
            Action("deliver", (broker, to)) for to, queue in node.controller.channels.items() if queue and to in nodes
        ]
    choices += [Action("isr", (broker,)) for broker in nodes]
    return draw.choice(choices) if choices else Action("settle")


def _fault(draw: random.Random, world: World) -> Action:
    dead = [broker for broker in world.broker_ids if broker not in world.nodes]
    if dead and draw.random() < 0.5:
        return Action("start", (draw.choice(dead),))
    broker = draw.choice(world.broker_ids)
    kinds = ["stop", "stop", "lose", "lose", "fail dir"]
    if world.dialect.epoch_fencing:  # before 2.1 nothing stops a controller that does not know that it is out
        kinds += ["expire", "depose"]
    match draw.choice(kinds):
        case "lose":
            return Action("lose", (broker, draw.choice((LOST_BEFORE, LOST_AFTER))))
        case "fail dir":
            return Action("fail dir", (broker, draw.randrange(8)))
        case "depose":
            return Action("depose")
        case kind:
            return Action(kind, (broker,))


def _command(draw: random.Random, world: World) -> Action:
    topic = draw.choice(TOPICS)
    known = sorted(p for each in world.tools.list_topics() for p in world.tools.full_assignments(each))
    kinds = ["create", "grow", "delete", "rebalance", "shut down"]
    kinds += ["move", "move", "elect"] if known else ["create"] * 3
    match draw.choice(kinds):
        case "create":
            factor = draw.randint(1, 3)
            lists = tuple(_replicas(draw, world, factor) for _ in range(draw.randint(1, 3)))
            return Action("create", (topic, lists))
        case "grow":
            return Action("grow", (topic, _replicas(draw, world, draw.randint(1, 3))))
        case "delete":
            return Action("delete", (topic,))
        case "move":
            chosen = draw.sample(known, draw.randint(1, min(2, len(known))))
            targets = tuple((p.topic, p.partition, _replicas(draw, world, draw.randint(1, 3))) for p in chosen)
            return Action("move", (targets,))
        case "elect":
            chosen = draw.sample(known, draw.randint(1, len(known)))
            return Action("elect", (tuple((p.topic, p.partition) for p in chosen),))
        case "shut down":
            return Action("shut down", (draw.choice(world.broker_ids),))
        case _:
            return Action("rebalance")


def _replicas(draw: random.Random, world: World, count: int) -> tuple[int, ...]:
    return tuple(draw.sample(world.broker_ids, min(count, len(world.broker_ids))))


# ---- shorter ---------------------------------------------------------------------------------------------------------


def _problem(run: Callable[[], None]) -> str | None:
    try:
        run()
    except Exception as error:  # noqa: BLE001 -- whatever it raises is what was looked for
        return f"{type(error).__name__}: {error}"
    return None


def _shortened(setting: Setting, actions: Sequence[Action], problem: str) -> tuple[list[Action], str]:
    """Leaves out ever smaller pieces for as long as the run still fails."""
    shortest = list(actions)
    size = max(1, len(shortest) // 2)
    while size:
        start = 0
        while start < len(shortest):
            candidate = shortest[:start] + shortest[start + size :]
            found = _problem(lambda actions=candidate: replay(setting, actions))  # type: ignore[misc]  # a default binds it
            if found is not None:
                shortest, problem = candidate, found
            else:
                start += size
        size //= 2
    return shortest, problem
