"""What a user would plan with instead: Kafka's `--generate`, topicmappr, round robin from scratch, and a greedy that knows our bounds."""

import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from controller_core.admin.placement import assign_replicas
from controller_core.model.partitions import BrokerId


def moves(state, lists):
    """Replicas that a list of new replica lists adds."""
    return sum(len(set(new) - set(old)) for new, old in zip(lists, state.replicas.tolist(), strict=True))


def round_robin(state):
    """Every topic placed anew as Kafka places new topics, from the first broker on."""
    brokers = {
        BrokerId(b): (None if state.rack_names == ("",) else state.rack_names[state.rack[b]])
        for b in np.nonzero(state.live & ~state.draining)[0].tolist()
    }
    lists = []
    starts = np.flatnonzero(np.diff(state.topic, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], state.partition_count], strict=True):
        factor = int(state.replication_factor[start])
        first = start % len(brokers)
        placed = assign_replicas(
            brokers,
            partition_count=end - start,
            replication_factor=factor,
            start_index=first,
            first_shift=first,
        )
        lists.extend(placed[number] for number in range(end - start))
    return lists


class GreedyStuckError(Exception):
    """The greedy planner has no broker left to choose."""


def greedy(problem):
    """Repairs racks and factors, then topics, then brokers, each time from the fullest to the emptiest of a rack.

    Raises:
        GreedyStuckError: a rack with no broker that does not hold the partition yet.
    """
    count = problem.partition_count
    low, high = problem.cell_bounds() if problem.topic_spread else (None, None)
    lists = [[b for b in row if b >= 0 and problem.eligible[b]] for row in problem.replicas.tolist()]
    load = Counter(b for row in lists for b in row)
    cells = Counter((problem.topic[p], b) for p, row in enumerate(lists) for b in row)
    racks, topic = problem.rack.tolist(), problem.topic.tolist()

    def put(p, old, new):
        if old is not None:
            lists[p].remove(old)
            load[old] -= 1
            cells[topic[p], old] -= 1
        if new is not None:
            lists[p].append(new)
            load[new] += 1
            cells[topic[p], new] += 1

    def best(p, rack):
        able = [b for b in problem.rack_brokers[rack].tolist() if b not in lists[p]]
        if not able:
            raise GreedyStuckError(f"partition {p} finds no other broker in rack {rack}")
        if low is None:
            return min(able, key=lambda b: (load[b] - problem.low[b], b))
        t = topic[p]
        return min(able, key=lambda b: (max(cells[t, b] + 1 - high[t, b], 0), load[b] - problem.low[b], cells[t, b], b))

    for p in range(count):
        most, least = problem.rack_max[problem.factor[p]], problem.rack_min[problem.factor[p]]
        for g in range(len(most)):
            while sum(racks[b] == g for b in lists[p]) > most[g]:
                put(p, max((b for b in lists[p] if racks[b] == g), key=lambda b: (load[b] - problem.high[b], b)), None)
        while len(lists[p]) > problem.factors[problem.factor[p]]:
            put(p, max(lists[p], key=lambda b: (load[b] - problem.high[b], b)), None)
        while len(lists[p]) < problem.factors[problem.factor[p]]:
            held = [sum(racks[b] == g for b in lists[p]) for g in range(len(most))]
            g = min((g for g in range(len(most)) if held[g] < most[g]), key=lambda g: (held[g] >= least[g], held[g], g))
            put(p, None, best(p, g))
    for _ in range(3):
        for p in range(count):
            for b in list(lists[p]):
                over_cell = low is not None and cells[topic[p], b] > high[topic[p], b]
                if over_cell or load[b] > problem.high[b]:
                    new = best(p, racks[b])
                    room = load[new] < problem.low[new] if not over_cell else load[new] < load[b] or low is not None
                    if room and (
                        low is None
                        or over_cell
                        or (cells[topic[p], new] < high[topic[p], new] and cells[topic[p], b] > low[topic[p], b])
                    ):
                        put(p, b, new)
    old = [set(row) for row in problem.replicas.tolist()]
    return sum(len(set(new) - before) for new, before in zip(lists, old, strict=True)), missed_bounds(problem, lists)


