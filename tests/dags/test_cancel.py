"""The DAG `cancel_execution`: shows first, cancels with the digest, under the policy."""

from types import SimpleNamespace

import pytest

from kafka_maintenance import hooks
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from tests.kafka_maintenance.operations.apply.cancelled import brokers_of, under_way


@pytest.fixture
def begun(bag, monkeypatch):
    """A plan that is under way; the task's function; the run's context."""
    from kafka_maintenance.tasks import cancel

    store, world, plan = under_way()
    named = SimpleNamespace(
        address=world.zookeeper(), write_connection=None, bootstrap_servers="b:1", client_settings={}
    )
    run = SimpleNamespace(dag_id="cancel_execution", run_type="manual", triggering_user_name="ann", clear_number=0)
    monkeypatch.setattr(hooks, "store", lambda: store)
    monkeypatch.setattr(hooks, "cluster", lambda _: named)
    monkeypatch.setattr(cancel, "context_of_run", lambda: {"dag_run": run})
    function = bag.dags["cancel_execution"].get_task("cancel_moves").python_callable
    return SimpleNamespace(function=function, world=world, plan=plan, named=named, run=run)


def test_a_run_without_a_digest_shows_and_a_second_one_cancels(begun, monkeypatch):
    asked = brokers_of(monkeypatch, begun.world)
    shown = begun.function("demo", None, None, "too slow")
    assert (shown["plan"], shown["cancelled"], asked) == (begun.plan.digest, False, [])
    assert begun.function("demo", None, shown["approve"], "too slow")["cancelled"]
    assert len(asked) == 2


def test_nobody_by_name_and_no_brokers_cancel_nothing(begun, monkeypatch):
    asked = brokers_of(monkeypatch, begun.world)
    digest = begun.function("demo", None, None, "too slow")["approve"]
    for started in ({"run_type": "scheduled"}, {"run_type": "manual", "clear_number": 1}):
        vars(begun.run).update(started)
        with pytest.raises(RefusedError, match="or it was cleared since, and nobody vouches for a person"):
            begun.function("demo", begun.plan.digest, digest, "too slow")
    begun.run.clear_number, begun.named.bootstrap_servers = 0, None
    with pytest.raises(BadInputError, match="names no bootstrap_servers"):
        begun.function("demo", begun.plan.digest, digest, "too slow")
    assert asked == []
