"""Records of the core as JSON and back, driven by their type annotations.

Frozen dataclasses and named tuples become objects, tuples become lists, enums their values, partitions `topic-number`
(the last dash separates). Reading is strict: a missing or unknown field and a wrong type are errors that name the place.
"""

import types
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from controller_core.model.errors import InvalidPlanError
from controller_core.model.partitions import TopicPartition


def to_json(value: Any) -> Any:
    """The JSON form of a record, or of anything inside one."""
    if isinstance(value, TopicPartition):
        return str(value)
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: to_json(item) for name, item in zip(value._fields, value, strict=True)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def from_json(kind: Any, value: Any, where: str) -> Any:
    """A value of type `kind` from its JSON form.

    Args:
        kind: a class, or an annotation such as `tuple[TopicPartition, ...]`.
        value: parsed JSON.
        where: named in errors.

    Raises:
        InvalidPlanError: the value does not have that form.
    """
    kind = getattr(kind, "__supertype__", kind)  # BrokerId is an int
    origin = get_origin(kind)
    if kind is TopicPartition:
        return _partition(value, where)
    if origin in {Union, types.UnionType}:
        return _one_of(kind, value, where)
    if origin is tuple:
        return _tuple(kind, value, where)
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind, value, where)
    if kind is type(None) and value is None:
        return None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind, value, where)
    if isinstance(kind, type) and type(value) is kind:
        return value
    raise InvalidPlanError(f"{where}: expected {_name(kind)}, found {value!r}; the document was changed or is damaged")


def _partition(value: Any, where: str) -> TopicPartition:
    topic, dash, number = value.rpartition("-") if isinstance(value, str) else ("", "", "")
    if not topic or not dash or not number.isdecimal():
        raise InvalidPlanError(f"{where}: expected a partition as 'topic-number', found {value!r}")
    return TopicPartition(topic, int(number))


def _one_of(kind: Any, value: Any, where: str) -> Any:
    for choice in get_args(kind):
        try:
            return from_json(choice, value, where)
        except InvalidPlanError:
            continue
    raise InvalidPlanError(f"{where}: expected {_name(kind)}, found {value!r}")


def _tuple(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InvalidPlanError(f"{where}: expected a list, found {value!r}")
    inside = get_args(kind)
    if inside[-1] is Ellipsis:
        return tuple(from_json(inside[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if len(inside) != len(value):
        raise InvalidPlanError(f"{where}: expected a list of {len(inside)}, found {value!r}")
    return tuple(
        from_json(each, item, f"{where}[{i}]") for i, (each, item) in enumerate(zip(inside, value, strict=True))
    )


def _record(kind: Any, value: Any, where: str) -> Any:
    hints = _hints(kind)
    if not isinstance(value, dict) or value.keys() != hints.keys():
        raise InvalidPlanError(f"{where}: expected an object with {', '.join(hints)}, found {value!r}")
    return kind(**{name: from_json(hint, value[name], f"{where}.{name}") for name, hint in hints.items()})


def _enum(kind: type[Enum], value: Any, where: str) -> Enum:
    try:
        return kind(value)
    except ValueError as error:
        raise InvalidPlanError(f"{where}: expected {[each.value for each in kind]!r}, found {value!r}") from error


@lru_cache(maxsize=256)
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    return {name: hints[name] for name in names}


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
