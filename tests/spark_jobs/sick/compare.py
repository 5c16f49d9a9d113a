"""The whole job on sick clusters beside the oracle; `python -m tests.spark_jobs.sick.compare --clusters 2000` for many.

Prints how many rows of each result were compared and each difference; exit status 1 where there is one.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.parquet as pq

from spark_jobs import nightly_analysis
from spark_jobs.io.datasets import session
from tests.spark_jobs.sick.generator import sick_cluster
from tests.spark_jobs.sick.oracle import Oracle
from tests.spark_jobs.worlds import DAY, write

RESULTS = {
    "imbalance": (
        ("broker_id",),
        ("live", "preferred_count", "imbalanced_count", "ratio", "triggers", "candidate_count", "electable_count",
         "ratio_after_election"),
    ),
    "imbalanced_partitions": (
        ("topic", "partition"), ("preferred_leader", "leader", "candidate", "electable", "reason"),
    ),
    "deletion_eligibility": (("topic",), ("eligible", "reasons")),
    "findings": (("kind", "topic", "partition", "cause"), ()),
    "cluster_summary": (
        (),
        ("topic_count", "partition_count", "replica_count", "broker_count", "offline_count", "imbalanced_count",
         "under_replicated_count"),
    ),
    "broker_load": (("broker_id",), ("rack", "live", "replica_count", "leader_count", "preferred_count")),
    "failure_drill": (
        ("scenario", "failed"),
        ("affected_count", "unreadable_count", "offline_count", "under_min_isr_count", "unclean_count",
         "leaders_moved_count", "leaders_gained_max", "leaders_gained_max_broker", "rank"),
    ),
}  # fmt: skip
"""Key and values of each result that the oracle knows; of findings the values are their number."""


def differences(spark, folder, numbers, seed=0):
    """Runs the job over the clusters `numbers`; returns the rows compared by result, and the differences in words."""
    fleet = [sick_cluster(number, seed) for number in numbers]
    for world, _ in fleet:
        write(world, folder / "store")
    settings = {"clusters": {world.cluster: own for world, own in fleet}}
    (folder / "settings.json").write_text(json.dumps(settings))
    arguments = ["--input", str(folder / "store"), "--output", str(folder / "out"), "--run", "sick", "--no-plans",
                 "--date", str(DAY), "--settings", str(folder / "settings.json"), "--verified",
                 "--only", *RESULTS, "not_analysed"]  # fmt: skip
    nightly_analysis.run(spark, nightly_analysis.parse(arguments), say=list)
    found = {name: _rows_of(folder / "out" / name, *columns) for name, columns in RESULTS.items()}
    failed = pq.read_table(folder / "out" / "not_analysed", partitioning=None).to_pylist()
    different = [f"{row['cluster']} not analysed: {row['stage']}: {row['reason']}" for row in failed]
    different += hidden(pq.read_table(folder / "out" / "findings", partitioning=None).to_pylist())
    compared = Counter()
    for world, own in fleet:
        oracle = Oracle(world, own)
        for name in RESULTS:
            expected, got = getattr(oracle, name)(), found[name][world.cluster]
            compared[name] += len(expected)
            different += [
                f"{world.cluster} ({own['kafka_version']}) {name} {key}: expected {expected.get(key)}, found {got.get(key)}"
                for key in expected.keys() | got.keys()
                if expected.get(key) != got.get(key)
            ]
    return compared, different


def hidden(findings):
    """Findings whose cause is not found, or is milder than they are: no alarm rings for those."""
    order = ("critical", "warning", "info")
    ranks = {}
    for row in findings:
        where = row["brokers"] if row["kind"] == "broker_down" else (row["topic"], row["partition"])
        ranks[row["cluster"], row["kind"], *where] = order.index(row["severity"])
    for row in findings:
        kind, _, brokers = (row["cause"] or "").partition(" ")
        causes = [(int(each),) for each in re.findall("[0-9]+", brokers)] or [(row["topic"], row["partition"])]
        if kind and any(
            ranks.get((row["cluster"], kind, *where), 9) > order.index(row["severity"]) for where in causes
        ):
            yield f"{row['cluster']} hides {row['severity']} {row['kind']} {row['topic']} behind {row['cause']}"


def _rows_of(place, keys, values):
    found = defaultdict(dict)
    for row in pq.read_table(place, partitioning=None).to_pylist():
        key = tuple(_plain(row[name]) for name in keys)
        if values:
            found[row["cluster"]][key] = tuple(_plain(row[name]) for name in values)
        else:
            found[row["cluster"]][key] = (found[row["cluster"]].get(key, (0,))[0] + 1,)
    return found


def _plain(value):
    """Lists as tuples; a reason against a deletion as kind, partition and brokers."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return tuple((reason["kind"], reason["partition"], tuple(reason["brokers"])) for reason in value)
    return tuple(value) if isinstance(value, list) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # executors are processes of their own
    with tempfile.TemporaryDirectory() as folder:
        spark = session("sick clusters")
        spark.sparkContext.setLogLevel("ERROR")
        compared, different = differences(spark, Path(folder), range(wanted.clusters), wanted.seed)
        spark.stop()
    for name, count in compared.items():
        print(f"{name}: {count} rows compared")
    print("\n".join(different[:100]))
    print(f"{wanted.clusters} clusters, seed {wanted.seed}: {len(different)} differences")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
