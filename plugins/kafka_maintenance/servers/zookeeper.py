"""Real ZooKeeper servers for the demo, the tests and the benchmarks: the server inside PySpark's jars, on loopback.

Source: ZooKeeper 3.9 administrator's guide (zoo.cfg keys, SASL); PySpark 4.3.0 carries ZooKeeper 3.9.5.
"""

import hashlib
import importlib.util
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from controller_core.adapters.zookeeper.session import connect
from kafka_maintenance.servers import class_data
from kafka_maintenance.servers.cache import cache_folder
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.java import QUIET_SERVER, SHORT_RUN, Java, find_java
from kafka_maintenance.servers.ports import LOOPBACK, check_port, free_ports
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.service import Server, Service
from kafka_maintenance.servers.workspace import Workspace

START_TIMEOUT_S = 60.0
CLASS_PATH_PATTERNS = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "netty-*.jar",
    "snappy-java-*.jar",
    "metrics-core-*.jar",
    "commons-cli-*.jar",
    "commons-io-*.jar",
)
_SMALL_HEAP_MB = 256
LOG_SETTINGS = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1} %m%n
"""


class ZooKeeperServer(Server):
    """One ZooKeeper server; a context manager that starts it and waits until it serves.

    With `users` it demands nothing of anonymous sessions, and lets clients log in by SASL DIGEST-MD5 as one of them, so
    that ACLs of scheme `sasl` can be tested. Session timeouts are 2 to 20 ticks, 2 to 20 s by default.
    """

    def __init__(
        self,
        workspace: Workspace | None = None,
        *,
        name: str = "zookeeper",
        port: int | None = None,
        users: Mapping[str, str] | None = None,
        tick_time_ms: int = 1000,
        heap_mb: int = _SMALL_HEAP_MB,
        config: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        """Describe a server; nothing is started.

        Args:
            workspace: where data and logs go; None for a temporary folder that `stop` deletes.
            name: name of its folder, its log and its record.
            port: client port on 127.0.0.1; None for a free one.
            users: user → password for SASL DIGEST-MD5; None for no SASL.
            tick_time_ms: ZooKeeper's unit of time, in milliseconds.
            heap_mb: maximal Java heap in MiB; with more than the default the JVM compiles with both compilers.
            config: further lines of zoo.cfg.
            java_options: further options of its JVM.
        """
        super().__init__(workspace, name=name, port=port)
        self.users = dict(users or {})
        self._settings = {
            "tickTime": str(tick_time_ms),
            "clientPort": str(self.port),
            "clientPortAddress": LOOPBACK,
            "dataDir": f"./{name}",  # from the workspace, for the reason that `write_properties` gives
            "maxClientCnxns": "0",
            "maxSessionTimeout": str(20 * tick_time_ms),
            "4lw.commands.whitelist": "*",
            "admin.enableServer": "false",
            **(config or {}),
        }
        self._heap_mb = heap_mb
        self._java_options = tuple(java_options)

    @property
    def hosts(self) -> str:
        """What a client connects to: `127.0.0.1:<port>`."""
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> Self:
        """Start the server and wait until it serves; also again after `kill` or `stop`, on the same port and data.

        Raises:
            JavaMissingError, PortTakenError, DiskFullError, ChildDiedError, NotHealthyError: see these classes.
        """
        return self.launch().wait()

    def launch(self) -> Self:
        """Start the process and return at once."""
        java = find_java()
        return self._launch(java, class_data.options(_class_data_archive(java)), stop_timeout_s=5)

    def _launch(self, java: Java, class_data_options: Sequence[str], *, stop_timeout_s: float) -> Self:
        check_port(self.port, self.name)
        folder = self.workspace.subfolder(self.name)
        config = folder / "zoo.cfg"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._all_settings().items()))
        (folder / "log4j2.properties").write_text(LOG_SETTINGS)
        command = [
            str(java.program),
            f"-Xmx{self._heap_mb}m",
            *(SHORT_RUN if self._heap_mb <= _SMALL_HEAP_MB else ["-XX:+UseSerialGC"]),
            *QUIET_SERVER,
            "-Dzookeeper.admin.enableServer=false",
            "-Dzookeeper.forceSync=no",
            *class_data_options,
            f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
            *self._login_option(folder),
            *self._java_options,
            "-cp",
            class_path(),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(config),
        ]
        self._child = start_child(
            self.workspace, self.name, command, stop_signal=signal.SIGTERM, stop_timeout_s=stop_timeout_s
        )
        return self

    def wait(self) -> Self:
        """Wait until the server answers as leader, follower or standalone server."""
        wait_until(
            lambda: "Mode:" in self.command("srvr"),
            what=f"{self.name} serves {self.hosts}",
            timeout_s=START_TIMEOUT_S,
            children=[self.child],
        )
        return self

    def kill(self) -> None:
        """SIGKILL; the data stay for `start`."""
        self.child.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        self.child.pause()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self.child.resume()

    def command(self, word: str) -> str:
        """Answer to a four-letter command such as `srvr` or `mntr`; an empty string when nobody answers in 2 s."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2.0) as connection:
                connection.sendall(word.encode())
                return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
        except OSError:
            return ""

    def _all_settings(self) -> dict[str, str]:
        sasl = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"} if self.users else {}
        return self._settings | sasl

    def _login_option(self, folder: Path) -> list[str]:
        if not self.users:
            return []
        users = " ".join(f'user_{user}="{password}"' for user, password in self.users.items())
        jaas = folder / "server.jaas"
        jaas.touch(mode=0o600)
        jaas.write_text(f"Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required {users}; }};\n")
        return [f"-Djava.security.auth.login.config={jaas}"]


