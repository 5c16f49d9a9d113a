"""The wheel in an Airflow of its own: entry points alone bring provider, pages, policy and, as stubs, the DAGs."""

import errno
import importlib
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from kafka_maintenance import __version__
from kafka_maintenance.connections.clusters import CLUSTER_FIELDS
from tests.source_files import ROOT

DAG_IDS = sorted(path.stem for path in (ROOT / "dags").glob("*.py"))

GIT = ("apache-airflow-providers-git==1.0.1", "GitPython==3.2.1", "gitdb==4.0.12", "smmap==5.0.3")
COMPANY = """\
def task_instance_mutation_hook(task_instance, dag_run=None):
    task_instance.queue = "company"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the wheel's content: what `pip install` puts on the path."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
    ]
    done = subprocess.run([*build, "--wheel-dir", folder, ROOT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("kafka_maintenance-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def environment(site, tmp_path_factory):
    """An Airflow home with a company's policy file, a bundle of a git repository, and none of our checkout on the path."""
    home, company = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("company")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", company)
    subprocess.run([*pip, *GIT], check=True, capture_output=True)
    (home / "config").mkdir()
    (home / "config" / "airflow_local_settings.py").write_text(COMPANY)
    (home / "repository" / "dags").mkdir(parents=True)
    kwargs = {"repo_url": str(home / "repository"), "tracking_ref": "main", "subdir": "dags"}
    classpath = "airflow.providers.git.bundles.git.GitDagBundle"
    bundle = {"name": "company", "classpath": classpath, "kwargs": kwargs}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_")}
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join((str(site), str(company))),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(home / "bundles"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS": '["100"]',
    }


def _run(environment, *arguments, cwd):
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )


