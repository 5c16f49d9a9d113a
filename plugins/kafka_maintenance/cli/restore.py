"""`kafka-maintenance restore`, `drill` and `kit`: a snapshot brought back, tried out, or written down for another cluster."""

import argparse
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller_core.model.errors import ObjectMissingError
from controller_core.model.words import counted
from kafka_maintenance.cli.arguments import (
    STARTED_VERSIONS,
    ExitStatus,
    add_approve_arguments,
    add_client_settings_argument,
    approver_of,
    client_settings_of,
    natural,
    not_yet_approved,
    show,
    store_of,
    stored_address,
)
from kafka_maintenance.cli.named_files import writing
from kafka_maintenance.cli.permission import add_permission_arguments, permission_of
from kafka_maintenance.cli.progress import Bars
from kafka_maintenance.cli.snapshot_arguments import (
    add_cluster_filter,
    add_command,
    add_snapshot_argument,
    chosen_snapshot,
)
from kafka_maintenance.cli.zookeeper_arguments import add_zookeeper_arguments, address_of
from kafka_maintenance.operations.errors import BadInputError, NothingToRestoreError, RefusedError

_EPOCH_BUMP = 100_000
"""More than a partition or a controller changes in years, and 20,000 times below the end of 32 bits."""


def add_parsers(commands: Any) -> None:
    """Adds the sub-commands to the command line."""
    _add_restore(commands)
    _add_drill(commands)
    _add_kit(commands)


def _add_restore(commands: Any) -> None:
    command = add_command(
        commands,
        "restore",
        "bring a snapshot back: prints the difference and its digest; with --approve DIGEST it writes",
        _restore,
    )
    add_snapshot_argument(command)
    add_cluster_filter(command)
    add_zookeeper_arguments(command)
    what = command.add_argument_group("what comes back")
    what.add_argument("--whole", action="store_true", help="the whole tree, into an empty ZooKeeper, brokers stopped")
    what.add_argument("--topics", metavar="PATTERN", action="append", default=[], help="configs of topics (repeatable)")
    what.add_argument(
        "--configs", metavar="TYPE/NAME", action="append", default=[], help="such as clients/* (repeatable)"
    )
    what.add_argument("--path", metavar="PATH", action="append", default=[], help="a subtree (repeatable)")
    _add_repairs(what)
    what.add_argument("--recreate", action="store_true", help="with --topics: make deleted topics anew, empty")
    what.add_argument("--with-requests", action="store_true", help="also pending requests, which run again")
    what.add_argument("--with-notifications", action="store_true", help="also notifications")
    what.add_argument(
        "--fill", action="store_true", help="with --whole: keep what is there, bring back what is missing"
    )
    what.add_argument(
        "--mirror", action="store_true", help="with --whole or --path: set what differs, remove what the snapshot lacks"
    )
    what.add_argument(
        "--epoch-bump",
        metavar="N",
        type=natural,
        default=_EPOCH_BUMP,
        help="raise leader epochs, controller epoch and producer ids over the snapshot's (default: %(default)s; 0: not at all)",
    )
    what.add_argument(
        "--cluster-id",
        metavar="ID",
        help="your word that the target is this Kafka cluster, where its own id is gone or wrong",
    )
    what.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT,…",
        help="brokers of the target, which say what cluster it is, where its own id is gone",
    )
    add_client_settings_argument(what)
    what.add_argument("--without-acls", action="store_true", help="leave the snapshot's ACLs out")
    what.add_argument(
        "--widen-acls", action="store_true", help="also ACLs that give everybody more rights than the target does now"
    )
    command.add_argument("--key-file", metavar="FILE", type=Path, help="brings sealed secrets back")
    add_approve_arguments(command, "write what the plan of this digest says")
    add_permission_arguments(command)


def _add_repairs(what: Any) -> None:
    what.add_argument(
        "--kraft-repairs",
        action="store_true",
        help="instead: correct what stands against a migration to KRaft and brokers accept while they run (docs/kraft.md)",
    )
    what.add_argument(
        "--brokers-stopped",
        action="store_true",
        help="with --kraft-repairs: also end what is under way, which a controller that runs would hold in memory",
    )


