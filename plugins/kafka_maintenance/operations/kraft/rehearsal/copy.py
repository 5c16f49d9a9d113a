"""What of a snapshot goes on the copy that a rehearsal migrates. Null stays null: empty bytes would end the migration.

Source: docs/kraft.md, "Rehearsal".
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from controller_core.adapters.snapshot.tree_writer import NewZnode
from controller_core.znodes import TOPICS, decode_cluster_id
from spark_jobs.kraft.tree import Tree, Znode, is_secret

_OWN_TO_THE_RUN = ("/controller", "/migration")
_REGISTRATIONS = "/brokers/ids"


@dataclass(frozen=True, slots=True)
class Copy:
    """The tree to write, as the snapshot has it or with what was put in the place of what stood in the way.

    Every number in `/brokers/ids` is a broker to imitate; `left_out` is path → why this znode is not on the copy, or not whole.
    """

    tree: Tree
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def znodes(self) -> list[NewZnode]:
        """In the order of writing: parents first."""
        return [NewZnode(path, self.tree.znodes[path].data) for path in sorted(self.tree.znodes) if path != "/"]

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster. Errors: `MalformedZnodeError`."""
        return decode_cluster_id(self.tree.data("/cluster/id"))

    @property
    def partition_count(self) -> int:
        """Partitions that topics list."""
        return sum(len(topic.assignments) for topic in self.tree.topics.values() if not isinstance(topic, str))

    def without(self, *paths: str) -> "Copy":
        """The copy without these znodes and what belongs to them; without the whole topic of each that is of a topic."""
        return self.only(
            (), ("/".join(path.split("/")[:4]) if path.startswith(f"{TOPICS}/") else path for path in paths)
        )

    def only(self, kept: Iterable[str], among: Iterable[str]) -> "Copy":
        """The copy with only `kept` of the units `among`, and with everything that belongs to none of them."""
        dropped = frozenset(among) - frozenset(kept)
        znodes = {path: znode for path, znode in self.tree.znodes.items() if unit_of(path, dropped) is None}
        return replace(self, tree=replace(self.tree, znodes=znodes))

    def with_data(self, written: Mapping[str, bytes | None]) -> "Copy":
        """The copy with other data in these znodes."""
        znodes = {path: Znode(data) for path, data in written.items()}
        return replace(self, tree=replace(self.tree, znodes={**self.tree.znodes, **znodes}))

    def with_brokers(self, brokers: Iterable[int]) -> "Copy":
        """The copy with more imitated brokers: a registration may be persistent and empty."""
        registered = {f"{_REGISTRATIONS}/{broker}": Znode(b"") for broker in brokers}
        return replace(
            self, tree=replace(self.tree, znodes={_REGISTRATIONS: Znode(b""), **self.tree.znodes, **registered})
        )


def copy_of(tree: Tree, opened: Mapping[str, bytes] | None = None) -> Copy:
    """The copy of a snapshot's tree, without `/controller`, `/migration` and ephemeral znodes; registrations are there without content.

    Args:
        tree: of the snapshot.
        opened: path → data of secrets, where their key is at hand. Without it the public part of a secret config stands
            on the copy, and a token not at all.
    """
    kept: dict[str, Znode] = {}
    left_out: dict[str, str] = {}
    for path, znode in tree.znodes.items():
        if path.startswith(f"{_REGISTRATIONS}/"):
            kept[path] = Znode(b"")
        elif path in _OWN_TO_THE_RUN or znode.ephemeral:
            continue
        elif is_secret(tree, path):
            if opened and path in opened:
                kept[path] = Znode(opened[path], znode.version)
            elif path.startswith("/config/"):
                left_out[path] = "secrets are not in the snapshot in the clear: only its other settings are rehearsed"
                public = {"version": 1, "config": dict(tree.public_configs.get(path, {}))}
                kept[path] = Znode(json.dumps(public).encode(), znode.version)
            else:
                left_out[path] = "secret, not in the snapshot in the clear"
        elif znode.why_unread:
            left_out[path] = f"not read: {znode.why_unread}"
        else:
            kept[path] = znode
    return Copy(Tree(kept), left_out)


def unit_of(path: str, units: frozenset[str]) -> str | None:
    """Of `units`, roots of what is taken away as a whole, the one to which a znode belongs; None where it belongs to none.

    A config of a topic belongs to the topic.
    """
    place = path
    while place:
        if place in units:
            return place
        for root in ("/config/topics/", "/admin/delete_topics/"):
            if place.startswith(root) and (topic := f"{TOPICS}/{place.removeprefix(root)}") in units:
                return topic
        place = place.rpartition("/")[0]
    return None
