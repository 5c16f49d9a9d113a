"""The settings of a real broker of a rehearsal: of the cluster's own server.properties what decides whether a broker starts, the rest on loopback.

Source: Kafka 3.9 `KafkaConfig.validateValues`, `KafkaServer`; docs/ops.html, "Enter Migration Mode on the Brokers" and "Migrating brokers to KRaft".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kafka_maintenance.operations.kraft.asked import IBP, Answers
from kafka_maintenance.operations.kraft.rehearsal.run import pairs_of
from kafka_maintenance.servers.imitated_brokers import PLAINTEXT
from kafka_maintenance.servers.ports import LOOPBACK, free_port

AUTHORIZER: Final = "authorizer.class.name"
CONTROL_PLANE: Final = "control.plane.listener.name"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_TAKEN: Final = re.compile(
    r"(inter\.broker\.protocol\.version|broker\.id|broker\.id\.generation\.enable|reserved\.broker\.max\.id|authorizer\.class\.name|"
    r"super\.users|allow\.everyone\.if\.no\.acl\.found|log\.dirs?|listeners|inter\.broker\.listener\.name|"
    r"security\.inter\.broker\.protocol|control\.plane\.listener\.name|password\.encoder\..+|delegation\.token\..+)$"
)
_OWN_AUTHORIZERS: Final = ("kafka.security.", "org.apache.kafka.")
_ZOOKEEPER_ONLY: Final = ("zookeeper.", "broker.id", IBP)
_CONTROLLER: Final = "CONTROLLER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a broker of a rehearsal lives: its id, what it names (the folder from the workspace), and the settings of the migration that all have."""

    broker_id: int
    zookeeper_connect: str
    voters: str
    folder: Path
    ports: Mapping[str, int]


def planned_broker(properties: str) -> Mapping[str, str]:
    """Of a broker's properties file what decides whether it starts: not hosts, logins, files and classes other than Kafka's authorizers."""
    taken = {key: value for key, value in pairs_of(properties).items() if _TAKEN.match(key)}
    if not taken.get(AUTHORIZER, "").startswith(_OWN_AUTHORIZERS):
        taken.pop(AUTHORIZER, None)
    return taken


def planned_by_answers(answers: Answers) -> Mapping[int, Mapping[str, str]]:
    """Broker → the same, as far as it answered."""
    found = {}
    for broker, answer in answers.brokers.items():
        lines = [f"{key}={value}" for key, value in answer.settings.items() if value and key != "broker.id"]
        generated = not answer.has("broker.id")
        lines += [f"broker.id={-1 if generated else broker}", f"log.dirs={','.join(answer.log_dirs)}"]
        found[broker] = planned_broker("\n".join(lines))
    return found


def listener_names(planned: Mapping[str, str]) -> tuple[str, ...]:
    """Of a broker, that between brokers first."""
    named = [each.partition(":")[0].strip() for each in planned.get("listeners", "").split(",") if each.strip()]
    between = planned.get("inter.broker.listener.name") or planned.get("security.inter.broker.protocol")
    first = between or (PLAINTEXT if PLAINTEXT in named or not named else named[0])
    more = [name for name in (planned.get(CONTROL_PLANE), *named) if name]
    return tuple(dict.fromkeys([first, *more]))


def free_place(planned: Mapping[str, str], place: Place) -> Place:
    """The place with a free port for each listener."""
    return replace(place, ports={name: free_port() for name in listener_names(planned)})


def in_migration_mode(planned: Mapping[str, str], place: Place) -> dict[str, str]:
    """server.properties of P2: as planned, with the keys of the migration."""
    return {
        **_common(planned, place),
        "broker.id": str(place.broker_id) if planned.get("broker.id", "0").isdecimal() else "-1",
        "zookeeper.connect": place.zookeeper_connect,
        "zookeeper.metadata.migration.enable": "true",
        "zookeeper.session.timeout.ms": "30000",
    }


def in_kraft_mode(planned: Mapping[str, str], place: Place) -> dict[str, str]:
    """server.properties of P4: without ZooKeeper's keys and the inter.broker.protocol.version; all else that was planned stays, to see what Kafka says."""
    kept = {
        key: value
        for key, value in in_migration_mode(planned, place).items()
        if not key.startswith(_ZOOKEEPER_ONLY) and not key.startswith("password.encoder.")
    }
    return {**kept, "process.roles": "broker", "node.id": str(place.broker_id)}


def _common(planned: Mapping[str, str], place: Place) -> dict[str, str]:
    listeners = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in place.ports.items())
    directories = [each for each in (planned.get("log.dirs") or planned.get("log.dir") or "one").split(",") if each]
    replaced = {"security.inter.broker.protocol", "log.dir", "broker.id"}
    kept = {key: value for key, value in planned.items() if key not in replaced}
    return {
        **kept,
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": next(iter(place.ports)),
        "listener.security.protocol.map": ",".join(f"{name}:{PLAINTEXT}" for name in (*place.ports, _CONTROLLER)),
        "log.dirs": ",".join(str(place.folder / f"broker-{place.broker_id}-{n}") for n in range(len(directories))),
        "super.users": ";".join([*filter(None, [planned.get("super.users")]), "User:ANONYMOUS"]),
        "controller.quorum.voters": place.voters,
        "controller.listener.names": _CONTROLLER,
    }
