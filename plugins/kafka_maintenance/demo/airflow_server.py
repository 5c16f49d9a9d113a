"""A real Airflow on loopback: scheduler, DAG processor, API server and triggerer, with real users, on Postgres.

Tasks run under the scheduler, or on Celery workers that share nothing but the database and the folder of task logs.

The four components are children of their own, not of `airflow standalone`: each has a log, a dead one is noticed by
name, and SIGTERM ends each in an orderly way (SIGTERM to `standalone` would leave its children behind).

Source: Airflow 3.3 (configuration reference, simple auth manager, `monitor/health`); Celery provider (configuration reference); kombu
(SQLAlchemy transport).
"""

import base64
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx
import psutil

from kafka_maintenance.demo.airflow_api import AirflowApi
from kafka_maintenance.servers.cache import cache_folder
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.ports import LOOPBACK, bypass_proxy, check_port, free_port
from kafka_maintenance.servers.process import Child, start_child, wait_until
from kafka_maintenance.servers.service import Service
from kafka_maintenance.servers.workspace import Workspace, family, kill_processes

COMPONENTS = ("scheduler", "dag-processor", "api-server", "triggerer")
# Role of each user; `op` may trigger, approve and edit connections, `user` may trigger and approve.
USERS = {"admin": "admin", "operator": "op", "approver": "user", "viewer": "viewer"}
START_TIMEOUT_S = 400.0
COMMAND_TIMEOUT_S = 400.0
PARALLELISM = 4


@dataclass(frozen=True, slots=True)
class AirflowUser:
    """Login of one user."""

    name: str
    password: str


