"""From an empty environment to a first report and an approved election on real brokers, by docs/install.md alone, on each Airflow version, with DAGs from a git repository.

`make test-airflow-versions` takes every version; `make test` takes the one on which no other test runs.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import groupby
from urllib.parse import quote

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance import __version__
from kafka_maintenance.demo import AirflowServer
from kafka_maintenance.demo.traffic import create_topic, partition_states
from kafka_maintenance.servers import PostgresServer, Workspace
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from tests.source_files import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

DAG_IDS = {path.stem for path in (ROOT / "dags").glob("*.py")}
RELEASES = {"3.2": "3.2.2", "3.3": "3.3.2"}
OTHERWISE_PINNED = {"3.2": {"aiosqlite"}, "3.3": set()}
"""Libraries for which that Airflow wants another version than requirements.txt pins."""
VERSIONS = os.environ.get("AIRFLOW_VERSIONS_OF_TESTS", "3.2").split()
GIT = ("apache-airflow-providers-git==1.0.1", "GitPython==3.2.1")
HOSTS, DAGS, STORE, WHEEL = (
    "zk1:2181,zk2:2181",
    "/opt/airflow/dags",
    "/var/lib/kafka-maintenance",
    "dist/kafka_maintenance-0.2.0-py3-none-any.whl",
)
COMPANY = ("-c", "user.name=company", "-c", "user.email=company@example.com")
ONCE_A_YEAR = "0 0 1 1 *"
ELECT = "elect_preferred_leaders"
ONE_AFTER_ANOTHER = """
import shlex, sys
from airflow.__main__ import main
for line in sys.argv[1:]:
    print(line)
    sys.argv = shlex.split(line)
    main()
"""
TIMEOUT_S = 480.0  # far more than it takes on two idle cores


def commands_of(section):
    """The commands of one section of the page, in their order."""
    (text,) = re.findall(
        rf"^## {section}\n(.*?)^## ", (ROOT / "docs" / "install.md").read_text(), flags=re.MULTILINE | re.DOTALL
    )
    return re.findall(r"^ {8}(\S.*)$", text, flags=re.MULTILINE)


def run(*command, env=None, cwd=None):
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def constraints(version):
    """What an Airflow of that version is installed with: our pins, apart from those that it pins otherwise."""
    lines = [
        re.sub(r"\[\w+]==", "==", line.rstrip(" \\")) for line in (ROOT / "requirements.txt").read_text().splitlines()
    ]
    other = {"apache-airflow", "apache-airflow-core", "apache-airflow-task-sdk"} | OTHERWISE_PINNED[version]
    return "\n".join(line for line in lines if re.match(r"\w", line) and line.partition("==")[0] not in other)


@pytest.fixture(params=VERSIONS)
def python(request, tmp_path, monkeypatch):
    """Interpreter of an empty environment, in which somebody has installed an Airflow."""
    monkeypatch.delenv("PYTHONPATH", raising=False)  # pip would take what lies there for installed
    folder = tmp_path / "environment"
    run(sys.executable, "-m", "venv", folder)
    (tmp_path / "constraints.txt").write_text(constraints(request.param))
    airflow = f"apache-airflow=={RELEASES[request.param]}"
    run(*installing(folder / "bin" / "python", tmp_path), airflow, "psycopg2-binary", "asyncpg", *GIT)
    return folder / "bin" / "python"


def installing(python, folder):
    """`pip install` by uv, which does not download and build PySpark once more."""
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet")
    return (*uv, "--python", python, "--constraint", folder / "constraints.txt")


@pytest.fixture
def workspace():
    with Workspace.create_temporary() as made:
        yield made


@pytest.fixture
def kafka(workspace):
    """Two brokers, one of which leads nothing since it was restarted."""
    with KafkaCluster("3.9", brokers=2, workspace=workspace) as cluster:
        partitions = create_topic(cluster, "orders", {0: (1, 2), 1: (2, 1)})
        cluster[2].terminate()
        cluster[2].start()
        with cluster.session() as zookeeper:
            wait_until(
                lambda: all(len(state.isr) == 2 for state in partition_states(zookeeper, partitions).values()),
                what="broker 2 is in sync again",
                timeout_s=90,
            )
        yield cluster


@pytest.fixture
def repository(workspace):
    """A company's git repository, out of which its Airflow takes DAGs."""
    folder = workspace.subfolder("company")
    (folder / "dags").mkdir()
    run("git", "-C", folder, "init", "--quiet", "--initial-branch", "main")
    run("git", "-C", folder, *COMPANY, "commit", "--quiet", "--allow-empty", "-m", "empty")
    return folder


