"""One real KRaft controller in migration mode on loopback, its storage formatted once, and its metadata log read back.

Source: Kafka 3.9 `StorageTool`, `KRaftMigrationDriver`, `DumpLogSegments`; docs/kraft.md.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from kafka_maintenance.servers import class_data
from kafka_maintenance.servers.broker_jvm import JVM_FLAGS, class_data_archive, class_path_of
from kafka_maintenance.servers.errors import LocalStackError, VersionRefusedError
from kafka_maintenance.servers.java import find_java
from kafka_maintenance.servers.kafka_jars import kafka_jars
from kafka_maintenance.servers.ports import LOOPBACK, check_port
from kafka_maintenance.servers.process import start_child
from kafka_maintenance.servers.service import Server
from kafka_maintenance.servers.workspace import Workspace, write_whole

MIGRATING_VERSIONS: Final = ("3.6", "3.7", "3.9")
"""Version lines whose jars are pinned and whose migration is whole (docs/kraft.md, R1)."""
UNINITIALIZED: Final = "UNINITIALIZED"
_FORMAT_TIMEOUT_S: Final = 120
_SAID_MAX: Final = 300
_ACTIVE: Final = b"Becoming the active controller"
_TRANSITION: Final = re.compile(rb"transitioning from \w+ to (\w+) state")
_MIGRATING: Final = re.compile(r"RegisterBrokerRecord\(brokerId=(\d+), isMigratingZkBroker=true")
_REGISTERED: Final = re.compile(r"RegisterBrokerRecord\(brokerId=(\d+), isMigratingZkBroker=false")
_UNFENCED: Final = re.compile(r"BrokerRegistrationChangeRecord\(brokerId=(\d+), .*fenced=-1")
_UNKNOWN_RELEASE: Final = re.compile(
    r"Version \S+ is not a valid version|metadata\.version \S+ is too old to be supported|Must specify a valid KRaft metadata version of at least \d+\.\d+"
)
_LOG_SETTINGS: Final = """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %m%n
log4j.logger.org.apache.kafka.metadata.migration=INFO
log4j.logger.kafka.zk=INFO
log4j.logger.org.apache.kafka.controller.QuorumController=INFO
log4j.logger.org.apache.kafka.controller.ClusterControlManager=INFO
log4j.logger.kafka.server.BrokerLifecycleManager=INFO
log4j.logger.org.apache.kafka.clients.NetworkClient=ERROR
"""


class Storage:
    """Formatted storage of a controller, from which each start of one begins anew."""

    def __init__(
        self, workspace: Workspace, *, version: str, node_id: int, cluster_id: str, release_version: str | None = None
    ) -> None:
        """Format it.

        Args:
            workspace: where it lies.
            version: version line of Kafka, one of `MIGRATING_VERSIONS`.
            node_id: of the controller.
            cluster_id: the cluster's own.
            release_version: first metadata.version of the quorum, such as "3.9"; None: that of the Kafka version.

        Raises:
            VersionRefusedError: Kafka of this version has no such release version.
            LocalStackError: Kafka refuses; carries what it said.
        """
        self.workspace = workspace
        self.version = version
        self.node_id = node_id
        self.folder = workspace.subfolder(f"formatted-{node_id}")
        settings = workspace.folder / "format.properties"
        settings.write_text(
            f"process.roles=controller\nnode.id={node_id}\ncontroller.quorum.voters={node_id}@{LOOPBACK}:1\n"
            f"controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://{LOOPBACK}:1\nlog.dirs={self.folder.name}\n"
        )
        release = ["--release-version", release_version] if release_version else []
        command = [
            *program(workspace, version, heap_mb=128),
            *("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(settings), *release),
        ]
        answer = subprocess.run(
            command, cwd=workspace.folder, capture_output=True, text=True, check=False, timeout=_FORMAT_TIMEOUT_S
        )
        if answer.returncode:
            raise refusal(version, release_version, cluster_id, answer.stdout + answer.stderr)


class KRaftController(Server):
    """A controller that migrates the tree at `zookeeper_connect` as soon as its brokers have registered."""

    def __init__(
        self,
        storage: Storage,
        *,
        zookeeper_connect: str,
        name: str = "controller",
        heap_mb: int = 256,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Describe it; nothing is started.

        Args:
            storage: what it was formatted as.
            zookeeper_connect: `host:port/chroot` of the tree.
            name: name of its folder and its log.
            heap_mb: maximal Java heap in MiB.
            config: further settings, such as `password.encoder.secret`.
        """
        super().__init__(storage.workspace, name=name, port=None)
        self.storage = storage
        self._heap_mb = heap_mb
        self._settings = {
            "process.roles": "controller",
            "node.id": str(storage.node_id),
            "controller.quorum.voters": f"{storage.node_id}@{LOOPBACK}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{LOOPBACK}:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": f"{self.name}/data",
            "zookeeper.connect": zookeeper_connect,
            "zookeeper.metadata.migration.enable": "true",
            "zookeeper.session.timeout.ms": "30000",
            "broker.session.timeout.ms": "60000",  # imitated brokers share one thread on a loaded machine
            **(config or {}),
        }

    @property
    def folder(self) -> Path:
        """Where its settings and its data are."""
        return self.workspace.subfolder(self.name)

    def start(self) -> Self:
        """Start the process on fresh storage and return at once: the log says how far it is."""
        check_port(self.port, self.name)
        shutil.copytree(self.storage.folder, self.folder / "data")
        settings = self.folder / "controller.properties"
        settings.touch(mode=0o600)
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        command = [
            *program(self.workspace, self.storage.version, heap_mb=self._heap_mb),
            "kafka.Kafka",
            str(settings),
        ]
        self._child = start_child(self.workspace, self.name, command)
        return self

    def stop(self) -> None:
        """Kill it: nothing of it is wanted any more."""
        if self._child is not None:
            self._child.kill()
        super().stop()

    @property
    def migration_state(self) -> str:
        """The state of the migration, as Kafka names it (`MigrationDriverState`)."""
        found = _TRANSITION.findall(self.child.log.read_bytes())
        return found[-1].decode() if found else UNINITIALIZED

    @property
    def is_active(self) -> bool:
        """Whether it has become the active controller of its quorum; no state of a migration is entered before."""
        return _ACTIVE in self.child.log.read_bytes()

    @property
    def kraft_brokers(self) -> frozenset[int]:
        """Brokers that have registered in KRaft mode and were unfenced since."""
        found: dict[int, bool] = {}
        for line in self.log_text.splitlines():
            if registered := _REGISTERED.search(line):
                found[int(registered[1])] = False
            elif (unfenced := _UNFENCED.search(line)) and int(unfenced[1]) in found:
                found[int(unfenced[1])] = True
            elif migrating := _MIGRATING.search(line):
                found.pop(int(migrating[1]), None)
        return frozenset(broker for broker, unfenced in found.items() if unfenced)

    def dump_lines(self) -> Iterator[str]:
        """The records of its metadata log, see `dump_lines`."""
        return dump_lines(self.workspace, self.storage.version, self._segments())

    def _segments(self) -> list[Path]:
        return sorted((self.folder / "data" / "__cluster_metadata-0").glob("*.log"))


