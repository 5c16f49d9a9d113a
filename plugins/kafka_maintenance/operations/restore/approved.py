"""An approved restore that is about to write: what both ways of writing it need."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.zookeeper.address import ClusterAddress
from kafka_maintenance.operations.restore.content import Content, RestoreScope


class ApprovedRestore(NamedTuple):
    """The approved plan as a document, its snapshot and what of it is restored, where to, and who is told.

    `begin` is called right before a first write, and raises where the approval does not count any more. `progress` is told
    how many steps are done.
    """

    target: ClusterAddress
    document: Mapping[str, Any]
    manifest: Manifest
    scope: RestoreScope
    content: Content
    begin: Callable[[], None]
    progress: Callable[[int], None]
