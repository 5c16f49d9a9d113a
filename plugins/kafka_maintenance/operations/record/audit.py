"""The audit chain of a cluster: every record of a question, an answer and an application, linked by hashes and signed.

An entry is one object `v1/audit/cluster=C/NNNNNNNN.json`, create-only: the record, and under `audit` its number, the SHA-256 of
the entry before, who wrote it and an Ed25519 signature. The same bytes lie once more where the record is looked up (`copy`).
Whoever merely writes the store can add or remove objects; he cannot make an entry that `audit_findings` takes for ours, nor
change or remove one unseen, but the last ones: their hash is known where the entries were sent to, see `audit_sink`.
"""

import base64
import getpass
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from controller_core.adapters.snapshot.manifest import ROOT, require_name
from controller_core.model.errors import ObjectExistsError, ObjectMissingError
from controller_core.plans.document import canonical
from controller_core.plans.plain import plain
from controller_core.ports.object_store import ObjectStore, put_once
from kafka_maintenance import __version__
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import BadInputError, ClusterBusyError, RefusedError
from kafka_maintenance.operations.record.audit_sink import Sink, sink_from

KEY_FILE_VARIABLE: Final = "KAFKA_MAINTENANCE_AUDIT_KEY_FILE"
PUBLIC_KEYS_VARIABLE: Final = "KAFKA_MAINTENANCE_AUDIT_PUBLIC_KEYS"
FIELD: Final = "audit"
_FIRST: Final = "0" * 64
_ENTRY: Final = re.compile(r"[0-9]{8}\.json")
_NUMBER_MAX: Final = 99_999_999
_ATTEMPTS: Final = 50
_PEM_END: Final = "-----END PUBLIC KEY-----"
_NO_ENTRY: Final = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""What reading an object raises that is no entry; somebody else may have put any bytes there."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with an entry or a record, with its key."""

    key: str
    what: str

    def __str__(self) -> str:
        return plain(f"{self.key}: {self.what}")


