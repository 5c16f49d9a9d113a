"""The whole local stack as one thing: ZooKeeper, Kafka brokers in racks, an S3 store, Postgres, Airflow.

`LocalStack` is a context manager for the demo, the tests and the benchmarks; `up`, `down` and `status` are the same
stack for a person at a terminal, left running and found again by its folder.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kafka_maintenance.connections.clusters import CLUSTERS_VARIABLE
from kafka_maintenance.connections.spark import SPARK_CONNECTION
from kafka_maintenance.connections.store import STORE_CONNECTION, STORE_VARIABLE
from kafka_maintenance.demo.airflow_server import AirflowServer
from kafka_maintenance.servers.cache import locked
from kafka_maintenance.servers.errors import (
    FolderNameError,
    ForeignFolderError,
    LocalStackError,
    StackRunningError,
    from_os_error,
)
from kafka_maintenance.servers.java import find_java
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.kafka_jars import known_release
from kafka_maintenance.servers.own_folder import holds_foreign_files, make_anew, private_folder, remove_own
from kafka_maintenance.servers.postgres import PostgresServer
from kafka_maintenance.servers.s3 import REGION, ObjectStoreServer
from kafka_maintenance.servers.service import Service
from kafka_maintenance.servers.workspace import (
    Workspace,
    read_records,
    running,
    stop_marked,
    stop_orphans,
    stop_workspace,
    temporary_root,
)
from kafka_maintenance.servers.zookeeper import ZooKeeperServer

REPOSITORY = Path(__file__).resolve().parents[3]
DEFAULT_FOLDER = REPOSITORY / ".local" / "stack"
MARK = ".kafka-maintenance-stack"
"""Lies in the folder of each stack that `up` started; without it nothing there is removed."""
CLUSTER_NAME = "demo"
BUCKET = "kafka-maintenance"
SPARK_POOL, APPLY_POOL = "spark", "kafka_apply"
DAGS = frozenset(
    {
        "snapshot_metadata",
        "nightly_analysis",
        "elect_preferred_leaders",
        "reassign_partitions",
        "delete_topics",
        "drain_isr_notifications",
        "kraft_rehearsal",
        "kraft_watch",
        "move_leaders",
        "restore_drill",
        "restore_metadata",
        "retain_snapshots",
        "check_snapshots",
        "stop_execution",
        "cancel_execution",
    }
)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    """What the stack consists of.

    `brokers` brokers of `kafka_version` in `racks` (given out in turn); `broker_config` replaces broker settings;
    `zookeeper_config` adds to zoo.cfg; `airflow_env` goes to Airflow's processes; without `airflow` neither Airflow nor Postgres is started;
    with `workers` tasks run on so many Celery workers that share no folder.
    """

    cluster: str = CLUSTER_NAME
    kafka_version: str = "3.9"
    brokers: int = 3
    racks: Sequence[str] = ("rack-a", "rack-b", "rack-c")
    inter_broker_protocol_version: str | None = None
    broker_config: Mapping[str, str] = field(default_factory=dict)
    zookeeper_config: Mapping[str, str] = field(default_factory=dict)
    airflow: bool = True
    airflow_env: Mapping[str, str] = field(default_factory=dict)
    airflow_port: int | None = None
    workers: int = 0


class LocalStack(Service):
    """Everything that the pipeline needs, on loopback; a context manager."""

    def __init__(
        self, settings: StackSettings | None = None, *, workspace: Workspace | None = None, say: Say = print
    ) -> None:
        """Describe a stack; nothing is started.

        Args:
            settings: what it consists of; None for the defaults.
            workspace: where data and logs go; None for a temporary folder that `stop` deletes.
            say: called with one line of progress at a time.
        """
        self.settings = settings or StackSettings()
        self.say = say
        self.workspace = workspace or Workspace.create_temporary()
        self.zookeeper = ZooKeeperServer(self.workspace, config=self.settings.zookeeper_config)
        self.kafka = KafkaCluster(
            self.settings.kafka_version,
            self.zookeeper,
            brokers=self.settings.brokers,
            racks=self.settings.racks,
            config=self.settings.broker_config,
            workspace=self.workspace,
            inter_broker_protocol_version=self.settings.inter_broker_protocol_version,
        )
        self.object_store = ObjectStoreServer(self.workspace)
        self.store_uri = f"s3://{BUCKET}"
        self.postgres: PostgresServer | None = None
        self._airflow: AirflowServer | None = None
        self._clusters: list[str] = []

    @property
    def airflow(self) -> AirflowServer:
        """The running Airflow.

        Raises:
            StackRunningError: the stack has none, or is not started.
        """
        if self._airflow is None:
            raise StackRunningError("using Airflow of the local stack: it is not started; start the stack with airflow")
        return self._airflow

    def start(self) -> Self:
        """Start all parts, Kafka beside Airflow, and wait until all are healthy.

        Raises:
            LocalStackError: a part did not start; its subclasses say what to do.
        """
        java = find_java()
        self.say(f"Java {java.version} at {java.program}; logs in {self.workspace.logs}")
        with ThreadPoolExecutor(max_workers=2) as pool:
            brokers = pool.submit(self._start_kafka)
            rest = pool.submit(self._start_airflow)
            brokers.result()
            rest.result()
        known = self.workspace.folder / "stack.json.new"
        known.touch(mode=0o600)  # logins are in it
        known.write_text(json.dumps(self.addresses(), indent=1))
        known.replace(known.with_suffix(""))  # whole, for `status` takes the stack for whole by it
        return self

    def stop(self) -> None:
        """Stop everything, whatever fails meanwhile; a temporary workspace is deleted. Stopping twice does nothing."""
        with contextlib.ExitStack() as last_first:
            last_first.callback(self.workspace.close)
            last_first.callback(self.zookeeper.stop)
            last_first.callback(self.object_store.stop)
            last_first.callback(self.kafka.kill)
            if self.postgres is not None:
                last_first.callback(self.postgres.stop)
            if self._airflow is not None:
                last_first.callback(self._airflow.stop)

    def addresses(self) -> dict[str, Any]:
        """Where everything answers, for a person and for `status`: with the logins, and the environment of a command that uses the store."""
        known: dict[str, Any] = {
            "zookeeper": self.kafka.zookeeper_connect,
            "kafka": {str(broker.id): broker.address for broker in self.kafka.brokers.values()},
            "kafka_version": self.settings.kafka_version,
            "object_store": self.object_store.endpoint_url,
            "object_store_kind": self.object_store.kind,
            "store": self.store_uri,
            "logs": str(self.workspace.logs),
            "environment": self.store_environment(),
        }
        if self._airflow is not None:
            logins = {user.name: user.password for user in self._airflow.users.values()}
            known |= {"airflow": self._airflow.url, "login": logins}
        return known

    def store_environment(self) -> dict[str, str]:
        """boto3's environment variables for the store."""
        return {
            "AWS_ENDPOINT_URL": self.object_store.endpoint_url,
            "AWS_ACCESS_KEY_ID": self.object_store.access_key,
            "AWS_SECRET_ACCESS_KEY": self.object_store.secret_key,
            "AWS_DEFAULT_REGION": REGION,
        }

    def add_cluster(
        self,
        name: str,
        zookeeper: str,
        *,
        archived: bool = False,
        description: str = "",
        bootstrap_servers: str | None = None,
        may_act_as_controller: bool = False,
    ) -> None:
        """Make a cluster known to Airflow, or change what it knows: a connection, and its name in the variable that lists them.

        Args:
            name: the connection's id.
            zookeeper: hosts with ports, separated by commas.
            archived: the cluster is gone; its past snapshots are analysed, no new one is tried.
            description: a sentence for the list of connections.
            bootstrap_servers: brokers that may be asked, `host:port` with commas; None: nobody is asked.
            may_act_as_controller: leaders may be moved by a few seconds as its active controller.
        """
        api = self.airflow.api("admin")
        extra = {
            "archived": archived,
            "kafka_version": self.settings.kafka_version,
            "inter_broker_protocol_version": self.settings.inter_broker_protocol_version,
            "may_act_as_controller": may_act_as_controller,
            **({"bootstrap_servers": bootstrap_servers} if bootstrap_servers else {}),
        }
        api.set_connection(name, "generic", host=zookeeper, extra=extra, description=description)
        api.set_pool(f"{APPLY_POOL}_{name}", 1, f"Tasks that write to the cluster {name}")
        self._clusters = [*dict.fromkeys([*self._clusters, name])]
        api.set_variable(CLUSTERS_VARIABLE, json.dumps(self._clusters), "Connection ids of the Kafka clusters")

    def _start_kafka(self) -> None:
        self.zookeeper.start()
        self.say(f"ZooKeeper at {self.zookeeper.hosts}")
        self.kafka.start()
        racks = ", ".join(f"{broker.id} in {broker.rack}" for broker in self.kafka.brokers.values())
        self.say(f"Kafka {self.settings.kafka_version} at {self.kafka.bootstrap_servers} (brokers {racks})")

    def _start_airflow(self) -> None:
        self.object_store.start()
        self.object_store.create_bucket(BUCKET)
        self.say(f"object store ({self.object_store.kind}) at {self.object_store.endpoint_url}, {self.store_uri}")
        if not self.settings.airflow:
            return
        self.postgres = PostgresServer(self.workspace).start()
        self.say(f"Postgres at 127.0.0.1:{self.postgres.port}")
        self._airflow = AirflowServer(
            self.workspace,
            database_url=self.postgres.url,
            repository=REPOSITORY,
            port=self.settings.airflow_port,
            workers=self.settings.workers,
            env={"KAFKA_MAINTENANCE_SCRATCH": str(self.workspace.subfolder("scratch")), **self.settings.airflow_env},
        ).start()
        self._configure_airflow()
        self.say(f"Airflow at {self._airflow.url}")

    def _configure_airflow(self) -> None:
        api = self.airflow.api("admin")
        store = self.object_store
        api.set_variable(STORE_VARIABLE, self.store_uri, "Where snapshots, reports and plans lie")
        api.set_connection(
            STORE_CONNECTION,
            "aws",
            login=store.access_key,
            password=store.secret_key,
            extra={"endpoint_url": store.endpoint_url, "region_name": REGION},
            description="The object store",
        )
        api.set_connection(SPARK_CONNECTION, "spark", host="local[2]", description="Spark on this machine")
        api.set_pool(SPARK_POOL, 1, "One Spark job at a time on this machine")
        api.set_pool(APPLY_POOL, 1, "Tasks that write to a cluster which the run does not name")
        self.add_cluster(self.settings.cluster, self.zookeeper.hosts, description="The cluster of the local stack")
        api.wait_dags(DAGS)


