"""The history of a topic, a partition or any znode from the transaction logs of a ZooKeeper server.

It names the very transaction: zxid, time, session, and whose session it was, where an ephemeral znode says so. Of a secret
it tells that it was written, never what.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, assert_never

from controller_core import znodes
from controller_core.adapters.snapshot.secrets import is_secret
from controller_core.adapters.zookeeper_files.data_directory import DataDirectory
from controller_core.adapters.zookeeper_files.transactions import (
    Change,
    CloseSession,
    Create,
    Delete,
    OpenSession,
    SetAcl,
    SetData,
    Transaction,
    is_session,
)
from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.operations.errors import listed

_PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)")
_SECRET: Final = "(a secret)"  # noqa: S105 -- what is shown instead of one


@dataclass(frozen=True, slots=True)
class Written:
    """What a transaction did to a znode; `value` is its data afterwards (None: none, or not changed)."""

    path: str
    zxid: int
    at: datetime
    session: int
    whose: str | None
    what: str
    value: str | None


@dataclass(frozen=True, slots=True)
class FilesBlame:
    """All that transactions did to a subject, newest first, in the logs from `since` to `until`."""

    subject: str
    since: datetime
    until: datetime
    written: tuple[Written, ...]
    notes: tuple[str, ...]


def blame_files(directory: DataDirectory, subject: str, chroot: str = "") -> FilesBlame:
    """Every transaction that touched a topic with its configs (`orders`), a partition (`orders-3`) or a znode (`/path`).

    Args:
        directory: the server's files.
        subject: a name that is a topic's in the logs is a topic, even if it ends in a number.
        chroot: where Kafka's tree is.

    Raises:
        ObjectMissingError: there are no transactions in the logs, or none touched the subject.
        ZooKeeperFileError: a file is damaged.
    """
    if not directory.zxids:
        raise ObjectMissingError(
            f"history of {subject!r} not found: expected transactions in the logs of {str(directory.folder)!r}, found none; give "
            "--log-dir, where the server has a dataLogDir"
        )
    found: list[Written] = []
    for pattern in _patterns(subject):
        found = list(_touched(directory, re.compile(re.escape(chroot) + pattern), chroot))
        if found:
            break
    since, until = _time(directory.clocks_ms[0]), _time(directory.clocks_ms[-1])
    if not found:
        raise ObjectMissingError(
            f"history of {subject!r} not found: none of {len(directory.zxids)} transactions from {_text(since)} to {_text(until)} "
            f"touched such a topic, partition or znode below {chroot or '/'!r}; correct name or --chroot, or ask the snapshots"
            + (f" ({listed(directory.notes)})" if directory.notes else "")
        )
    return FilesBlame(subject, since, until, tuple(reversed(found)), tuple(directory.notes))


def files_blame_text(report: FilesBlame) -> str:
    """For people: a line for each write, newest first."""
    lines = [f"{report.subject} in the transactions from {_text(report.since)} to {_text(report.until)}"]
    for each in report.written:
        whose = f" of {each.whose}" if each.whose else ""
        value = "" if each.value is None else f": {each.value}"
        lines.append(
            f"{_text(each.at)}  zxid {each.zxid:#x}  session {each.session:#x}{whose}  {each.what} {each.path}{value}"
        )
    return "\n".join([*lines, *(f"note: {note}" for note in report.notes)])


def files_blame_json(report: FilesBlame) -> dict[str, Any]:
    """For machines."""
    return asdict(report)


# ------------------------------------------------------------------------------------------------- within


def _patterns(subject: str) -> Iterator[str]:
    """Of the paths that are the subject's: as a topic first, then as a partition."""
    if subject.startswith("/"):
        yield re.escape(subject.rstrip("/")) + "$"
        return
    name = re.escape(subject)
    topics, configs, deletions = (re.escape(root) for root in (znodes.TOPICS, "/config/topics", znodes.DELETE_TOPICS))
    yield f"({topics}/{name}(/.*)?|{configs}/{name}|{deletions}/{name})$"
    match = _PARTITION.fullmatch(subject)
    if match:
        yield f"{topics}/{re.escape(match['topic'])}/partitions/{match['partition']}(/.*)?$"


class _Sessions:
    """Which session holds which ephemeral znodes, from the oldest snapshot file on: what ends with it, and whose it is."""

    def __init__(self, directory: DataDirectory, chroot: str) -> None:
        self._broker_ids = f"{chroot}{znodes.BROKER_IDS}/"
        self._paths = directory.moment(directory.oldest).tree.ephemerals
        self._owners = {path: session for session, paths in self._paths.items() for path in paths}

    def whose(self, session: int) -> str | None:
        """The broker that registered with a session."""
        held = self._paths.get(session, ())
        return next((f"broker {path.removeprefix(self._broker_ids)}" for path in held if self._is_broker(path)), None)

    def closed(self, session: int, change: CloseSession) -> list[str]:
        """The znodes that end with a session."""
        return sorted(self._paths.get(session, set()).union(change.paths or ()))

    def note(self, transaction: Transaction) -> None:
        """Takes in what a transaction did."""
        for change in transaction.changes:
            match change:
                case Create(path, owner=owner) if is_session(owner):
                    self._paths.setdefault(owner, set()).add(path)
                    self._owners[path] = owner
                case Delete(path) if path in self._owners:
                    self._paths.get(self._owners.pop(path), set()).discard(path)
                case CloseSession():
                    for path in self._paths.pop(transaction.session, set()):
                        self._owners.pop(path, None)
                case Create() | Delete() | SetData() | SetAcl() | OpenSession():
                    pass
                case _:
                    assert_never(change)

    def _is_broker(self, path: str) -> bool:
        return path.startswith(self._broker_ids)


def _touched(directory: DataDirectory, wanted: re.Pattern[str], chroot: str) -> Iterator[Written]:
    """What the transactions did to the wanted paths, in their order."""
    sessions = _Sessions(directory, chroot)
    for transaction in directory.transactions(0):
        done = [each for change in transaction.changes for each in _of(change, transaction, sessions, chroot)]
        whose = sessions.whose(transaction.session)
        sessions.note(transaction)
        for path, what, value in done:
            if wanted.match(path):
                yield Written(
                    path=path.removeprefix(chroot) or "/",
                    zxid=transaction.zxid,
                    at=_time(transaction.time_ms),
                    session=transaction.session,
                    whose=whose or sessions.whose(transaction.session),
                    what=what,
                    value=value,
                )


def _of(change: Change, by: Transaction, sessions: _Sessions, chroot: str) -> Iterator[tuple[str, str, str | None]]:
    """Path, what was done to it, and its data afterwards."""
    match change:
        case Create(path, data):
            yield path, "created", _shown(path.removeprefix(chroot), data)
        case Delete(path):
            yield path, "deleted", None
        case SetData(path, data, version):
            yield path, f"set to version {version}", _shown(path.removeprefix(chroot), data)
        case SetAcl(path, acl, version):
            yield path, f"ACL set to version {version}", str([list(entry) for entry in acl])
        case CloseSession():
            yield from ((path, "deleted with its session", None) for path in sessions.closed(by.session, change))
        case OpenSession():
            return


def _shown(path: str, data: bytes | None) -> str:
    return _SECRET if is_secret(path, data) else (data or b"").decode("utf-8", "backslashreplace")


def _time(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC)


def _text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="milliseconds")