def _committed(repository):
    """The commit with all that lies in a new repository."""
    git = ("git", "-C", repository, "-c", "user.name=company", "-c", "user.email=company@example.com")
    for command in (
        ("init", "--quiet", "--initial-branch", "main"),
        ("add", "."),
        ("commit", "--quiet", "-m", "stubs"),
    ):
        subprocess.run([*git, *command], check=True, capture_output=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.services
def test_an_installed_wheel_is_all_that_airflow_needs(environment, site, tmp_path):
    repository = Path(environment["AIRFLOW_HOME"]) / "repository"
    dags = repository / "dags"
    done = _run(environment, "-m", "kafka_maintenance", "--json", "install-dags", str(dags), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["written"] == [f"kafka_maintenance_{dag_id}.py" for dag_id in DAG_IDS]
    assert all(__version__ in path.read_text() for path in dags.iterdir())
    commit = _committed(repository)

    done = _run(environment, str(Path(__file__).with_name("installed.py")), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert Path(found["package"]).is_relative_to(site)
    assert found["import_errors"] == {}
    # The environment of the tests has the checkout installed in editable mode beside the wheel: Airflow then says so, and takes the first.
    assert set(found["plugin_errors"].values()) <= {"Plugin 'kafka_maintenance' already registered, skipping"}
    assert found["dags"] == DAG_IDS
    name, path, version = found["bundle"]
    assert (name, version) == ("company", commit)
    assert {str(Path(file).parent) for file in found["files"]} == {path}
    assert not Path(path).is_relative_to(repository)
    assert found["version"] == __version__
    assert found["plugins"] == ["kafka_maintenance"]
    assert (found["pool"], found["queue"]) == ("kafka_apply_100", "company"), "ours and the company's policy both act"
    assert found["connection_types"] == ["kafka_maintenance_store", "kafka_zookeeper"]


def test_the_ranges_of_the_wheel_name_every_library_that_is_pinned():
    """All of requirements.in and requirements-kerberos.in, apart from what an Airflow brings itself (its database, its executor) and what only tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ranges = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    lists = [(ROOT / f"{name}.in").read_text().splitlines() for name in ("requirements", "requirements-kerberos")]
    pinned = (line.partition(" #")[0] for line in chain(*lists) if line and not line.startswith("#"))
    names = [{Requirement(each).name for each in listed} for listed in (ranges, pinned)]
    executor = {"apache-airflow-providers-celery", "celery"}
    assert (
        names[1] - names[0] == {"apache-airflow-providers-postgres", "asyncpg", "psycopg2-binary", "pytest"} | executor
    )
    assert names[0] <= names[1]


def test_airflow_calls_the_policy_where_there_is_no_file_of_a_company():
    from airflow import settings

    from kafka_maintenance.provider import policy

    hook: Any = settings.task_instance_mutation_hook
    hook.is_noop = True
    importlib.reload(policy)
    assert not hook.is_noop


def test_the_form_of_a_cluster_has_every_field_that_is_read():
    from kafka_maintenance.provider.info import get_provider_info

    cluster, store = get_provider_info()["connection-types"]
    assert set(cluster["conn-fields"]) == set(CLUSTER_FIELDS)
    assert set(store["conn-fields"]) == {"endpoint_url", "region_name", "snapshot_keys"}


def test_install_dags_touches_no_file_of_somebody_else(monkeypatch, tmp_path):
    from kafka_maintenance.cli import install_dags
    from kafka_maintenance.operations.errors import BadInputError

    monkeypatch.setattr(install_dags, "_dag_modules", lambda: ["one", "two"])
    (tmp_path / "theirs.py").write_text("# a DAG")
    assert install_dags.install(tmp_path) == (["kafka_maintenance_one.py", "kafka_maintenance_two.py"], [])
    monkeypatch.setattr(install_dags, "_dag_modules", lambda: ["one"])
    assert install_dags.install(tmp_path) == (["kafka_maintenance_one.py"], ["kafka_maintenance_two.py"])
    (tmp_path / "kafka_maintenance_two.py").write_text("# theirs")
    monkeypatch.setattr(install_dags, "_dag_modules", lambda: ["two", "three"])
    with pytest.raises(BadInputError, match=r"holds kafka_maintenance_two\.py, which this command did not write"):
        install_dags.install(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "kafka_maintenance_one.py", "kafka_maintenance_two.py", "theirs.py",
    ]  # fmt: skip


WITHOUT_SPARK = """
import sys
sys.modules["py4j"] = None
from kafka_maintenance.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_command_that_needs_no_spark_runs_without_it(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "plugins")))}
    done = _run(environment, "-c", WITHOUT_SPARK, "stack", "down", "--folder", str(tmp_path / "none"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dag_file_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    from kafka_maintenance.cli import install_dags
    from kafka_maintenance.operations.errors import BadInputError

    def write_on_a_full_disk(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(install_dags, "_dag_modules", lambda: ["one"])
    monkeypatch.setattr(install_dags, "write_whole", write_on_a_full_disk)
    with pytest.raises(BadInputError, match=r"kafka_maintenance_one\.py not written: No space left on device"):
        install_dags.install(tmp_path)


@pytest.mark.parametrize("name", ["kafka_maintenance_one.py", "kafka_maintenance_former.py"])
@pytest.mark.parametrize("change", ["edited", "quoting", "folder", "dangling link"])
def test_install_dags_removes_and_replaces_stubs_alone(monkeypatch, tmp_path, name, change):
    """Where it is in the way of a stub nothing is written; elsewhere it stays."""
    from kafka_maintenance.cli import install_dags
    from kafka_maintenance.operations.errors import BadInputError

    monkeypatch.setattr(
        install_dags, "_dag_modules", lambda: [name.removeprefix("kafka_maintenance_").removesuffix(".py")]
    )
    install_dags.install(tmp_path)
    stub = (tmp_path / name).read_text()
    if change in {"edited", "quoting"}:
        (tmp_path / name).write_text(
            f"{stub}RETRIES = 5\n" if change == "edited" else f"# Beside what is {install_dags.MARK}\n"
        )
    else:
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir() if change == "folder" else (tmp_path / name).symlink_to(tmp_path / "gone")
    before = os.lstat(tmp_path / name).st_ino, os.lstat(tmp_path / name).st_mtime_ns
    monkeypatch.setattr(install_dags, "_dag_modules", lambda: ["one"])
    if name == "kafka_maintenance_one.py":
        with pytest.raises(
            BadInputError,
            match=r"holds kafka_maintenance_one\.py, which this command did not write, or which somebody edited",
        ):
            install_dags.install(tmp_path)
    else:
        assert install_dags.install(tmp_path) == (["kafka_maintenance_one.py"], [])
    assert (os.lstat(tmp_path / name).st_ino, os.lstat(tmp_path / name).st_mtime_ns) == before