def up(folder: Path = DEFAULT_FOLDER, settings: StackSettings | None = None, *, say: Say = print) -> dict[str, Any]:
    """Start a stack and leave it running after this process.

    Args:
        folder: its folder; the name under which `status` and `down` find it. New, empty, or of an earlier stack, whose
            data are deleted.
        settings: what it consists of.
        say: called with one line of progress at a time.

    Returns:
        `LocalStack.addresses`.

    Raises:
        VersionRefusedError: brokers of this version cannot be started.
        StackRunningError: the folder's stack is up already; one that another process starts now is awaited first.
        ForeignFolderError: there are files in the folder that no stack made.
        FolderNameError: Airflow would read another path.
        LocalStackError: there is no checkout to take the DAGs from; or a part did not start, then what was started is
            stopped again.
    """
    settings, folder = settings or StackSettings(), folder.resolve()
    known_release(settings.kafka_version)
    if settings.airflow and not (REPOSITORY / "dags").is_dir():
        raise LocalStackError(
            f"starting a stack in {folder}: expected a checkout with its DAGs at {REPOSITORY}, found no folder dags there,"
            " as in an installed package; start it from a checkout, or without Airflow (--no-airflow)"
        )
    if settings.airflow and "$" in str(folder):
        raise FolderNameError(
            f"starting a stack in {folder}: expected a path without the character $, which Airflow takes for the begin of a variable's name, "
            "found one; name another folder, or start it without Airflow (--no-airflow)"
        )
    with _alone_in(folder):
        return _up(folder, settings, say)


