"""Which znodes of a snapshot are brought back, and which are left out and why.

Source: docs/restoring.md, "A part, or the whole tree"; Kafka 3.9 `ConfigEntityChangeNotificationZNode` and `AclChangeNotificationZNode` for the
notices that make a change effective on living brokers.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa

from controller_core import znodes
from controller_core.adapters.snapshot.secrets import SnapshotSealer
from controller_core.adapters.snapshot.tree_writer import NewZnode
from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import ReplicaAssignment
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH
from kafka_maintenance.operations.restore.epochs import raised

NOTIFICATION_PARENTS: Final = (
    znodes.ISR_CHANGE_NOTIFICATION,
    znodes.LOG_DIR_EVENT_NOTIFICATION,
    znodes.CONFIG_CHANGES,
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
    "/delegation_token/token_changes",
)
REQUESTS: Final = (znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_REPLICA_ELECTION)
_MASK: Final = ":x"
_ROOT_OF_CHROOT: Final = "the root of a chroot: the target has none, and the root of its ensemble stays as it is"
_CREATOR_ALL: Final = [31, "auth", ""]
_ALTERABLE: Final = re.compile(
    r"^/((config/(topics|brokers|clients|users|ips)|kafka-acl|kafka-acl-extended)/.|cluster/id$)"
)
"""Configs and ACLs, of which brokers are told, and the cluster's id: they read it at their start only, and whoever starts without it makes a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreScope:
    """What to bring back. Either `whole`, or any of the others; patterns are those of a shell (`orders-*`).

    Attributes:
        whole: everything, into an empty ZooKeeper.
        fill: with `whole`: into a tree that is not empty; what is there stays, what is missing comes back.
        mirror: with `whole` or `paths`: what differs becomes the snapshot's, what it does not have is removed.
        topics: patterns of topic names: their configs; of deleted topics also the assignment, if `recreate`.
        configs: patterns of `type/name`, as below `/config`.
        paths: whole subtrees, by path.
        recreate: make deleted topics anew, empty; their data is gone.
        requests: also pending requests, which would run again.
        notifications: also notifications.
        acls: with the ACLs of the snapshot; they are a difference where those of the target are others.
        epoch_bump: by how much leader epochs, the controller epoch and the blocks of producer ids are raised; 0: not at all.
        cluster_id: a person's word that the target is the cluster of this id; None: what survives there says so.
        told_by: the brokers whose answer `cluster_id` is; None: a person's.
        widen_acls: also ACLs that give everybody more rights than the target does now.
        corrections: znodes of the snapshot with the text that takes the place of what they hold; None: they are removed.
    """

    whole: bool = False
    topics: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    recreate: bool = False
    requests: bool = False
    notifications: bool = False
    acls: bool = True
    widen_acls: bool = False
    fill: bool = False
    mirror: bool = False
    epoch_bump: int = 0
    cluster_id: str | None = None
    told_by: str | None = None
    corrections: tuple[tuple[str, str | None], ...] = ()

    def __post_init__(self) -> None:
        parts = bool(self.topics or self.configs or self.paths or self.corrections)
        if self.whole == parts:
            raise ValueError(
                "restore refused: expected either the whole tree or topics, configs or paths; name one of both"
            )
        if (
            (self.fill and self.mirror)
            or (self.fill and not self.whole)
            or (self.mirror and not (self.whole or self.paths))
        ):
            raise ValueError(
                "restore refused: expected --fill with --whole, or --mirror with --whole or --path, not both; name one of them"
            )
        if self.corrections and (self.topics or self.configs or self.paths):
            raise ValueError(
                "restore refused: expected either corrections or what comes back, found both; plan one after the other"
            )
        if self.epoch_bump < 0:
            raise ValueError(
                f"restore refused: expected an epoch bump of 0 or more, found {self.epoch_bump}; correct it"
            )

    @property
    def over(self) -> bool:
        """Whether the whole tree is restored over what is there."""
        return self.whole and (self.fill or self.mirror)


def scope_of(document: Mapping[str, Any]) -> RestoreScope:
    """The scope as a plan holds it."""
    found: dict[str, Any] = {
        name: tuple(tuple(each) if isinstance(each, list) else each for each in value)
        if isinstance(value := document[name], list)
        else value
        for name in RestoreScope.__dataclass_fields__
    }
    return RestoreScope(**found)


@dataclass(frozen=True)
class Content:
    """Znodes to create, parents first, and path → why a znode of the snapshot is not among them.

    `assumed_acls` are the paths whose ACL the snapshot does not know whole: theirs names who restores, see `known_acl`.
    `acls` are those that it knows whole: path → JSON, also of secrets whose data it does not hold. `plain` holds the data of
    the snapshot where `znodes` has others, with raised epochs; `corrected` what it has of a znode that is corrected.
    """

    znodes: Sequence[NewZnode]
    left_out: Mapping[str, str] = field(default_factory=dict)
    assumed_acls: tuple[str, ...] = ()
    acls: Mapping[str, str] = field(default_factory=dict)
    plain: Mapping[str, bytes] = field(default_factory=dict)
    corrected: Mapping[str, bytes] = field(default_factory=dict)

    def changes(self, path: str, found: bytes | None) -> bool:
        """Whether `found` is neither what the snapshot holds of a path nor what a restore writes there."""
        return (found or b"") not in (self._written[path], self.plain.get(path, self._written[path]))

    @cached_property
    def _written(self) -> Mapping[str, bytes]:
        return {znode.path: znode.data or b"" for znode in self.znodes}


