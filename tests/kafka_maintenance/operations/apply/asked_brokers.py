"""Brokers that are asked through their admin API, and obey, refuse or say nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from controller_core.model.partitions import TopicPartition
from kafka_maintenance.operations.apply import ask_brokers, copying
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.log_dirs import LogDirs, SizesUnknownError
from tests.kafka_maintenance.kafka_world import KafkaWorld

BROKERS = BrokersAsked("b1:9092")


class Brokers:
    """The brokers of a world: `asked` has each request, `refuses` an error by partition, `fails` what happens around the next ones."""

    def __init__(self, world: KafkaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.asked: list[list[TopicPartition]] = []
        self.refuses: dict[TopicPartition, str] = {}
        self.before: list[BaseException | None] = []
        self.after: list[BaseException | None] = []
        monkeypatch.setattr(ask_brokers, "alter_reassignments", self.alter)
        monkeypatch.setattr(ask_brokers, "elect_preferred_leaders", self.elect)
        monkeypatch.setattr(ask_brokers, "AGAIN_S", 0.0)
        monkeypatch.setattr(copying, "log_dirs_of", self.log_dirs_of)

    def alter(self, _: BrokersAsked, targets: Mapping[TopicPartition, Any], what: str) -> dict[TopicPartition, str]:
        self._fail(self.before)
        self.asked.append(list(targets))
        for partition, replicas in targets.items():
            if partition not in self.refuses:
                self.world._reassign(partition, tuple(replicas))
                self.world._drop_entry(partition)
        self._fail(self.after)
        return {each: self.refuses[each] for each in targets if each in self.refuses}

    def elect(self, _: BrokersAsked, partitions: Sequence[TopicPartition], what: str) -> dict[TopicPartition, str]:
        self._fail(self.before)
        self.asked.append(list(partitions))
        for partition in partitions:
            if partition not in self.refuses:
                self.world._elect(partition)
        self._fail(self.after)
        return {each: self.refuses[each] for each in partitions if each in self.refuses}

    @staticmethod
    def log_dirs_of(_: BrokersAsked, what: str, *, only: set[int]) -> tuple[LogDirs, ...]:
        raise SizesUnknownError(f"{what} of {sorted(only)}: not told here")

    @staticmethod
    def _fail(queued: list[BaseException | None]) -> None:
        error = queued.pop(0) if queued else None
        if error is not None:
            raise error
