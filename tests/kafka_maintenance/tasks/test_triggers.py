"""What waits in the triggerer."""

import asyncio
from types import SimpleNamespace

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import StoreUnreachableError, ZooKeeperUnreachableError
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes.paths import REASSIGN_PARTITIONS
from kafka_maintenance.operations.apply.executions import request_stop
from kafka_maintenance.operations.errors import StillUnderWayError
from tests.kafka_maintenance.operations.apply.applying import NOW, apply, moves, planned


@pytest.fixture
def waiting(monkeypatch):
    """A step that Kafka works at, and the trigger that waits for it."""
    from kafka_maintenance import hooks
    from kafka_maintenance.tasks.triggers import ExecutionTrigger

    store, world, plan = planned(moves)
    world.hangs = True
    with pytest.raises(StillUnderWayError):
        apply(store, plan, world, patience_s=0.0, step_timeout_s=600.0)
    monkeypatch.setattr(hooks, "store", lambda: store)
    monkeypatch.setattr(hooks, "cluster", lambda _: SimpleNamespace(address=world.zookeeper()))
    trigger = ExecutionTrigger(
        cluster="demo", kind="reassign_partitions", digest=plan.digest, step=0, look_every_s=0.01, wake_after_s=30.0
    )
    return SimpleNamespace(store=store, world=world, plan=plan, trigger=trigger, hooks=hooks)


def event_of(trigger):
    async def first():
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(first())
    return event.payload


def test_it_is_made_again_from_what_is_stored(waiting):
    from airflow.sdk.module_loading import import_string

    path, arguments = waiting.trigger.serialize()
    assert import_string(path)(**arguments).serialize() == (path, arguments)
    assert set(arguments) == {"cluster", "kind", "digest", "step", "look_every_s", "wake_after_s"}


def test_a_turn_is_waited_for_by_what_is_stored_and_one_that_cannot_be_looked_for_waits(waiting, monkeypatch):
    from kafka_maintenance.tasks.triggers import TurnTrigger

    names = {"cluster": "demo", "kind": "reassign_partitions", "digest": waiting.plan.digest}
    turn = TurnTrigger(**names, look_every_s=0.01, wake_after_s=30.0)
    assert TurnTrigger(**turn.serialize()[1]).serialize() == turn.serialize()
    assert turn._look() is None, "a request stands"
    waiting.world.own.set(REASSIGN_PARTITIONS, b'{"version":1,"partitions":[]}', ANY_VERSION)
    assert turn._look() is None, "it stands, shorter: Kafka rewrites it while its partitions finish"
    monkeypatch.setattr(waiting.hooks, "cluster", no_answer)
    assert (turn._look(), turn.nobody_answers) == (None, True)
    monkeypatch.setattr(waiting.hooks, "cluster", lambda _: SimpleNamespace(address=waiting.world.zookeeper()))
    waiting.world.wake()
    assert event_of(turn) == "what was at work on the cluster is over"
    other = TurnTrigger(**names, wake_after_s=0.0)
    monkeypatch.setattr(waiting.hooks, "store", MemoryStore)
    assert event_of(other) == "time to see whether the cluster is still busy"


def no_answer(_):
    raise ZooKeeperUnreachableError("no answer")


def test_it_ends_when_kafka_has_finished(waiting):
    waiting.world.wake()
    assert event_of(waiting.trigger) == "Kafka has finished the step"


def test_it_ends_when_somebody_asks_the_run_to_end(waiting):
    request_stop(waiting.store, "demo", waiting.plan.digest, by="ben", reason="lunch", now=NOW.replace(hour=4))
    assert event_of(waiting.trigger) == "somebody asked for its end"


def test_it_ends_now_and_then_so_that_progress_is_recorded(waiting):
    waiting.trigger.wake_after_s = 0.0
    assert event_of(waiting.trigger) == "time to record how far the step is"


@pytest.mark.parametrize("wake_after_s", [0.0, 30.0])
@pytest.mark.parametrize("away", [ZooKeeperUnreachableError("no answer"), StoreUnreachableError("no answer")])
def test_who_does_not_answer_is_asked_again_and_no_worker_is_woken_before(waiting, monkeypatch, away, wake_after_s):
    """A worker would find the same, and after some tries its task would fail, though the plan was begun."""
    waiting.trigger.wake_after_s = wake_after_s
    answers = iter([away, away, None])

    def cluster(_):
        if (error := next(answers, None)) is not None:
            raise error
        waiting.world.wake()
        return SimpleNamespace(address=waiting.world.zookeeper())

    monkeypatch.setattr(waiting.hooks, "cluster", cluster)
    assert event_of(waiting.trigger) == "Kafka has finished the step"


def test_a_worker_is_woken_to_say_what_is_wrong_with_a_plan_that_is_gone(waiting, monkeypatch):
    waiting.trigger.wake_after_s = 0.0
    monkeypatch.setattr(waiting.hooks, "store", MemoryStore)
    assert event_of(waiting.trigger) == "time to record how far the step is"


def test_plan_and_record_are_read_once(waiting, monkeypatch):
    waiting.world.wake()
    assert event_of(waiting.trigger) == "Kafka has finished the step"
    monkeypatch.setattr(waiting.hooks, "store", lambda: _Forgetful(waiting.store))
    assert event_of(waiting.trigger) == "Kafka has finished the step"


class _Forgetful(MemoryStore):
    """The same store without its plans and records."""

    def __init__(self, store):
        super().__init__()
        self._objects = {key: data for key, data in store._objects.items() if "/stops/" in key}
