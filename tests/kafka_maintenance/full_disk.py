"""A process with a file system of its own, too small or read-only, that takes snapshots into it.

    unshare -rm python -m tests.kafka_maintenance.full_disk HOSTS/CHROOT FOLDER SIZE_KIB…|ro

Prints one JSON document per size: the error and its message (null: none), how many snapshots are visible, what their
verification finds, and whether a second run finishes once there is room.
"""

import json
import subprocess
import sys
from pathlib import Path

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import ControllerCoreError
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.operations.snapshots.verify import verify_snapshot
from tests.kafka_maintenance import snapshot_world as world
from tests.visible_snapshots import visible_snapshots


def taken(hosts: str, folder: Path) -> dict[str, object]:
    """One attempt into `folder`, and what it left there."""
    store = FolderStore(folder)
    error = None
    try:
        take_snapshot(address=ClusterAddress(hosts), cluster="alpha", store=store, run_id="run", now=world.NOON)
    except ControllerCoreError as raised:
        error = raised
    visible = visible_snapshots(store) if folder.is_dir() else []
    return {
        "error": error and type(error).__name__,
        "message": error and str(error),
        "visible": len(visible),
        "damage": [str(found) for manifest in visible for found in verify_snapshot(store, manifest)],
    }


def main(hosts: str, mount_point: str, sizes: list[str]) -> None:
    """See the module."""
    for size in sizes:
        limit = "1024k" if size == "ro" else f"{size}k"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={limit}", "tmpfs", mount_point], check=True)
        if size == "ro":
            subprocess.run(["mount", "-o", "remount,ro", mount_point], check=True)
        found = taken(hosts, Path(mount_point, "store"))
        subprocess.run(["mount", "-o", "remount,rw,size=4096k", mount_point], check=True)
        print(json.dumps({**found, "afterwards": taken(hosts, Path(mount_point, "store"))}), flush=True)
        subprocess.run(["umount", mount_point], check=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