def refusal(version: str, release_version: str | None, cluster_id: str, said: str) -> LocalStackError:
    """Why the storage was not formatted.

    Args:
        version: of Kafka.
        release_version: that was asked for; None: none.
        cluster_id: of the quorum.
        said: what `StorageTool` printed.
    """
    if unknown := _UNKNOWN_RELEASE.search(said):
        return VersionRefusedError(
            f"quorum of Kafka {version} not formatted: expected a --release-version that it has, found {release_version!r}: {unknown[0]}; choose another one"
        )
    lines = " | ".join(line for line in said.splitlines() if "WARN" not in line)[:500]
    return LocalStackError(
        f"formatting a controller of Kafka {version} for cluster {cluster_id!r}: expected success, found: {lines}; correct what it names"
    )


def program(workspace: Workspace, version: str, *, heap_mb: int) -> list[str]:
    """Java with the jars of a Kafka version: the command before the name of a main class."""
    java, jars = find_java(), kafka_jars(version)
    log_settings = workspace.folder / "log4j-controller.properties"
    write_whole(log_settings, _LOG_SETTINGS)  # a controller that was started a moment ago may be reading it
    archive = class_data_archive(version, java, jars)
    return [
        *(str(java.program), f"-Xmx{heap_mb}m", *JVM_FLAGS, f"-Dlog4j.configuration={log_settings.as_uri()}"),
        *class_data.options(archive),
        *("-cp", class_path_of(jars)),
    ]


def dump_lines(workspace: Workspace, version: str, segments: Iterable[Path]) -> Iterator[str]:
    """The records of a metadata log, a line each, as `DumpLogSegments` prints them.

    Raises:
        LocalStackError: the tool fails.
    """
    for segment in segments:
        command = [
            *program(workspace, version, heap_mb=512),
            *("kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--skip-record-metadata"),
            *("--files", str(segment)),
        ]
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as dump,
        ):
            assert dump.stdout is not None
            yield from dump.stdout
            if dump.wait():
                complaints.seek(0)
                said = (complaints.readline().strip() or "nothing said")[:_SAID_MAX]
                raise LocalStackError(
                    f"reading the metadata log {segment} with the tools of Kafka {version}: expected success of DumpLogSegments, found status "
                    f"{dump.returncode}: {said}; name a whole copy and the version that wrote it, or free some memory, and run again"
                )
