"""What a snapshot's manifest says, and where everything of a snapshot lies in the store.

A snapshot is what a manifest names: objects without one are invisible, whoever left them behind.
Source: docs/snapshots.md describes each field.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final

import msgspec

from controller_core.model.errors import MisplacedSnapshotError, ObjectDamagedError, UnknownFormatError
from controller_core.model.typed import converted

MANIFEST: Final = "manifest.json"
RAW: Final = "raw"
FORMAT_VERSIONS: Final = (1,)
ROOT: Final = "v1"
CLOCK_SLACK: Final = timedelta(hours=1)
"""A snapshot dated later than this from now is dated in the future."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOKEN_LETTERS_MAX: Final = 48
_DIGEST_LETTERS: Final = 8


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a snapshot: its key in the store, its length in bytes, its SHA-256 in hex, its rows."""

    key: str
    size: int
    sha256: str
    rows: int

    @property
    def table(self) -> str:
        """`raw`, or the name of the decoded table."""
        return self.key.rpartition("/")[2].removesuffix(".parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One published snapshot.

    Attributes:
        uri: address of the manifest; not part of the document.
        prefix: key of the snapshot's folder, without a slash at the end; not part of the document.
        taken_at: UTC, when the run asked for it.
        zxid: the tree is the state after this transaction, if `consistent`; else `reason` says why not, and `unresolved`
            how many paths are uncertain.
        redacted: paths whose data was left out as secret; `key_id` names the key where it was sealed.
        unreadable: paths that ZooKeeper did not let us read.
        secured: an ACL is not open to everybody, or a znode could not be read; of a manifest without `acls` as far as a
            sample of the ACLs showed.
        acls: how many ACLs were `read`, how many `carried` over unchanged from the snapshot before, and the paths whose ACL
            is unknown (`unread`) or has a digest that was not shown (`masked`); None in snapshots before release 0.2, whose
            raw holds either every ACL or none.
        counts: rows per table, and `znodes`, `ephemerals`, `secrets`, `unreadable`.
        digest: SHA-256 of the document without this field.
    """

    uri: str
    prefix: str
    format_version: int
    cluster: str
    kafka_cluster_id: str | None
    date: str
    snapshot_id: str
    run_id: str
    taken_at: Annotated[datetime, msgspec.Meta(tz=True)]
    zxid: int
    consistent: bool
    reason: str | None
    unresolved: int
    rounds: int
    method: str
    zookeeper_version: str
    chroot: str
    secured: bool
    objects: tuple[StoredObject, ...]
    counts: Mapping[str, int]
    redacted: tuple[str, ...]
    key_id: str | None
    unreadable: tuple[str, ...]
    code_version: str
    digest: str
    acls: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Key of the manifest in the store."""
        return f"{self.prefix}/{MANIFEST}"

    def object(self, table: str) -> StoredObject:
        """The object of `raw` or of a decoded table; `ObjectDamagedError` when the manifest names none."""
        for stored in self.objects:
            if stored.table == table:
                return stored
        raise ObjectDamagedError(f"snapshot {self.uri!r} has no table {table!r}; its manifest names {self.tables}")

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its objects."""
        return tuple(stored.table for stored in self.objects)


def partition_rows(manifests: Iterable[Manifest]) -> int:
    """Rows of the tables `partitions` of these snapshots together, as their manifests count them."""
    return sum(manifest.counts.get("partitions", 0) for manifest in manifests)


def dated_in_the_future(manifest: Manifest, now: datetime) -> bool:
    """Whether a clock was wrong when it was taken: it counts for nothing, and is never the newest, until that time has come."""
    return manifest.taken_at - now > CLOCK_SLACK


def last_date(now: datetime) -> date:
    """The last UTC date that is not in the future: what is stored of a later one counts for nothing, until that date has come."""
    return (now + CLOCK_SLACK).date()


_NOT_IN_DOCUMENT: Final = ("uri", "prefix", "digest", "extra")
_LATER: Final = frozenset({"acls"})
"""Fields that earlier manifests do not have."""
_NO_MANIFEST: Final = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError, msgspec.ValidationError),
)
"""What a document raises, while it is read, that no program of ours has written."""


def new_manifest(**fields: Any) -> Manifest:
    """A manifest of today's format, with its digest; fields: see `Manifest`."""
    draft = Manifest(format_version=FORMAT_VERSIONS[-1], digest="", **fields)
    return Manifest(**{**_fields(draft), "digest": _digest(manifest_document(draft))})


def changed_manifest(manifest: Manifest, **fields: Any) -> Manifest:
    """The manifest with other fields, in today's format, and the digest that fits them."""
    kept = {name: value for name, value in _fields(manifest).items() if name not in {"format_version", "digest"}}
    return new_manifest(**{**kept, **fields})


