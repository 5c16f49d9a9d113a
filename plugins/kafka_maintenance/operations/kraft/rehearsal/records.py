"""The records of the migration's transaction, read back from the controller's log. Secrets are taken out as they are read.

Source: Kafka 3.9 metadata/src/main/resources/common/metadata/*.json, `DumpLogSegments --cluster-metadata-decoder`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from controller_core.adapters.snapshot.secrets import is_secret_config

REDACTED: Final = "…"
OF_THE_RUN: Final = frozenset(
    {
        "NO_OP",
        "ZK_MIGRATION_STATE",
        "REGISTER_BROKER",
        "REGISTER_CONTROLLER",
        "BROKER_REGISTRATION_CHANGE",
        "UNFENCE_BROKER",
    }
)
"""Types of records that fall into the transaction and say nothing of what is migrated; Kafka does not count them."""
_PAYLOAD: Final = re.compile(r"payload: (\{.*\})\s*$")
_TRANSACTION: Final = "ZK Migration"
_BROKER_RESOURCE = 4
"""`ConfigResource.Type.BROKER`."""
_SECRET_FIELDS: Final = {
    "USER_SCRAM_CREDENTIAL_RECORD": frozenset({"salt", "saltedPassword", "storedKey", "serverKey"})
}


class Record(NamedTuple):
    """One metadata record: its type without `_RECORD`, and its fields, secrets replaced by `REDACTED`."""

    type: str
    data: Mapping[str, Any]


class Migrated(NamedTuple):
    """The records between begin and end of the migration's transaction; `ended`: whether it was completed."""

    records: tuple[Record, ...]
    ended: bool

    @property
    def counts(self) -> Mapping[str, int]:
        """Type → how many, of what is migrated."""
        return dict(Counter(record.type for record in self.records if record.type not in OF_THE_RUN))


def all_records(lines: Iterable[str]) -> Iterator[Record]:
    """Every record in what `DumpLogSegments` prints, secrets taken out."""
    for line in lines:
        match = _PAYLOAD.search(line)
        if match is not None:
            record = json.loads(match[1])
            yield Record(record["type"].removesuffix("_RECORD"), _redacted(record["type"], record["data"]))


def migrated(lines: Iterable[str]) -> Migrated:
    """The records of the last migration transaction in what `DumpLogSegments` prints."""
    found: list[Record] = []
    inside = ended = False
    for record in all_records(lines):
        if record.type == "BEGIN_TRANSACTION":
            inside = str(record.data.get("name") or "").startswith(_TRANSACTION)
            found, ended = ([], False) if inside else (found, ended)
        elif record.type in {"END_TRANSACTION", "ABORT_TRANSACTION"}:
            ended = ended or (inside and record.type == "END_TRANSACTION")
            inside = False
        elif inside:
            found.append(record)
    return Migrated(tuple(found), ended)


def _redacted(kind: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    hidden = _SECRET_FIELDS.get(kind, frozenset())
    entity_type = "brokers" if data.get("resourceType") == _BROKER_RESOURCE else "topics"
    if kind == "CONFIG_RECORD" and is_secret_config(entity_type, str(data.get("name"))):
        hidden = frozenset({"value"})
    return {name: REDACTED if name in hidden else value for name, value in data.items()} if hidden else data
