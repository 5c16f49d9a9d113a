"""The gated restore: after a person's yes to exactly that plan a deleted config comes back or quotas are corrected, and nothing else."""

import json
import os
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from tests.dags.connections import airflow_knows
from tests.dags.runs import answered_by, answering, clear_task, go_on
from tests.kafka_maintenance import snapshot_world as world

pytestmark = pytest.mark.services


@pytest.fixture
def wounded(monkeypatch, tmp_path):
    """A snapshot of `alpha`, and its ZooKeeper from which a config is gone."""
    from kafka_maintenance.operations.snapshots.take import take_snapshot
    from kafka_maintenance.servers import ZooKeeperServer

    with ZooKeeperServer() as server, world.session(server.hosts) as session:
        airflow_knows(monkeypatch, tmp_path, alpha={"host": server.hosts})
        world.fill(session)
        session.set("/config/users/bob", b'{"version":1,"config":{"consumer_byte_rate":"4096","no_such_rate":"5"}}', -1)
        take_snapshot(
            address=ClusterAddress(server.hosts),
            cluster="alpha",
            store=open_store(str(tmp_path)),
            run_id="r",
            now=datetime.now(UTC),
        )
        session.delete("/config/topics/orders", -1)
        yield session


def run_plan(bag, **conf):
    run = bag.dags["restore_metadata"].test(
        run_conf={"cluster": "alpha", "kraft_repairs": False, **conf}, logical_date=None
    )
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def _look_and_approve(clients):
    def act(gate):
        answered_by(clients["olivia"], "Approve")(gate)
        return gate

    return act


def test_an_approved_restore_brings_back_what_the_gate_showed(bag, clients, wounded, tmp_path):
    with answering(clients, "restore_metadata", _look_and_approve(clients)) as seen:
        states = run_plan(bag, configs=["topics/*"])
    assert states == dict.fromkeys(("plan_restore", "approve", "apply_restore", "verify_restore"), "success")
    gate = seen.result()
    shown = {"dag_id": "restore_metadata", "run_id": gate["task_instance"]["dag_run_id"]}
    page = clients["victor"].get("/kafka-maintenance/plan", params=shown).text
    assert "Differences to write" in page
    assert "/config/topics/orders" in page
    assert gate["subject"].startswith("restore on alpha: restore a part, 1 created, 0 set, 0 deleted, 0 ACLs")
    assert "create /config/topics/orders" in gate["body"]
    assert wounded.get("/config/topics/orders")[0] == world.PERSISTENT["/config/topics/orders"]
    (receipt,) = list(tmp_path.glob("v1/receipts/cluster=alpha/*/*-done.json"))
    assert '"olivia"' in receipt.read_text().lower()


def test_a_restore_that_is_done_is_not_begun_any_more_and_is_not_written_again_without_a_new_yes(
    bag, clients, wounded, capfd
):
    """Else whoever clears the task would write the snapshot's state once more, at any time after the approval."""
    dag = bag.dags["restore_metadata"]
    conf = {"cluster": "alpha", "kraft_repairs": False, "configs": ["topics/*"]}
    with answering(clients, dag.dag_id, answered_by(clients["olivia"], "Approve")):
        run = dag.test(run_conf=conf, logical_date=None)
    assert wounded.exists("/config/topics/orders") is not None
    wounded.delete("/config/topics/orders", -1)
    assert clear_task(clients["ada"], dag.dag_id, run.run_id, "apply_restore").status_code == 200
    states = go_on(dag, run)
    assert (states["approve"], states["apply_restore"]) == ("success", "failed")
    assert "the run was cleared after its gate had asked" in "".join(capfd.readouterr())
    assert wounded.exists("/config/topics/orders") is None


@pytest.mark.parametrize(
    "asked", [{}, {"whole": True, "configs": ["topics/*"]}, {"fill": True, "configs": ["topics/*"]}]
)
def test_a_restore_of_nothing_or_of_two_things_is_refused_and_not_tried_again(wounded, asked):
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.tasks.restore import SCOPE, plan_restore

    scope = dict.fromkeys(SCOPE, False) | {"epoch_bump": 0, "cluster_id": None} | asked
    with pytest.raises(BadInputError, match=r"restore refused: expected .* name one of"):
        plan_restore.function("alpha", None, "newest", scope)


