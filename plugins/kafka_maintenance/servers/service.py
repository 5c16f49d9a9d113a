"""What every part of the local stack is: something that is started, awaited and stopped."""

from abc import ABC, abstractmethod
from typing import Self

from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.ports import LOOPBACK, free_port
from kafka_maintenance.servers.process import Child
from kafka_maintenance.servers.workspace import Workspace


class Service(ABC):
    """Started on entry and stopped on exit, also when the start fails half-way; or by hand."""

    @abstractmethod
    def start(self) -> Self:
        """Start it and wait until it serves."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it. Stopping twice does nothing."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


class Server(Service):
    """A service of one process that listens on one port of 127.0.0.1."""

    def __init__(self, workspace: Workspace | None, *, name: str, port: int | None) -> None:
        """Describe a server; nothing is started.

        Args:
            workspace: where data and logs go; None for a temporary folder that `stop` deletes.
            name: name of its folder, its log and its record.
            port: port on 127.0.0.1; None for a free one.
        """
        self._own_workspace = workspace is None
        self.workspace = workspace or Workspace.create_temporary()
        self.name = name
        self.port = port or free_port()
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        """The running process.

        Raises:
            LocalStackError: the server was not started.
        """
        if self._child is None:
            raise LocalStackError(f"using {self.name} at {LOOPBACK}:{self.port}: it is not started; call start() first")
        return self._child

    @property
    def log_text(self) -> str:
        """What it has logged so far."""
        return self.child.log.read_text(errors="replace")

    def stop(self) -> None:
        """Stop the process; a temporary workspace is deleted. Stopping twice does nothing."""
        if self._child is not None:
            self._child.stop()
            self._child = None
        if self._own_workspace:
            self.workspace.close()
