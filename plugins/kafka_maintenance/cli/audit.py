"""`kafka-maintenance audit` and `withdraw`: the record of who asked for, approved and applied what."""

import argparse
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_approver_argument,
    add_cluster_argument,
    add_dry_run_argument,
    add_json_argument,
    add_store_arguments,
    approver_of,
    done,
    show,
    store_of,
    tell,
    wants_json,
)
from kafka_maintenance.cli.command_parser import PROGRAM
from kafka_maintenance.operations.errors import BadInputError


def add_parsers(commands: Any) -> None:
    """Adds the sub-commands."""
    command = commands.add_parser(
        "audit", help="the record of approvals and applications", description="The audit chain of a cluster."
    )
    actions = command.add_subparsers(title="actions", metavar="ACTION", required=True)
    verify = actions.add_parser(
        "verify",
        help="walk the chain and name the first break",
        description="Checks numbers, hashes and signatures of all entries, that every record of the store is one of them, and that no record is missing.",
    )
    verify.add_argument(
        "--public-keys",
        metavar="FILE",
        type=Path,
        help="PEM; whose signatures count (default: $KAFKA_MAINTENANCE_AUDIT_PUBLIC_KEYS; without both, signatures are not checked)",
    )
    verify.add_argument(
        "--head", metavar="HASH", type=_entry_hash, help="of an entry seen earlier, which must still be there"
    )
    export = actions.add_parser("export", help="print the chain", description="Prints one JSON line per entry.")
    keygen = actions.add_parser(
        "keygen", help="make a key that signs", description="Makes an Ed25519 key: FILE and FILE.pub."
    )
    keygen.add_argument(
        "file", metavar="FILE", type=Path, help="where the new key goes; its public half beside it, as FILE.pub"
    )
    keygen.set_defaults(run=_keygen)
    for action, run in ((verify, _verify), (export, _export)):
        add_store_arguments(action)
        add_cluster_argument(action)
        action.set_defaults(run=run)
    for action in (verify, export, keygen):
        add_json_argument(action)
    withdraw = commands.add_parser(
        "withdraw",
        help="take an approval back",
        description="Takes the approval of a gated run back; nothing of its plan is applied then, unless it was begun.",
    )
    withdraw.add_argument("approved_run", metavar="RUN", help="DAG.RUN_ID of the gated run")
    withdraw.add_argument("--comment", metavar="TEXT", help="for the record")
    add_approver_argument(withdraw)
    add_store_arguments(withdraw)
    add_cluster_argument(withdraw)
    add_dry_run_argument(withdraw)
    add_json_argument(withdraw)
    withdraw.set_defaults(run=_withdraw)


def _entry_hash(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError(
            f"expected the 64 hex digits that `audit verify` prints as head, found {text[:80]!r}"
        )
    return text


def _verify(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.record.audit import (
        PUBLIC_KEYS_VARIABLE,
        Keys,
        audit_findings,
        chain_prefix,
        read_public_keys,
    )
    from kafka_maintenance.operations.snapshots.catalog import require_cluster

    named = arguments.public_keys or os.environ.get(PUBLIC_KEYS_VARIABLE)
    keys = Keys(public=read_public_keys(Path(named)) if named else None)
    store = store_of(arguments)
    count, head, findings = audit_findings(store, arguments.cluster, keys=keys, head=arguments.head)
    if not count and all(each.key == chain_prefix(arguments.cluster) for each in findings):
        require_cluster(store, arguments.cluster)
    signatures = "signatures not checked" if keys.public is None else "signatures checked"
    text = f"{count} entries, {signatures}, head {head}"
    if findings:
        text = f"first break: {findings[0]}\n" + "\n".join(map(str, findings[1:])) + f"\n{text}"
    document = {"entries": count, "head": head, "findings": [[each.key, each.what] for each in findings]}
    show(arguments, text, document)
    return ExitStatus.FOUND if findings else ExitStatus.DONE


def _export(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.record.audit import entries, is_document
    from kafka_maintenance.operations.snapshots.catalog import require_cluster

    store = store_of(arguments)
    chain = list(entries(store, arguments.cluster))
    if not chain:
        require_cluster(store, arguments.cluster)
    sound, others = [], []
    for key, data in chain:
        sound.append(data) if is_document(data) else others.append(key)
    if wants_json(arguments):
        print(json.dumps({"entries": [json.loads(entry) for entry in sound]}, indent=1))
    else:
        for entry in sound:
            print(entry.decode())
    for key in others:
        tell(
            f"{PROGRAM}: entry {store.uri_of(key)} left out: expected a JSON object as the chain has it, found another content; `audit verify` has more"
        )
    return ExitStatus.OUTSIDE_FAILED if others else ExitStatus.DONE


def _keygen(arguments: argparse.Namespace) -> int:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from kafka_maintenance.operations.record.audit import key_name

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    made: list[Path] = []
    for file, content, mode in ((Path(f"{arguments.file}.pub"), public, 0o644), (arguments.file, private, 0o600)):
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
                made.append(file)
                opened.write(content)
        except OSError as error:
            for each in made:  # half a pair is no key, and holds up the next try
                each.unlink()
            raise BadInputError(f"audit key not written to {file}: {error.strerror}; name a new file") from error
    name = key_name(key.public_key())
    show(
        arguments,
        f"key {name}: {arguments.file} signs, {arguments.file}.pub verifies",
        {"key": name, "file": str(arguments.file)},
    )
    return ExitStatus.DONE


def _withdraw(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.gate.approvals import withdraw

    who = approver_of(arguments)
    what = {"cluster": arguments.cluster, "run": arguments.approved_run, "by": who, "comment": arguments.comment}
    withdraw(store_of(arguments), **what, now=datetime.now(UTC))
    show(
        arguments,
        done(arguments, f"approval of run {arguments.approved_run} withdrawn by {who}"),
        {"withdrawn": arguments.approved_run, "by": who},
    )
    return ExitStatus.DONE
