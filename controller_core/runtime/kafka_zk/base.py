"""What all of Kafka's ZooKeeper operations share: the formats of a version, writes with the epoch check, and result codes.

Source: Kafka 3.9 `KafkaZkClient.wrapRequestWithControllerEpochCheck`, `retryRequestsUntilConnected`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controller_core.messages.answers import BAD_VERSION, NO_NODE
from controller_core.model.dialect import Dialect
from controller_core.model.errors import (
    BadVersionError,
    ControllerMovedError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ZooKeeperError,
)
from controller_core.ports.zookeeper import ANY_VERSION, Check, Create, Delete, Operation, ZnodeStat, ZooKeeper
from controller_core.znodes import CONTROLLER_EPOCH, ScalaVersion

Result = list[str | ZnodeStat | None]

OK = "OK"
_CODES: tuple[tuple[type[ZooKeeperError], str], ...] = (
    (NoNodeError, NO_NODE), (NodeExistsError, "NODEEXISTS"), (BadVersionError, BAD_VERSION),
    (NotEmptyError, "NOTEMPTY"), (NoAuthError, "NOAUTH"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeFormats:
    """In which formats one Kafka version writes, and how strictly it reads."""

    topic_version: int
    broker_version: int
    controller_version: int
    scala: ScalaVersion
    bound_reassignment: bool
    atomic_election: bool


def formats_of(dialect: Dialect) -> ZnodeFormats:
    """The formats of a dialect."""
    return ZnodeFormats(
        topic_version=dialect.topic_json_version,
        broker_version=dialect.broker_json_version,
        controller_version=dialect.controller_json_version,
        scala=ScalaVersion.V2_13 if dialect.scala_2_13 else ScalaVersion.V2_12,
        bound_reassignment=dialect.request_znodes_read_strictly,
        atomic_election=dialect.election_bumps_epoch_atomically,
    )


class KafkaZkBase:
    """A session, the formats of a version, and the ways to write that all operations use.

    `epoch_version` in all methods is the version that `/controller_epoch` must have for the write to happen: the
    epoch check; None: no check, as in Kafka before 2.1.
    """

    def __init__(self, zookeeper: ZooKeeper, formats: ZnodeFormats) -> None:
        self.zookeeper = zookeeper
        self.formats = formats

    def exists(self, path: str) -> bool:
        """Whether a znode is there."""
        return self.zookeeper.exists(path) is not None

    def children_or_none(self, path: str) -> list[str]:
        """Names of the children, sorted; none if the znode is missing."""
        try:
            return self.zookeeper.children(path)
        except NoNodeError:
            return []

    def data_or_none(self, path: str) -> tuple[bytes, ZnodeStat] | None:
        """Data and stat, or None if the znode is missing."""
        try:
            return self.zookeeper.get(path)
        except NoNodeError:
            return None

    def create_recursive(self, path: str, data: bytes = b"") -> str:
        """Create a znode and its missing parents."""
        return self.zookeeper.create(path, data, make_parents=True)

    def multi_if_epoch(self, operations: Sequence[Operation], epoch_version: int | None) -> Result:
        """Carry out `operations` together, if `/controller_epoch` has this version.

        Raises:
            ControllerMovedError: it has not, and nothing happened.
            ZooKeeperError: an operation failed, and nothing happened.
        """
        (result,) = self.multi_all_if_epoch([operations], epoch_version)
        if isinstance(result, ZooKeeperError):
            raise result
        return result

    def multi_all_if_epoch(
        self, transactions: Sequence[Sequence[Operation]], epoch_version: int | None
    ) -> list[Result | ZooKeeperError]:
        """Carry out each transaction by itself, all with the epoch check; the results are those of the operations alone.

        Raises:
            ControllerMovedError: the epoch check failed for one of them; earlier ones may have taken effect.
        """
        epoch_check = [] if epoch_version is None else [Check(path=CONTROLLER_EPOCH, version=epoch_version)]
        results = self.zookeeper.multi_all([[*epoch_check, *operations] for operations in transactions])
        return [_without_epoch_check(result, len(epoch_check), epoch_version) for result in results]

    def delete_if_there(self, path: str, epoch_version: int | None) -> None:
        """Delete a znode, whatever its version; absent is fine."""
        (result,) = self.multi_all_if_epoch([[Delete(path=path, version=ANY_VERSION)]], epoch_version)
        if isinstance(result, ZooKeeperError) and not isinstance(result, NoNodeError):
            raise result

    def delete_all_there(self, paths: Sequence[str], epoch_version: int | None) -> None:
        """Delete znodes, each by itself, whatever their version; absent is fine."""
        deletions = [[Delete(path=path, version=ANY_VERSION)] for path in paths]
        for result in self.multi_all_if_epoch(deletions, epoch_version):
            if isinstance(result, ZooKeeperError) and not isinstance(result, NoNodeError):
                raise result

    def delete_recursive(self, path: str, epoch_version: int | None) -> bool:
        """Delete a znode with all below it, children first; whether there was anything.

        Raises:
            ValueError: `path` is none.
        """
        try:
            names = self.zookeeper.children(path)
        except NoNodeError:
            return False
        for name in names:
            self.delete_recursive(f"{path}/{name}", epoch_version)
        self.delete_if_there(path, epoch_version)
        return True

    def create_codes(self, paths: Sequence[tuple[str, bytes]], epoch_version: int | None) -> list[str]:
        """Create znodes, each by itself; a result code for each."""
        creations = [[Create(path=path, data=data)] for path, data in paths]
        return [code_of(result) for result in self.multi_all_if_epoch(creations, epoch_version)]


def code_of(result: Result | ZooKeeperError) -> str:
    """ZooKeeper's name of a result: OK, NONODE, NODEEXISTS, BADVERSION, …

    Raises:
        ZooKeeperError: what is no result of one operation: the session ended, the connection broke.
    """
    if not isinstance(result, ZooKeeperError):
        return OK
    for kind, code in _CODES:
        if isinstance(result, kind):
            return code
    raise result


def _without_epoch_check(
    result: Result | ZooKeeperError, checks: int, epoch_version: int | None
) -> Result | ZooKeeperError:
    if not isinstance(result, ZooKeeperError):
        return result[checks:]
    if result.failed_operation is None:
        return result
    if result.failed_operation < checks:
        raise ControllerMovedError(
            f"write refused: expected {CONTROLLER_EPOCH} at version {epoch_version}, found another; a newer controller "
            "is active, so stop acting as one"
        ) from result
    result.failed_operation -= checks
    return result