@pytest.fixture
def airflow(python, repository, workspace):
    """The Airflow that is installed already, with the bundle of a git repository; it is started when the page says so."""
    with PostgresServer(workspace) as postgres:
        crons = ("SNAPSHOT", "ANALYSIS", "DRAIN", "DRILL", "CHECK", "RETENTION")
        env = {f"KAFKA_MAINTENANCE_{name}_CRON": ONCE_A_YEAR for name in crons}
        env |= {"KAFKA_MAINTENANCE_DRIVER_MEMORY": "1g", "KAFKA_MAINTENANCE_POKE_INTERVAL_S": "2"}
        env |= {"KAFKA_MAINTENANCE_SCRATCH": str(workspace.subfolder("scratch"))}
        where = {"repo_url": str(repository), "tracking_ref": "main", "subdir": "dags", "refresh_interval": 5}
        bundle = {"name": "company", "classpath": "airflow.providers.git.bundles.git.GitDagBundle", "kwargs": where}
        env |= {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle])}
        env |= {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(workspace.subfolder("bundles"))}
        server = AirflowServer(
            workspace,
            database_url=postgres.url,
            repository=ROOT,
            python=python,
            dags_folder=repository / "dags",
            env=env,
        )
        yield server
        server.stop()


def by_the_page(section, airflow, examples, cwd):
    """Runs the commands of a section, with the examples replaced by what is there."""
    commands = commands_of(section)
    for example, actual in examples.items():
        commands = [command.replace(example, actual) for command in commands]
    for of_airflow, together in groupby(commands, key=lambda command: command.startswith("airflow ")):
        if of_airflow:
            airflow_commands(airflow, list(together), cwd)
            continue
        for command in together:
            run("bash", "-c", command, env=airflow.env, cwd=cwd)
            if section == "Install" and "pip install" in command:  # as the page says
                airflow.start()


def airflow_commands(airflow, commands, cwd):
    """Runs them by one process: each of its own would import Airflow for two CPU seconds."""
    if any("dags unpause" in command for command in commands):
        airflow.api().wait_dags(DAG_IDS)
    run(airflow.python, "-c", ONE_AFTER_ANOTHER, *commands, env=airflow.env, cwd=cwd)


def next_version(folder):
    """The checkout with another version, to be built; and that version."""
    for name in (
        run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).rstrip("\0").split("\0")
    ):
        if not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    init = folder / "plugins" / "kafka_maintenance" / "__init__.py"
    text, version = init.read_text(), f"{__version__}.post1"
    init.write_text(text.replace(f'"{__version__}"', f'"{version}"'))
    return folder, version


