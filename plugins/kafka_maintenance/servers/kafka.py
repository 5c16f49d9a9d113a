"""Real Kafka brokers in ZooKeeper mode, of versions 0.10.2 to 3.9, on loopback.

Two modes. `processes`: one JVM per broker, which can be killed, paused and resumed. `shared_jvm`: all brokers in one
JVM, driven through py4j; starts in half the time and takes half the memory, without crashes.

Source: Kafka's broker settings; runs of every version on Java 17 against ZooKeeper 3.9.5.
"""

import contextlib
import logging
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Self

from controller_core.adapters.zookeeper.session import KazooZooKeeper, ZooKeeperAuth, connect
from controller_core.model.errors import NoNodeError
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes.controller import decode_controller
from controller_core.znodes.paths import CONTROLLER, broker_path
from kafka_maintenance.servers import class_data
from kafka_maintenance.servers.broker_jvm import (
    BROKER_SETTINGS,
    JVM_FLAGS,
    LOG_SETTINGS,
    START_TIMEOUT_S,
    class_data_archive,
    class_path_of,
    py4j_gateway,
    write_properties,
)
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.java import Java, find_java
from kafka_maintenance.servers.kafka_jars import kafka_jars
from kafka_maintenance.servers.ports import LOOPBACK, check_port, free_port, listens
from kafka_maintenance.servers.process import Child, start_child, wait_until
from kafka_maintenance.servers.service import Service
from kafka_maintenance.servers.workspace import Workspace
from kafka_maintenance.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

Mode = Literal["processes", "shared_jvm"]


class KafkaBroker:
    """One broker of a `KafkaCluster`; made by it. Keeps its port and its data over restarts."""

    def __init__(self, cluster: "KafkaCluster", broker_id: int, rack: str | None) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.rack = rack
        self.port = free_port()
        self._child: Child | None = None
        self._server: Any = None  # a kafka.server.KafkaServer behind py4j

    @property
    def address(self) -> str:
        """`127.0.0.1:<port>`."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether its process (or its server in the shared JVM) was started and has not ended; paused counts."""
        return self._server is not None or (self._child is not None and self._child.is_alive)

    @property
    def is_registered(self) -> bool:
        """Whether `/brokers/ids/<id>` exists."""
        return f"{self.cluster.chroot}/brokers/ids/{self.id}" in self.cluster.ephemerals()

    @property
    def pid(self) -> int:
        """Process id; of the shared JVM in that mode."""
        return self._process().pid

    def start(self) -> Self:
        """Start it and wait until it is registered. After a crash waits first until the old registration is gone."""
        return self.launch().wait_registered()

    def launch(self) -> Self:
        """Start it and return at once (in the shared JVM: when it is up)."""
        self._await_old_registration()
        check_port(self.port, f"broker {self.id}")
        if self.cluster.mode == "shared_jvm":
            self._server = self.cluster.start_in_shared_jvm(self.settings())
        else:
            self._child = self.cluster.start_process(self)
        return self

    def wait_registered(self) -> Self:
        """Wait until `/brokers/ids/<id>` exists and its port answers."""
        wait_until(
            lambda: self.is_registered and listens(self.port),
            what=f"broker {self.id} of {self.cluster.name} is registered",
            timeout_s=START_TIMEOUT_S,
            children=[self._process()],
        )
        return self

    def terminate(self) -> None:
        """Stop it in an orderly way, with a controlled shutdown."""
        if self._server is not None:
            self._server.shutdown()
            self._server.awaitShutdown()
            self._server = None
        elif self._child is not None:
            self._child.stop()
            self._child = None

    def kill(self, *, forget: bool = False) -> None:
        """SIGKILL. Its registration lasts until its session ends (`zookeeper.session.timeout.ms`).

        With `forget` its ephemeral znodes are deleted by hand, which spares the wait and changes nothing else: leaders
        move, another controller is elected, the later end of the session finds nothing to delete.
        """
        self._own_process("kill").kill()
        self._child = None
        if forget:
            with self.cluster.session() as zookeeper:
                if self.cluster.controller_id() == self.id:
                    zookeeper.delete(CONTROLLER, ANY_VERSION)
                with contextlib.suppress(NoNodeError):
                    zookeeper.delete(broker_path(self.id), ANY_VERSION)

    def pause(self) -> None:
        """SIGSTOP: it keeps its session for `zookeeper.session.timeout.ms` and does nothing."""
        self._own_process("pause").pause()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self._own_process("resume").resume()

    def settings(self) -> dict[str, str]:
        """Its server.properties."""
        listener = f"PLAINTEXT://{self.address}"
        return {
            **BROKER_SETTINGS,
            "broker.id": str(self.id),
            "listeners": listener,
            "advertised.listeners": listener,
            "log.dirs": f"{self.cluster.name}/data-{self.id}",
            "zookeeper.connect": self.cluster.zookeeper_connect,
            **({"broker.rack": self.rack} if self.rack else {}),
            **({"zookeeper.set.acl": "true"} if self.cluster.login else {}),
            **self.cluster.config,
            **self.cluster.broker_config.get(self.id, {}),
        }

    def _await_old_registration(self) -> None:
        session_timeout_s = int(self.settings()["zookeeper.session.timeout.ms"]) / 1000
        wait_until(
            lambda: not self.is_registered,
            what=f"the old registration of broker {self.id} is gone",
            timeout_s=2 * session_timeout_s + 20,
        )

    def _process(self) -> Child:
        child = self._child or self.cluster.shared_jvm
        if child is None:
            raise LocalStackError(f"using broker {self.id} of {self.cluster.name}: it is not running; call start()")
        return child

    def _own_process(self, action: str) -> Child:
        if self.cluster.mode == "shared_jvm":
            raise LocalStackError(
                f"{action} of broker {self.id}: the brokers of {self.cluster.name} share one JVM;"
                " make the cluster with mode='processes' to crash or pause a single one"
            )
        return self._process()


