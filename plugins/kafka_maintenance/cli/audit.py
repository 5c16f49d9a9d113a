"""`kafka-maintenance audit` and `withdraw`: the record of who asked for, approved and applied what."""

import argparse
import json
import os
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
    wants_json,
)
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
        help="PEM; whose signatures count (default: signatures are not checked)",
    )
    verify.add_argument("--head", metavar="HASH", help="of an entry seen earlier, which must still be there")
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


def _verify(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.record.audit import Keys, audit_findings, read_public_keys
    from kafka_maintenance.operations.snapshots.catalog import require_cluster

    keys = Keys() if arguments.public_keys is None else Keys(public=read_public_keys(arguments.public_keys))
    store = store_of(arguments)
    count, head, findings = audit_findings(store, arguments.cluster, keys=keys, head=arguments.head)
    if not (count or findings):
        require_cluster(store, arguments.cluster)
    signatures = "signatures not checked" if keys.public is None else "signatures checked"
    text = f"{count} entries, {signatures}, head {head}"
    if findings:
        text = f"first break: {findings[0]}\n" + "\n".join(map(str, findings[1:])) + f"\n{text}"
    document = {"entries": count, "head": head, "findings": [[each.key, each.what] for each in findings]}
    show(arguments, text, document)
    return ExitStatus.FOUND if findings else ExitStatus.DONE


def _export(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.record.audit import entries
    from kafka_maintenance.operations.snapshots.catalog import require_cluster

    store = store_of(arguments)
    chain = list(entries(store, arguments.cluster))
    if not chain:
        require_cluster(store, arguments.cluster)
    if wants_json(arguments):
        print(json.dumps({"entries": [json.loads(entry) for entry in chain]}, indent=1))
        return ExitStatus.DONE
    for entry in chain:
        print(entry.decode())
    return ExitStatus.DONE


def _keygen(arguments: argparse.Namespace) -> int:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from kafka_maintenance.operations.record.audit import key_name

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        with os.fdopen(os.open(arguments.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(private)
        Path(f"{arguments.file}.pub").write_bytes(public)
    except OSError as error:
        raise BadInputError(f"audit key not written to {arguments.file}: {error.strerror}; name a new file") from error
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
