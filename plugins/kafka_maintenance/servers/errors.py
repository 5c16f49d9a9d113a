"""What can go wrong on the local stack: one base class, one subclass per thing that a caller can handle."""

import errno


class LocalStackError(Exception):
    """Base of every error that `kafka_maintenance.servers` raises on purpose."""


class JavaMissingError(LocalStackError):
    """No Java runtime of the needed version was found."""


class PortTakenError(LocalStackError):
    """Another process listens on the wanted port."""


class DiskFullError(LocalStackError):
    """The file system has too little room left."""


class ChildDiedError(LocalStackError):
    """A started process ended by itself; the message carries the tail of its log."""


class NotHealthyError(LocalStackError):
    """A started process runs and does not become healthy in time."""


class JarsUnavailableError(LocalStackError):
    """Jars that are not in the cache could not be fetched."""


class VersionRefusedError(LocalStackError, ValueError):
    """A version that was named cannot be used: its jars are not pinned, or Kafka does not know it."""


class JarChecksumError(LocalStackError):
    """A cached or fetched jar is not the one that the lock file names."""


class AirflowRequestError(LocalStackError):
    """Airflow's API refused or did not answer a request."""


class AlreadyAnsweredError(AirflowRequestError):
    """Somebody has answered the question of a gate meanwhile."""


class ForeignFolderError(LocalStackError, ValueError):
    """The folder named for a stack holds files that no stack made, or is none."""


class FolderNameError(LocalStackError, ValueError):
    """The folder named for a stack has a name that a part of it cannot read."""


class StackRunningError(LocalStackError):
    """The folder's stack is up already, or is not up when it should be."""


def from_os_error(error: OSError, attempted: str) -> LocalStackError:
    """What a failed call to the operating system means for the stack; `attempted` begins the message."""
    if error.errno == errno.ENOSPC:
        return DiskFullError(f"{attempted}: the disk is full; free some space and start again")
    return LocalStackError(f"{attempted} failed: {error}; check that the path exists and that you may use it")
