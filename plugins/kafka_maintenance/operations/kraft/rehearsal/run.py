"""A rehearsal from begin to end: attempts on the copy, each obstacle explained and taken away, until dual write or until nothing explains.

Source: docs/kraft.md, "Rehearsal".
"""

import re
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from controller_core.model.errors import MalformedZnodeError
from controller_core.znodes import encode_cluster_id
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.rehearsal.attempt import Attempt, Cost, End, attempt
from kafka_maintenance.operations.kraft.rehearsal.compare import compared
from kafka_maintenance.operations.kraft.rehearsal.copy import Copy, unit_of
from kafka_maintenance.operations.kraft.rehearsal.difference import Difference, Kind
from kafka_maintenance.operations.kraft.rehearsal.obstacle import (
    Obstacle,
    first_culprit,
    from_log,
    most_telling,
    refusal,
    suspects,
    telling_lines,
    units,
)
from kafka_maintenance.servers import Workspace, ZooKeeperServer, stop_orphans
from kafka_maintenance.servers.kraft_controller import Storage

OBSTACLES_MAX: Final = 50
_CONTROLLER_ID_MIN: Final = 3000
_OWN_SETTINGS: Final = re.compile(
    r"(zookeeper|listener|controller\.(quorum|listener)|ssl|sasl|metadata\.log|log\.dir)|.*\.class\.name$|"
    r"(process\.roles|node\.id|listeners|advertised\.listeners|inter\.broker\.listener\.name|security\.inter\.broker\.protocol|early\.start\.listeners)$"
)
"""Settings that name hosts, logins, files or classes of the planned quorum, which a controller on loopback does not have."""
_PAIR: Final = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])*)\s*[=:]?(?P<value>.*)")
_HEAP_MB: Final = 256
_PARTITIONS_PER_HEAP_MB: Final = 100
_ZNODES_PER_HEAP_MB: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The quorum that is planned: version line of Kafka, `--release-version` (None: the version's own), further settings.

    `node_id` and `listener`, the name of the brokers' listener, count where real brokers are started: imitated ones say what is wanted.
    """

    version: str = "3.9"
    release_version: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    node_id: int | None = None
    listener: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the rehearsal of one copy went.

    Attributes:
        reached: dual write, in the end.
        obstacles: in the order in which they stopped an attempt.
        unexplained: what the log says of an end that nothing explains; empty otherwise.
        differences: of the last attempt, if it reached dual write.
        record_counts: type → records of the migration.
        attempts: migrations tried.
        cost: of the last attempt; `total_s` of all together.
        rest: the copy without the obstacles.
    """

    reached: bool
    obstacles: tuple[Obstacle, ...]
    unexplained: tuple[str, ...]
    differences: tuple[Difference, ...]
    record_counts: Mapping[str, int]
    attempts: int
    cost: Cost
    total_s: float
    rest: Copy

    @property
    def passed(self) -> bool:
        """Dual write at the first try, and no difference without a class."""
        classified = all(difference.kind is not Kind.UNCLASSIFIED for difference in self.differences)
        return self.reached and not self.obstacles and classified


def planned_settings(properties: str) -> Mapping[str, str]:
    """Of a quorum's properties file what a rehearsal takes over: not where it listens, who votes, or where ZooKeeper is."""
    return {key: value for key, value in pairs_of(properties).items() if not _OWN_SETTINGS.match(key)}


def planned_quorum(version: str, release_version: str | None, properties: str) -> Quorum:
    """The quorum that a properties file describes.

    Raises:
        BadInputError: its node.id is not a number.
    """
    pairs = pairs_of(properties)
    node_id = pairs.get("node.id", "")
    if node_id and not node_id.isdecimal():
        raise BadInputError(
            f"the quorum's properties not used: expected a number as node.id, found {node_id!r}; correct it"
        )
    return Quorum(
        version=version,
        release_version=release_version,
        settings=planned_settings(properties),
        node_id=int(node_id) if node_id else None,
        listener=pairs.get("inter.broker.listener.name"),
    )


def pairs_of(properties: str) -> Mapping[str, str]:
    """Settings of a properties file as Java reads it; escapes stay, for the settings are written to such a file again."""
    pairs = (match for line in _logical_lines(properties) if (match := _PAIR.fullmatch(line)))
    return {match["key"]: match["value"].strip() for match in pairs}


def _logical_lines(properties: str) -> Iterator[str]:
    """Lines without comments, each with those that continue it."""
    held: list[str] = []
    for line in map(str.lstrip, re.split(r"\r\n|\r|\n", properties)):
        if not held and (not line or line.startswith(("#", "!"))):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2
        held.append(line.removesuffix("\\") if goes_on else line)
        if not goes_on:
            yield "".join(held)
            held = []
    if held:
        yield "".join(held)


def rehearse(copy: Copy, quorum: Quorum, workspace: Workspace | None = None) -> Outcome:
    """Migrates the copy, takes away what stands in its way, and goes on, on servers that end with it.

    Args:
        copy: of a snapshot.
        quorum: what is planned.
        workspace: where the servers keep data and logs; None for a temporary folder.

    Raises:
        VersionRefusedError: Kafka of this version has no such release version.
        LocalStackError: no server starts.
    """
    stop_orphans()  # the servers of a rehearsal that was killed would run on for ever
    with ExitStack() as stack:
        place = workspace or stack.enter_context(Workspace.create_temporary())
        return _Stage(copy, quorum, place, stack).run()


class _Stage:
    """The servers of one rehearsal, and the attempts made on them."""

    def __init__(self, copy: Copy, quorum: Quorum, workspace: Workspace, stack: ExitStack) -> None:
        self._begun_s = time.monotonic()
        self._copy, early = _with_cluster_id(copy)
        self._obstacles: list[Obstacle] = early
        self._settings = quorum.settings
        self._attempts = 0
        self._storage = Storage(  # first: a release version that Kafka does not have is told before a server starts
            workspace,
            version=quorum.version,
            node_id=free_controller_id(copy),
            cluster_id=self._copy.cluster_id,
            release_version=quorum.release_version,
        )
        heap_mb = _HEAP_MB + len(copy.tree.znodes) // _ZNODES_PER_HEAP_MB
        self._zookeeper = stack.enter_context(ZooKeeperServer(workspace, name="rehearsal-zookeeper", heap_mb=heap_mb))

    def run(self) -> Outcome:
        while True:
            result = self._attempt(self._copy)
            if result.end is End.DUAL_WRITE:
                differences = compared(self._copy.tree, result.records, result.log, result.after)
                return self._outcome(result, differences=differences)
            refused = refusal(result)
            if refused is not None:
                self._obstacles.append(refused)
                return self._outcome(result)
            found = from_log(self._copy, result) or self._bisected(result)
            if found is None or len(self._obstacles) >= OBSTACLES_MAX:
                return self._outcome(result, unexplained=telling_lines(result.log))
            self._take_away(*found)

    def _attempt(self, copy: Copy) -> Attempt:
        self._attempts += 1
        heap_mb = _HEAP_MB + copy.partition_count // _PARTITIONS_PER_HEAP_MB
        return attempt(copy, self._storage, self._zookeeper, f"attempt-{self._attempts}", self._settings, heap_mb)

    def _bisected(self, failed: Attempt) -> tuple[Obstacle, Copy] | None:
        """The znode without which the copy migrates, found by migrating parts of the copy."""
        copy = self._copy
        candidates = units(copy.tree)

        def works(kept: Sequence[str]) -> bool:
            return self._attempt(copy.only(kept, candidates)).end is End.DUAL_WRITE

        culprit = first_culprit(candidates, works)
        if culprit is None:
            return None
        path, rule = next(
            ((path, rule) for path, rule in suspects(copy.tree).items() if unit_of(path, frozenset([culprit]))),
            (culprit, None),
        )
        return (
            Obstacle(failed.end, failed.state, most_telling(failed.log), path, rule, found_by="bisection"),
            copy.without(culprit),
        )

    def _take_away(self, obstacle: Obstacle, rest: Copy) -> None:
        """Goes on without the obstacle, and without what the same rule names besides: each would cost an attempt."""
        others = []
        if obstacle.rule not in {None, "R4", "R5"}:
            others = [path for path, rule in suspects(rest.tree).items() if rule == obstacle.rule and path in rest.tree]
        if others:
            rest = rest.without(*others)
        self._obstacles.append(replace(obstacle, others=tuple(others)))
        self._copy = rest

    def _outcome(
        self, result: Attempt, unexplained: tuple[str, ...] = (), differences: tuple[Difference, ...] = ()
    ) -> Outcome:
        return Outcome(
            reached=result.end is End.DUAL_WRITE,
            obstacles=tuple(self._obstacles),
            unexplained=unexplained,
            differences=differences,
            record_counts=result.records.counts,
            attempts=self._attempts,
            cost=result.cost,
            total_s=time.monotonic() - self._begun_s,
            rest=self._copy,
        )


def free_controller_id(copy: Copy) -> int:
    """An id for the controller that no broker has: 3000, or the next free one."""
    taken = copy.tree.registered | set(copy.tree.replica_brokers)
    return next(
        number for number in range(_CONTROLLER_ID_MIN, _CONTROLLER_ID_MIN + len(taken) + 1) if number not in taken
    )


def _with_cluster_id(copy: Copy) -> tuple[Copy, list[Obstacle]]:
    """The copy with an id that a quorum can be formatted for; an obstacle where it had none."""
    try:
        copy.cluster_id  # noqa: B018 - whether it can be read
    except MalformedZnodeError as error:
        fresh = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        obstacle = Obstacle(End.NOT_STARTED, "", str(error), "/cluster/id", "R17")
        return copy.with_data({"/cluster/id": encode_cluster_id(fresh)}), [obstacle]
    return copy, []
