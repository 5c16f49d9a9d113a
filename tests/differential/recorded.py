"""Vectors recorded from Kafka's own controller classes, and how an outcome of ours is held against them.

A vector says what was given, what was done, and what Kafka 3.9.1's classes then showed. `python -m
tests.differential.recorded SOURCE.jsonl.gz NAME` makes a corpus: it keeps the vectors that Kafka did not abandon in the
middle (there our core does better on purpose, see docs/fidelity.md).
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors"
STATE_MAPS = ("partition_states", "replica_states", "leadership", "assignments")
NOTHING = ("NonExistentPartition", "NonExistentReplica", {"replicas": [], "adding": [], "removing": []})
IN_ORDER_PER_PARTITION = ("zk_writes", "add_leader_and_isr")
ORDERED = (
    "isr",
    "replicas",
    "adding",
    "removing",
    "brokers",
    "endpoints",
    "results",
    "target_replicas",
    "origin_replicas",
)
ABSENT_IS_EMPTY = (
    "illegal_transitions", "failed_transitions", "zk_writes", "metadata_updates_sent", "deleted_topics", "muted_topics",
    "discarded_deletion_requests", "add_leader_and_isr", "add_stop_replica", "add_update_metadata",
)  # fmt: skip
NOT_JUDGED = ("exact", "aborted", "order_sensitive", "broker_order", "state_change_calls", "count", "order")


def vectors(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def differences(vector: Mapping[str, Any], outcome: Mapping[str, Any]) -> list[str]:
    """What Kafka showed and `outcome` does not, one sentence each."""
    expected = vector["expected"]
    found = list(_against(_plain(expected), outcome, ""))
    steps = expected.get("after_steps", [])
    if steps and vector["action"]["steps"][0]["op"] != "new_batch":
        had = outcome.get("after_steps", [])
        alike = isinstance(had, list) and len(had) == len(steps)
        found += _steps(vector, steps, had) if alike else [f"/after_steps: expected {len(steps)}, found {had!r}"]
    ended = outcome.get("error")
    if ended is not None and "error" not in expected and "raises" not in expected:
        found.append(f"/error: nothing was raised, found {ended!r}")
    return found


def _plain(expected: Mapping[str, Any]) -> dict[str, Any]:
    batch = [told for told in expected.get("after_steps", []) if "raises" in told or not told]
    kept = {key: value for key, value in expected.items() if key not in {*NOT_JUDGED, "after_steps"}}
    return (
        kept
        | ({"after_steps": batch} if batch and len(batch) == len(expected["after_steps"]) else {})
        | {key: {k: v for k, v in expected[key].items() if v not in NOTHING} for key in expected.get("exact", [])}
    )


def _steps(vector: Mapping[str, Any], told: list[dict[str, Any]], found: list[dict[str, Any]]) -> Iterator[str]:
    """Each step lists what it changed; what it does not list is as it was."""
    now = {name: dict(vector["given"]["context"].get(name, {})) for name in STATE_MAPS}
    whole = vector["action"]["steps"][0]["op"] == "replica_machine_startup"
    for number, (step, got) in enumerate(zip(told, found, strict=True)):
        where = f"/after_steps[{number}]"
        plain = {key: value for key, value in step.items() if key not in {*STATE_MAPS, "absent_replica_states"}}
        yield from _against(plain, got, where)
        if not whole:
            yield from _against({name: step[name] for name in STATE_MAPS if name in step}, got, where)
            continue
        for name, entries in now.items():
            kept = {k: v for k, v in entries.items() if k not in step.get("absent_replica_states", [])}
            gone = tuple(f"{topic}-" for topic in step.get("deleted_topics", []))
            now[name] = {k: v for k, v in kept.items() if not k.startswith(gone)} | step.get(name, {})
            want = {k: v for k, v in now[name].items() if v not in NOTHING}
            have = {k: v for k, v in got[name].items() if v not in NOTHING and not k.startswith(gone)}
            if want != have:
                yield f"{where}/{name}: expected {_apart(want, have)}, found {_apart(have, want)}"


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if other.get(key) != value}


def _against(expected: Any, got: Any, where: str, key: str = "") -> Iterator[str]:
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            yield f"{where}: expected an object, found {got!r}"
            return
        yield from _dict(expected, got, where, key)
    elif isinstance(expected, list) and key not in ORDERED:
        if _bag(expected, key) != _bag(got, key):
            yield f"{where}: expected {expected}, found {got}"
    elif expected != got or isinstance(expected, bool) is not isinstance(got, bool):
        yield f"{where}: expected {expected!r}, found {got!r}"


def _dict(expected: dict[str, Any], got: dict[str, Any], where: str, key: str) -> Iterator[str]:
    if key in {*STATE_MAPS, "election_results", "request_count"} and "after_steps" not in where:
        surplus = {name for name, value in got.items() if name not in expected and value not in NOTHING}
        if surplus:
            yield f"{where}: not expected: {sorted(surplus)}"
    for name, value in expected.items():
        if name in NOT_JUDGED or value in NOTHING:
            continue
        if name == "raises":
            yield from _against(value, f"{got.get('error')}Exception", f"{where}/raises")
        elif name == "requests" and isinstance(got["requests"], dict):
            yield from _requests(value, got["requests"], f"{where}/requests")
        elif name == "only_these_partitions":
            continue
        elif name == "after_steps" and isinstance(got[name], list):
            yield from _listed(value, got[name], f"{where}/{name}")
        elif name == "results":
            yield from _against(value, got.get(name), f"{where}/{name}", "results")
        else:
            yield from _against(value, got.get(name, [] if name in ABSENT_IS_EMPTY else None), f"{where}/{name}", name)


def _listed(expected: list[Any], got: list[Any], where: str) -> Iterator[str]:
    for number, (want, have) in enumerate(zip(expected, got, strict=True)):
        yield from _against(want, have, f"{where}[{number}]")


def _requests(expected: dict[str, list[Any]], got: dict[str, list[Any]], where: str) -> Iterator[str]:
    if {broker for broker, sent in expected.items() if sent} != set(got):
        yield f"{where}: expected to {sorted(expected)}, found to {sorted(got)}"
        return
    for broker, sent in expected.items():
        yield from _listed(sent, got[broker], f"{where}/{broker}")
        for want, have in zip(sent, got[broker], strict=True):
            if want["partition_states"].keys() != have["partition_states"].keys():
                yield f"{where}/{broker}: other partitions: {sorted(have['partition_states'])}"


def _bag(items: Any, key: str) -> Any:
    if not isinstance(items, list):
        return items
    if key in IN_ORDER_PER_PARTITION:
        per_partition = defaultdict(list)
        for item in items:
            per_partition[item["partition"]].append(item)
        return per_partition
    return sorted(json.dumps(_event(item), sort_keys=True) for item in items)


def _event(item: Any) -> Any:
    """An event without the errors that are none; of LeaderAndIsr answers Kafka's event has none to show."""
    if isinstance(item, dict):
        hidden = item.get("type") == "leader_and_isr_response" or not item.get("partition_errors")
        return {key: value for key, value in item.items() if key != "partition_errors" or not hidden}
    return item


def main() -> None:
    source, name = Path(sys.argv[1]), sys.argv[2]
    kept = 0
    with gzip.open(source, "rt", encoding="utf-8") as lines, lzma.open(VECTORS / f"{name}.jsonl.xz", "wt") as out:
        for line in lines:
            vector = json.loads(line)
            if not vector["expected"].get("aborted"):
                out.write(json.dumps(vector, separators=(",", ":")) + "\n")
                kept += 1
    print(f"{kept} vectors kept in {name}")


if __name__ == "__main__":
    main()
