"""One real Kafka broker of a rehearsal on loopback: first in ZooKeeper mode with the migration's keys, then in KRaft mode, on the same data.

Source: Kafka 3.9 `KafkaServer`, `BrokerServer`, `BrokerLifecycleManager`; docs/kraft.md.
"""

import signal
from collections.abc import Mapping
from typing import Self

from kafka_maintenance.servers.broker_jvm import BROKER_SETTINGS, write_properties
from kafka_maintenance.servers.kraft_controller import program
from kafka_maintenance.servers.ports import check_port
from kafka_maintenance.servers.process import start_child
from kafka_maintenance.servers.service import Server
from kafka_maintenance.servers.workspace import Workspace


class MigratingBroker(Server):
    """A broker with exactly these settings; whether it stays alive is the question."""

    def __init__(
        self, workspace: Workspace, *, version: str, name: str, port: int, settings: Mapping[str, str]
    ) -> None:
        """Describe it; nothing is started.

        Args:
            workspace: where settings, data and log lie.
            version: version line of Kafka.
            name: names its settings and its log; unique in the workspace.
            port: of its first listener.
            settings: its server.properties.
        """
        super().__init__(workspace, name=name, port=port)
        self._version, self._settings = version, settings

    def start(self) -> Self:
        """Start the process and return at once."""
        check_port(self.port, self.name)
        path = self.workspace.folder / f"{self.name}.properties"
        path.touch(mode=0o600)
        write_properties(path, {**BROKER_SETTINGS, **self._settings})
        command = [*program(self.workspace, self._version, heap_mb=160), "kafka.Kafka", str(path)]
        self._child = start_child(self.workspace, self.name, command, stop_signal=signal.SIGTERM)
        return self
