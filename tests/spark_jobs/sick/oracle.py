"""What an analysis must say of a small cluster, from Kafka's rules alone: no Spark, no `controller_core`, plain loops.

Each function returns rows of one result as a dict, key → values; `tests.spark_jobs.sick.compare` holds the job's beside them.
Source: Kafka 0.10.2 to 3.9, `KafkaController`, `PartitionStateMachine`, `ReplicaStateMachine`, `TopicDeletionManager`, `Partition`.
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
PAIRS_MAX = 10
STUCK_S, STALE_S = 600, 60


@dataclass(frozen=True)
class Partition:
    """One partition: `leader` None without a state; an unreadable state looks the same and is marked."""

    topic: str
    number: int
    replicas: tuple
    leader: int | None
    isr: tuple
    adding: tuple
    removing: tuple
    unreadable: bool

    @property
    def name(self):
        return self.topic, self.number

    @property
    def moving(self):
        return bool(self.adding or self.removing)

    @property
    def target(self):
        return tuple(broker for broker in self.replicas if broker not in self.removing)


class Oracle:
    """One cluster and its settings."""

    def __init__(self, world, settings):
        self.world = world
        self.version = tuple(map(int, settings["kafka_version"].split(".")))
        self.live = set(world.brokers)
        self.ratio_max = settings["leader_imbalance_per_broker_percentage"] / 100
        self.bad_paths = {path for path, _ in world.bad_rows}
        rows = [self._partition(row) for row in world.partitions]
        self.refused = [row for row in rows if contradicts(row)]
        self.partitions = [row for row in rows if not contradicts(row)]
        configs = {(kind, name, key): value for kind, name, key, value in world.configs}
        self.topic_min_isr = {
            name: value
            for (kind, name, key), text in configs.items()
            if kind == "topics" and key == MIN_ISR and (value := positive(text))
        }
        default = positive(configs.get(("brokers", "<default>", MIN_ISR), ""))
        self.min_isr_default = default or settings["min_insync_replicas"]
        self.topic_unclean = {
            name: text.strip().lower() == "true"
            for (kind, name, key), text in configs.items()
            if kind == "topics" and key == UNCLEAN
        }
        unclean = settings.get("unclean_leader_election_enable", self.version < (0, 11))
        dynamic = configs.get(("brokers", "<default>", UNCLEAN), "").strip().lower()
        self.unclean_default = {"true": True, "false": False}.get(dynamic, unclean)
        self.deletes = settings.get("delete_topic_enable", self.version >= (1, 0))
        self.queued = set(world.queued) if self.deletes else set()
        self.staying = [row for row in self.partitions if row.topic not in self.queued]
        self.asked = {
            kind: {(topic, number) for what, topic, number, *_ in world.requests if what == kind}
            for kind in ("reassign_partitions", "preferred_replica_election")
        }
        self.any_move = bool(self.asked["reassign_partitions"]) or any(row.moving for row in self.partitions)

    def _partition(self, row):
        topic, number, replicas, leader, isr, adding, removing = row
        unreadable = f"/brokers/topics/{topic}/partitions/{number}/state" in self.bad_paths
        return Partition(topic, number, replicas, leader, isr, adding, removing, unreadable)

    # ------------------------------------------------------------------------------------------------ leaders

    def offline(self, row):
        """`OfflinePartitionsCount`: a state, and no live leader."""
        return row.leader is not None and row.leader not in self.live

    def why_not(self, row):
        """Why the timer of `checkAndTriggerAutoLeaderRebalance` passes a partition over."""
        preferred = row.replicas[0]
        if self.version < (3, 4) and self.any_move:
            return "a reassignment is running, and this version waits for all of them"
        if self.version < (0, 11) and self.asked["preferred_replica_election"]:
            return "another preferred-leader election is running"
        if preferred not in self.live:
            return "preferred broker is not online"
        return None if preferred in row.isr else "preferred replica is not in the ISR"

    def imbalanced_partitions(self):
        found = {}
        for row in self.staying:
            if row.leader is None or row.leader == row.replicas[0]:
                continue
            why = self.why_not(row)
            electable = row.replicas[0] in self.live and row.replicas[0] in row.isr
            candidate = why is None or (self.version < (2, 6) and why == "preferred replica is not in the ISR")
            found[row.name] = (row.replicas[0], row.leader, candidate, electable, why)
        return found

    def imbalance(self):
        preferred = Counter(row.replicas[0] for row in self.staying)
        found = {}
        wrong = self.imbalanced_partitions().values()
        for broker, count in preferred.items():
            mine = [each for each in wrong if each[0] == broker]
            electable = sum(each[3] for each in mine)
            found[broker,] = (
                broker in self.live,
                count,
                len(mine),
                len(mine) / count,
                len(mine) / count > self.ratio_max,
                sum(each[2] for each in mine),
                electable,
                (len(mine) - electable) / count,
            )
        return found

    # ------------------------------------------------------------------------------------------------ deletions

    def deletion_eligibility(self):
        return {
            (topic,): (not reasons, reasons) for topic in self.world.queued for reasons in [tuple(self.reasons(topic))]
        }

    def reasons(self, topic):
        if not self.deletes:
            return [("deletion disabled", None, ())]
        below = f"/brokers/topics/{topic}"
        if any(path == below or path.startswith(below + "/") for path in self.bad_paths) or any(
            row.topic == topic for row in self.refused
        ):
            return [("unreadable, cannot be judged", None, ())]
        if all(row[0] != topic for row in self.world.partitions):
            return [("unknown topic", None, ())]
        found = []
        for row in sorted((row for row in self.partitions if row.topic == topic), key=lambda row: row.number):
            dead = tuple(broker for broker in row.replicas if broker not in self.live)
            if dead:
                found.append(("dead replica", row.number, dead))
            if row.leader is None and self.version < (2, 0):
                found.append(("partition that never had a leader", row.number, ()))
            if row.moving or row.name in self.asked["reassign_partitions"]:
                found.append(("partition being reassigned", row.number, ()))
            if self.version < (0, 11) and row.name in self.asked["preferred_replica_election"]:
                found.append(("preferred-replica election running", row.number, ()))
        return found

    # ------------------------------------------------------------------------------------------------ findings

    def wanted_min_isr(self, row):
        return self.topic_min_isr.get(row.topic, self.min_isr_default)

    def min_isr(self, row):
        wanted = self.wanted_min_isr(row)
        return min(wanted, len(row.replicas)) if self.version >= (3, 7) else wanted

    def lagging(self, row):
        return [b for b in row.replicas if b not in row.adding and b not in row.isr] if row.leader is not None else []

    def of_partition(self, row):
        has_state = row.leader is not None
        checks = {
            "no_state": not has_state and not row.unreadable,
            "offline": self.offline(row),
            "under_min_isr": has_state and not self.offline(row) and len(row.isr) < self.min_isr(row),
            "under_replicated": bool(self.lagging(row)),
            "min_isr_unreachable": len(row.target) < self.wanted_min_isr(row),
            "single_replica": len(row.target) == 1,
            "rack_violation": self.lies_close(row),
            "non_preferred_leader": has_state and row.leader != row.replicas[0],
            "leader_outside_isr": has_state and row.leader >= 0 and row.leader not in row.isr,
            "isr_outside_assignment": has_state and not set(row.isr) <= set(row.replicas),
            "empty_reassignment_target": bool(row.removing) and not row.target,
            "being_reassigned": row.moving,
        }
        return [kind for kind, holds in checks.items() if holds]

    def cause(self, row, kind):
        """The finding that alone is enough for this one, as the report names it."""
        dead = [b for b in dict.fromkeys((*row.replicas, row.leader)) if b not in self.live | {None, -1}]
        config = self.version < (3, 7) and len(row.target) < self.wanted_min_isr(row)
        synced = set(row.isr) | {b for b in self.lagging(row) if b in self.live}
        follows = {
            "offline": row.leader in dead or not self.live.intersection(row.isr),
            "under_min_isr": len(synced) < self.min_isr(row),
            "under_replicated": set(self.lagging(row)) <= set(dead),
            "non_preferred_leader": row.replicas[0] in dead,
        }
        if config and kind in {"under_min_isr", "single_replica"}:
            return "min_isr_unreachable"
        return f"broker_down {dead}" if dead and follows.get(kind) else None

    def lies_close(self, row):
        racks = self.world.brokers
        if None in racks.values() or len(set(racks.values())) < 2:
            return False
        sizes = Counter(racks.values())
        rounds = left = 0
        left = len(row.target)
        while left and any(size > rounds for size in sizes.values()):
            takers = sum(size > rounds for size in sizes.values())
            if left < takers:
                break
            left -= takers
            rounds += 1
        most = rounds + bool(left)
        held = Counter(racks[b] for b in row.target if b in racks)
        known = all(b in racks for b in row.target)
        return any(
            held[rack] > min(size, most) or (known and held[rack] < min(size, rounds)) for rack, size in sizes.items()
        )

    def findings(self):
        found = Counter()
        for topic, age in self.world.queued.items():
            found["stuck_delete_topics", topic, None] += age >= STUCK_S
        old = {(kind, topic) for kind, topic, _, _, age in self.world.requests if age >= STUCK_S}
        found.update((f"stuck_{kind}", topic, None) for kind, topic in old)
        found.update((f"stale_{kind}", None, None) for kind in self.stale_queues())
        throttled = {(kind, name) for kind, name, key, _ in self.world.configs if "replication.throttled" in key}
        for kind, name in throttled if not self.any_move else ():
            found["stale_throttle", name if kind == "topics" else None, None] += 1
        racks = set(self.world.brokers.values())
        controller = {"consistent": True, "kraft_controller_epoch": -1, **self.world.controller}
        found["broker_without_rack", None, None] += None in racks and len(racks) > 1
        found["no_controller", None, None] += (
            controller["controller_id"] is None if "controller_id" in controller else not self.live
        )
        found["inconsistent_snapshot", None, None] += not controller["consistent"]
        found["kraft_migration", None, None] += controller["kraft_controller_epoch"] >= 0
        named = controller.get("controller_id", min(self.live, default=None))
        found["controller_not_registered", None, None] += named is not None and named not in self.live
        for broker, (_, _, replicas, leads, _) in ((key[0], each) for key, each in self.broker_load().items()):
            found["broker_down", None, None] += broker not in self.live and replicas + leads > 0
        found["unclean_election_allowed", None, None] += self.unclean_default
        for topic in {row[0] for row in self.world.partitions} & self.topic_unclean.keys():
            found["unclean_election_allowed", topic, None] += self.topic_unclean[topic] and not self.unclean_default
        for topic in {row.topic for row in self.staying if 1 < len(row.target) == self.min_isr(row)}:
            found["min_isr_equals_replication_factor", topic, None] += 1
        found["unreadable_znode", None, None] += len(self.world.bad_rows)
        of_partitions = {
            (kind, *row.name, self.cause(row, kind)): (1,) for row in self.staying for kind in self.of_partition(row)
        }
        return {(*key, None): (count,) for key, count in found.items() if count} | of_partitions

    def stale_queues(self):
        return {kind for kind, *_, age in self.world.notifications if age >= STALE_S}

    def cluster_summary(self):
        counts = (
            len({row.topic for row in self.partitions}),
            len(self.partitions),
            sum(len(row.replicas) for row in self.partitions),
            len(self.live),
            sum(self.offline(row) for row in self.staying),
            len(self.imbalanced_partitions()),
            sum(bool(self.lagging(row)) for row in self.staying),
        )
        return {(): counts}

    def broker_load(self):
        held = {broker for row in self.partitions for broker in row.replicas}
        held |= {row.leader for row in self.partitions if row.leader is not None and row.leader >= 0}
        return {
            (broker,): (
                self.world.brokers.get(broker),
                broker in self.live,
                sum(broker in row.replicas for row in self.partitions),
                sum(row.leader == broker for row in self.partitions),
                sum(row.replicas[0] == broker for row in self.partitions),
            )
            for broker in held | self.live
        }

    # ------------------------------------------------------------------------------------------------ failures

    def elected(self, row, live):
        """The partition after `OfflinePartitionLeaderElectionStrategy`, and whether that was unclean."""
        in_sync = [broker for broker in row.isr if broker in live]
        there = [broker for broker in row.replicas if broker in live]
        if row.leader is None:  # a new partition: its first live replica, all live ones in sync
            return (replace(row, leader=there[0], isr=tuple(there)) if there else row), False
        if in_sync:
            fit = [broker for broker in there if broker in in_sync]
            return (replace(row, leader=fit[0], isr=tuple(in_sync)) if fit else row), False
        if there and self.topic_unclean.get(row.topic, self.unclean_default):
            return replace(row, leader=there[0], isr=(there[0],)), True
        return row, False

    def without(self, row, broker):
        """`removeReplicasFromIsr`: a dead replica leaves the ISR, but not the last one."""
        if row.leader is None or broker not in row.isr or broker not in row.replicas:
            return row
        left = tuple(other for other in row.isr if other != broker)
        drops_last = self.version < (1, 1) and self.topic_unclean.get(row.topic, self.unclean_default)
        if not left and not drops_last:
            left = row.isr
        return replace(row, leader=-1 if row.leader == broker else row.leader, isr=left)

    def scenarios(self):
        for broker in self.live:
            yield "broker", (broker,)
        by_rack = {rack: [] for rack in self.world.brokers.values() if rack is not None}
        for broker, rack in self.world.brokers.items():
            if rack is not None:
                by_rack[rack].append(broker)
        if len(by_rack) > 1:
            for rack, brokers in by_rack.items():
                yield f"rack:{rack}", tuple(sorted(brokers))
        shared = Counter(
            pair for row in self.partitions for pair in combinations(sorted(self.live & set(row.replicas)), 2)
        )
        for pair, _ in sorted(shared.items(), key=lambda each: (-each[1], each[0]))[:PAIRS_MAX]:
            yield "pair", pair

    def failure_drill(self):
        rows = [row for row in self.staying if not row.unreadable]
        stands = [row if row.leader in self.live else self.elected(row, self.live)[0] for row in rows]
        unknown = [row for row in self.staying if row.unreadable]
        found = {}
        for scenario, failed in self.scenarios() if self.partitions else ():  # nothing to lose
            live = self.live - set(failed)
            affected = [row for row in stands if set(failed) & set(row.replicas)]
            offline = below = unclean = 0
            gained = Counter()
            for was in stands:
                now, is_unclean = (was, False) if was.leader in live else self.elected(was, live)
                unclean += is_unclean
                if was not in affected or was.leader is None:
                    continue
                for broker in failed:
                    now = self.without(now, broker)
                is_led = now.leader in live
                if was.leader in failed:
                    offline += not is_led
                    if is_led:
                        gained[now.leader] += 1
                below += is_led and len(now.isr) < self.min_isr(was) <= len(was.isr)
            most = max(gained.values(), default=0)
            broker = min((broker for broker, count in gained.items() if count == most), default=None)
            left_out = sum(bool(set(failed) & set(row.replicas)) for row in unknown)
            found[scenario, failed] = (
                len(affected), left_out, offline, below, unclean, gained.total(), most, broker,
            )  # fmt: skip
        return ranked(found)


def ranked(found):
    def worst(key):
        affected, _, offline, below, unclean, _, most, _ = found[key]
        return -offline, -below, -unclean, -most, -affected, key

    order = sorted(found, key=worst)
    return {key: (*found[key], rank) for rank, key in enumerate(order, start=1)}


def contradicts(row):
    """Rows that Kafka never writes and that would poison a count."""
    replicas, isr = row.replicas, row.isr
    if not replicas or len(set(replicas)) < len(replicas):
        return True
    if row.leader is None:
        return False
    return len(set(isr)) < len(isr) or min(isr, default=0) < 0 or row.leader < -1


def positive(text):
    """What Kafka accepts as min.insync.replicas; None for the rest."""
    text = text.strip()
    digits = text.removeprefix("+")
    return int(digits) if digits.isdigit() and int(digits) >= 1 else None