def over_zookeeper(state, problem, version="2.8"):
    """What the tools that read a tree propose for this cluster in a real ZooKeeper: title → figure, or why there is none.

    Kafka's is `kafka.admin.ReassignPartitionsCommand --generate`; topicmappr (DataDog's kafka-kit; 3.x reads all of it
    from ZooKeeper) is asked when it is on the PATH: to place what has no place, and to place everything anew.
    """
    from controller_core.adapters.zookeeper.session import connect
    from kafka_maintenance.servers.errors import LocalStackError
    from kafka_maintenance.servers.java import find_java
    from kafka_maintenance.servers.kafka_jars import kafka_jars
    from kafka_maintenance.servers.zookeeper import ZooKeeperServer

    try:
        jars, java = kafka_jars(version), find_java()
    except (LocalStackError, OSError) as error:
        return {"--generate": str(error).splitlines()[0][:80]}
    with ZooKeeperServer() as server, tempfile.TemporaryDirectory() as folder:
        address = f"127.0.0.1:{server.port}"
        with connect(address, auth=None, timeout_s=30) as zookeeper:
            _fill(zookeeper, state)
        found = {"--generate": "keeps the replication factor"}
        if (state.replication_factor == (state.replicas >= 0).sum(1)).all():
            found["--generate"] = _generated(state, jars, java.program, address, Path(folder) / "topics.json")
        mapper = shutil.which("topicmappr")
        for title, more in (("topicmappr", ()), ("topicmappr, all anew", ("--force-rebuild",))):
            found[title] = "not on the PATH"
            if mapper is not None:
                found[title] = _mapped(state, problem, [mapper, *more], address, Path(folder) / "map.json")
    return found


def _staying(state):
    return ",".join(str(b) for b in state.broker_ids[state.live & ~state.draining].tolist())


def _generated(state, jars, java, address, names):
    names.write_text(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in state.topics]}))
    done = subprocess.run(
        [str(java), "-cp", f"{jars}/*", "kafka.admin.ReassignPartitionsCommand", "--zookeeper", address,
         "--generate", "--topics-to-move-json-file", str(names), "--broker-list", _staying(state)],
        capture_output=True, text=True, check=False, env={**os.environ, "JAVA_TOOL_OPTIONS": "-Xmx512m"}, timeout=300,
    )  # fmt: skip
    documents = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if len(documents) != 2:
        return (done.stderr or done.stdout).strip().splitlines()[-1][:80]
    return moves(state, _lists(state, json.loads(documents[1])))


def _mapped(state, problem, program, address, out):
    out.unlink(missing_ok=True)
    done = subprocess.run(
        [program[0], "rebuild", "--zk-addr", address, "--topics", ".*", "--brokers", _staying(state), "--ignore-warns",
         "--replication", str(state.replication_factor.max()), "--out-file", str(out.with_suffix("")), *program[1:]],
        capture_output=True, text=True, check=False, timeout=300, cwd=out.parent,
    )  # fmt: skip
    if not out.exists():
        return (done.stderr or done.stdout).strip().splitlines()[-1][:80]
    lists = _lists(state, json.loads(out.read_text()))
    found = missed_bounds(problem, lists)
    return f"{moves(state, lists)}{f' ({found} bounds missed)' if found else ''}"


def _lists(state, document):
    """Replica lists of all partitions after Kafka's reassignment JSON; those that it does not name stay."""
    new = {(row["topic"], row["partition"]): row["replicas"] for row in document["partitions"]}
    position = {int(b): i for i, b in enumerate(state.broker_ids)}
    rows = zip(state.topic.tolist(), state.number.tolist(), state.replicas.tolist(), strict=True)
    named = ((new.get((state.topics[topic], number)), old) for topic, number, old in rows)
    return [[b for b in old if b >= 0] if ids is None else [position[b] for b in ids] for ids, old in named]


def missed_bounds(problem, lists):
    """Brokers, and (topic, broker) pairs with topic spread, outside the bounds that our plan keeps."""
    load = np.bincount([b for row in lists for b in row], minlength=problem.broker_count)
    missed = int(((load < problem.low) | (load > problem.high))[problem.eligible].sum())
    if not problem.topic_spread:
        return missed
    low, high = problem.cell_bounds()
    held = np.zeros_like(low)
    for topic, row in zip(problem.topic.tolist(), lists, strict=True):
        held[topic, row] += 1
    return missed + int(((held < low) | (held > high)).sum())


def _fill(zookeeper, state):
    for b, rack, live in zip(state.broker_ids.tolist(), state.rack.tolist(), state.live.tolist(), strict=True):
        if live:
            registration = {
                "version": 5, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "1", "features": {},
                "endpoints": ["PLAINTEXT://h:9092"], "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            }  # fmt: skip
            if state.rack_names != ("",):
                registration["rack"] = state.rack_names[rack]
            zookeeper.create(f"/brokers/ids/{b}", json.dumps(registration).encode(), make_parents=True)
    starts = np.flatnonzero(np.diff(state.topic, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], state.partition_count], strict=True):
        assignment = {str(state.number[row]): state.ids(state.replicas[row]) for row in range(start, end)}
        content = {"version": 2, "partitions": assignment, "adding_replicas": {}, "removing_replicas": {}}
        path = f"/brokers/topics/{state.topics[state.topic[start]]}"
        zookeeper.create(path, json.dumps(content).encode(), make_parents=True)