class AirflowServer(Service):
    """One Airflow; a context manager that starts it and waits until all components are healthy.

    Users are `admin`, `operator`, `approver` and `viewer`; their passwords are generated and lie in
    `<folder>/passwords.json`, which only the owner may read.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        database_url: str,
        repository: Path,
        python: Path | None = None,
        dags_folder: Path | None = None,
        port: int | None = None,
        env: Mapping[str, str] | None = None,
        workers: int = 0,
        name: str = "airflow",
    ) -> None:
        """Describe a server; nothing is started.

        Args:
            workspace: where AIRFLOW_HOME and the logs go.
            database_url: SQLAlchemy URL of an empty or migrated database.
            repository: folder with `dags` and `plugins`; it goes on PYTHONPATH.
            python: interpreter of an environment that has an installed wheel; nothing of the repository is on the path then. None: this one.
            dags_folder: another folder of DAGs; None for `<repository>/dags`.
            port: port of API and UI on 127.0.0.1; None for a free one.
            env: further environment variables, such as AIRFLOW_CONN_…; they win over ours.
            workers: Celery workers, each with a home, a folder for temporary files and a scratch folder of its own; 0: none, tasks
                run under the scheduler.
            name: name of its folder and prefix of its logs.
        """
        self.workspace = workspace
        self.name = name
        self.folder = workspace.subfolder(name)
        self.port = port or free_port()
        self.repository = repository
        self.python = python or Path(sys.executable)
        self.users = {user: AirflowUser(user, password) for user, password in self._passwords().items()}
        self._env = self._environment(database_url, dags_folder or repository / "dags") | dict(env or {})
        if python is not None:
            self._env.pop("PYTHONPATH")
        self.workers = tuple(f"worker-{number + 1}" for number in range(workers))
        if self.workers:
            self._env |= _celery(database_url)
        self._children: dict[str, Child] = {}
        self._clients: dict[str, AirflowApi] = {}
        self._is_migrated = False

    @property
    def url(self) -> str:
        """Address of the UI and the API: `http://127.0.0.1:<port>`."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of its processes."""
        return dict(self._env)

    def start(self) -> Self:
        """Migrate the database, the first time, start the components, wait until all are healthy.

        Raises:
            PortTakenError, ChildDiedError, NotHealthyError, DiskFullError: see these classes.
        """
        return self.launch().wait()

    def launch(self) -> Self:
        """Migrate the database, the first time, and start the components; returns before they are healthy."""
        bypass_proxy()
        check_port(self.port, self.name)
        if not self._is_migrated:
            self.cli("db", "migrate")
            self._is_migrated = True
        for component in COMPONENTS:
            self.start_component(component)
        if self.workers:
            _declare_queue(self._env["AIRFLOW__CELERY__BROKER_URL"])
        for worker in self.workers:
            self.start_worker(worker)
        return self

    def start_component(self, component: str) -> Child:
        """Start one of `COMPONENTS`, again where it was killed."""
        child = start_child(
            self.workspace,
            f"{self.name}-{component}",
            self._command(component),
            env=self._env,
            cwd=self.folder,
            stop_signal=signal.SIGTERM,
            stop_timeout_s=20,
        )
        self._children[component] = child
        return child

    def start_worker(self, worker: str) -> Child:
        """Start one Celery worker, again where it was killed; its folders are its own, downloads are those of this user."""
        folder = self.workspace.subfolder(f"{self.name}-{worker}")
        own = {name: str(folder / name.lower()) for name in ("HOME", "TMPDIR", "KAFKA_MAINTENANCE_SCRATCH")}
        for each in own.values():
            Path(each).mkdir(mode=0o700, exist_ok=True)
        command = (
            "celery",
            "worker",
            "--concurrency",
            str(PARALLELISM // 2),
            "--celery-hostname",
            f"{worker}@%h",
            "--skip-serve-logs",
        )
        child = start_child(
            self.workspace,
            f"{self.name}-{worker}",
            self._command(*command),
            env={"XDG_CACHE_HOME": str(cache_folder().parent), **self._env, **own, "AIRFLOW_HOME": str(folder)},
            cwd=folder,
            stop_signal=signal.SIGTERM,
            stop_timeout_s=20,
        )
        self._children[worker] = child
        return child

    def kill(self, part: str, spared: Collection[psutil.Process] = ()) -> None:
        """SIGKILL for a Celery worker or a component and all that it started, tasks and their supervisors included, as when its machine is lost.

        The `spared` processes live on, without it.
        """
        child = self._children.pop(part)
        kin = [each for each in family(child.record) if each not in spared]
        child.kill()
        kill_processes(kin)

    def wait(self) -> Self:
        """Wait until the API says that database, scheduler, triggerer and DAG processor are healthy."""
        wait_until(
            self.is_healthy,
            what=f"all components of Airflow at {self.url} are healthy",
            timeout_s=START_TIMEOUT_S,
            children=self._children.values(),
        )
        return self

    def is_healthy(self) -> bool:
        """Whether all components say so now."""
        with contextlib.suppress(httpx.HTTPError, ValueError):
            answer = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5.0)
            parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
            return answer.is_success and all(answer.json()[part]["status"] == "healthy" for part in parts)
        return False

    def stop(self) -> None:
        """Stop all components, at once and in an orderly way. Stopping twice does nothing."""
        with ThreadPoolExecutor(max_workers=len(COMPONENTS) + len(self.workers)) as pool:
            list(pool.map(Child.stop, self._children.values()))
        self._children = {}

    def check_alive(self) -> None:
        """Raise what a component died of, if one did."""
        for child in self._children.values():
            child.check_alive()

    def api(self, user: str = "operator") -> AirflowApi:
        """The client of the API that is signed in as that user."""
        if user not in self._clients:
            found = self.users[user]
            self._clients[user] = AirflowApi(self.url, found.name, found.password)
        return self._clients[user]

    def cli(self, *arguments: str) -> str:
        """Run `airflow <arguments>` and return what it printed.

        Raises:
            LocalStackError: its exit status is not 0; carries the end of its output.
        """
        answer = subprocess.run(
            self._command(*arguments),
            env=self._env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_TIMEOUT_S,
        )
        if answer.returncode:
            raise LocalStackError(
                f"running `airflow {' '.join(arguments)}`: expected status 0, found {answer.returncode};"
                f" the end of its output says why:\n{(answer.stdout + answer.stderr)[-2000:]}"
            )
        return answer.stdout

    def _command(self, *arguments: str) -> Sequence[str]:
        return (str(self.python), "-m", "airflow", *arguments)

    def _passwords(self) -> dict[str, str]:
        path = self.folder / "passwords.json"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(json.dumps({user: secrets.token_urlsafe(9) for user in USERS}))
        passwords: dict[str, str] = json.loads(path.read_text())
        return passwords

    def _environment(self, database_url: str, dags_folder: Path) -> dict[str, str]:
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("AIRFLOW_", "KAFKA_MAINTENANCE_")) and key != "PYTHONDONTWRITEBYTECODE"
        }
        bypass_proxy(inherited)
        paths = (str(self.repository), str(self.repository / "plugins"))
        settings = {
            "CORE__DAGS_FOLDER": str(dags_folder),
            "CORE__PLUGINS_FOLDER": str(self.folder / "plugins"),  # ours comes through its entry point
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": str(PARALLELISM),
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(os.urandom(32)).decode(),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__TEST_CONNECTION": "Enabled",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.folder / "passwords.json"),
            "DATABASE__SQL_ALCHEMY_CONN": database_url,
            "API__HOST": LOOPBACK,
            "API__PORT": str(self.port),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "API__SECRET_KEY": secrets.token_hex(32),
            "API_AUTH__JWT_SECRET": secrets.token_hex(48),
            "DAG_PROCESSOR__REFRESH_INTERVAL": "30",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
            "DAG_PROCESSOR__STALE_DAG_THRESHOLD": "120",  # longer than that interval, or a lost task's callback takes its DAG away until the next parsing
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "LOGGING__BASE_LOG_FOLDER": str(self.folder / "task-logs"),
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        return {
            **inherited,
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": os.pathsep.join(paths),
            "AIRFLOW_HOME": str(self.folder),
            "SPT_NOENV": "1",  # setproctitle writes no title over the environment, by which `stop_marked` finds a process
            **{f"AIRFLOW__{key}": value for key, value in settings.items()},
        }


def _celery(database_url: str) -> dict[str, str]:
    """Queue and results in Airflow's own database: no further server is needed."""
    plain = database_url.replace("+psycopg2", "")
    settings = {
        "CORE__EXECUTOR": "CeleryExecutor",
        "CELERY__BROKER_URL": f"sqla+{plain}",
        "CELERY__RESULT_BACKEND": f"db+{plain}",
        "CELERY__WORKER_PREFETCH_MULTIPLIER": "1",
        "CELERY__WORKER_ENABLE_REMOTE_CONTROL": "False",  # the transport has no fan-out
    }
    return {f"AIRFLOW__{key}": value for key, value in settings.items()}


def _declare_queue(broker_url: str) -> None:
    """Makes the tables and the queue of the transport, which workers that start at one time would each try to make."""
    from kombu.connection import Connection  # noqa: PLC0415 - comes with Celery, which only a stack with workers needs

    with Connection(broker_url) as connection:  # type: ignore[no-untyped-call]  # kombu has no types
        connection.SimpleQueue("default").close()