def _alone_in(folder: Path) -> AbstractContextManager[None]:
    """One at a time starts or stops the stack of a folder; the others wait."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return locked(private_folder(temporary_root()) / f"up-{name}.lock")


def _up(folder: Path, settings: StackSettings, say: Say) -> dict[str, Any]:
    alive = [record.name for record in read_records(folder) if running(record)]
    if alive:
        raise StackRunningError(
            f"starting a stack in {folder}: expected none there, found {len(alive)} running processes"
            f" ({', '.join(alive[:6])}); use it, or `kafka-maintenance stack down` first"
        )
    _make_empty(folder)
    stack = LocalStack(settings, workspace=Workspace(folder, detached=True), say=say)
    try:
        stack.start()
    except BaseException:
        stack.stop()
        raise
    return stack.addresses()


def down(folder: Path = DEFAULT_FOLDER) -> list[str]:
    """Stop exactly what was started in a folder, also when the process that started it crashed, or the folder is gone; delete its data.

    An `up` of the folder that is under way is awaited first. A folder that `up` did not make keeps its files. Temporary stacks (of a demo, of a test) whose owner is dead are
    stopped and deleted as well.

    Returns:
        Names of the processes that were still running; empty when none was.
    """
    folder = folder.resolve()
    stop_orphans()
    with _alone_in(folder):
        if not _is_marked(folder) and not read_records(folder):
            return stop_marked(folder)
        stopped = stop_workspace(folder)
        if _is_marked(folder):
            remove_own(folder, MARK)
    return stopped


def status(folder: Path = DEFAULT_FOLDER) -> dict[str, Any]:
    """What of a folder's stack runs.

    Returns:
        `folder`, `state` ("up", "down", "damaged": some processes died, or "incomplete": it is being started, or its start was
        broken off), `processes` (name → pid, None if dead) and, when it came up whole, `addresses`.
    """
    folder = folder.resolve()
    records = read_records(folder)
    processes = {record.name: record.pid if running(record) else None for record in records}
    alive = [name for name, pid in processes.items() if pid]
    addresses = folder / "stack.json"
    whole = "up" if addresses.exists() else "incomplete"
    state = "down" if not alive else whole if len(alive) == len(processes) else "damaged"
    found: dict[str, Any] = {"folder": str(folder), "state": state, "processes": processes}
    if alive and addresses.exists():
        found["addresses"] = json.loads(addresses.read_text())
    return found


def _make_empty(folder: Path) -> None:
    """Make the folder of a new stack, with our mark; what an earlier stack left in it is deleted.

    Raises:
        ForeignFolderError: it holds files and lacks the mark, so somebody else made them; or it is a file, or lies below one.
    """
    file = next((each for each in (folder, *folder.parents) if each.exists() and not each.is_dir()), None)
    if file is not None:
        raise ForeignFolderError(
            f"starting a stack in {folder}: expected a folder, found that {file} is a file; name another folder"
        )
    if holds_foreign_files(folder, MARK):
        raise ForeignFolderError(
            f"starting a stack in {folder}: expected an empty folder or that of an earlier stack, with the file {MARK},"
            " found files without it; name another folder, or move them away"
        )
    try:
        make_anew(folder, MARK, "A local stack of kafka-maintenance: `stack down` and the next `stack up` delete it.\n")
    except OSError as error:
        raise from_os_error(error, f"making the folder of a local stack at {folder}") from error


def _is_marked(folder: Path) -> bool:
    return (folder / MARK).is_file()