class KafkaCluster(Service):
    """A Kafka cluster; a context manager that starts its brokers and waits until all are registered.

    Broker ids are 1, 2, …; broker i is in `racks[(i - 1) % len(racks)]`. On exit all brokers are killed: their data are
    not wanted any more. `terminate` stops them in an orderly way.
    """

    def __init__(
        self,
        version: str = "3.9",
        zookeeper: ZooKeeperServer | ZooKeeperEnsemble | None = None,
        *,
        brokers: int = 3,
        racks: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
        broker_config: Mapping[int, Mapping[str, str]] | None = None,
        mode: Mode = "processes",
        workspace: Workspace | None = None,
        name: str = "kafka",
        chroot: str = "",
        inter_broker_protocol_version: str | None = None,
        login: tuple[str, str] | None = None,
        heap_mb: int | None = None,
    ) -> None:
        """Describe a cluster; nothing is started.

        Args:
            version: version line, a key of `kafka_jars.VERSIONS`.
            zookeeper: where it registers; None for a server of its own, started and stopped with it.
            brokers: how many brokers `start` starts.
            racks: names of racks, given out in turn; empty for none.
            config: broker settings that replace the defaults.
            broker_config: broker id → settings of that broker alone.
            mode: "processes" or "shared_jvm".
            workspace: where data and logs go; None for a temporary folder that `stop` deletes.
            name: name of its folder and its logs.
            chroot: path below which its znodes live, such as "/alpha"; the brokers create it.
            inter_broker_protocol_version: as in the middle of an upgrade; None for the version's own.
            login: user and password of the brokers' ZooKeeper sessions (SASL DIGEST-MD5); their znodes get ACLs.
            heap_mb: maximal Java heap in MiB; None for 64 per broker process, 128 for the shared JVM.
        """
        self.version = version
        self._own_workspace = workspace is None
        self.workspace = workspace or Workspace.create_temporary()
        self._own_zookeeper = zookeeper is None
        self.zookeeper = zookeeper or ZooKeeperServer(self.workspace, name=f"{name}-zookeeper")
        self.name = name
        self.chroot = chroot
        self.mode = mode
        self.login = login
        self.racks = tuple(racks)
        protocol = {"inter.broker.protocol.version": inter_broker_protocol_version}
        self.config = {**{key: value for key, value in protocol.items() if value}, **(config or {})}
        self.broker_config = dict(broker_config or {})
        self.heap_mb = heap_mb or (64 if mode == "processes" else 128)
        self.brokers: dict[int, KafkaBroker] = {}
        self.shared_jvm: Child | None = None
        self._gateway: Any = None
        self._broker_count = brokers

    @property
    def folder(self) -> Path:
        """Where the brokers' data and settings are."""
        return self.workspace.subfolder(self.name)

    @property
    def zookeeper_connect(self) -> str:
        """Hosts and chroot, as brokers and clients take them."""
        return f"{self.zookeeper.hosts}{self.chroot}"

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the running brokers, for a Kafka client."""
        return ",".join(broker.address for broker in self.brokers.values() if broker.is_running)

    def __getitem__(self, broker_id: int) -> KafkaBroker:
        """The broker of that id; KeyError when the cluster has none."""
        return self.brokers[broker_id]

    def start(self) -> Self:
        """Start all brokers in parallel and wait until they are registered; if one fails, all are killed.

        Raises:
            JarsUnavailableError, JarChecksumError, JavaMissingError, PortTakenError, DiskFullError, ChildDiedError,
            NotHealthyError: see these classes.
        """
        if self._own_zookeeper and isinstance(self.zookeeper, ZooKeeperServer):
            self.zookeeper.start()
        added = [self._new_broker() for _ in range(self._broker_count)]
        try:
            with ThreadPoolExecutor(max_workers=max(1, len(added))) as pool:
                list(pool.map(KafkaBroker.launch, added))
            for broker in added:
                broker.wait_registered()
        except BaseException:
            self.kill()
            raise
        return self

    def add_broker(self, rack: str | None = None) -> KafkaBroker:
        """Start one more broker with the next id; `rack` None continues the round of racks."""
        return self._new_broker(rack).start()

    def stop(self) -> None:
        """Kill all brokers; own ZooKeeper and temporary folder go too. Stopping twice does nothing."""
        self.kill()
        if self._own_zookeeper and isinstance(self.zookeeper, ZooKeeperServer):
            self.zookeeper.stop()
        if self._own_workspace:
            self.workspace.close()

    def terminate(self) -> None:
        """Stop all brokers in an orderly way, all at once."""
        running = [broker for broker in self.brokers.values() if broker.is_running]
        with ThreadPoolExecutor(max_workers=max(1, len(running))) as pool:
            list(pool.map(KafkaBroker.terminate, running))

    def kill(self) -> None:
        """SIGKILL to every broker; data and registrations stay for a while."""
        for broker in self.brokers.values():
            if self.mode == "processes" and broker.is_running:
                broker.kill()
        if self.shared_jvm is not None:
            self.shared_jvm.kill()
            self.shared_jvm, self._gateway = None, None
        self.brokers = {}

    @contextlib.contextmanager
    def session(self) -> Iterator[KazooZooKeeper]:
        """A ZooKeeper session on the cluster's tree, as the brokers' user."""
        auth = ZooKeeperAuth(scheme="sasl", username=self.login[0], password=self.login[1]) if self.login else None
        with connect(self.zookeeper_connect, auth=auth) as zookeeper:
            yield zookeeper

    def controller_id(self) -> int | None:
        """Id of the broker that is controller now; None when nobody is."""
        with self.session() as zookeeper, contextlib.suppress(NoNodeError):
            return int(decode_controller(zookeeper.get(CONTROLLER)[0]).broker_id)
        return None

    def ephemerals(self) -> frozenset[str]:
        """Paths of all ephemeral znodes, by ZooKeeper's command `dump`; empty when ZooKeeper does not answer."""
        servers = self.zookeeper.servers if isinstance(self.zookeeper, ZooKeeperEnsemble) else (self.zookeeper,)
        answer = next((text for server in servers if (text := server.command("dump"))), "")
        return frozenset(line.strip() for line in answer.splitlines() if line.startswith("\t/"))

    def start_process(self, broker: KafkaBroker) -> Child:
        """Start the JVM of one broker; for `KafkaBroker`."""
        java, jars = find_java(), kafka_jars(self.version)
        properties = self.folder / f"server-{broker.id}.properties"
        write_properties(properties, broker.settings())
        archive = class_data_archive(self.version, java, jars)
        command = [
            *self._jvm(java),
            *class_data.options(archive),
            "-cp",
            class_path_of(jars),
            "kafka.Kafka",
            str(properties),
        ]
        return start_child(self.workspace, f"{self.name}-{broker.id}", command, stop_signal=signal.SIGTERM)

    def start_in_shared_jvm(self, settings: Mapping[str, str]) -> Any:
        """Start a broker inside the shared JVM; for `KafkaBroker`.

        Returns:
            The `kafka.server.KafkaServer` behind py4j, running.
        """
        from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with PySpark, which only a shared JVM needs

        jvm = self._shared_gateway().jvm
        properties = jvm.java.util.Properties()
        for key, value in settings.items():
            properties.setProperty(key, value)
        server_class = jvm.kafka.server.KafkaServer
        reflected = jvm.java.lang.Class.forName("kafka.server.KafkaServer").getConstructors()[0]
        defaults = [
            getattr(server_class, f"$lessinit$greater$default${i}")()
            for i in range(2, reflected.getParameterCount() + 1)
        ]
        try:
            server = server_class(jvm.kafka.server.KafkaConfig.fromProps(properties), *defaults)
            server.startup()
        except Py4JError as error:
            raise LocalStackError(
                f"starting broker {settings['broker.id']} in the shared JVM of {self.name} failed: {error};"
                f" its log is in {self.workspace.logs}"
            ) from error
        return server

    def _new_broker(self, rack: str | None = None) -> KafkaBroker:
        broker_id = len(self.brokers) + 1
        in_turn = self.racks[(broker_id - 1) % len(self.racks)] if self.racks else None
        broker = self.brokers[broker_id] = KafkaBroker(self, broker_id, rack or in_turn)
        if self.mode == "shared_jvm":
            self._shared_gateway()
        return broker

    def _shared_gateway(self) -> Any:
        from py4j.java_gateway import GatewayParameters, JavaGateway  # noqa: PLC0415 - as above

        if self._gateway is None:
            logging.getLogger("py4j").setLevel(logging.CRITICAL)
            java, port = find_java(), free_port()
            command = [*self._jvm(java), *py4j_gateway(self.version, java, port)]
            self.shared_jvm = child = start_child(self.workspace, f"{self.name}-jvm", command)
            wait_until(lambda: listens(port), what="the shared JVM listens", timeout_s=60, children=[child])
            self._gateway = JavaGateway(
                gateway_parameters=GatewayParameters(address=LOOPBACK, port=port, enable_memory_management=False)
            )
        return self._gateway

    def _jvm(self, java: Java) -> list[str]:
        log_settings = self.folder / "log4j.properties"
        log_settings.write_text(LOG_SETTINGS)
        options = [
            str(java.program),
            f"-Xmx{self.heap_mb}m",
            *JVM_FLAGS,
            f"-Dlog4j.configuration={log_settings.as_uri()}",
        ]
        if self.login:
            user, password = self.login
            jaas = self.folder / "client.jaas"
            jaas.touch(mode=0o600)
            jaas.write_text(
                "Client { org.apache.zookeeper.server.auth.DigestLoginModule required"
                f' username="{user}" password="{password}"; }};\n'
            )
            options.append(f"-Djava.security.auth.login.config={jaas}")
        return options
