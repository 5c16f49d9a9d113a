"""Clusters of a fleet, and a run of the analysis over them as a person starts it."""

from spark_jobs import nightly_analysis
from tests.spark_jobs.worlds import DAY, World

ROWS = tuple(("orders", number, (number % 4, (number + 1) % 4, 4), number % 4, (number % 4, 4)) for number in range(12))
ALPHA = World(
    brokers=dict.fromkeys(range(6), "a"),
    partitions=(*ROWS[:-1], ("orders", 11, (3, 0, 4), 0, (0, 3, 4)), ("trash", 0, (1, 9), 1, (1,))),
    queued={"trash": 900},
    notifications=(("isr_change", "isr_change_0000000001", "orders", 0, None, 500),),
    bad_rows=(("/brokers/topics/odd", "not JSON"),),
)
BETA = World(
    cluster="beta",
    brokers={1: None, 2: None},
    partitions=(("t", 0, (1, 2), 1, (1, 2)), ("t", 1, (), None, ())),
    queued={"t": 5},
)
GAMMA = World(cluster="gamma", brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),))
DELTA = World(cluster="delta", brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),))
EPSILON = World(cluster="epsilon", brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),))


def by_hand(store, output, *more):
    return ["--input", str(store), "--output", str(output), "--run", "r", "--date", str(DAY), *more]


def run_by_hand(spark, store, output, *more):
    return nightly_analysis.run(spark, nightly_analysis.parse(by_hand(store, output, *more)), say=list)
