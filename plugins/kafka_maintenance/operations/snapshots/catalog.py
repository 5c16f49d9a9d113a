"""The snapshots of a store: which there are, what they say, whether they are whole, and their tables.

Only what a manifest names is looked at; every byte is checked against the manifest before it is used. A snapshot that is
looked for is found by its key, so that a damaged manifest hides no other one.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from controller_core.adapters.local_file import write_whole
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.decode import SnapshotIdentity, decode_tables
from controller_core.adapters.snapshot.format import raw_from_parquet
from controller_core.adapters.snapshot.manifest import (
    MANIFEST,
    RAW,
    ROOT,
    Manifest,
    StoredObject,
    cluster_prefix,
    date_prefix,
    dated_in_the_future,
    parse_manifest,
    require_own_place,
)
from controller_core.adapters.snapshot.parquet import require_bounded, table_from_parquet, table_to_parquet
from controller_core.adapters.snapshot.tables import TABLES, with_later_columns
from controller_core.adapters.snapshot.znode_rows import ZNODES_TABLE, znode_rows
from controller_core.model.errors import (
    ObjectDamagedError,
    ObjectMissingError,
    UnknownFormatError,
)
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import BadInputError, listed

UNUSABLE: Final = (ObjectDamagedError, ObjectMissingError, UnknownFormatError)
"""What is wrong with one snapshot alone."""
Unusable: TypeAlias = ObjectDamagedError | ObjectMissingError | UnknownFormatError
_SHOWN_MAX = 10
_FUTURE: Final = (
    "snapshot {!r} is not the newest: expected one taken until now, found {}, a date in the future; set the clock that was wrong "
    "and take a snapshot, or name this one by its id"
)

log = logging.getLogger(__name__)


def manifest_keys(store: ObjectStore, cluster: str | None = None, day: date | str | None = None) -> list[str]:
    """Keys of all manifests, sorted. One listing; nothing is read."""
    if cluster is None:
        prefix = f"{ROOT}/cluster="
    else:
        prefix = cluster_prefix(cluster) if day is None else date_prefix(cluster, day)
    wanted = f"/date={day}/" if day is not None else "/date="
    return [key for key in store.list(prefix) if key.endswith(f"/{MANIFEST}") and wanted in key and "/snap=" in key]


def readable_snapshots(store: ObjectStore, keys: Iterable[str]) -> tuple[list[Manifest], list[Unusable]]:
    """The manifests with these keys that can be read, oldest first; and why the others cannot, in the order of the keys."""
    return _told_apart(at_once(lambda key: _read_or_why_not(store, key), keys))


def _read_or_why_not(store: ObjectStore, key: str) -> Manifest | Unusable:
    try:
        return read_manifest(store, key)
    except UNUSABLE as error:
        return error


def _told_apart(results: Iterable[Manifest | Unusable]) -> tuple[list[Manifest], list[Unusable]]:
    found: list[Manifest] = []
    unusable: list[Unusable] = []
    for result in results:
        if isinstance(result, Manifest):
            found.append(result)
        else:
            unusable.append(result)
    return sorted(found, key=_age), unusable


def newest_snapshot(
    store: ObjectStore, cluster: str, date: date | str | None = None, *, now: datetime | None = None
) -> Manifest | None:
    """The newest snapshot of a cluster (of one UTC date, where it is given), or None where there is none.

    Where no date is given, snapshots dated in the future are passed over; from those alone it falls back to an earlier date.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        date: no manifest of another one is read.
        now: the time, UTC; None: the clock's.

    Raises:
        ObjectMissingError: all are dated in the future; names the newest.
        ObjectDamagedError, UnknownFormatError: none of that date, or of the newest one, can be read.
    """
    by_date = keys_by_date(store, cluster, date)
    if not by_date:
        return None
    if date is not None:
        return newest_of(store, by_date[str(date)])
    return _newest_readable(store, _newest_first(by_date), log.warning, now or datetime.now(UTC), past_damage=False)


def keys_by_date(store: ObjectStore, cluster: str, day: date | str | None = None) -> dict[str, list[str]]:
    """UTC date, YYYY-MM-DD → keys of the manifests of a cluster's snapshots, sorted. One listing; nothing is read."""
    return _by_date(manifest_keys(store, cluster, day))


