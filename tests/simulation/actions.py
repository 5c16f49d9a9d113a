"""What can happen to a cluster: each action is plain data, so that a failing run can be told, replayed and shortened."""

from __future__ import annotations

from typing import Any, NamedTuple


class Action(NamedTuple):
    """A kind and its arguments. A action that does not fit the moment does nothing, so that any subset can be replayed."""

    kind: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        sentence = SENTENCES[self.kind]
        return sentence.format(*[_shown(each) for each in self.arguments])


SENTENCES = {
    "advance": "the controller of broker {} performs one effect, or takes one command",
    "deliver": "controller {} reaches broker {} with one request",
    "isr": "broker {} adds the followers that caught up",
    "settle": "everybody reacts until nothing more happens",
    "stop": "broker {} dies",
    "start": "broker {} starts",
    "expire": "the session of broker {} expires",
    "lose": "broker {} loses the answer to its next ZooKeeper call ({})",
    "fail dir": "a log directory of broker {} fails: that of its log number {}",
    "depose": "somebody deletes /controller",
    "create": "topic {} is created: {}",
    "grow": "topic {} gets a partition on {}",
    "delete": "the deletion of topic {} is asked for",
    "move": "reassignments are asked for: {}",
    "elect": "preferred elections are asked for: {}",
    "shut down": "broker {} asks to shut down",
    "rebalance": "the automatic rebalance is due",
}


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(_shown(each) if not isinstance(each, tuple) else f"[{_shown(each)}]" for each in value)
    return str(value)
