"""Runs of the simulation: one seed decides everything; a failing run is shortened to what makes it fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from controller_core.model.dialect import Dialect, dialect_for
from tests.simulation.deeds import Deed
from tests.simulation.invariants import Watchman
from tests.simulation.world import LOST_AFTER, LOST_BEFORE, World

VERSIONS = ("3.9", "3.9", "3.9", "2.8", "2.6", "2.4", "2.3", "2.1", "1.1")
TOPICS = ("a", "b", "c")
PROGRESS_DEEDS_MAX = 25


class Setting(NamedTuple):
    """What is decided before the first deed."""

    version: str
    broker_count: int
    unclean: bool


class Failure(NamedTuple):
    """A run that broke an invariant, or raised."""

    seed: int
    setting: Setting
    deeds: tuple[Deed, ...]
    problem: str

    def __str__(self) -> str:
        lines = [
            f"# seed {self.seed}: {self.problem}",
            f"given Kafka {self.setting.version}, brokers 0 to {self.setting.broker_count - 1} running"
            + (", unclean elections on" if self.setting.unclean else ""),
            *[f"{number:3}  {deed}" for number, deed in enumerate(self.deeds, start=1)],
        ]
        return "\n".join(lines)


def simulate(seed: int, step_count: int) -> Failure | None:
    """One run of `step_count` steps, then every broker comes back; None when everything held."""
    draw = random.Random(seed)
    setting = Setting(draw.choice(VERSIONS), draw.randint(3, 5), draw.random() < 0.2)
    deeds: list[Deed] = []
    problem = _problem(lambda: _run(setting, draw, step_count, deeds))
    if problem is None:
        return None
    shortest, problem = _shortened(setting, deeds, problem)
    return Failure(seed, setting, tuple(shortest), problem)


def replay(setting: Setting, deeds: Sequence[Deed]) -> None:
    """Do exactly these deeds, with all checks."""
    world, watchman = _start(setting)
    for deed in deeds:
        world.do(deed)
        watchman.after_step()
    _finish(world, watchman)


def _run(setting: Setting, draw: random.Random, step_count: int, deeds: list[Deed]) -> None:
    world, watchman = _start(setting)
    for _ in range(step_count):
        for deed in _step(draw, world):
            deeds.append(deed)
            world.do(deed)
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
        world.do(Deed("start", (broker,)))
    world.do(Deed("settle"))
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
            world.do(Deed("stop", (broker,)))
    for broker in world.broker_ids:
        world.do(Deed("start", (broker,)))
    world.do(Deed("settle"))
    for broker in world.broker_ids:
        for kind in ("stop", "settle", "start", "settle"):
            world.do(Deed(kind, () if kind == "settle" else (broker,)))
            watchman.after_step()
    watchman.at_the_end()


def _dialect(setting: Setting) -> Dialect:
    return dialect_for(setting.version)


# ---- what happens next -----------------------------------------------------------------------------------------------


def _step(draw: random.Random, world: World) -> list[Deed]:
    kind = draw.random()
    if kind < 0.5:
        return [_progress(draw, world) for _ in range(draw.randint(1, PROGRESS_DEEDS_MAX))]
    if kind < 0.6:
        return [Deed("settle")]
    if kind < 0.82:
        return [_command(draw, world)]
    return [_fault(draw, world)]


def _progress(draw: random.Random, world: World) -> Deed:
    nodes = world.nodes
    choices = [Deed("advance", (broker,)) for broker, node in nodes.items() if node.controller.is_busy] * 3
    for broker, node in nodes.items():
        choices += [
            Deed("deliver", (broker, to)) for to, queue in node.controller.channels.items() if queue and to in nodes
        ]
    choices += [Deed("isr", (broker,)) for broker in nodes]
    return draw.choice(choices) if choices else Deed("settle")


def _fault(draw: random.Random, world: World) -> Deed:
    dead = [broker for broker in world.broker_ids if broker not in world.nodes]
    if dead and draw.random() < 0.5:
        return Deed("start", (draw.choice(dead),))
    broker = draw.choice(world.broker_ids)
    kinds = ["stop", "stop", "lose", "lose", "fail dir"]
    if world.dialect.epoch_fencing:  # before 2.1 nothing stops a controller that does not know that it is out
        kinds += ["expire", "depose"]
    match draw.choice(kinds):
        case "lose":
            return Deed("lose", (broker, draw.choice((LOST_BEFORE, LOST_AFTER))))
        case "fail dir":
            return Deed("fail dir", (broker, draw.randrange(8)))
        case "depose":
            return Deed("depose")
        case kind:
            return Deed(kind, (broker,))


def _command(draw: random.Random, world: World) -> Deed:
    topic = draw.choice(TOPICS)
    known = sorted(p for each in world.tools.list_topics() for p in world.tools.full_assignments(each))
    kinds = ["create", "grow", "delete", "rebalance", "shut down"]
    kinds += ["move", "move", "elect"] if known else ["create"] * 3
    match draw.choice(kinds):
        case "create":
            factor = draw.randint(1, 3)
            lists = tuple(_replicas(draw, world, factor) for _ in range(draw.randint(1, 3)))
            return Deed("create", (topic, lists))
        case "grow":
            return Deed("grow", (topic, _replicas(draw, world, draw.randint(1, 3))))
        case "delete":
            return Deed("delete", (topic,))
        case "move":
            chosen = draw.sample(known, draw.randint(1, min(2, len(known))))
            targets = tuple((p.topic, p.partition, _replicas(draw, world, draw.randint(1, 3))) for p in chosen)
            return Deed("move", (targets,))
        case "elect":
            chosen = draw.sample(known, draw.randint(1, len(known)))
            return Deed("elect", (tuple((p.topic, p.partition) for p in chosen),))
        case "shut down":
            return Deed("shut down", (draw.choice(world.broker_ids),))
        case _:
            return Deed("rebalance")


def _replicas(draw: random.Random, world: World, count: int) -> tuple[int, ...]:
    return tuple(draw.sample(world.broker_ids, min(count, len(world.broker_ids))))


# ---- shorter ---------------------------------------------------------------------------------------------------------


def _problem(run: Callable[[], None]) -> str | None:
    try:
        run()
    except Exception as error:  # noqa: BLE001 -- whatever it raises is what was looked for
        return f"{type(error).__name__}: {error}"
    return None


def _shortened(setting: Setting, deeds: Sequence[Deed], problem: str) -> tuple[list[Deed], str]:
    """Leaves out ever smaller pieces for as long as the run still fails."""
    shortest = list(deeds)
    size = max(1, len(shortest) // 2)
    while size:
        start = 0
        while start < len(shortest):
            candidate = shortest[:start] + shortest[start + size :]
            found = _problem(lambda deeds=candidate: replay(setting, deeds))  # type: ignore[misc]  # a default binds it
            if found is not None:
                shortest, problem = candidate, found
            else:
                start += size
        size //= 2
    return shortest, problem
