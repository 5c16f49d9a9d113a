"""What a store shows of snapshots, for tests that look at it from outside."""

from kafka_maintenance.operations.snapshots.catalog import manifest_keys, readable_snapshots


def visible_snapshots(store, cluster=None, day=None):
    """The manifests of all published snapshots, oldest first; raises where one cannot be read."""
    found, unusable = readable_snapshots(store, manifest_keys(store, cluster, day))
    if unusable:
        raise unusable[0]
    return found
