"""What a user would plan with instead: Kafka's `--generate`, round robin from scratch, and a greedy that knows our bounds."""

import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from controller_core.model import BrokerId
from controller_core.placement import assign_replicas


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


def greedy(problem):
    """Repairs racks and factors, then topics, then brokers, each time from the fullest to the emptiest of a rack."""
    count, brokers = problem.partition_count, problem.broker_count
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
    missed = sum(not problem.low[b] <= load[b] <= problem.high[b] for b in range(brokers) if problem.eligible[b])
    if low is not None:
        held = np.zeros_like(low)
        for (t, b), n in cells.items():
            held[t, b] = n
        missed += int(((held < low) | (held > high)).sum())
    old = [set(row) for row in problem.replicas.tolist()]
    return sum(len(set(new) - before) for new, before in zip(lists, old, strict=True)), missed


def kafka_generate(state, version="2.8"):
    """Moves of `kafka.admin.ReassignPartitionsCommand --generate` over this cluster in a real ZooKeeper; (moves, None) or (None, why)."""
    from controller_core.adapters.zookeeper import connect
    from kafka_maintenance.local.errors import LocalStackError
    from kafka_maintenance.local.java import find_java
    from kafka_maintenance.local.kafka_jars import kafka_jars
    from kafka_maintenance.local.zookeeper import ZooKeeperServer

    try:
        jars, java = kafka_jars(version), find_java()
    except (LocalStackError, OSError) as error:
        return None, str(error).splitlines()[0][:80]
    with ZooKeeperServer() as server, tempfile.TemporaryDirectory() as folder:
        address = f"127.0.0.1:{server.port}"
        with connect(address, auth=None, timeout_s=30) as zookeeper:
            _fill(zookeeper, state)
        names = Path(folder) / "topics.json"
        names.write_text(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in state.topics]}))
        ids = ",".join(str(b) for b in state.broker_ids[state.live & ~state.draining].tolist())
        done = subprocess.run(
            [str(java.program), "-cp", f"{jars}/*", "kafka.admin.ReassignPartitionsCommand", "--zookeeper", address,
             "--generate", "--topics-to-move-json-file", str(names), "--broker-list", ids],
            capture_output=True, text=True, check=False, env={**os.environ, "JAVA_TOOL_OPTIONS": "-Xmx512m"}, timeout=300,
        )  # fmt: skip
    documents = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if len(documents) != 2:
        return None, (done.stderr or done.stdout).strip().splitlines()[-1][:80]
    new = {(row["topic"], row["partition"]): row["replicas"] for row in json.loads(documents[1])["partitions"]}
    position = {int(b): i for i, b in enumerate(state.broker_ids)}
    lists = [
        [position[b] for b in new[state.topics[t], n]]
        for t, n in zip(state.topic.tolist(), state.number.tolist(), strict=True)
    ]
    return moves(state, lists), None


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