def manifest_bytes(manifest: Manifest) -> bytes:
    """The document as it is stored: canonical JSON, indented for people."""
    document = {**manifest_document(manifest), "digest": manifest.digest}
    return (json.dumps(document, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()


def parse_manifest(content: bytes, uri: str, key: str) -> Manifest:
    """The manifest in a stored document.

    Raises:
        UnknownFormatError: a version from the future.
        ObjectDamagedError: it is no manifest, a field has another type than `Manifest` says, or a name or the date is none that a
            snapshot has; or its digest does not match what it says.
    """
    try:
        document = json.loads(content)
        version = document["format_version"]
        if version not in FORMAT_VERSIONS:
            raise UnknownFormatError(
                f"snapshot {uri!r} not read: expected format version {FORMAT_VERSIONS[0]} to {FORMAT_VERSIONS[-1]}, found "
                f"{version!r}; read it with the program that wrote it, or a newer one"
            )
        claimed = document.pop("digest")
        names = {name for name in Manifest.__slots__ if name not in _NOT_IN_DOCUMENT}
        known = {name: document[name] for name in names if name in document or name not in _LATER}
        others = {name: value for name, value in document.items() if name not in names}
        place = {"uri": uri, "prefix": key.rpartition("/")[0]}
        manifest = converted({**known, **place, "digest": claimed, "extra": others}, Manifest)
        _require_own_names(manifest)
        found = _digest(document)
    except _NO_MANIFEST as error:
        raise ObjectDamagedError(
            f"snapshot {uri!r} not read: its manifest is damaged ({type(error).__name__}: {error}); use another snapshot"
        ) from error
    if found != claimed:
        raise ObjectDamagedError(
            f"snapshot {uri!r} not read: its manifest was changed, expected digest {claimed!r}, found {found!r}; "
            "use another snapshot"
        )
    return manifest


def _require_own_names(manifest: Manifest) -> None:
    """Refuses names that can be part of no key, and a date on which it was not taken; `ValueError`."""
    require_name(manifest.cluster, "cluster")
    require_name(manifest.snapshot_id, "snapshot")
    taken_on = manifest.taken_at.astimezone(UTC).date().isoformat()
    if manifest.date != taken_on:
        raise ValueError(f"expected the date {taken_on}, on which it was taken, found {manifest.date!r}")


def require_own_place(manifest: Manifest) -> Manifest:
    """The manifest, if it and its objects lie where it says: a copy under another cluster, date or id counts for nothing.

    Raises:
        MisplacedSnapshotError: it lies elsewhere; names both places.
    """
    own = snapshot_prefix(manifest.cluster, manifest.taken_at, manifest.snapshot_id)
    elsewhere = sorted({stored.key.rpartition("/")[0] for stored in manifest.objects} - {own})
    if manifest.prefix != own or elsewhere:
        raise MisplacedSnapshotError(
            f"snapshot {manifest.uri!r} not read: expected it and its objects in {own!r}, as it says, found them in "
            f"{', '.join(sorted({manifest.prefix, *elsewhere} - {own}))!r}; it was copied or moved: use it at its own place"
        )
    return manifest


# ------------------------------------------------------------------------------------------------- keys


def require_name(name: str, what: str) -> str:
    """`name`, if it can be part of a key; `ValueError` otherwise."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{what} {name!r} refused: expected letters, digits, '.', '_' and '-' only; choose such a name"
        )
    return name


def run_token(run_id: str) -> str:
    """A run id as part of a key: readable, and as unique as the id."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", run_id).strip("-.")[:_TOKEN_LETTERS_MAX] or "run"
    return f"{readable}-{hashlib.sha256(run_id.encode()).hexdigest()[:_DIGEST_LETTERS]}"


def cluster_prefix(cluster: str) -> str:
    """Prefix of all snapshots of a cluster."""
    return f"{ROOT}/cluster={require_name(cluster, 'cluster')}/"


def date_prefix(cluster: str, day: date | str) -> str:
    """Prefix of a cluster's snapshots of one UTC date."""
    return f"{cluster_prefix(cluster)}date={day}/"


def snapshot_prefix(cluster: str, taken_at: datetime, snapshot_id: str) -> str:
    """Folder of one snapshot, without a slash at the end."""
    return f"{date_prefix(cluster, taken_at.astimezone(UTC).date())}snap={snapshot_id}"


def run_key(cluster: str, run_id: str) -> str:
    """Key of the note that a run has its snapshot: a copy of the manifest, written just before it."""
    return f"{ROOT}/runs/cluster={require_name(cluster, 'cluster')}/{run_token(run_id)}.json"


def pin_key(cluster: str, snapshot_id: str) -> str:
    """Key of the note that a snapshot is pinned."""
    return f"{ROOT}/pins/cluster={require_name(cluster, 'cluster')}/{snapshot_id}.json"


def _fields(manifest: Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in Manifest.__slots__}


def manifest_document(manifest: Manifest) -> dict[str, Any]:
    """The document without its digest."""
    document = {name: value for name, value in _fields(manifest).items() if name not in _NOT_IN_DOCUMENT}
    document["taken_at"] = manifest.taken_at.astimezone(UTC).isoformat(timespec="microseconds")
    document["objects"] = [asdict(stored) for stored in manifest.objects]
    document["counts"] = dict(manifest.counts)
    if manifest.acls is None:
        del document["acls"]
    return {**manifest.extra, **document}


def _digest(document: Mapping[str, Any] | Sequence[Any]) -> str:
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
