"""The certificate: prices per broker and per (topic, broker) that prove how few moves any plan needs.

For *any* whole numbers u and w: moves >= sum over partitions of the cheapest legal replica set, where a new replica costs
1 and each replica on broker b pays u[b] + w[t, b], minus what the bounds allow to be earned back. Wrong numbers only
weaken the bound. A third set of prices v does the same for preferred leaders, given the new replica sets.
Source: docs/planning.md, "Why the number is minimal"; weak duality of linear programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller_core.model.words import counted
from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.columns import Ints
from spark_jobs.planner.errors import InvalidStateError
from spark_jobs.planner.model import ClusterState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certificate:
    """Prices of the bounds. Shapes: B brokers of the state, N priced (topic, broker) cells."""

    broker_price: Ints  # u [B]
    cell_topic: Ints  # [N] topic of the problem
    cell_broker: Ints  # [N]
    cell_price: Ints  # w [N]
    leader_price: Ints  # v [B]
    scale: int = 1  # what one move costs in the units of the prices
    kept_leader_reward: Ints | None = None  # lw [B] 0 or 1; only with scale > partitions

    def cell_prices(self, topics: int, brokers: int) -> Ints:
        """[T, B] dense w."""
        dense = np.zeros((topics, brokers), np.int64)
        dense[self.cell_topic, self.cell_broker] = self.cell_price
        return dense

    def to_json(self, state: ClusterState, problem: Problem) -> dict[str, Any]:
        """{"u": {id: int}, "w": [[topic, id, int]], "v": {id: int}, "scale": int, "lw": {id: 0 or 1}}."""
        ids = state.broker_ids.tolist()
        reward = np.zeros(len(ids), np.int64) if self.kept_leader_reward is None else self.kept_leader_reward
        cells = zip(self.cell_topic.tolist(), self.cell_broker.tolist(), self.cell_price.tolist(), strict=True)
        return {
            "scale": self.scale,
            "u": {str(b): price for b, price in zip(ids, self.broker_price.tolist(), strict=True) if price},
            "lw": {str(b): one for b, one in zip(ids, reward.tolist(), strict=True) if one},
            "v": {str(b): price for b, price in zip(ids, self.leader_price.tolist(), strict=True) if price},
            "w": [[problem.topic_names[t], ids[b], price] for t, b, price in cells],
        }


def certificate_from_json(document: Mapping[str, Any], state: ClusterState, problem: Problem) -> Certificate:
    """The certificate that `to_json` wrote; every key may be missing.

    Raises:
        InvalidStateError: it names a broker or a topic that the state does not have, or is no certificate.
    """
    topics = {name: number for number, name in enumerate(problem.topic_names)}
    try:
        cells = [
            (topics[topic], state.position(int(broker)), int(price)) for topic, broker, price in document.get("w", [])
        ]
        per_broker = {key: np.zeros(state.broker_count, np.int64) for key in ("u", "v", "lw")}
        for key, prices in per_broker.items():
            for broker, price in document.get(key, {}).items():
                prices[state.position(int(broker))] = int(price)
        scale = int(document.get("scale", 1))
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidStateError(
            f"certificate read: prices of the {counted(state.broker_count, 'broker')} and {counted(len(topics), 'topic')} expected, found: "
            f"{error!r}; take the one that was stored with the plan"
        ) from error
    table = np.array(cells, np.int64).reshape(-1, 3)
    return Certificate(
        broker_price=per_broker["u"],
        cell_topic=table[:, 0],
        cell_broker=table[:, 1],
        cell_price=table[:, 2],
        leader_price=per_broker["v"],
        scale=scale,
        kept_leader_reward=per_broker["lw"] if "lw" in document else None,
    )


def unpriced(brokers: int) -> Certificate:
    """A certificate that proves nothing: all prices are zero."""
    none = np.zeros(0, np.int64)
    return Certificate(
        broker_price=np.zeros(brokers, np.int64),
        cell_topic=none,
        cell_broker=none,
        cell_price=none,
        leader_price=np.zeros(brokers, np.int64),
    )
