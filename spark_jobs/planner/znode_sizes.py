"""How large the topic znodes grow while a plan is carried out: ZooKeeper refuses what is too large for it.

While a wave runs, a topic's znode lists old and new replicas of its partitions, and beside them those that come and go.
Source: controller_core.znodes.partitions `encode_topic`.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.planner.columns import Ints
from spark_jobs.planner.model import ClusterState

_FRAME = len('{"version":3,"topic_id":"","partitions":{},"adding_replicas":{},"removing_replicas":{}}') + 24
_ENTRY = len('"":[],') - 1  # the last broker of a list has no comma after it


class TopicZnodes:
    """The topic znodes of a cluster as its waves go by."""

    def __init__(self, state: ClusterState) -> None:
        self._topic = state.topic.astype(np.int64)
        self._lists = state.replicas.astype(np.int64)
        self._digits = np.char.str_len(state.broker_ids.astype(str)).astype(np.int64) + 1
        self._number = np.char.str_len(state.number.astype(str)).astype(np.int64) + _ENTRY
        entries = self._number + self._listed(self._lists)
        self._bytes = _FRAME + np.bincount(self._topic, entries, len(state.topics)).astype(np.int64)

    def largest(self, rows: Ints, lists: Ints) -> int:
        """Moves rows of the state to their lists; the bytes of the largest znode written meanwhile, at least.

        Args:
            rows: [N] rows of the state.
            lists: [N, F] positions of the new replicas, -1 padded.
        """
        old, new = self._lists[rows], np.asarray(lists, np.int64)
        adding = np.where((new[:, :, None] == old[:, None, :]).any(2), -1, new)
        removing = np.where((old[:, :, None] == new[:, None, :]).any(2), -1, old)
        extra = self._listed(adding)
        for coming_or_going in (adding, removing):
            listed = self._listed(coming_or_going)
            extra += np.where(listed > 0, listed + self._number[rows], 0)
        meanwhile = self._bytes + np.bincount(self._topic[rows], extra, len(self._bytes)).astype(np.int64)
        change = self._listed(new) - self._listed(old)
        self._bytes = self._bytes + np.bincount(self._topic[rows], change, len(self._bytes)).astype(np.int64)
        width = max(new.shape[1], self._lists.shape[1])
        self._lists = np.pad(self._lists, ((0, 0), (0, width - self._lists.shape[1])), constant_values=-1)
        self._lists[rows] = np.pad(new, ((0, 0), (0, width - new.shape[1])), constant_values=-1)
        return int(meanwhile[self._topic[rows]].max(initial=0))

    def _listed(self, lists: Ints) -> Ints:
        return np.asarray(np.where(lists >= 0, self._digits[np.maximum(lists, 0)], 0).sum(1), np.int64)
