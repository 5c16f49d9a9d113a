"""Why a migration did not end in dual write: what the controller's log says of it, and how to go on without it.

Source: docs/kraft.md, "Rehearsal" and "Predicted and happened": what Kafka 3.6.2, 3.7.1 and 3.9.2 log on a tree with exactly that damage.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller_core.znodes import TOPICS
from kafka_maintenance.operations.kraft.rehearsal.attempt import Attempt, End
from kafka_maintenance.operations.kraft.rehearsal.copy import Copy, unit_of
from spark_jobs.kraft.judged import Verdict
from spark_jobs.kraft.rules import RULES
from spark_jobs.kraft.tree import Tree

_STAMP: Final = re.compile(r"^\d{4}-\d\d-\d\d \S+ ")
_TELLING: Final = re.compile(
    r"\b(ERROR|FATAL)\b|Still waiting for ZK brokers|No brokers are (registered|known)|Will retry|Unable to|fault:|Exception|not judged"
)
_CAUSE: Final = re.compile(r"^(Caused by: )?(java|kafka|org\.apache|scala|com)\.\S*(Exception|Error)")
_LINES_MAX: Final = 8
_REFUSALS: Final[Mapping[int, tuple[str, str]]] = {
    35: ("R2", "UNSUPPORTED_VERSION"),
    104: ("R17", "INCONSISTENT_CLUSTER_ID"),
    119: ("R21", "INVALID_REGISTRATION"),
}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What stopped one attempt.

    Attributes:
        end: how the attempt ended.
        state: in which state of the migration.
        line: the line of the log that says most, or what the controller refused.
        path: the znode at fault; None where it was not found.
        rule: the precondition that says so; None where the certificate did not foresee it.
        others: further znodes that the same rule names; they were taken away with it, and not each rehearsed.
        found_by: "log" or "bisection".
    """

    end: End
    state: str
    line: str
    path: str | None
    rule: str | None
    others: tuple[str, ...] = ()
    found_by: str = "log"


def telling_lines(log: str) -> tuple[str, ...]:
    """The lines of a log that say why, without time and repetition, at most eight."""
    found: dict[str, str] = {}
    for line in log.splitlines():
        if _TELLING.search(line) or _CAUSE.search(line):
            text = _STAMP.sub("", line)
            found.setdefault(re.sub(r"\d+", "#", text), text[:400])
    lines = list(found.values())
    return tuple(lines if len(lines) <= _LINES_MAX else [*lines[: _LINES_MAX - 3], *lines[-3:]])


def suspects(tree: Tree) -> Mapping[str, str]:
    """Path → id of the first rule that names it: of those that are not met, then of those to be decided first."""
    judged = [(rule.id, rule.judge(tree)) for rule in RULES]
    found: dict[str, str] = {}
    for verdict in (Verdict.NOT_MET, Verdict.DECIDE):
        for rule, its in judged:
            for line in (its.found or its.evidence) if its.verdict is verdict else ():
                if line.startswith("/"):
                    found.setdefault(line.partition(": ")[0], rule)
    return found


def most_telling(log: str) -> str:
    """The last line of a log that names an exception, else the last that tells anything."""
    lines = telling_lines(log)
    causes = [line for line in lines if _CAUSE.search(line)]
    return (causes or list(lines) or ["the log says nothing"])[-1]


def from_log(copy: Copy, attempt: Attempt) -> tuple[Obstacle, Copy] | None:
    """The obstacle and the copy without it, where the log names it; None where a bisection has to find it."""
    for pattern, read in _READERS:
        match = re.search(pattern, attempt.log)
        if match is not None and (found := read(copy, match)) is not None:
            rule, path, rest = found
            return Obstacle(attempt.end, attempt.state, _STAMP.sub("", _line_of(attempt.log, match)), path, rule), rest
    return None


def refusal(attempt: Attempt) -> Obstacle | None:
    """The obstacle where the controller refuses the imitated brokers: no znode is at fault, so nothing can go on without it."""
    for broker, code in sorted(attempt.refused.items()):
        rule, name = _REFUSALS.get(code, (None, f"error {code}"))
        return Obstacle(attempt.end, attempt.state, f"registration of broker {broker} refused: {name}", None, rule)
    return None