def _by_date(keys: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(place_of(key)[1], []).append(key)
    return found


def newest_of(store: ObjectStore, keys: Iterable[str], *, passed_over: Callable[[str], None] = log.warning) -> Manifest:
    """The newest snapshot that can be read of those, one at least, whose manifests have these keys.

    `passed_over` is told why each of the others cannot. Where none can be read, the error is that of `read_manifest`.
    """
    return _newest_readable(store, [keys], passed_over)


def _newest_first(by_date: Mapping[str, list[str]]) -> Iterator[list[str]]:
    return (by_date[day] for day in sorted(by_date, reverse=True))


def _newest_readable(
    store: ObjectStore,
    days: Iterable[Iterable[str]],
    passed_over: Callable[[str], None],
    now: datetime | None = None,
    *,
    past_damage: bool = True,
) -> Manifest:
    """The newest snapshot of the first of these dates that has one that can be read; else see `newest_of`.

    With `now`, those dated in the future are passed over, too. Without `past_damage`, none of a date before damaged ones is taken.
    """
    unusable: list[Unusable] = []
    for keys in days:
        found, damaged = _told_apart(_read_or_why_not(store, key) for key in keys)
        future = [each for each in found if now is not None and dated_in_the_future(each, now)]
        unusable += [ObjectMissingError(_FUTURE.format(each.uri, each.taken_at.isoformat())) for each in future]
        unusable += damaged
        if len(found) > len(future):
            for error in unusable:
                passed_over(f"passed over: {error}")
            return found[-1 - len(future)]
        if damaged and not past_damage:
            raise damaged[0]
    raise unusable[0]


def place_of(key: str) -> tuple[str, str]:
    """Cluster and UTC date of a manifest, as its key says."""
    _, cluster, day, *_ = key.split("/")
    return cluster.removeprefix("cluster="), day.removeprefix("date=")


def _id_of(key: str) -> str:
    return key.split("/")[3].removeprefix("snap=")


def require_cluster(store: ObjectStore, cluster: str | None) -> None:
    """Refuses a name of which the store holds nothing, not even what a killed run left; without a name, a store that holds nothing of any cluster.

    Raises:
        BadInputError: names the clusters there are.
        ValueError: no cluster can be called that.
    """
    if not store.list(f"{ROOT}/cluster=" if cluster is None else cluster_prefix(cluster)):
        raise BadInputError(
            f"cluster{'' if cluster is None else f' {cluster!r}'} not found in {store.uri!r}: expected one with a snapshot there, known are "
            f"{listed(known_clusters(store)) or 'none'}; correct the name or the address of the store, or take a snapshot first"
        )


def known_clusters(store: ObjectStore) -> list[str]:
    """Clusters of which the store holds anything of a snapshot, if only what a killed run left. One listing; nothing is read."""
    return sorted({key.split("/")[1].removeprefix("cluster=") for key in store.list(f"{ROOT}/cluster=")})


def read_manifest(store: ObjectStore, address: str) -> Manifest:
    """The manifest at a key or a URI of the store; the folder of the snapshot will do.

    Raises:
        BadInputError: the address is not one of this store.
        ObjectMissingError: there is none.
        ObjectDamagedError, UnknownFormatError: see `parse_manifest` and `require_own_place`.
    """
    key = address.removeprefix(f"{store.uri}/").rstrip("/")
    if not key.startswith(f"{ROOT}/"):
        raise BadInputError(
            f"snapshot {address!r} not read: expected an address below {store.uri}/{ROOT}/, found another one; name its store (--store), or copy "
            "the address from `kafka-maintenance snapshots list`"
        )
    if not key.endswith(f"/{MANIFEST}"):
        key = f"{key}/{MANIFEST}"
    return require_own_place(parse_manifest(store.get(key), store.uri_of(key), key))


def find_snapshot(
    store: ObjectStore,
    name: str,
    cluster: str | None = None,
    *,
    passed_over: Callable[[str], None] = log.warning,
    now: datetime | None = None,
) -> Manifest:
    """The snapshot that a person means: an address, a snapshot id or the beginning of one, or `newest`.

    Only the manifest that is meant is read; for `newest` those of a date, from the newest date down to one with a manifest
    that can be read and is not dated in the future, and `passed_over` is told of each newer one.

    Args:
        store: of snapshots, plans and records.
        name: an address, an id or its beginning, or `newest`.
        cluster: whose; None: of any.
        passed_over: told of each newer one that cannot be read or is dated in the future.
        now: the time, UTC; None: the clock's.

    Raises:
        ObjectMissingError: no snapshot, or more than one, is meant; the message lists what there is. Or all are dated in the future.
        BadInputError: `newest` without `cluster` in a store of several.
        ObjectDamagedError, UnknownFormatError: see `read_manifest`.
    """
    if "/" in name:
        return read_manifest(store, name)
    there = sorted(manifest_keys(store, cluster), key=lambda key: (place_of(key)[1], _id_of(key)))
    if name == "newest" and there:
        return _newest_known(store, there, passed_over, now or datetime.now(UTC))
    found = [key for key in there if _id_of(key).startswith(name)]
    if len(found) == 1:
        return read_manifest(store, found[0])
    shown = ", ".join(_id_of(key) for key in (found or there)[-_SHOWN_MAX:]) or "none"
    whose = "" if cluster is None else f" of cluster {cluster!r}"
    raise ObjectMissingError(
        f"snapshot {name!r}{whose} not found in {store.uri!r}: expected one of that name, found {len(found)}; "
        f"of {len(found or there)}, the newest are: {shown}"
    )


def _newest_known(
    store: ObjectStore, keys: Sequence[str], passed_over: Callable[[str], None], now: datetime
) -> Manifest:
    """`newest` among these keys of one cluster; errors: see `find_snapshot`."""
    clusters = sorted({place_of(key)[0] for key in keys})
    if len(clusters) > 1:
        raise BadInputError(
            f"newest snapshot not chosen: expected those of one cluster, found {len(clusters)} clusters in {store.uri!r}: "
            f"{listed(clusters)}; name one with --cluster"
        )
    return _newest_readable(store, _newest_first(_by_date(keys)), passed_over, now)


def checked_object(store: ObjectStore, stored: StoredObject) -> bytes:
    """The object's bytes, if they are those that the manifest means; `ObjectDamagedError` otherwise."""
    content = store.get(stored.key)
    found = hashlib.sha256(content).hexdigest()
    if len(content) != stored.size or found != stored.sha256:
        raise ObjectDamagedError(
            f"object {store.uri_of(stored.key)!r} is damaged: expected {stored.size} bytes with SHA-256 {stored.sha256}, "
            f"found {len(content)} bytes with {found}; restore it from a copy of the store, or use another snapshot"
        )
    return content


def read_raw(store: ObjectStore, manifest: Manifest) -> pa.Table:
    """The raw layer, checked; columns `tables.RAW`, sorted by path."""
    stored = manifest.object(RAW)
    return raw_from_parquet(checked_object(store, stored), store.uri_of(stored.key))


def read_table(store: ObjectStore, manifest: Manifest, table: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A decoded table as it was stored, checked; columns that came later are null.

    Args:
        store: where the snapshot is.
        manifest: of the snapshot.
        table: of `tables.TABLES`.
        columns: only these, and those that came later; None: all.
    """
    stored = manifest.object(table)
    found = table_from_parquet(checked_object(store, stored), store.uri_of(stored.key), columns)
    return with_later_columns(found, table)


def decoded_tables(store: ObjectStore, manifest: Manifest) -> dict[str, pa.Table]:
    """The decoded tables, made from raw with today's code.

    What raw leaves out for secrecy is taken from the stored `configs`: quotas beside SCRAM credentials, for example.
    """
    raw = read_raw(store, manifest)
    return decode_tables(raw, identity_of(manifest), public_configs(store, manifest))


def public_configs(store: ObjectStore, manifest: Manifest) -> dict[str, dict[str, str]]:
    """Path of a redacted config → its settings that are no secrets."""
    stored = read_table(store, manifest, "configs") if manifest.redacted and "configs" in manifest.tables else None
    return public_of(manifest, stored)


def public_of(manifest: Manifest, configs: pa.Table | None) -> dict[str, dict[str, str]]:
    """As `public_configs`, of the table `configs` that was read already."""
    found: dict[str, dict[str, str]] = {path: {} for path in manifest.redacted if path.startswith("/config/")}
    for row in configs.to_pylist() if configs is not None else ():
        path = f"/config/{row['entity_type']}/{row['entity_name']}"
        if path in found:
            found[path][row["key"]] = row["value"]
    return found


def identity_of(manifest: Manifest) -> SnapshotIdentity:
    """What the rows of its tables carry."""
    return SnapshotIdentity(
        cluster=manifest.cluster,
        snapshot_id=manifest.snapshot_id,
        taken_at=manifest.taken_at,
        zxid=manifest.zxid,
        consistent=manifest.consistent,
    )


def fetch_tables(
    store: ObjectStore, manifest: Manifest | str, folder: Path, tables: Iterable[str] | None = None
) -> Path:
    """Writes the decoded tables and the manifest of a snapshot to a local folder, every byte checked; the folder.

    They lie in `folder/cluster=…/date=…/snap=…/`, the manifest last. What is there already and right is not fetched again;
    several may fill one folder at the same time.

    Args:
        store: of snapshots, plans and records.
        manifest: of the snapshot.
        folder: of this machine.
        tables: their names; None: all.
    """
    if isinstance(manifest, str):
        manifest = read_manifest(store, manifest)
    target = folder / manifest.prefix.removeprefix(f"{ROOT}/")
    target.mkdir(parents=True, exist_ok=True)
    wanted = set(TABLES if tables is None else tables)
    for stored in manifest.objects:
        if stored.table in wanted:
            path = target / stored.key.rpartition("/")[2]
            if not (path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == stored.sha256):
                content = checked_object(store, stored)
                require_bounded(content, store.uri_of(stored.key))
                write_whole(path, content)
    write_whole(target / MANIFEST, store.get(manifest.key))
    return target


def fetch_znodes(store: ObjectStore, manifest: Manifest, folder: Path) -> Path:
    """Writes the table `znodes` of a snapshot beside its other tables in `fetch_tables`' folder, made from raw; that folder."""
    target = fetch_tables(store, manifest, folder)
    path = target / f"{ZNODES_TABLE}.parquet"
    if not path.is_file():
        write_whole(path, table_to_parquet(znode_rows(read_raw(store, manifest), identity_of(manifest))))
    return target


def earlier_of(store: ObjectStore, cluster: str, *, now: datetime | None = None) -> Iterator[Manifest]:
    """The snapshots of a cluster that can be read, newest first; the manifests of a date are read when it is reached.

    Those dated in the future come last. `now`: the time, UTC; None: the clock's.
    """
    now = now or datetime.now(UTC)
    future: list[Manifest] = []
    for keys in _newest_first(keys_by_date(store, cluster)):
        found = readable_snapshots(store, keys)[0][::-1]
        future += [each for each in found if dated_in_the_future(each, now)]
        yield from (each for each in found if each not in future)
    yield from future


def _age(manifest: Manifest) -> tuple[datetime, str, int]:
    return manifest.taken_at, manifest.cluster, manifest.zxid
