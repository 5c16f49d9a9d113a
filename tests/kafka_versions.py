"""The versions of real brokers that a test runs on: a few in `make test`, those of `VERSIONS` in `make test-kafka` and `make fidelity`."""

import os
from typing import Final

from kafka_maintenance.servers.kafka_jars import kafka_jars

VARIABLE: Final = "KAFKA_VERSIONS_OF_TESTS"


def kafka_versions(*usual: str) -> tuple[str, ...]:
    """Those of the environment, such as "3.9 2.8"; else the usual ones."""
    return tuple(os.environ.get(VARIABLE, "").split()) or usual


def class_path_of(version: str) -> str:
    """The jars of a broker's version one by one, which hold a ZooKeeper of its time, too."""
    return ":".join(map(str, sorted(kafka_jars(version).glob("*.jar"))))