def restorable(
    raw: pa.Table, scope: RestoreScope, sealer: SnapshotSealer | None = None, *, root: bool = True
) -> Content:
    """The persistent znodes of a snapshot that may be created again.

    Never ephemerals, never `/controller`; secrets only with their key; what lies below a znode that is left out is left
    out too.

    Args:
        raw: of the snapshot.
        scope: what of it is restored.
        sealer: opens its secrets; None: they stay out.
        root: False: that of the snapshot is a chroot, and that of the target is not.
    """
    kept: list[NewZnode] = []
    left_out: dict[str, str] = {}
    assumed: list[str] = []
    acls: dict[str, str] = {}
    plain: dict[str, bytes] = {}
    corrected: dict[str, bytes] = {}
    corrections = dict(scope.corrections)
    for row in _rows(raw):
        path, acl = row.path, known_acl(row.acl)
        unwanted = _ROOT_OF_CHROOT if path == "/" and not root else _reason(path, row.ephemeral_owner, scope)
        if unwanted is None and scope.acls and acl == row.acl:
            acls[path] = acl
        opened = row if unwanted else _opened(row, sealer)
        reason = unwanted or _why_unknown(opened) or _below(path, left_out)
        if reason is not None:
            left_out[path] = reason
            continue
        content = opened.data
        if path in corrections:
            corrected[path] = content or b""
            text = corrections[path]
            if text is None:
                continue  # a correction that removes it
            content = text.encode()
        if scope.acls and acl != row.acl:
            assumed.append(path)
        written = raised(path, content, scope.epoch_bump)
        if written != content:
            plain[path] = content or b""
        kept.append(NewZnode(path, written, acl if scope.acls else None))
    return Content(kept, left_out, tuple(assumed), acls, plain, corrected)


def known_acl(acl: str | None) -> str:
    """An ACL to restore that opens nothing which was closed; itself when the snapshot knows it whole.

    An ACL that could not be read becomes "all for who restores", nothing for others. To a session without the right to
    change it ZooKeeper shows the digest entry `user:hash` as `user:x`, which nobody can log in as: "all for who restores"
    takes its place, the other entries stay.

    Args:
        acl: JSON `[[perms, scheme, id], …]`; null: unknown.

    Source: ZooKeeper `FinalRequestProcessor` (getACL), `PrepRequestProcessor.fixupACL` (scheme `auth`).
    """
    if acl is None:
        return json.dumps([_CREATOR_ALL])
    if f'{_MASK}"' not in acl:
        return acl
    entries = json.loads(acl)
    seen = [entry for entry in entries if not (entry[1] == "digest" and entry[2].endswith(_MASK))]
    return acl if seen == entries else json.dumps([_CREATOR_ALL, *seen])


class _Row(NamedTuple):
    """A znode of a snapshot; the fields are columns of the raw layer."""

    path: str
    data: bytes | None
    ephemeral_owner: int | None
    acl: str | None
    left_out: str | None
    sealed: bytes | None


def _rows(raw: pa.Table) -> Iterator[_Row]:
    return map(_Row._make, zip(*(raw[name].to_pylist() for name in _Row._fields), strict=True))


def _opened(row: _Row, sealer: SnapshotSealer | None) -> _Row:
    """The row with its secret in the clear, where the key is there."""
    if row.left_out != "secret" or row.sealed is None or sealer is None:
        return row
    return row._replace(data=sealer.open(row.path, row.sealed), left_out=None)


def _why_unknown(row: _Row) -> str | None:
    """Why the snapshot does not tell the data; None where it does."""
    if row.left_out is None:
        return None
    return "secret, not in the snapshot in the clear" if row.left_out == "secret" else "was not readable"


def _reason(path: str, ephemeral_owner: int | None, scope: RestoreScope) -> str | None:
    if ephemeral_owner:
        return "ephemeral: it belongs to a session that is over"
    if path == znodes.CONTROLLER:
        return "the brokers elect a controller themselves"
    if path == znodes.MIGRATION:
        return "of a migration that is over: a fresh quorum would take the copy for done and delete every topic"
    if path == EXECUTION_PATH:
        return "of a run of ours: its record in the store says how far it came"
    parent = path.rpartition("/")[0]
    if parent in NOTIFICATION_PARENTS and not scope.notifications:
        return "notification: the brokers have long read it"
    if (path in REQUESTS or parent == znodes.DELETE_TOPICS) and not scope.requests:
        return "pending request: it would run again"
    return None


def _below(path: str, left_out: Mapping[str, str]) -> str | None:
    parent = path.rpartition("/")[0]
    return f"lies below {parent}, which is left out" if parent in left_out else None