def units(tree: Tree) -> tuple[str, ...]:
    """The roots of what can be taken away for a bisection, suspects first: topics, configs, ACLs, tokens, producer ids."""
    suspected = suspects(tree)
    found = [f"{TOPICS}/{name}" for name in tree.children(TOPICS)]
    found += [f"/config/topics/{name}" for name in tree.children("/config/topics") if f"{TOPICS}/{name}" not in tree]
    for root in ("/config/users", "/config/clients", "/config/ips", "/config/brokers"):
        found += [path for path in tree.below(root) if not tree.children(path)]
    found += [
        path for root in ("/kafka-acl", "/kafka-acl-extended") for path in tree.below(root) if not tree.children(path)
    ]
    found += list(tree.below("/delegation_token/tokens"))
    found += [path for path in ("/latest_producer_id_block",) if path in tree]
    found += tree.strange_registrations
    all_units = frozenset(found)
    marked = {unit for path in suspected if (unit := unit_of(path, all_units))}
    return tuple(sorted(found, key=lambda unit: unit not in marked))


def first_culprit(units: Sequence[str], works: Callable[[Sequence[str]], bool]) -> str | None:
    """The unit with which a tree that worked stops working; None where it does not work without any unit.

    Args:
        units: likely ones first; all together do not work.
        works: whether the tree with only these units reaches dual write; asked about 2·log₂ of the culprit's place times.
    """
    if not works(()):
        return None
    good, bad = 0, 1
    while bad < len(units) and works(units[:bad]):
        good, bad = bad, bad * 2
    bad = min(bad, len(units))
    while bad - good > 1:
        middle = (good + bad) // 2
        if works(units[:middle]):
            good = middle
        else:
            bad = middle
    return units[bad - 1]


_Found = tuple[str, str | None, Copy]


def _topic_in_line(copy: Copy, match: re.Match[str]) -> _Found | None:
    path = f"{TOPICS}/{match[1]}"
    return ("R3", path, copy.without(path)) if path in copy.tree else None


def _brokers_in_line(copy: Copy, match: re.Match[str]) -> _Found | None:
    missing = [int(text) for text in re.findall(r"-?\d+", match[1])]
    unborn = [broker for broker in missing if broker < 0]
    if unborn:
        return None  # no broker can have this id: the topic is at fault, and a bisection finds it
    new = [broker for broker in missing if broker not in copy.tree.registered]
    return ("R4", f"/brokers/ids/{new[0]}", copy.with_brokers(new)) if new else None


def _nobody(copy: Copy, match: re.Match[str]) -> _Found | None:
    del match
    wanted = [broker for broker in copy.tree.replica_brokers if broker >= 0] or [1]
    return None if copy.tree.registered else ("R4", "/brokers/ids", copy.with_brokers(wanted))


def _controller_epoch(copy: Copy, match: re.Match[str]) -> _Found | None:
    del match
    path = "/controller_epoch"
    return ("R5", path, copy.with_data({path: b"1"}))


def _left_over(copy: Copy, match: re.Match[str]) -> _Found | None:
    del match
    return ("R5", "/controller", copy.without("/controller")) if "/controller" in copy.tree else None


_READERS: Final[Sequence[tuple[str, Callable[[Copy, re.Match[str]], _Found | None]]]] = (
    (r"Error in topic consumer\. Topic was (\S+?)\.(?=\s|$)", _topic_in_line),
    (r"Still waiting for ZK brokers \[([^\]]*)\] found in metadata", _brokers_in_line),
    (r"No brokers are registered in ZK", _nobody),
    (r"no ZK controller epoch present", _controller_epoch),
    (r"same or newer epoch", _left_over),
)
"""Pattern of a line of the log → rule, znode, and the copy without it."""


def _line_of(log: str, match: re.Match[str]) -> str:
    start, end = log.rfind("\n", 0, match.start()) + 1, log.find("\n", match.end())
    return log[start : end if end >= 0 else None][:400]
