"""Typed access to the fields of a plan document; everything wrong with one is an `InvalidPlanError`."""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar, cast

from controller_core.model.errors import InvalidPlanError
from controller_core.model.partitions import BrokerId, TopicPartition

_FOUND_MAX = 80
_INTEGERS: Final = frozenset({int})
_Value = TypeVar("_Value")


class PlanFields(NamedTuple):
    """A JSON object inside a plan, with where it stands.

    Every method raises `InvalidPlanError` that names the field, what was expected and what was found.
    """

    inside: "str | PlanFields"
    values: Mapping[str, object]
    name: str = ""
    at: int | None = None

    @property
    def where(self) -> str:
        """Where it stands, spelt for a message: a plan has hundreds of thousands of them."""
        if isinstance(self.inside, str):
            return self.inside
        return f"{self.inside.where}.{self.name}{'' if self.at is None else f'[{self.at}]'}"

    def text(self, name: str) -> str:
        """A mandatory string."""
        return _checked(self, name, str, "text")

    def text_or_none(self, name: str) -> str | None:
        """A string, or null."""
        return None if self.values.get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        """A mandatory integer; true and 1.0 are none."""
        return _checked(self, name, int, "an integer")

    def integer_or_none(self, name: str) -> int | None:
        """An integer, or null."""
        return None if self.values.get(name) is None else self.integer(name)

    def brokers(self, name: str) -> tuple[BrokerId, ...]:
        """A mandatory array of broker ids."""
        items = self.values.get(name)
        if type(items) is not list or not _INTEGERS.issuperset(map(type, items)):
            raise self.refused(name, "an array of broker ids", self.items(name))
        return tuple(cast("list[BrokerId]", items))

    def texts(self, name: str) -> tuple[str, ...]:
        """A mandatory array of strings."""
        items = self.items(name)
        for item in items:
            if not isinstance(item, str):
                raise self.refused(name, "an array of text", items)
        return tuple(item for item in items if isinstance(item, str))

    def items(self, name: str) -> list[object]:
        """A mandatory array."""
        return _checked(self, name, list, "an array")

    def objects(self, name: str) -> list["PlanFields"]:
        """A mandatory array of objects."""
        return [fields_of(item, self, name, index) for index, item in enumerate(self.items(name))]

    def section(self, name: str) -> "PlanFields":
        """A mandatory object."""
        return fields_of(self.values.get(name), self, name)

    def partition(self) -> TopicPartition:
        """The partition that the fields `topic` and `partition` name."""
        topic, number = self.values.get("topic"), self.values.get("partition")
        if type(topic) is not str or type(number) is not int:
            topic, number = self.text("topic"), self.integer("partition")  # says which of both is wrong
        return TopicPartition(topic, number)

    def refused(self, name: str, expected: str, found: object) -> InvalidPlanError:
        """The error for a field that holds something else."""
        shown = repr(found)
        shown = shown if len(shown) <= _FOUND_MAX else f"{shown[:_FOUND_MAX]}…"
        return InvalidPlanError(
            f"plan not read: {self.where}.{name}: expected {expected}, found {shown}; make the plan again"
        )


def fields_of(value: object, inside: str | PlanFields, name: str = "", at: int | None = None) -> PlanFields:
    """`value` as an object of a plan.

    Args:
        value: of the document.
        inside: the object that it is a field of, or the address of the document.
        name: of the field.
        at: place in the field; None: it is the field.

    Raises:
        InvalidPlanError: it is another value.
    """
    if not isinstance(value, dict):
        where = PlanFields(inside, {}, name, at).where
        raise InvalidPlanError(
            f"plan not read: {where}: expected an object, found {type(value).__name__}; make the plan again"
        )
    return PlanFields(inside, value, name, at)


def parse(data: bytes, where: str) -> PlanFields:
    """The JSON object that `data` holds; `InvalidPlanError` with the offset when it is none."""
    try:
        value = json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InvalidPlanError(f"plan not read: {where} is no JSON document ({error}); make the plan again") from None
    return fields_of(value, where)


def canonical(value: object) -> bytes:
    """The one spelling of a JSON value: sorted keys, no white space, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def partition_row(partition: TopicPartition) -> dict[str, object]:
    """The fields that `PlanFields.partition` reads."""
    return {"topic": partition.topic, "partition": partition.partition}


def _checked(fields: PlanFields, name: str, kind: type[_Value], expected: str) -> _Value:
    value = fields.values.get(name)
    if type(value) is not kind:
        raise fields.refused(name, expected, value)
    return value