def is_passing(path: str) -> bool:
    """Whether it comes and goes, as notifications, requests and our own lock and execution do; nobody mirrors that."""
    parent = path.rpartition("/")[0]
    passing = path in (*REQUESTS, znodes.CONTROLLER) or parent in (*NOTIFICATION_PARENTS, znodes.DELETE_TOPICS)
    return passing or path == EXECUTION_PATH or path.startswith(LOCK_PATH)


def is_anew(path: str, scope: RestoreScope) -> bool:
    """Whether it is a topic that is made anew, empty."""
    return scope.recreate and path.rpartition("/")[0] == znodes.TOPICS


def is_alterable(path: str) -> bool:
    """Whether brokers accept a change of this znode from outside while they run."""
    return _ALTERABLE.match(path) is not None


def selected_configs(paths: Iterable[str], scope: RestoreScope) -> list[str]:
    """Paths of the configs that `topics` and `configs` name."""
    wanted = [*scope.configs, *(f"topics/{pattern}" for pattern in scope.topics)]
    prefix = f"{znodes.CONFIG}/"
    return [
        path
        for path in paths
        if path.startswith(prefix)
        and not path.startswith(f"{znodes.CONFIG_CHANGES}/")
        and "/" in path.removeprefix(prefix)
        and any(fnmatchcase(path.removeprefix(prefix), pattern) for pattern in wanted)
    ]


def selected_topics(paths: Iterable[str], scope: RestoreScope) -> list[str]:
    """Paths of the topics that `topics` names."""
    return [
        path
        for path in paths
        if path.rpartition("/")[0] == znodes.TOPICS
        and any(fnmatchcase(path.rpartition("/")[2], pattern) for pattern in scope.topics)
    ]


def selected_paths(paths: Iterable[str], scope: RestoreScope) -> list[str]:
    """Paths in the subtrees that `paths` names."""
    roots = [root.rstrip("/") for root in scope.paths]
    return [path for path in paths if any(path == root or path.startswith(f"{root}/") for root in roots)]


def naming_nothing(paths: Iterable[str], scope: RestoreScope) -> list[str]:
    """Which of the names and patterns of `topics`, `configs` and `paths` fit none of these znodes."""
    known = set(paths)
    configs = {path.removeprefix(f"{znodes.CONFIG}/") for path in selected_configs(known, RestoreScope(configs=("*",)))}
    topics = {path.rpartition("/")[2] for path in selected_topics(known, RestoreScope(topics=("*",)))}
    topics |= {name.removeprefix("topics/") for name in configs if name.startswith("topics/")}
    return [
        *(f"topic {each!r}" for each in scope.topics if not _fits_one(each, topics)),
        *(f"config {each!r}" for each in scope.configs if not _fits_one(each, configs)),
        *(f"path {each!r}" for each in scope.paths if (each.rstrip("/") or "/") not in known),
    ]


def _fits_one(pattern: str, names: Collection[str]) -> bool:
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


def notice_of(path: str) -> tuple[str, bytes] | None:
    """The sequential znode (prefix, data) that makes brokers read a changed znode again; None when nothing does."""
    steps = path.split("/")
    match steps[1:]:
        case ["config", *entity] if len(entity) > 1:
            change = znodes.ConfigChange("/".join(entity))
            return f"{znodes.CONFIG_CHANGES}/config_change_", znodes.encode_config_change(change)
        case ["kafka-acl", resource_type, name]:
            return "/kafka-acl-changes/acl_changes_", znodes.encode_acl_change(znodes.AclChange(resource_type, name))
        case ["kafka-acl-extended", pattern, resource_type, name]:
            acl_change = znodes.AclChange(_upper_snake(resource_type), name, pattern.upper())
            return "/kafka-acl-extended-changes/acl_changes_", znodes.encode_extended_acl_change(acl_change)
    return None


def parent_of_notice(path: str) -> str | None:
    """Where brokers look for notices of this znode's changes; it is made by what reads them. None: there are no notices of it."""
    notice = notice_of(path)
    return None if notice is None else notice[0].rpartition("/")[0]


def same_assignment(found: bytes | None, wanted: bytes | None, path: str) -> bool:
    """Whether a topic's znode gives each partition the wanted replicas, or the target ones of a reassignment among them.

    Bytes would not do: the controller rewrites a new topic's znode with an id (Kafka 2.8+). One that cannot be read is the
    same as none.
    """
    try:
        there, wished = (znodes.decode_topic(data, path=path).assignments for data in (found, wanted))
    except MalformedZnodeError:
        return False
    return there in (wished, _targets(wished))


def recreated_topic(data: bytes | None, path: str) -> bytes:
    """The assignment of a deleted topic for a new one: no id, no unfinished reassignment, the target replicas."""
    topic = znodes.decode_topic(data, path=path)
    return znodes.encode_topic(znodes.TopicZnode(_targets(topic.assignments), None, version=1))


def _targets(assignments: Mapping[int, ReplicaAssignment]) -> dict[int, ReplicaAssignment]:
    return {number: ReplicaAssignment(each.target) for number, each in sorted(assignments.items())}


def _upper_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
