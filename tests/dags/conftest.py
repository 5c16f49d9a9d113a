"""The DagBag and the database that the tests of this folder share."""

from controller_core.adapters.object_store.open import open_store

from tests import airflow_home  # isort: skip  # before anything of Airflow

import json
import sys
import threading
import time
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from tests.dags.archive import key_file, spark, store, zookeeper
from tests.dags.connections import airflow_knows
from tests.dags.policies import policy
from tests.dags.world import CLUSTER, World
from tests.listening import listening

__all__ = ["key_file", "policy", "spark", "store", "zookeeper"]

NOW = datetime(2026, 11, 21, 2, 30, tzinfo=UTC)


@pytest.fixture(scope="session")
def database():
    """Airflow's metadata database, made once, with the pools that the scheduler would make."""
    from airflow.utils.db import initdb

    from kafka_maintenance.tasks.pools import make_missing_pools

    initdb()
    make_missing_pools()
    with pytest.MonkeyPatch.context() as patch:
        _sync_changed_dags_only(patch)
        _ask_more_often(patch)
        _check_schemas_once(patch)
        yield airflow_home.HOME / "airflow.db"


def _sync_changed_dags_only(patch):
    """`dag.test()` reads every DAG anew and writes it to the database, which costs more than the run: only where they are others than last time."""
    from airflow.dag_processing import dagbag

    from kafka_maintenance.tasks import cluster_dags

    read, write, last = dagbag.BundleDagBag, dagbag.sync_bag_to_db, []

    def read_changed(**where):
        return None if last == [cluster_dags.SETTINGS] else read(**where)

    def write_read(bag, *bundle):
        if bag is not None:
            write(bag, *bundle)
            last[:] = [cluster_dags.SETTINGS]

    patch.setattr(dagbag, "BundleDagBag", read_changed)
    patch.setattr(dagbag, "sync_bag_to_db", write_read)


def _check_schemas_once(patch):
    """Airflow checks the schema of a param each time that it looks at its value, some 200 times a run."""
    from jsonschema import Draft202012Validator

    check, known = Draft202012Validator.check_schema, set()

    def check_once(schema):
        if (text := json.dumps(schema, sort_keys=True)) not in known:
            check(schema)
            known.add(text)

    patch.setattr(Draft202012Validator, "check_schema", check_once)


def _ask_more_often(patch):
    """A run of `dag.test()` in which nothing can start asks the database again after a fiftieth of a second, not after a second."""
    sleep = time.sleep
    patch.setattr(time, "sleep", lambda seconds: sleep(0.02 if _in_dag_test(sys._getframe(1)) else seconds))


def _in_dag_test(frame):
    return frame.f_globals.get("__name__") == "airflow.sdk.definitions.dag"


@pytest.fixture(scope="session")
def bag(database):
    """Our DAGs as the DAG processor reads them; a run in this process leaves its params in them."""
    return _read_bag()


@pytest.fixture
def bag_read_anew(database):
    """Our DAGs without what runs of this process left in them."""
    return _read_bag()


def _read_bag():
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(airflow_home.ROOT / "dags"))


@pytest.fixture(scope="session")
def clients(database):
    """The API as each user sees it."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    app = create_app(apps="core")

    def signed_in(name):
        client = TestClient(app)
        token = client.post("/auth/token", json={"username": name, "password": airflow_home.PASSWORDS[name]})
        client.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
        return client

    return {name: signed_in(name) for name in airflow_home.USERS}


@pytest.fixture
def receiver():
    """A receiver of webhooks: its address, and what it was sent."""
    taken = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self):
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with listening(ThreadingHTTPServer(("127.0.0.1", 0), Taking)) as server:
        yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_address[1]}/hook", taken=taken)


@pytest.fixture
def told_in_ten_lines(caplog):
    """`told_in_ten_lines()`: what our tasks have told at level INFO since the test began, which must be ten lines at most."""
    caplog.set_level("INFO")

    def story():
        told = "\n".join(record.getMessage() for record in caplog.records if "kafka_maintenance" in record.name)
        assert 1 <= len(told.splitlines()) <= 10, told
        return told

    return story


@pytest.fixture
def ringing(bag, receiver, monkeypatch):
    """`ringing(dag_id, task_id)`: the task tells the receiver when it has failed, and is tried once; returns what the receiver is sent."""
    from kafka_maintenance.tasks import notifiers

    told = partial(notifiers.ring, notifiers=[notifiers.WebhookNotifier(receiver.url)])

    def ring_of(dag_id, task_id):
        task = bag.dags[dag_id].get_task(task_id)
        for name, value in {"retries": 0, "on_failure_callback": [told]}.items():
            if task.is_mapped:
                monkeypatch.setitem(task.partial_kwargs, name, value)
            else:
                monkeypatch.setattr(task, name, value)
        return receiver.taken

    return ring_of


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A cluster in memory, known to Airflow as `alpha`, with a store in a folder."""
    from kafka_maintenance import hooks
    from kafka_maintenance.connections.clusters import Cluster

    made = World()
    airflow_knows(monkeypatch, tmp_path, **{CLUSTER: None})
    monkeypatch.setattr(hooks, "cluster", lambda name: Cluster(name=name, address=made.zookeeper))
    return made


@pytest.fixture
def plan(world, tmp_path):
    """A stored plan: one election."""
    from kafka_maintenance.operations.plans.elections import plan_elections

    made = plan_elections(open_store(str(tmp_path)), CLUSTER, zookeeper=world.zookeeper, now=NOW)
    assert made.count == 1
    return made


@pytest.fixture(scope="session")
def api_address(database):
    """Airflow's own API server on loopback, for what reaches it by HTTP."""
    import uvicorn
    from airflow.api_fastapi.app import create_app

    server = uvicorn.Server(uvicorn.Config(create_app(apps="core"), host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def airflow_is_asked(monkeypatch, api_address):
    """The connection with which a task reads Airflow's own record, as a viewer; returns where it leads."""
    user, password = "victor", airflow_home.PASSWORDS["victor"]
    connection = {"conn_type": "http", "host": api_address, "login": user, "password": password}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_AIRFLOW", json.dumps(connection))
    return api_address