def _restore(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
    from kafka_maintenance.operations.restore.apply import apply_restore
    from kafka_maintenance.operations.restore.document import KIND
    from kafka_maintenance.operations.restore.plan import plan_restore

    store = store_of(arguments)
    manifest = chosen_snapshot(arguments)
    target = address_of(arguments)
    if arguments.approve:
        uri = _approved_plan(arguments, store, manifest)
        permitted = permission_of(arguments, store, kind=KIND, cluster=manifest.cluster)
        with Bars() as bars:
            receipt = apply_restore(
                store=store,
                plan_uri=uri,
                approved_digest=arguments.approve,
                approver=approver_of(arguments) if permitted is None else permitted.approver,
                comment=arguments.comment,
                approval=None if permitted is None else permitted.record,
                target=target,
                now=datetime.now(UTC),
                key_file=arguments.key_file,
                progress=lambda written: bars.show("restore", written, note=f"{counted(written, 'znode')} written"),
            )
        document = {"written": receipt.written, "already_there": receipt.already_there, "uri": receipt.uri}
        text = f"{counted(receipt.written, 'znode')} written, {receipt.already_there} were there, {len(receipt.left_out)} left out"
        show(arguments, f"{text}\n{receipt.uri}", {**document, "left_out": dict(receipt.left_out)})
        return ExitStatus.DONE
    try:
        with Bars("restore, what differs"):
            plan = plan_restore(
                store=store,
                manifest=manifest,
                target=target,
                scope=_scope_of(arguments, store, manifest),
                key_file=arguments.key_file,
                brokers=BrokersAsked(arguments.bootstrap_servers, client_settings_of(arguments.client_settings))
                if arguments.bootstrap_servers
                else None,
            )
    except NothingToRestoreError as nothing:
        if nothing.notes:
            raise
        show(arguments, str(nothing), {"plan": None, "text": str(nothing)})
        return ExitStatus.DONE
    document = {"uri": plan.uri, "digest": plan.digest, "steps": plan.step_count, "left_out": plan.left_out_count}
    show(arguments, f"{plan.text}\n{plan.uri}", {**document, "plan": dict(plan.document)})
    return not_yet_approved(
        arguments,
        f"nothing written; after reading the difference, the same command, with {manifest.snapshot_id} as SNAPSHOT and: --approve {plan.digest}",
    )


def _approved_plan(arguments: argparse.Namespace, store: Any, manifest: Any) -> str:
    """The address of the plan that `--approve` means, if it is one of this snapshot and of what the other arguments want.

    Raises:
        RefusedError: there is none, or it writes something else than the arguments say.
    """
    from kafka_maintenance.operations.restore.content import scope_of
    from kafka_maintenance.operations.restore.document import KIND, load_restore

    uri = str(store.uri_of(f"{manifest.prefix}/plans/{KIND}-{arguments.approve[:12]}.json"))
    try:
        planned = scope_of(load_restore(store, uri).document["scope"])
    except ObjectMissingError as error:
        raise RefusedError(
            f"nothing restored: expected a restore plan of digest {arguments.approve} of snapshot {manifest.snapshot_id}, found none; "
            "`newest` may have moved on: name the snapshot by its id, or plan again"
        ) from error
    asked = _scope_of(arguments, store, manifest)
    if arguments.cluster_id is None:  # the brokers may have said it when the plan was made
        asked = replace(asked, cluster_id=planned.cluster_id, told_by=planned.told_by)
    if asked != planned:
        raise RefusedError(
            f"nothing restored: expected the arguments of which plan {arguments.approve[:12]} was made, {_told(planned, asked)}, "
            f"found {_told(asked, planned)}; give the same arguments as for the plan, or plan again"
        )
    return uri


def _told(scope: Any, other: Any) -> str:
    """What of the scope is not so in the other one."""
    return ", ".join(f"{name} {value!r}" for name, value in asdict(scope).items() if value != getattr(other, name))


def _scope_of(arguments: argparse.Namespace, store: Any, manifest: Any) -> Any:
    """What the arguments want to come back, or repaired."""
    from kafka_maintenance.operations.kraft.repairs import repairs_of
    from kafka_maintenance.operations.restore.content import RestoreScope

    if arguments.brokers_stopped and not arguments.kraft_repairs:
        raise BadInputError("restore refused: expected --kraft-repairs beside --brokers-stopped, found none; name it")
    wanted = (
        repairs_of(store, manifest, brokers_stopped=arguments.brokers_stopped)
        if arguments.kraft_repairs
        else {
            "requests": arguments.with_requests,
            "notifications": arguments.with_notifications,
            "acls": not arguments.without_acls,
        }
    )
    return RestoreScope(
        whole=arguments.whole,
        topics=tuple(arguments.topics),
        configs=tuple(arguments.configs),
        paths=tuple(arguments.path),
        recreate=arguments.recreate,
        widen_acls=arguments.widen_acls,
        fill=arguments.fill,
        mirror=arguments.mirror,
        epoch_bump=arguments.epoch_bump,
        cluster_id=arguments.cluster_id,
        **wanted,
    )


def _add_drill(commands: Any) -> None:
    command = add_command(
        commands, "drill", "restore the newest snapshot into a throw-away ZooKeeper and compare", _drill
    )
    add_cluster_filter(command, required=True)
    command.add_argument(
        "--snapshot",
        metavar="SNAPSHOT",
        type=stored_address,
        default="newest",
        help="address or id (default: %(default)s)",
    )
    command.add_argument(
        "--kafka-version",
        metavar="X.Y",
        help=f"also start brokers of this version on the restored tree: {STARTED_VERSIONS}",
    )
    command.add_argument("--key-file", metavar="FILE", type=Path, help="brings sealed secrets back, too")
    command.add_argument(
        "--by-transactions",
        action="store_true",
        help="the way of restore --whole; without it the ZooKeeper starts from an exported file, and zxids, versions, times and its digest are compared, too",
    )


def _drill(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.restore import drill as operation

    passed_over: list[str] = []  # the drill of an older one does not prove the newest
    with Bars("drill"):
        report = operation.restore_drill(
            store=store_of(arguments),
            manifest=chosen_snapshot(arguments, passed_over=passed_over.append),
            now=datetime.now(UTC),
            kafka_version=arguments.kafka_version,
            key_file=arguments.key_file,
            by_transactions=arguments.by_transactions,
        )
    text = "\n".join([operation.drill_text(report), *passed_over])
    show(arguments, text, {**operation.drill_json(report), "passed_over": passed_over})
    return ExitStatus.DONE if report.passed and not passed_over else ExitStatus.FOUND


def _add_kit(commands: Any) -> None:
    command = add_command(commands, "kit", "write what is needed to make deleted topics again", _kit)
    add_snapshot_argument(command)
    add_cluster_filter(command)
    command.add_argument(
        "--topics", metavar="PATTERN", action="append", required=True, help="the topics to make again (repeatable)"
    )
    command.add_argument(
        "--output", metavar="PATH", type=Path, help="write the files to this folder (default: print the commands)"
    )


def _kit(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.recreation_kit import recreation_kits

    kits = recreation_kits(store_of(arguments), chosen_snapshot(arguments), arguments.topics)
    if arguments.output:
        with writing(arguments.output):
            arguments.output.mkdir(parents=True, exist_ok=True)
            for name, content in (file for kit in kits for file in kit.files().items()):
                (arguments.output / name).write_text(content, encoding="utf-8")
    lines = [line for kit in kits for line in (*(f"# {note}" for note in kit.notes), *kit.commands)]
    document = {
        "kits": [
            {
                "topic": kit.topic,
                "assignment": kit.assignment,
                "configs": kit.configs,
                "commands": kit.commands,
                "notes": kit.notes,
            }
            for kit in kits
        ]
    }
    show(arguments, "\n".join(lines), document)
    return ExitStatus.DONE
