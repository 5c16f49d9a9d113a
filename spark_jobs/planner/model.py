"""The cluster as the planner sees it: integer arrays over broker positions, checked once when they are built.

A broker is referred to by its *position* in `broker_ids` (ascending ids); `-1` pads replica lists and means "none".
Partitions are sorted by topic and number, so that the order of the input never changes a plan.
Source: docs/planning.md, "Goals"; Kafka 3.9 `AdminUtils` (rack-awareness needs a rack on every broker or on none).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spark_jobs.planner.columns import (
    IDS,
    NO_RACK,
    NUMBER,
    SIZE_MAX,
    TEXT,
    TRUTH,
    Bools,
    Int32s,
    Ints,
    brokers_of,
    check_lengths,
    check_no_list_empty,
    check_unique_partitions,
    field_of,
    isr_positions,
    leader_positions,
    list_of,
    offsets_of,
    padded,
    positions,
    shorten,
    topic_codes,
    whole,
    without_repeats,
)
from spark_jobs.planner.errors import InvalidStateError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterState:
    """Brokers and partitions of one cluster; build it with `from_columns` or `from_json`, which check it.

    Shapes: B brokers, T topics, P partitions, W the longest replica list.
    """

    broker_ids: Int32s  # [B] ascending
    rack_names: tuple[str, ...]  # sorted; (NO_RACK,) for a cluster without racks
    rack: Int32s  # [B] index into rack_names
    live: Bools  # [B] registered
    draining: Bools  # [B] to be emptied
    topics: tuple[str, ...]  # [T] sorted
    topic: Int32s  # [P] index into topics
    number: Int32s  # [P] partition number
    replicas: Int32s  # [P, W] positions, preferred first, -1 padded at the end
    in_sync: Bools  # [P, W] replica is in the ISR
    leader: Int32s  # [P] position of the current leader, -1 for none
    replication_factor: Int32s  # [P] wanted, may differ from the length of the list
    size: Ints | None  # [P] bytes (or any weight) of one replica, None when unknown
    collapsed: Ints  # rows whose list named a broker twice; it counts once here, and a plan repairs it

    @property
    def broker_count(self) -> int:
        """All brokers, dead ones included."""
        return len(self.broker_ids)

    @property
    def partition_count(self) -> int:
        """All partitions."""
        return len(self.topic)

    def position(self, broker_id: int) -> int:
        """Position of a broker id; raises InvalidStateError when the state has no such broker."""
        at = int(np.searchsorted(self.broker_ids, broker_id))
        if at == len(self.broker_ids) or self.broker_ids[at] != broker_id:
            raise InvalidStateError(
                f"broker {broker_id} looked up: the state has {len(self.broker_ids)} brokers "
                f"{shorten(self.broker_ids.tolist())} and not this one; name a broker of the cluster"
            )
        return at

    def partition_name(self, row: int) -> str:
        """`topic-number` of a row, as Kafka logs it."""
        return f"{self.topics[self.topic[row]]}-{self.number[row]}"

    def ids(self, positions: Iterable[int]) -> list[int]:
        """Broker ids of positions, padding left out."""
        return [int(self.broker_ids[b]) for b in positions if b >= 0]

    def without_live_replica(self) -> Ints:
        """Rows of partitions of which no replica is on a live broker: nothing can be copied from anywhere."""
        alive = (self.replicas >= 0) & self.live[np.maximum(self.replicas, 0)]
        return np.nonzero(~alive.any(1))[0]

    @staticmethod
    def from_columns(
        *,
        broker_ids: Sequence[int] | npt.NDArray[Any],
        racks: Sequence[str | None],
        topics: Sequence[str] | npt.NDArray[Any],
        partitions: Sequence[int] | npt.NDArray[Any],
        replica_offsets: Sequence[int] | npt.NDArray[Any],
        replica_ids: Sequence[int] | npt.NDArray[Any],
        leaders: Sequence[int] | npt.NDArray[Any] | None = None,
        live: Sequence[bool] | npt.NDArray[Any] | None = None,
        draining: Sequence[bool] | npt.NDArray[Any] | None = None,
        replication_factors: Sequence[int] | npt.NDArray[Any] | None = None,
        sizes: Sequence[int] | npt.NDArray[Any] | None = None,
        isr_offsets: Sequence[int] | npt.NDArray[Any] | None = None,
        isr_ids: Sequence[int] | npt.NDArray[Any] | None = None,
        topic_names: Sequence[str] | None = None,
        unregistered: Literal["dead", "refuse"] = "dead",
        ignore_racks: bool = False,
    ) -> ClusterState:
        """Builds a state from table columns (Arrow's list layout: P + 1 offsets into one array of values).

        Args:
            broker_ids: registered brokers, any order.
            racks: rack of each broker; None for all of them, or for none of them.
            topics: topic name of each partition, or indices into `topic_names` when that is given.
            partitions: partition number of each row.
            replica_offsets: P + 1 offsets into `replica_ids`.
            replica_ids: assigned broker ids, preferred first.
            leaders: current leader ids, -1 for none; default is the first replica when it is live.
            live: whether each broker is registered; default all.
            draining: whether each broker is to be emptied; default none.
            replication_factors: wanted; default is the length of the list.
            sizes: bytes of one replica of each partition; None when unknown.
            isr_offsets: P + 1 offsets into `isr_ids`; default is that every live replica is in sync.
            isr_ids: broker ids of the in-sync replicas.
            topic_names: the dictionary of `topics`.
            unregistered: what a replica on a broker that is not listed means: a dead broker, or bad input.
            ignore_racks: plan as if there were no racks.

        Returns:
            The state, partitions sorted by (topic, number).

        Raises:
            RacksUnknownError: racks on some brokers only.
            InvalidStateError: duplicate brokers or partitions, an unknown broker, an empty list, columns of different lengths,
                a number out of range (ids, numbers and factors up to 2^31 - 1, bytes up to 2^53 - 1).
        """
        offsets = np.asarray(replica_offsets, np.int64)
        values = whole(replica_ids, "partitions", "replicas", offsets=offsets)
        count = len(offsets) - 1
        names, codes = topic_codes(topics, topic_names)
        check_lengths(
            count,
            topics=codes,
            partitions=partitions,
            leaders=leaders,
            replication_factors=replication_factors,
            sizes=sizes,
        )
        number = whole(partitions, "partitions", "partition")
        order = np.lexsort((number, codes))
        codes, number = codes[order], number[order]
        check_unique_partitions(names, codes, number)
        ids, rack_names, rack, alive, drained = brokers_of(
            whole(broker_ids, "brokers", "id"), racks, live, draining, values, unregistered, ignore_racks=ignore_racks
        )
        lengths = np.diff(offsets)
        check_no_list_empty(lengths[order], names, codes, number)
        listed = padded(offsets, positions(ids, values, "replica"))[order]
        single, collapsed = without_repeats(listed)
        replicas = single.astype(np.int32)
        rf = lengths if replication_factors is None else whole(replication_factors, "partitions", "rf", least=1)
        rf = rf[order]
        size = None if sizes is None else whole(sizes, "partitions", "size", most=SIZE_MAX)[order]
        on_live = (replicas >= 0) & alive[np.maximum(replicas, 0)]
        in_sync = on_live
        if isr_offsets is not None and isr_ids is not None:
            isr = isr_positions(ids, isr_ids, np.asarray(isr_offsets, np.int64))[order]
            in_sync = on_live & (replicas[:, :, None] == isr[:, None, :]).any(2)
        if leaders is None:
            leader = np.where(on_live[:, 0], replicas[:, 0], -1) if count else np.zeros(0, np.int64)
        else:
            leader = leader_positions(ids, leaders, unregistered)[order]
        return ClusterState(
            broker_ids=ids.astype(np.int32),
            rack_names=rack_names,
            rack=rack,
            live=alive,
            draining=drained,
            topics=names,
            topic=codes.astype(np.int32),
            number=number.astype(np.int32),
            replicas=replicas,
            in_sync=in_sync,
            leader=leader.astype(np.int32),
            replication_factor=rf.astype(np.int32),
            size=size,
            collapsed=collapsed,
        )

    def to_json(self) -> dict[str, Any]:
        """The document that `from_json` reads; brokers that are not registered are not live."""
        flat = self.rack_names == (NO_RACK,)
        ids = self.broker_ids.tolist()
        racks = [None if flat else self.rack_names[rack] for rack in self.rack.tolist()]
        columns = zip(ids, racks, self.live.tolist(), self.draining.tolist(), strict=True)
        sizes = [None] * self.partition_count if self.size is None else self.size.tolist()
        rows = zip(
            self.topic.tolist(),
            self.number.tolist(),
            self.replicas.tolist(),
            self.in_sync.tolist(),
            self.leader.tolist(),
            self.replication_factor.tolist(),
            sizes,
            strict=True,
        )
        return {
            "brokers": [{"id": b, "rack": rack, "live": live, "drain": drain} for b, rack, live, drain in columns],
            "partitions": [
                {
                    "topic": self.topics[topic],
                    "partition": number,
                    "replicas": [ids[b] for b in replicas if b >= 0],
                    "isr": [ids[b] for b, synced in zip(replicas, in_sync, strict=True) if synced],
                    "leader": -1 if leader < 0 else ids[leader],
                    "rf": rf,
                    **({} if size is None else {"size": size}),
                }
                for topic, number, replicas, in_sync, leader, rf, size in rows
            ],
        }

    @staticmethod
    def from_json(document: Mapping[str, Any], *, ignore_racks: bool = False) -> ClusterState:
        """Reads the cluster-state document of `kafka-maintenance plan-file`.

        Args:
            document: {"brokers": [{"id", "rack", "live", "drain"}], "partitions": [{"topic", "partition",
                "replicas", "leader", "rf", "size", "isr"}]}; `live`, `drain`, `leader`, `rf`, `size` and `isr` may
                be missing, `size` and `isr` on all partitions or on none.
            ignore_racks: plan as if there were no racks.

        Raises:
            InvalidStateError: as `from_columns`; also a missing or ill-typed field, and any unknown broker.
        """
        brokers, partitions = list_of(document, "brokers"), list_of(document, "partitions")
        lists = field_of(partitions, "partitions", "replicas", IDS)
        isr = field_of(partitions, "partitions", "isr", IDS) if any("isr" in p for p in partitions) else None
        has_leader = any("leader" in p for p in partitions)
        has_size = any(p.get("size") is not None for p in partitions)
        return ClusterState.from_columns(
            broker_ids=field_of(brokers, "brokers", "id", NUMBER),
            racks=[None if b.get("rack") is None else str(b["rack"]) for b in brokers],
            live=field_of(brokers, "brokers", "live", TRUTH, missing=[True] * len(brokers)),
            draining=field_of(brokers, "brokers", "drain", TRUTH, missing=[False] * len(brokers)),
            topics=field_of(partitions, "partitions", "topic", TEXT),
            partitions=field_of(partitions, "partitions", "partition", NUMBER),
            replica_offsets=offsets_of(lists),
            replica_ids=[b for replicas in lists for b in replicas],
            leaders=field_of(partitions, "partitions", "leader", NUMBER) if has_leader else None,
            replication_factors=field_of(partitions, "partitions", "rf", NUMBER, missing=list(map(len, lists))),
            sizes=field_of(partitions, "partitions", "size", NUMBER) if has_size else None,
            isr_offsets=None if isr is None else offsets_of(isr),
            isr_ids=None if isr is None else [b for replicas in isr for b in replicas],
            unregistered="refuse",
            ignore_racks=ignore_racks,
        )
