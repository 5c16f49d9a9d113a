"""How long the pages take to make at 1,000 clusters, and for a cluster of 200 brokers and 200,000 partitions; cold and warm, with memory.

`python -m tests.benchmarks.bench_pages`. Cold: nothing of the store is in memory. Warm: the same page once more. HTML included.
"""

import tempfile
from datetime import UTC, datetime
from functools import partial
from time import perf_counter

import psutil

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.operations.analysis import tables
from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.web import render
from kafka_maintenance.web.views.cluster import cluster_page
from kafka_maintenance.web.views.clusters import Listed, clusters_page
from kafka_maintenance.web.views.history import history_page
from kafka_maintenance.web.views.topic import topic_page
from tests.benchmarks.bench_drills import stored
from tests.benchmarks.bench_kraft import BROKERS, PARTITIONS_PER_TOPIC, big_tree
from tests.kafka_maintenance.operations.kraft.trees import encoded, state
from tests.kafka_maintenance.web.fleet import Sick, publish

BIG = Sick("big", brokers=200, racks=4, topics=2000, partitions=100, warnings=900, critical=20, growth=100)
FLEET = tuple(
    Sick(f"cluster-{number:04}", topics=2, partitions=3, warnings=number % 5, critical=number % 50 == 0)
    for number in range(1000)
)
DATES = 30
PARTITIONS = 200_000
COLD_S_MAX, WARM_S_MAX = 1.0, 0.3


def main() -> None:
    """Prints a line per page."""
    with tempfile.TemporaryDirectory() as folder:
        big, fleet = open_store(f"{folder}/big"), open_store(f"{folder}/fleet")
        publish(big, [BIG], dates=3, snapshots=1)
        publish(fleet, FLEET, dates=DATES, snapshots=1)
        compared = _two_dates()
        listed = [Listed(name=one.name) for one in FLEET]
        pages = {
            "Clusters, 1,000 clusters, 30 dates": lambda: clusters_page(fleet, listed, {}, now=datetime.now(UTC)),
            "Cluster, 200 brokers × 200,000 partitions": partial(cluster_page, big, "big"),
            "History, 200,000 partitions, 4,000 written": partial(history_page, compared, ["blue"], "", "", "", ""),
            "Topic, of 2,000 with 200,000 partitions": partial(topic_page, big, "big", "topic-100"),
        }
        for name, make in pages.items():
            _print(name, make)


def _two_dates():
    """A store with two snapshots of one cluster: in between 2 % of the partitions got another leader."""
    copy, changed = copy_of(big_tree(PARTITIONS)), {}
    for number in range(PARTITIONS // PARTITIONS_PER_TOPIC // 5):
        path = f"/brokers/topics/topic-{number:06d}/partitions/0/state"
        changed[path] = encoded(state(BROKERS[1], BROKERS))
    return stored(copy, changed)


def _print(name, make) -> None:
    process = psutil.Process()
    tables.CACHE.clear()
    before = process.memory_info().rss
    seconds = []
    for _ in range(4):
        begin = perf_counter()
        text = render.page_html(make(), nonce="n")
        seconds.append(perf_counter() - begin)
    grown = (process.memory_info().rss - before) / 2**20
    cold, warm = seconds[0], min(seconds[1:])
    said = "within" if cold <= COLD_S_MAX and warm <= WARM_S_MAX else "ABOVE"
    print(
        f"{name:45} cold {cold:6.3f} s  warm {warm:6.3f} s  {len(text) / 2**20:5.1f} MiB of HTML  +{grown:6.1f} MiB  {said} the bars"
    )


if __name__ == "__main__":
    main()