def wheel_of(source, folder):
    """What `make dist` makes, without touching the checkout's dist/."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return str(wheel)


def commit_of(repository):
    return run("git", "-C", repository, "rev-parse", "HEAD").strip()


def leaders(kafka):
    with kafka.session() as zookeeper:
        from controller_core.model.partitions import TopicPartition

        states = partition_states(zookeeper, [TopicPartition("orders", 0), TopicPartition("orders", 1)])
    return [int(state.leader) for state in states.values()]


def commands_of_git(repository):
    """The commands of the page that write or remove DAG files, as the section on bundles says: in a repository, and committed."""
    dags, git = repository / "dags", shlex.join(("git", "-C", str(repository), *COMPANY))
    written, committed = commands_of("DAG bundles")
    command = written.removesuffix(" dags")
    return {
        f"{command} {DAGS}": f"{command} {dags} && {committed.replace('git', git)}",
        f"rm {DAGS}/kafka_maintenance_*.py": f"{git} rm --quiet 'dags/kafka_maintenance_*.py' && {git} commit --quiet -m removed",
    }


def page(api, address):
    answer = api._send("GET", f"/kafka-maintenance/{address}", None, None)
    assert answer.status_code == 200, answer.text
    return answer.text


def first_report(api, store, commit):
    """Waits for both runs, which are of the commit, and looks at what they left."""
    for dag_id in ("snapshot_metadata", "nightly_analysis"):
        (first,) = api.runs(dag_id, run_type="manual")
        state = api.wait_run(dag_id, first["dag_run_id"], timeout_s=TIMEOUT_S)
        assert state == "success", api.failures(dag_id, first["dag_run_id"])
        assert api.run(dag_id, first["dag_run_id"])["bundle_version"] == commit
    published = api.xcom("nightly_analysis", first["dag_run_id"], "publish_report")
    assert "blue" in store.get(published["report"].removeprefix(f"{store.uri}/")).decode()
    assert "blue" in page(api, "clusters")


def is_shown(api, run):
    """The run that waits is on the pages, and its note says for whom."""
    run_id, user = run["dag_run_id"], run["triggering_user_name"]
    (waiting,) = json.loads(page(api, "approvals?json=1"))["sections"][0]["blocks"][0]["rows"]
    assert run_id in json.dumps(waiting)
    assert "never" not in json.dumps(waiting), "no answer counts as Reject in the end"
    assert "orders-1" in page(api, f"plan?dag_id={ELECT}&run_id={quote(run_id)}")
    waits = "waits for 1 approval by anybody who may answer in Airflow"
    assert api.run(ELECT, run_id)["note"] == f"{ELECT} on blue, started by {user}: {waits}"


def has_ended(api, run_id, state):
    """The run has succeeded, and its note says how."""
    assert state == "success", api.failures(ELECT, run_id)
    how = "approved by approver; apply_plan success, its receipt is on the page Plan of this run"
    assert api.run(ELECT, run_id)["note"].endswith(f": ended successfully: {how}")


def test_an_operator_gets_from_an_empty_environment_to_a_first_approved_change(
    python, kafka, repository, airflow, workspace, tmp_path
):
    store = workspace.subfolder("store")
    examples = {
        **commands_of_git(repository),
        "make dist": "true",
        "pip install": shlex.join(map(str, installing(python, tmp_path))),
        " --upgrade ": " --upgrade-package kafka-maintenance ",  # uv would upgrade Airflow, too; pip does not
        "pip uninstall": f"{python} -m pip uninstall",
        WHEEL: wheel_of(ROOT, tmp_path / "dist"),
        HOSTS: kafka.zookeeper.hosts,
        STORE: str(store),
    }
    by_the_page("Install", airflow, examples, tmp_path)
    api, approver = airflow.api(), airflow.api("approver")
    assert api.import_errors() == []
    commit = commit_of(repository)
    pools = {pool["name"] for pool in api.request("GET", "/pools")["pools"]}
    assert pools == {"default_pool", "spark", "kafka_apply", "kafka_apply_blue"}
    opened = open_store(str(store))
    first_report(api, opened, commit)

    assert leaders(kafka) == [1, 1]
    by_the_page("The first approved change", airflow, examples, tmp_path)
    (gated,) = api.runs(ELECT)
    gate = approver.wait_gate(ELECT, gated["dag_run_id"], timeout_s=TIMEOUT_S)
    assert "orders-1" in gate.body
    is_shown(api, gated)
    assert leaders(kafka) == [1, 1]

    source, version = next_version(tmp_path / "next")
    airflow.stop()
    by_the_page("Upgrade", airflow, examples | {WHEEL: wheel_of(source, tmp_path / "dist-of-next")}, tmp_path)
    airflow.start()
    state = approver.wait_run_answering(ELECT, gated["dag_run_id"], "Approve", timeout_s=TIMEOUT_S, comment="first")
    has_ended(api, gated["dag_run_id"], state)
    assert leaders(kafka) == [1, 2]
    assert api.run(ELECT, gated["dag_run_id"])["bundle_version"] == commit != commit_of(repository)
    receipts = opened.list("v1/receipts/cluster=blue/")
    records = [json.loads(opened.get(key)) for key in [*opened.list("v1/approvals/cluster=blue/"), *receipts]]
    versions = {record["audit"]["event"]: record["code_version"] for record in records}
    before = {"planned", "asked"}
    assert versions == {event: __version__ if event in before else version for event in versions}, (
        "planned and asked before the upgrade, answered and applied after it"
    )
    assert before < set(versions)

    clear = {"dry_run": False, "dag_run_id": gated["dag_run_id"], "only_failed": False, "reset_dag_runs": True}
    api.request("POST", f"/dags/{ELECT}/clearTaskInstances", body=clear)
    assert api.wait_run(ELECT, gated["dag_run_id"], timeout_s=TIMEOUT_S) == "success"
    assert api.task_states(ELECT, gated["dag_run_id"])["apply_plan"] == "skipped"
    assert opened.list("v1/receipts/cluster=blue/") == receipts

    by_the_page("Remove", airflow, examples, tmp_path)
    api.wait_for(lambda: not DAG_IDS & api.dag_ids(), what="Airflow has no DAG of ours any more", timeout_s=TIMEOUT_S)
    assert {pool["name"] for pool in api.request("GET", "/pools")["pools"]} == {"default_pool", "spark"}
    assert "approved repairs of Kafka" not in airflow.cli("providers", "list")
    assert "kafka_maintenance" not in airflow.cli("plugins")
    assert opened.list("v1/receipts/cluster=blue/") == receipts
