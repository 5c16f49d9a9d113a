"""What a manifest says, for people and for machines."""

from datetime import UTC
from typing import Any, Final

from controller_core.adapters.snapshot.manifest import Manifest, manifest_document
from controller_core.model.words import counted

_SHOWN_MAX: Final = 10


def manifest_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest for machines, with its address."""
    return {**manifest_document(manifest), "digest": manifest.digest, "uri": manifest.uri}


def show_snapshot(manifest: Manifest) -> str:
    """A manifest as text for people."""
    sure = "consistent" if manifest.consistent else f"NOT consistent: {manifest.reason}"
    lines = [
        f"snapshot   {manifest.snapshot_id}",
        f"manifest   {manifest.uri}",
        f"cluster    {manifest.cluster} (Kafka cluster id {manifest.kafka_cluster_id or 'unknown'}, chroot {manifest.chroot or '/'})",
        f"taken at   {manifest.taken_at.astimezone(UTC).isoformat(timespec='seconds')} by run {manifest.run_id!r}",
        (
            f"cut        zxid {manifest.zxid:#x}, {sure}; {manifest.method}, {manifest.rounds} rounds, "
            f"ZooKeeper {manifest.zookeeper_version}"
        ),
        "counts     " + ", ".join(f"{count} {name}" for name, count in manifest.counts.items()),
        f"size       {sum(stored.size for stored in manifest.objects):,} bytes in {counted(len(manifest.objects), 'object')}",
        f"secrets    {len(manifest.redacted)} left out"
        + (f", sealed with key {manifest.key_id}" if manifest.key_id else ", not stored at all"),
        f"code       {manifest.code_version}, format {manifest.format_version}",
        f"digest     {manifest.digest}",
    ]
    lines.append(f"ACLs       {acls_text(manifest)}")
    if manifest.unreadable:
        lines.append(f"unreadable {', '.join(manifest.unreadable[:_SHOWN_MAX])} ({len(manifest.unreadable)} in all)")
    return "\n".join(lines)


def acls_text(manifest: Manifest) -> str:
    """What the snapshot knows of the ACLs of its znodes, for people."""
    if manifest.acls is None:
        return "read where a sample showed one that is not open; otherwise unknown"
    read, carried, unread, masked = (manifest.acls[name] for name in ("read", "carried", "unread", "masked"))
    text = f"{read} read, {carried} unchanged since the snapshot before, {len(unread)} unknown, {len(masked)} masked"
    shown = [*unread, *masked][:_SHOWN_MAX]
    return f"{text}: {', '.join(shown)}{' …' if len(shown) < len(unread) + len(masked) else ''}" if shown else text
