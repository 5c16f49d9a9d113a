"""An entry of a record as whoever shows it reads it: of the shape in which runs write it, or damaged.

Who merely writes the store can put anything there; who decides by a record reads it by `trusted_events`.
Source: docs/operations.md, "The receipt".
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kafka_maintenance.operations.record.state_changes import AFTER, BEFORE

_NUMBERS: Final = frozenset(
    [
        "bytes",
        "bytes_copied",
        "bytes_per_s",
        "estimate_s",
        "outcomes",
        "outcomes_done",
        "replicas",
        "replicas_in_sync",
        "seconds",
        "to_go_s",
    ]
)
"""Details that are counted with."""
_NUMBER_MAX: Final = 2**63
UNKNOWN_KIND: Final = "?"
_KIND: Final = re.compile("[a-z_]{1,100}")
_KIND_IN_NAME: Final = re.compile(r"/plans/([a-z_]+)-[0-9a-f]+\.json$")


def entry_of(content: bytes) -> dict[str, Any]:
    """An entry of a record, for whoever shows it; `ValueError` where it is none as a run writes it."""
    entry = json.loads(content)
    match entry:
        case {"event": str(), "at": str(at)}:
            step, detail = entry.get("step"), entry.get("detail", {})
        case _:
            raise ValueError("expected an entry of a record, with its event and its time, found something else")
    if not isinstance(detail, dict) or not (step is None or (type(step) is int and step >= 0)):
        raise ValueError(f"expected the number of a step and details by name, found {step!r} and {detail!r}")
    if datetime.fromisoformat(at).tzinfo is None:
        raise ValueError(f"expected a time with its zone, found {at!r}")
    for name, value in detail.items():
        if not _is_detail(name, value):
            raise ValueError(f"expected the detail {name!r} as a run writes it, found {str(value)[:200]}")
    return dict(entry)


def kind_in(started: Mapping[str, Any]) -> str:
    """The kind of a plan, as the beginning of its record tells it; `UNKNOWN_KIND` where that does not."""
    named = _KIND_IN_NAME.search(str(started.get("plan", "")))  # a restore has no kind in its record
    kind = str(started.get("kind", named[1] if named else UNKNOWN_KIND))
    return kind if _KIND.fullmatch(kind) else UNKNOWN_KIND


def _is_detail(name: str, value: Any) -> bool:
    """Whether a detail has the shape that it is read in; one that is only printed may have any."""
    match name:
        case _ if name in _NUMBERS:
            return _is_number(value)
        case "reasons" | "paths":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "lagging":
            return _are_rows(value, "broker") and all(map(_has_sizes, value))
        case "differing" | "left_out":  # of a restore the number of what was left out
            return isinstance(value, int) or _are_rows(value)
        case _ if name in {BEFORE, AFTER}:
            return _are_rows(value) and all(map(_is_state, value))
        case _:
            return True


def _are_rows(value: Any, *numbers: str) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, dict)
        and isinstance(row.get("topic"), str)
        and all(type(row.get(name)) is int for name in ("partition", *numbers))
        for row in value
    )


def _has_sizes(row: Mapping[str, Any]) -> bool:
    """Both, or none where nobody told them."""
    sizes = [row[name] for name in ("bytes", "bytes_copied") if name in row]
    return len(sizes) != 1 and all(map(_is_number, sizes))


def _is_state(row: Mapping[str, Any]) -> bool:
    lists = {"replicas", *(("isr",) if "leader" in row else ())} if "replicas" in row else set[str]()
    return all(isinstance(row.get(name), list) for name in lists) and ("leader" not in row or "leader_epoch" in row)


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and abs(value) < _NUMBER_MAX