class ZooKeeperEnsemble(Service):
    """Three servers (or another odd number) that elect a leader; a context manager like `ZooKeeperServer`."""

    def __init__(
        self,
        workspace: Workspace | None = None,
        *,
        size: int = 3,
        users: Mapping[str, str] | None = None,
        tick_time_ms: int = 1000,
    ) -> None:
        """Describe an ensemble; nothing is started. Arguments: see `ZooKeeperServer`."""
        self._own_workspace = workspace is None
        self.workspace = workspace or Workspace.create_temporary()
        ports = free_ports(2 * size)
        members = {f"server.{i + 1}": f"{LOOPBACK}:{ports[2 * i]}:{ports[2 * i + 1]}" for i in range(size)}
        self.servers: Sequence[ZooKeeperServer] = tuple(
            ZooKeeperServer(
                self.workspace,
                name=f"zookeeper-{i + 1}",
                users=users,
                tick_time_ms=tick_time_ms,
                config={"initLimit": "10", "syncLimit": "5", **members},
            )
            for i in range(size)
        )

    @property
    def hosts(self) -> str:
        """All servers, for a client."""
        return ",".join(server.hosts for server in self.servers)

    def start(self) -> Self:
        """Start all servers and wait until each follows or leads."""
        for number, server in enumerate(self.servers, start=1):
            (self.workspace.subfolder(server.name) / "myid").write_text(f"{number}\n")
            server.launch()
        for server in self.servers:
            server.wait()
        return self

    def stop(self) -> None:
        """Stop all servers; a temporary workspace is deleted."""
        for server in self.servers:
            server.stop()
        if self._own_workspace:
            self.workspace.close()

    def leader(self) -> ZooKeeperServer:
        """The server that leads now.

        Raises:
            LocalStackError: none does at the moment.
        """
        for server in self.servers:
            if "Mode: leader" in server.command("srvr"):
                return server
        raise LocalStackError(f"looking for the leader of the ensemble {self.hosts}: no server leads now; try again")


def pyspark_jars() -> Path:
    """The folder of PySpark's jars, without importing pyspark.

    Raises:
        LocalStackError: PySpark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / "jars").is_dir():
            return Path(location) / "jars"
    raise LocalStackError(
        "looking for the jars of PySpark: package pyspark with its folder jars not found;"
        " run `make setup`, or install the wheel with the extra spark"
    )


def class_path() -> str:
    """The jars of PySpark that a ZooKeeper server needs, as a Java class path."""
    jars = pyspark_jars()
    found = sorted(str(jar) for pattern in CLASS_PATH_PATTERNS for jar in jars.glob(pattern))
    return ":".join(found)


def _class_data_archive(java: Java) -> Path | None:
    """The class data archive with which a server starts in half the time; one for each Java and state of the jars."""
    jars = [(each, Path(each).stat()) for each in class_path().split(":")]
    state = hashlib.sha256("".join(f"{jar} {found.st_size} {found.st_mtime_ns}\n" for jar, found in jars).encode())
    archive = cache_folder() / f"zookeeper-{state.hexdigest()[:12]}-{class_data.java_id(java)}.jsa"
    return class_data.recorded(archive, _record_classes)


class _Recorder(ZooKeeperServer):
    """A server that runs once for its classes."""

    def __init__(self, workspace: Workspace, option: str) -> None:
        super().__init__(workspace)
        self._option = option

    def launch(self) -> Self:
        return self._launch(find_java(), [self._option], stop_timeout_s=60)


def _record_classes(option: str) -> None:
    with (
        Workspace.create_temporary() as workspace,
        _Recorder(workspace, option) as server,
        connect(server.hosts) as client,
    ):
        client.create("/recorded", b"")
