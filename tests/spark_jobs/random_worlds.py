"""Clusters made by chance."""

import random

from tests.spark_jobs.worlds import World


def some(dice, values, fewest=0, most=None):
    values = list(values)
    return tuple(dice.sample(values, dice.randint(fewest, min(len(values), most or len(values)))))


def random_partitions(dice):
    for topic in some(dice, "abc", 1):
        for number in range(dice.randint(1, 4)):
            replicas = some(dice, range(5), 1, 3)
            leader = dice.choice((None, -1, *replicas, replicas[0]))
            isr = () if leader is None else some(dice, replicas)
            if isr and dice.random() < 0.15:
                isr = (*isr, next(broker for broker in range(9) if broker not in replicas))  # genuine through Kafka 2.3
            adding = some(dice, replicas, 0, 1)
            removing = tuple(broker for broker in replicas[1:] if broker not in adding)
            moving = (adding, removing) if dice.random() < 0.15 else ((), ())
            yield (topic, number, replicas, leader, isr, *moving)


def random_world(number):
    dice = random.Random(number)
    rows = tuple(random_partitions(dice))
    kind = dice.choice(("reassign_partitions", "preferred_replica_election"))
    named = some(dice, rows, 0, 2) if dice.random() < 0.4 else ()
    return World(
        cluster=f"cluster-{number:03}",
        brokers=dict.fromkeys(some(dice, range(5), 1), "rack"),
        partitions=rows,
        queued=dict.fromkeys(some(dice, "abcx"), 60),
        requests=tuple((kind, row[0], row[1], row[2], 5) for row in named),
        bad_rows=tuple(
            (f"/brokers/topics/{topic}", "not JSON") for topic in some(dice, "abcx", 0, 1) if number % 5 == 0
        ),
    )
