"""Sick clusters by number: dead brokers, unreadable znodes, odd ISRs, missing racks, requests of all forms, all versions."""

import random

from tests.spark_jobs.worlds import World

VERSIONS = (
    "0.10.2", "0.11.0", "1.0", "1.1", "2.0", "2.3", "2.4", "2.5", "2.6", "2.8", "3.3", "3.4", "3.6", "3.7", "3.9",
)  # fmt: skip
TOPICS = ("a", "b", "c", "d", "long-name", "gone")
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
_STATE = "/brokers/topics/{}/partitions/{}/state"


def sick_cluster(number, seed=0):
    """A cluster and its settings; the same number and seed give the same."""
    dice = random.Random(f"{seed}/{number}")
    ids = sorted(dice.sample(range(7) if dice.random() < 0.9 else (0, 1, 5, 10_001, 20_000, 2_000_000), 6))
    live = _some(dice, ids, 0 if dice.random() < 0.05 else 1)
    rows = list(_partitions(dice, ids))
    unreadable = [row for row in rows if row[3] is None and dice.random() < 0.4]
    queued = dict.fromkeys(_some(dice, TOPICS, 0, 3) if dice.random() < 0.6 else (), dice.choice((5, 700)))
    world = World(
        cluster=f"cluster-{number:04}",
        brokers=_racks(dice, live),
        partitions=tuple(rows),
        queued=queued,
        requests=tuple(_requests(dice, rows, ids)),
        notifications=tuple(_notifications(dice, rows)),
        configs=tuple(_configs(dice, live)),
        bad_rows=tuple(
            [(_STATE.format(row[0], row[1]), "not JSON") for row in unreadable]
            + [(f"/brokers/topics/{topic}", "not JSON") for topic in _some(dice, ("gone", "torn"), 0, 1)]
            + [(_STATE.format("stray", 3), "state of a partition that its topic does not assign")] * (number % 7 == 0)
        ),
        controller=_controller(dice, live),
    )
    settings = {
        "kafka_version": VERSIONS[number % len(VERSIONS)],
        "leader_imbalance_per_broker_percentage": dice.choice((0, 10, 50)),
        "min_insync_replicas": dice.choice((1, 1, 2)),
    }
    if dice.random() < 0.4:
        settings["delete_topic_enable"] = dice.random() < 0.8
    if dice.random() < 0.3:
        settings["unclean_leader_election_enable"] = dice.random() < 0.5
    return world, settings


def _some(dice, values, fewest=0, most=None):
    values = list(values)
    most = len(values) if most is None else min(most, len(values))
    return tuple(dice.sample(values, dice.randint(min(fewest, most), most)))


def _racks(dice, live):
    kind = dice.choice(("none", "all", "all", "some"))
    names = "xyz"[: dice.randint(1, 3)]
    return {
        broker: None if kind == "none" or (kind == "some" and dice.random() < 0.4) else dice.choice(names)
        for broker in live
    }


def _partitions(dice, ids):
    for topic in _some(dice, TOPICS[:-1], 1):
        for number in range(dice.randint(1, 4)):
            replicas = _some(dice, ids, 1, 5)
            yield (topic, number, *_odd(dice, replicas, _state(dice, replicas, ids)), *_moving(dice, replicas))


def _state(dice, replicas, ids):
    kind = dice.random()
    if kind < 0.12:
        return None, ()
    isr = _some(dice, replicas)
    if isr and dice.random() < 0.1:  # genuine through Kafka 2.3
        isr = (*isr, *[broker for broker in ids if broker not in replicas][:1])
    leader = dice.choice((-1, replicas[0], *isr, *isr, *replicas)) if kind < 0.9 else dice.choice(ids)
    return leader, isr


def _odd(dice, replicas, state):
    """Now and then a row that no analysis may use."""
    leader, isr = state
    match dice.randint(0, 60) if leader is not None else 60:
        case 0:
            return (), None, ()
        case 1:
            return (*replicas, replicas[0]), leader, isr
        case 2:
            return replicas, leader, (replicas[0], replicas[0])
        case 3:
            return replicas, leader, (-1,)
        case 4:
            return replicas, -2, isr
    return replicas, leader, isr


def _moving(dice, replicas):
    if dice.random() > 0.12:
        return ((), ())
    adding = _some(dice, replicas[1:], 0, 1)
    removing = _some(dice, [broker for broker in replicas if broker not in adding], 0)
    return (adding, removing)


def _requests(dice, rows, ids):
    named = _some(dice, rows, 0, 2)
    if dice.random() < 0.3:
        yield from (("reassign_partitions", row[0], row[1], _some(dice, ids, 1, 3), 5) for row in named)
    if dice.random() < 0.3:
        yield from (("preferred_replica_election", row[0], row[1], None, dice.choice((5, 800))) for row in named)
    if dice.random() < 0.05:
        yield ("reassign_partitions", "no-such-topic", 0, (1,), 5)


def _notifications(dice, rows):
    for number, row in enumerate(_some(dice, rows, 0, 2) if dice.random() < 0.2 else ()):
        yield ("isr_change", f"isr_change_{number:010}", row[0], row[1], None, dice.choice((5, 400)))
    if dice.random() < 0.1:
        yield ("log_dir_event", "log_dir_event_0000000001", None, None, 4, 90)


def _configs(dice, live):
    for topic in _some(dice, TOPICS, 0, 4):
        yield ("topics", topic, MIN_ISR, dice.choice(("1", "2", " 2", "+2", "3", "4", "0", "-1", "x", "2.0", "")))
    for topic in _some(dice, TOPICS, 0, 3):
        yield ("topics", topic, UNCLEAN, dice.choice(("true", " TRUE", "false")))
    if dice.random() < 0.3:
        yield ("brokers", "<default>", MIN_ISR, dice.choice(("2", "two")))
    if dice.random() < 0.2:
        yield ("brokers", "<default>", UNCLEAN, dice.choice(("true", "maybe", "false")))
    if dice.random() < 0.2:
        yield ("topics", "a", "leader.replication.throttled.replicas", "0:1")
    for broker in live[:1] if dice.random() < 0.2 else ():
        yield ("brokers", str(broker), "follower.replication.throttled.rate", "1000")


def _controller(dice, live):
    if dice.random() < 0.1:
        return {"controller_id": None}
    if dice.random() < 0.1:
        return {"consistent": False, "kraft_controller_epoch": 3}
    return {"controller_id": min(live, default=9)}