def test_a_rejected_restore_writes_nothing(bag, clients, wounded):
    with answering(clients, "restore_metadata", answered_by(clients["olivia"], "Reject")):
        states = run_plan(bag, configs=["topics/*"])
    assert (states["apply_restore"], states["verify_restore"]) == ("skipped", "skipped")
    assert wounded.exists("/config/topics/orders") is None


def test_an_approved_restore_writes_nothing_while_a_plan_of_ours_waits(bag, clients, wounded, tmp_path, capsys):
    digest = world.waiting_plan(wounded, open_store(str(tmp_path)))
    with answering(clients, "restore_metadata", answered_by(clients["olivia"], "Approve")):
        states = run_plan(bag, configs=["topics/*"])
    assert (states["approve"], states["apply_restore"], states["verify_restore"]) == (
        "success", "failed", "upstream_failed",
    )  # fmt: skip
    assert f"plan {digest}, approved by 'olivia', is begun" in capsys.readouterr().out
    assert wounded.exists("/config/topics/orders") is None


def test_an_approved_repair_before_a_migration_corrects_quotas(bag, clients, wounded, tmp_path):
    with answering(clients, "restore_metadata", answered_by(clients["olivia"], "Approve")):
        states = run_plan(
            bag, kraft_repairs=True, configs=None
        )  # the DAG of this process keeps the params of the runs before
    assert states == dict.fromkeys(("plan_restore", "approve", "apply_restore", "verify_restore"), "success")
    assert wounded.get("/config/users/bob")[0] == b'{"version":1,"config":{"consumer_byte_rate":"4096"}}'
    (started,) = list(tmp_path.glob("v1/receipts/cluster=alpha/*/*-started.json"))
    assert "no_such_rate" in started.read_text()


def test_brokers_are_asked_which_cluster_it_is_where_its_id_is_gone(wounded, monkeypatch, tmp_path, caplog):
    """Where they do not answer, znodes that survive are enough; tests/…/restore/test_identity.py asks real brokers."""
    from kafka_maintenance.operations.cluster.identity_asked import BrokersIdentity
    from kafka_maintenance.operations.errors import RefusedError
    from kafka_maintenance.operations.restore import identity
    from kafka_maintenance.operations.restore.document import find_restore
    from kafka_maintenance.tasks import restore
    from kafka_maintenance.tasks.restore import SCOPE, plan_restore

    monkeypatch.setattr(restore, "kept_for_gate", dict)  # there is no run here
    connection = json.loads(os.environ["AIRFLOW_CONN_ALPHA"])
    extra = json.dumps({"bootstrap_servers": "127.0.0.1:1", "client_settings": {"bootstrap_timeout_ms": 500}})
    monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps(connection | {"extra": extra}))
    scope = dict.fromkeys(SCOPE) | {"configs": ["topics/*"], "acls": True, "epoch_bump": 0}
    scope |= dict.fromkeys(("whole", "fill", "mirror", "recreate", "requests", "notifications", "widen_acls"), False)

    def planned():
        shown = plan_restore.function("alpha", None, "newest", scope)
        return find_restore(open_store(str(tmp_path)), cluster="alpha", digest=shown["digest"]).text

    known = wounded.get("/cluster/id")[0]
    wounded.delete("/cluster/id", -1)
    assert "still there: " in planned()
    assert "Kafka cluster id asked of the brokers at 127.0.0.1:1" in caplog.text
    asked = []

    def answer(brokers):
        asked.append(brokers.bootstrap_servers)
        return BrokersIdentity(json.loads(known)["id"], frozenset({1, 2, 3}))

    monkeypatch.setattr(identity, "identity_asked", answer)
    assert "BY THE BROKERS: those at 127.0.0.1:1" in planned()
    assert asked == ["127.0.0.1:1"]
    monkeypatch.setattr(identity, "identity_asked", lambda _: BrokersIdentity("another", frozenset({1, 2, 3})))
    with pytest.raises(RefusedError, match="this snapshot is of another cluster"):
        planned()
    wounded.create("/cluster/id", known)
    monkeypatch.setattr(identity, "identity_asked", lambda _: pytest.fail("nobody needs to be asked"))
    assert "BY THE BROKERS" not in planned()
