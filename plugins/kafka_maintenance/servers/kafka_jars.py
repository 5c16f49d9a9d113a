"""The jars of a Kafka broker: fetched once from Maven Central, pinned, checked on every use.

`kafka_jars.lock.json` beside this module names every jar of every version with its SHA-256. It is written by

    python -m kafka_maintenance.servers.kafka_jars lock

after a change of `VERSIONS`; read its diff like code. Kafka's own jars are Apache-2.0 and are not in this repository.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from kafka_maintenance.servers.errors import VersionRefusedError
from kafka_maintenance.servers.jar_sets import JarSet, ivy_module

LOCK_FILE = Path(__file__).with_name("kafka_jars.lock.json")
LOGGING_MODULE = ("org.slf4j", "slf4j-reload4j", "1.7.36")
# Brokers before 1.0 use a class that Java 11 dropped.
JAXB_MODULE = ("javax.xml.bind", "jaxb-api", "2.3.1")
# The ZooKeeper clients of 2.0 to 2.3 cannot resolve addresses on Java 14 and newer.
ZOOKEEPER_OVERRIDE = "3.4.10"


@dataclass(frozen=True, slots=True)
class KafkaRelease:
    """One pinned broker: its exact version, the Scala version of its jar, and what it needs on a modern Java."""

    version: str
    scala: str
    needs_jaxb: bool = False
    overrides_zookeeper: bool = False


VERSIONS: Mapping[str, KafkaRelease] = MappingProxyType(
    {
        "0.10.2": KafkaRelease("0.10.2.2", "2.11", needs_jaxb=True),
        "0.11.0": KafkaRelease("0.11.0.3", "2.11", needs_jaxb=True),
        "1.0": KafkaRelease("1.0.2", "2.11"),
        "1.1": KafkaRelease("1.1.1", "2.11"),
        "2.0": KafkaRelease("2.0.1", "2.11", overrides_zookeeper=True),
        "2.3": KafkaRelease("2.3.1", "2.12", overrides_zookeeper=True),
        "2.4": KafkaRelease("2.4.1", "2.12"),
        "2.8": KafkaRelease("2.8.2", "2.13"),
        "3.6": KafkaRelease("3.6.2", "2.13"),
        "3.7": KafkaRelease("3.7.1", "2.13"),
        "3.9": KafkaRelease("3.9.2", "2.13"),
    }
)


def kafka_jars(version: str, *, cache: Path | None = None, env: Mapping[str, str] | None = None) -> Path:
    """The folder with the jars of a Kafka version, such as "3.9"; arguments and errors: see `JarSet.cached` and `known_release`."""
    return jar_set(version).cached(cache=cache, env=env)


def known_release(version: str) -> KafkaRelease:
    """The pinned release of a version line.

    Raises:
        VersionRefusedError: the line is not one of `VERSIONS`.
    """
    if version not in VERSIONS:
        raise VersionRefusedError(
            f"Kafka {version!r} not used: expected a version whose jars are pinned, which are {', '.join(VERSIONS)}; choose one of them: each "
            "change of the ZooKeeper controller since 0.10.2 is in one"
        )
    return VERSIONS[version]


def jar_set(version: str) -> JarSet:
    """What a broker of a version line needs; errors: see `known_release`."""
    release = known_release(version)
    return JarSet(
        title=f"Kafka {release.version}",
        folder=f"kafka-jars/{release.version}",
        module=_module(release),
        main_jar=f"kafka_{release.scala}-{release.version}.jar",
        digests=read_lock().get(version, {}),
    )


def read_lock() -> dict[str, dict[str, str]]:
    """The lock file: version → jar name → SHA-256."""
    locked_jars: dict[str, dict[str, str]] = json.loads(LOCK_FILE.read_text())
    return locked_jars


def _module(release: KafkaRelease) -> str:
    """The broker, one logging binding, and what an old broker needs besides."""
    rules = ['<exclude org="org.slf4j" module="slf4j-log4j12"/><exclude org="log4j" module="log4j"/>']
    if release.needs_jaxb:
        organisation, name, revision = JAXB_MODULE
        rules.insert(
            0,
            f'<dependency org="{organisation}" name="{name}" rev="{revision}" conf="default->default" transitive="false"/>',
        )
    if release.overrides_zookeeper:
        rules.append(f'<override org="org.apache.zookeeper" module="zookeeper" rev="{ZOOKEEPER_OVERRIDE}"/>')
    return ivy_module(
        "broker", [("org.apache.kafka", f"kafka_{release.scala}", release.version), LOGGING_MODULE], *rules
    )


def write_lock(versions: Sequence[str]) -> None:
    """Fetch the named versions into a scratch folder and write their checksums into the lock file."""
    lock = read_lock() if LOCK_FILE.exists() else {}
    for version in versions:
        lock[version] = jar_set(version).fetched_digests()
        print(f"Kafka {VERSIONS[version].version}: {len(lock[version])} jars", flush=True)
    ordered = {version: lock[version] for version in VERSIONS if version in lock}
    LOCK_FILE.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["lock", *chosen]:
            write_lock(chosen or list(VERSIONS))
        case ["fetch", *chosen]:
            for wanted_version in chosen or ["3.9"]:
                print(kafka_jars(wanted_version))
        case _:
            sys.exit("usage: python -m kafka_maintenance.servers.kafka_jars lock|fetch [VERSION …]")
