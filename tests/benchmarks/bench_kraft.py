"""Rehearsals of migrations to KRaft by size: seconds, CPU seconds of everything together, and memory of controller, ZooKeeper and everything together.

python -m tests.benchmarks.bench_kraft [PARTITIONS …]
"""

import resource
import sys
import threading
import time

import psutil

from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.operations.kraft.rehearsal.run import Quorum, rehearse
from spark_jobs.kraft.tree import Tree, Znode
from tests.kafka_maintenance.operations.kraft.trees import HEALTHY, config, encoded, state, topic

BARS = {1_000: "20 s", 10_000: "45 s", 200_000: "10 min, 8 GB"}
"""Partitions → what a rehearsal may take on two cores."""
PARTITIONS_PER_TOPIC = 10
BROKERS = (1, 2, 3)
_POLL_S = 0.2


def big_tree(partition_count):
    """RF 3, ten partitions and one config a topic."""
    paths = ("/cluster/id", "/controller_epoch", "/latest_producer_id_block")
    values = {path: HEALTHY[path] for path in paths} | {f"/brokers/ids/{broker}": b"" for broker in BROKERS}
    parents = dict.fromkeys(("/cluster", "/brokers", "/brokers/ids", "/brokers/topics", "/config", "/config/topics"))
    for number in range(partition_count // PARTITIONS_PER_TOPIC):
        name = f"topic-{number:06d}"
        parts = {
            str(partition): [BROKERS[(number + partition + place) % 3] for place in range(3)]
            for partition in range(PARTITIONS_PER_TOPIC)
        }
        path = f"/brokers/topics/{name}"
        values[f"/config/topics/{name}"] = config(**{"retention.ms": "3600000"})
        values[path] = topic(topic_id=f"AAAAAAAAAAAAAA{number:06d}AA", partitions=parts)
        parents[f"{path}/partitions"] = None
        for partition, replicas in parts.items():
            parents[f"{path}/partitions/{partition}"] = None
            values[f"{path}/partitions/{partition}/state"] = state(replicas[0], replicas)
    return Tree({path: Znode(encoded(value)) for path, value in (parents | values).items()})


class Peak:
    """The most memory that this process and its children had together, in bytes."""

    def __init__(self):
        self.bytes, self._ended = 0, threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _watch(self):
        own = psutil.Process()
        while not self._ended.wait(_POLL_S):
            total = 0
            for process in (own, *own.children(recursive=True)):
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            self.bytes = max(self.bytes, total)


def _cpu_s():
    """CPU seconds of this process and of all its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main(sizes):
    print(
        "| partitions | whole rehearsal | CPU | controller start to dual write | controller | ZooKeeper | all processes at most | bar |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for size in sizes:
        copy = copy_of(big_tree(size))
        with Peak() as peak:
            begun_s, cpu_s = time.monotonic(), _cpu_s()
            outcome = rehearse(copy, Quorum())
            total_s, cpu_s = time.monotonic() - begun_s, _cpu_s() - cpu_s
        assert outcome.passed, outcome
        cost = outcome.cost
        memory = [f"{count >> 20} MB" for count in (cost.controller_bytes, cost.zookeeper_bytes, peak.bytes)]
        bar = BARS.get(size, "-")
        print(
            f"| {size:,} | {total_s:.0f} s | {cpu_s:.0f} s | {cost.migrated_s:.1f} s | {' | '.join(memory)} | {bar} |",
            flush=True,
        )


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or list(BARS))
