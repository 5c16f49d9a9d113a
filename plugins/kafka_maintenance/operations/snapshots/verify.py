"""Whether a stored snapshot is whole: every object read again, and decoded again from raw."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.decode import decode_tables
from controller_core.adapters.snapshot.format import raw_from_parquet
from controller_core.adapters.snapshot.manifest import RAW, Manifest
from controller_core.adapters.snapshot.parquet import table_from_parquet
from controller_core.adapters.snapshot.tables import LATER_TABLES, TABLES, came_later
from controller_core.model.errors import ControllerCoreError
from controller_core.model.words import counted
from kafka_maintenance.operations.snapshots.catalog import checked_object, identity_of, public_of


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a snapshot: where, and what."""

    where: str
    what: str


def verify_snapshot(store: ObjectStore, manifest: Manifest) -> list[Finding]:
    """Reads everything again; an empty list means that the snapshot is whole and can be decoded and restored.

    Checked: checksums, sizes and rows of every object; that raw decodes to the stored tables; that every znode's parent is
    there; the manifest's counts; that states and assignments refer to each other.
    """
    findings: list[Finding] = []
    contents: dict[str, pa.Table] = {}
    for stored in manifest.objects:
        uri = store.uri_of(stored.key)
        try:
            content = checked_object(store, stored)
            table = raw_from_parquet(content, uri) if stored.table == RAW else table_from_parquet(content, uri)
        except ControllerCoreError as error:
            findings.append(Finding(uri, str(error)))
            continue
        contents[stored.table] = table
        if table.num_rows != stored.rows:
            findings.append(Finding(uri, f"expected {counted(stored.rows, 'row')}, found {table.num_rows}"))
    findings += [
        Finding(manifest.uri, f"names no object for {name!r}")
        for name in (RAW, *TABLES)
        if name not in {*manifest.tables, *LATER_TABLES}
    ]
    if RAW in contents:
        findings += _raw_findings(manifest, contents[RAW])
        again = decode_tables(contents[RAW], identity_of(manifest), public_of(manifest, contents.get("configs")))
        findings += _table_findings(store, manifest, again, contents)
    return findings


def _raw_findings(manifest: Manifest, raw: pa.Table) -> list[Finding]:
    findings: list[Finding] = []
    paths: list[str] = raw["path"].to_pylist()
    there = set(paths)
    orphans = [path for path in paths if path != "/" and (path.rpartition("/")[0] or "/") not in there]
    if orphans:
        findings.append(
            Finding(manifest.uri, f"{counted(len(orphans), 'znode')} without their parent, first {orphans[0]!r}")
        )
    if len(there) != len(paths) or paths != sorted(paths):
        findings.append(Finding(manifest.uri, "raw is not sorted by path, or names a path twice"))
    secrets = sorted(raw.filter(pc.equal(raw["left_out"], "secret"))["path"].to_pylist())
    if secrets != sorted(manifest.redacted):
        findings.append(
            Finding(
                manifest.uri,
                f"manifest names {counted(len(manifest.redacted), 'secret')}, raw leaves out {len(secrets)}",
            )
        )
    expected = manifest.counts.get("znodes")
    if expected != len(paths):
        findings.append(Finding(manifest.uri, f"manifest counts {expected}, raw holds {counted(len(paths), 'znode')}"))
    return findings


def _table_findings(
    store: ObjectStore, manifest: Manifest, again: Mapping[str, pa.Table], contents: Mapping[str, pa.Table]
) -> list[Finding]:
    findings: list[Finding] = []
    for name, table in again.items():
        stored = contents.get(name)
        if stored is None:
            continue
        if manifest.counts.get(name) != stored.num_rows:
            findings.append(
                Finding(manifest.uri, f"manifest counts {manifest.counts.get(name)} {name}, found {stored.num_rows}")
            )
        later = {field.name for field in TABLES[name] if came_later(field)}
        there = table.drop_columns(sorted(later.difference(stored.column_names)))
        try:
            same = stored.select(there.column_names).cast(there.schema).equals(there)
        except (pa.ArrowException, KeyError, ValueError):  # ValueError: a null where none may be
            same = False
        if not same:
            findings.append(
                Finding(
                    store.uri_of(manifest.object(name).key), f"table {name!r} is not what today's code decodes from raw"
                )
            )
    return findings