@dataclass(frozen=True, slots=True)
class Keys:
    """The key that signs, and those whose signatures count; without the latter, a signature is not asked for."""

    private: Ed25519PrivateKey | None = None
    public: Mapping[str, Ed25519PublicKey] | None = None

    def sign(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """The entry with key and signature, both null where there is no key."""
        if self.private is None:
            return {**entry, FIELD: {**entry[FIELD], "key": None, "signature": None}}
        unsigned = {**entry, FIELD: {**entry[FIELD], "key": key_name(self.private.public_key())}}
        signature = base64.b64encode(self.private.sign(canonical(unsigned))).decode()
        return {**unsigned, FIELD: {**unsigned[FIELD], "signature": signature}}

    def problem(self, entry: Mapping[str, Any]) -> str | None:
        """Why the signature of the entry does not count; None where it does, or where none is asked for."""
        if self.public is None:
            return None
        named = entry[FIELD].get("key")
        public = self.public.get(str(named))
        if public is None:
            signed = "not signed" if named is None else f"signed by key {named!r}"
            return f"{signed}, expected a signature by one of {', '.join(self.public) or 'none'}"
        unsigned = {**entry, FIELD: {name: value for name, value in entry[FIELD].items() if name != "signature"}}
        try:
            public.verify(base64.b64decode(str(entry[FIELD].get("signature"))), canonical(unsigned))
        except (InvalidSignature, ValueError):
            return f"its signature by key {named} is not valid"
        return None


def keys_from(environment: Mapping[str, str]) -> Keys:
    """The keys that the environment names by their PEM files.

    Raises:
        BadInputError: a file cannot be read, or holds no Ed25519 key.
    """
    private, public = environment.get(KEY_FILE_VARIABLE), environment.get(PUBLIC_KEYS_VARIABLE)
    return Keys(
        None if not private else read_private_key(Path(private)), None if not public else read_public_keys(Path(public))
    )


def _signing_keys() -> Keys:
    """Those of the settings; what a key signed that does not count would hold up whoever reads it, in the middle of a plan."""
    found = keys_from(os.environ)
    if found.private is not None and found.public is not None:
        name = key_name(found.private.public_key())
        if name not in found.public:
            raise BadInputError(
                f"nothing recorded: expected the public half of the key that signs, {name}, in ${PUBLIC_KEYS_VARIABLE}, found "
                f"{', '.join(found.public)}; append it to that file everywhere, then name the new key in ${KEY_FILE_VARIABLE}"
            )
    return found


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """The Ed25519 private key in a PEM file; raises BadInputError."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise BadInputError(
            f"audit key {path} not read: expected an Ed25519 private key as PEM, found: {error}"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInputError(f"audit key {path} not read: expected an Ed25519 private key, found {type(key).__name__}")
    return key


def read_public_keys(path: Path) -> dict[str, Ed25519PublicKey]:
    """The Ed25519 public keys in a PEM file, by name; raises BadInputError."""
    found: dict[str, Ed25519PublicKey] = {}
    try:
        blocks = path.read_text(encoding="ascii").split(_PEM_END)[:-1]
        for block in blocks:
            key = load_pem_public_key(f"{block}{_PEM_END}\n".encode())
            if isinstance(key, Ed25519PublicKey):
                found[key_name(key)] = key
    except (OSError, ValueError) as error:
        raise BadInputError(
            f"audit keys {path} not read: expected Ed25519 public keys as PEM, found: {error}"
        ) from None
    if not found:
        raise BadInputError(f"audit keys {path} not read: expected at least one public Ed25519 key as PEM, found none")
    return found


def key_name(key: Ed25519PublicKey) -> str:
    """16 hex digits that name a public key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


class AuditChain:
    """Appends to the chain of one cluster; several writers may do so at once."""

    def __init__(self, store: ObjectStore, cluster: str, *, keys: Keys | None = None, sink: Sink | None = None) -> None:
        """Keys and sink are those of the environment unless they are given."""
        self._store, self._cluster = store, cluster
        self._keys = _signing_keys() if keys is None else keys
        self._sink = sink_from(os.environ) if sink is None else sink
        self._tail: tuple[int, str] | None = None

    def append(self, event: str, copy: str, record: Mapping[str, Any]) -> bytes:
        """Records `record`, in the chain and at the key `copy`; a record that lies there already is as good.

        Raises:
            ObjectExistsError: another record lies at `copy`.
            ClusterBusyError: others append all the time.
            RefusedError: the chain is at the last number that there is.
            ObjectStoreError: it is not recorded, so nothing that needs it may be done.
            AuditSinkError: it was not delivered, and the settings want that it is.
        """
        data = self._appended(event, copy, record)
        try:
            put_once(self._store, copy, data)
        except ObjectExistsError:
            if _record_of(self._store.get(copy)) != json.loads(canonical(dict(record))):
                raise
        self._sink.send(data)
        return data

    def _appended(self, event: str, copy: str, record: Mapping[str, Any]) -> bytes:
        for _ in range(_ATTEMPTS):
            number, previous = self._tail or self._read_tail()
            if number == _NUMBER_MAX:
                key = entry_key(self._cluster, number)
                raise RefusedError(
                    f"{event} of {self._cluster!r} not recorded: expected room behind the last entry of its audit chain, found the last "
                    f"number that there is, {self._store.uri_of(key)}: somebody else put it, or one before it, there; `kafka-maintenance audit verify` names "
                    "the first entry behind the gap: move the entries from there on away, and run again"
                )
            who = {"host": socket.gethostname(), "os_user": _os_user(), "version": __version__}
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            link = {"number": number + 1, "previous": previous, "event": event, "copy": copy, "at": at, **who}
            data = canonical(self._keys.sign({**record, FIELD: link}))
            try:
                put_once(self._store, entry_key(self._cluster, number + 1), data)
            except ObjectExistsError:
                self._tail = None
                continue
            self._tail = number + 1, _hash(data)
            return data
        raise ClusterBusyError(
            f"{event} of {self._cluster!r} not recorded: {_ATTEMPTS} times another entry came first; try again"
        )

    def _read_tail(self) -> tuple[int, str]:
        keys = _entry_keys(self._store, self._cluster)
        return (_number_of(keys[-1]), _hash(self._store.get(keys[-1]))) if keys else (0, _FIRST)


def trusted_record(store: ObjectStore, cluster: str, key: str, keys: Keys | None = None) -> Mapping[str, Any]:
    """The record at `key`, if the chain of the cluster holds it and its signature counts.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        key: of the record in the store.
        keys: whose signatures count; None: those of the settings.

    Raises:
        ObjectMissingError: there is none.
        UntrustedRecordError: it is not in the chain, or not signed by a key that counts.
    """
    data = store.get(key)
    problem = _copy_problem(store, cluster, key, data)
    entry = None if problem else json.loads(data)
    if entry is not None:
        problem = (keys_from(os.environ) if keys is None else keys).problem(entry)
    if problem or entry is None:
        raise UntrustedRecordError(
            f"record {store.uri_of(key)} not used: expected one that the audit chain of {cluster!r} holds, found: {problem}; where "
            "release 0.1 wrote it, start a new run; where none of your runs did (`kafka-maintenance audit verify` has more), move the record away, and ask or run again"
        )
    return {name: value for name, value in entry.items() if name != FIELD}


class _Link(NamedTuple):
    """What an entry says of its place: its number in order, the hash of the one before, and where its copy lies."""

    key: str
    hash: str
    previous: str
    copy: str


def refuse_removed(store: ObjectStore, cluster: str, prefix: str, *, since: str | None = None) -> None:
    """Nothing where each record below `prefix` that the chain names lies there: who removes a copy takes nothing back.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        prefix: of the records.
        since: key of a trusted record: the chain is read from its entry on, and must be whole there; None: all of it is read, and may
            have gaps, which `audit_findings` names: else one gap would hold up everything for ever.

    Raises:
        UntrustedRecordError: a record is missing, or the chain is broken after `since`.
    """
    first = 1 if since is None else int(json.loads(store.get(since))[FIELD]["number"])
    keys = [key for key in _entry_keys(store, cluster) if key >= entry_key(cluster, first)]
    links = list(map(_link, keys, at_once(store.get, keys)))
    if since is not None:
        _refuse_broken(store, cluster, links, since)
    there = set(store.list(prefix))
    for link in links:
        if link.copy.startswith(prefix) and link.copy not in there:
            raise UntrustedRecordError(
                f"records of {cluster!r} not used: expected {store.uri_of(link.copy)}, which {store.uri_of(link.key)} of the audit chain "
                "names, found nothing there: it was removed, or its writer was killed; copy that entry there, which has the same "
                "bytes, and run again"
            )


def _link(key: str, data: bytes) -> _Link:
    try:
        link = json.loads(data)[FIELD]
        return _Link(key, _hash(data), str(link["previous"]), str(link["copy"]))
    except _NO_ENTRY:
        return _Link(key, _hash(data), "", "")


def _refuse_broken(store: ObjectStore, cluster: str, links: Sequence[_Link], since: str) -> None:
    """Each entry has the hash of the one before, so the signature of the last one vouches for all of them."""
    numbers = range(_number_of(links[0].key), _number_of(links[0].key) + len(links))
    whole = [link.key for link in links] == [entry_key(cluster, number) for number in numbers]
    linked = all(later.previous == before.hash for before, later in pairwise(links))
    problem = "an entry that is gone or was changed"
    if whole and linked:
        problem = keys_from(os.environ).problem(json.loads(store.get(links[-1].key))) or ""
    if problem:
        raise UntrustedRecordError(
            f"record {store.uri_of(since)} not used: expected a whole audit chain of {cluster!r} from its entry {links[0].key} on, found: "
            f"{problem}; `kafka-maintenance audit verify` names the first break; ask again"
        )


class UntrustedRecordError(RefusedError):
    """A record that the audit chain does not hold, or that nobody signed whose signature counts."""


def entries(store: ObjectStore, cluster: str) -> Iterator[tuple[str, bytes]]:
    """The entries of the chain, in order, as they lie in the store, each with its key."""
    keys = _entry_keys(store, cluster)
    yield from zip(keys, at_once(store.get, keys), strict=True)


def is_document(data: bytes) -> bool:
    """Whether these bytes are a JSON object as we spell it, on one line; an object in the place of an entry may be anything."""
    try:
        found = json.loads(data)
        return isinstance(found, dict) and canonical(found) == data
    except _NO_ENTRY:
        return False


def audit_findings(
    store: ObjectStore, cluster: str, *, keys: Keys, head: str | None = None
) -> tuple[int, str, tuple[Finding, ...]]:
    """(number of entries, hash of the last one, what is wrong, the first break first); reads only the store.

    Args:
        store: where the chain lies.
        cluster: our name of it.
        keys: whose signatures count.
        head: hash of an entry that was seen earlier, e.g. by a webhook: it must still be in the chain.
    """
    found: list[Finding] = []
    copies: dict[str, set[str]] = {}
    named: dict[str, str] = {}
    number, previous, hashes = 0, _FIRST, {_FIRST}
    chain = _entry_keys(store, cluster)
    for key, data in zip(chain, at_once(store.get, chain), strict=True):
        problem = _entry_problem(data, key, entry_key(cluster, number + 1), number + 1, previous, keys)
        if problem:
            found.append(Finding(key, problem))
        link = _link(key, data)  # names no copy where the entry itself is wrong: that is found already
        if link.copy:
            copies.setdefault(link.copy, set()).add(link.hash)
            named[link.copy] = key
        number, previous = _number_of(key), link.hash  # behind a gap the chain goes on
        hashes.add(previous)
    if head is not None and head not in hashes:
        found.append(
            Finding(chain_prefix(cluster), f"no entry has the hash {head}, which was seen earlier: entries are gone")
        )
    found += [
        Finding(key, "is no entry: it was put there by somebody else, move it away")
        for key in store.list(chain_prefix(cluster))
        if not _is_entry(key)
    ]
    for prefix in record_prefixes(cluster):
        records = store.list(prefix)
        for key, data in zip(records, at_once(store.get, records), strict=True):
            named.pop(key, None)
            if _hash(data) not in copies.get(key, ()):
                found.append(Finding(key, "the chain holds no such record: it was written or changed by somebody else"))
    found += [
        Finding(copy, f"missing, and {key} of the chain names it: it was removed, or its writer was killed")
        for copy, key in named.items()
    ]
    return len(chain), previous, tuple(found)


def _entry_problem(data: bytes, key: str, expected_key: str, number: int, previous: str, keys: Keys) -> str | None:
    if key != expected_key:
        return f"expected entry {expected_key}: entries before it are gone"
    try:
        entry = json.loads(data)
        link = entry[FIELD]
        if (link["number"], link["previous"]) != (number, previous):
            return f"expected number {number} after {previous[:12]}, found {link['number']} after {str(link['previous'])[:12]}"
        if canonical(entry) != data or not isinstance(link["copy"], str):
            return "expected the canonical form, found another"
    except _NO_ENTRY as error:
        return f"expected an entry, found none ({error!r})"
    return keys.problem(entry)


def _copy_problem(store: ObjectStore, cluster: str, key: str, data: bytes) -> str | None:
    try:
        link = json.loads(data)[FIELD]
        same = store.get(entry_key(cluster, int(link["number"]))) == data and link["copy"] == key
    except (*_NO_ENTRY, ObjectMissingError):
        same = False
    return None if same else "the chain holds no such record"


def chain_prefix(cluster: str) -> str:
    """Where the chain of a cluster lies."""
    return f"{ROOT}/audit/cluster={require_name(cluster, 'cluster')}/"


def entry_key(cluster: str, number: int) -> str:
    """Key of an entry; numbers begin with 1."""
    return f"{chain_prefix(cluster)}{number:08d}.json"


def record_prefixes(cluster: str) -> Sequence[str]:
    """Where the records lie that the chain must hold."""
    name = require_name(cluster, "cluster")
    return tuple(f"{ROOT}/{kind}/cluster={name}/" for kind in ("approvals", "kraft", "receipts", "rejections"))


def _entry_keys(store: ObjectStore, cluster: str) -> list[str]:
    """Keys of the entries of the chain, in order; an object beside them is none of its links and holds nothing up."""
    return [key for key in store.list(chain_prefix(cluster)) if _is_entry(key)]


def _is_entry(key: str) -> bool:
    return _ENTRY.fullmatch(key.rpartition("/")[2]) is not None


def _number_of(key: str) -> int:
    return int(key.rpartition("/")[2].removesuffix(".json"))


def _record_of(data: bytes) -> Any:
    try:
        entry = json.loads(data)
        return {name: value for name, value in entry.items() if name != FIELD}
    except (*_NO_ENTRY, AttributeError):
        return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
