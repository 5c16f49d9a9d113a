"""The time machine on the command line: snapshots, diff, blame, query, restore, drill, recreation kit, retention."""

import argparse
import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller_core.adapters.snapshot.reader import Progress
from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_approver_argument,
    add_json_argument,
    add_store_arguments,
    add_zookeeper_arguments,
    address_of,
    approver_of,
    day,
    positive,
    show,
    store_of,
    tell,
)
from kafka_maintenance.cli.permission import add_permission_arguments, permission_of

_PROGRESS_EVERY_S = 1.0
_EPOCH_BUMP = 100_000
"""More than a partition or a controller changes in years, and 20,000 times below the end of 32 bits."""


def add_parsers(commands: Any) -> None:
    """Adds the sub-commands to the command line."""
    _add_snapshots(commands)
    _add_diff(commands)
    _add_blame(commands)
    _add_query(commands)
    _add_restore(commands)
    _add_drill(commands)
    _add_kit(commands)


def progress_teller() -> Callable[[Progress], None]:
    """Tells on standard error, once a second, how many znodes were read, how fast, and how long it may still take."""
    last_s = 0.0

    def say(progress: Progress) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s < _PROGRESS_EVERY_S:
            return
        last_s = now_s
        eta = "" if progress.eta_s is None else f", about {progress.eta_s:.0f} s to go"
        tell(f"{progress.phase}: {progress.read:,} znodes, {progress.rate:,.0f} per second{eta}")

    return say


def _command(commands: Any, name: str, what: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
    add_store_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=run)
    return command


def _snapshot_argument(command: argparse.ArgumentParser, name: str = "snapshot") -> None:
    command.add_argument(
        name,
        metavar=name.upper(),
        help="address, id or its beginning, or `newest` (with --cluster, where the store has several)",
    )


def _cluster_filter(command: argparse.ArgumentParser, *, required: bool = False) -> None:
    command.add_argument("--cluster", metavar="NAME", required=required, help="only of this cluster")


# ---------------------------------------------------------------------------------------------------- snapshots


def _add_snapshots(commands: Any) -> None:
    parent = commands.add_parser("snapshots", help="list, show, verify, keep and remove snapshots")
    actions = parent.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = _command(actions, "list", "list the snapshots, oldest first", _list)
    _cluster_filter(listing)
    listing.add_argument("--date", metavar="YYYY-MM-DD", type=day, help="only of this UTC date")
    for name, what, run in (
        ("show", "show what a snapshot's manifest says", _show),
        ("verify", "read a snapshot again and check all of it", _verify),
        ("fetch", "decode a snapshot with today's code into Parquet files", _fetch),
        ("pin", "keep a snapshot whatever the policy says", _pin),
        ("unpin", "let the policy judge a snapshot again", _unpin),
    ):
        action = _command(actions, name, what, run)
        _snapshot_argument(action)
        _cluster_filter(action)
        if name == "fetch":
            action.add_argument("--output", metavar="DIR", type=Path, required=True, help="where the files go")
        if name in {"pin", "unpin"}:
            action.add_argument(
                "--reason", required=True, help="recorded; of a pin, told wherever the snapshot is listed"
            )
            add_approver_argument(action)
    check = _command(actions, "check", "check places, manifests, objects, notes and pins of the whole store", _check)
    _cluster_filter(check)
    check.add_argument(
        "--sample", metavar="N", type=positive, help="read the content of N snapshots of each cluster (default: of all)"
    )
    repair = _command(
        actions, "repair", "print what can be mended from what the store holds twice; --apply does it", _repair
    )
    _cluster_filter(repair)
    repair.add_argument("--apply", action="store_true", help="write what is printed")
    copy = _command(actions, "copy", "copy snapshots to a second store, verified; a second call goes on", _copy)
    _cluster_filter(copy)
    copy.add_argument("--to", metavar="URI", required=True, help="a folder, or s3://bucket/prefix")
    retain = _command(actions, "retain", "apply a retention policy; without --approve nothing is removed", _retain)
    _cluster_filter(retain)
    for name, default in (("last", 7), ("daily", 14), ("weekly", 8), ("monthly", 12)):
        retain.add_argument(f"--keep-{name}", metavar="N", type=int, default=default, help="(default: %(default)s)")
    retain.add_argument("--approve", metavar="DIGEST", help="remove what the plan of this digest names")
    add_permission_arguments(retain)


def _list(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots import catalog as operation  # noqa: PLC0415 - the other commands start faster
    from kafka_maintenance.operations.snapshots.pins import pins  # noqa: PLC0415 - as above

    store = store_of(arguments)
    if arguments.cluster is not None:
        operation.require_cluster(store, arguments.cluster)
    keys = operation.manifest_keys(store, arguments.cluster, arguments.date)
    found, unusable = operation.readable_snapshots(store, keys)
    pinned = {name: pins(store, name) for name in sorted({manifest.cluster for manifest in found})}
    lines = [f"NOT readable: {error}" for error in unusable]
    for manifest in found:
        sure = "consistent" if manifest.consistent else f"NOT consistent, {manifest.unresolved} unresolved"
        pin = pinned[manifest.cluster].get(manifest.snapshot_id)
        lines.append(
            f"{manifest.taken_at:%Y-%m-%d %H:%M} {manifest.cluster} {manifest.snapshot_id} "
            f"{manifest.counts.get('topics', 0)} topics, {manifest.counts.get('partitions', 0)} partitions, {sure}"
            + (f", pinned: {pin}" if pin else "")
        )
    lines.append(f"{len(found)} snapshots in {store.uri}")
    document = {
        "snapshots": [operation.manifest_json(manifest) for manifest in found],
        "unreadable": [str(error) for error in unusable],
    }
    show(arguments, "\n".join(lines), document)
    return ExitStatus.DONE


def _found(arguments: argparse.Namespace, **options: Any) -> Any:
    from kafka_maintenance.operations.snapshots.catalog import find_snapshot  # noqa: PLC0415 - the other commands start faster

    return find_snapshot(store_of(arguments), arguments.snapshot, arguments.cluster, **options)


def _show(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.catalog import manifest_json, show_snapshot  # noqa: PLC0415 - as above

    manifest = _found(arguments)
    show(arguments, show_snapshot(manifest), manifest_json(manifest))
    return ExitStatus.DONE


def _verify(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.catalog import verify_snapshot  # noqa: PLC0415 - as above

    passed_over: list[str] = []  # a newer one that is damaged is what this command is asked for
    manifest = _found(arguments, passed_over=passed_over.append)
    findings = verify_snapshot(store_of(arguments), manifest)
    lines = [*passed_over, *(f"{finding.where}: {finding.what}" for finding in findings)]
    lines.append(f"{manifest.uri}: {'whole' if not findings else f'{len(findings)} things are wrong'}")
    document = {"manifest": manifest.uri, "findings": [[each.where, each.what] for each in findings]}
    show(arguments, "\n".join(lines), {**document, "passed_over": passed_over})
    return ExitStatus.REFUSED if findings or passed_over else ExitStatus.DONE


def _fetch(arguments: argparse.Namespace) -> int:
    from controller_core.adapters.snapshot.format import table_to_parquet  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.snapshots.catalog import read_tables  # noqa: PLC0415 - as above

    manifest = _found(arguments)
    arguments.output.mkdir(parents=True, exist_ok=True)
    counts = {}
    for name, table in read_tables(store_of(arguments), manifest).items():
        (arguments.output / f"{name}.parquet").write_bytes(table_to_parquet(table))
        counts[name] = table.num_rows
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    show(arguments, f"{text}\n{arguments.output}", {"folder": str(arguments.output), "counts": counts})
    return ExitStatus.DONE


def _pin(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.pins import pin  # noqa: PLC0415 - as above

    manifest = _found(arguments)
    pin(store_of(arguments), manifest, reason=arguments.reason, by=approver_of(arguments), now=datetime.now(UTC))
    show(arguments, f"pinned {manifest.uri}", {"pinned": manifest.uri})
    return ExitStatus.DONE


def _unpin(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.pins import unpin  # noqa: PLC0415 - as above

    manifest = _found(arguments)
    unpin(store_of(arguments), manifest, reason=arguments.reason, by=approver_of(arguments), now=datetime.now(UTC))
    show(arguments, f"unpinned {manifest.uri}", {"unpinned": manifest.uri})
    return ExitStatus.DONE


def _check(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots import check as operation  # noqa: PLC0415 - as above

    store = store_of(arguments)
    found = operation.check_store(
        store, now=datetime.now(UTC), cluster=arguments.cluster, sample=arguments.sample, progress=tell
    )
    show(arguments, operation.check_text(found), operation.check_json(found))
    return ExitStatus.REFUSED if found.findings else ExitStatus.DONE


def _repair(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.repair import carry_out, plan_repairs  # noqa: PLC0415 - as above

    store = store_of(arguments)
    repairs = plan_repairs(store, arguments.cluster)
    if arguments.apply:
        carry_out(store, repairs)
    lines = [f"{repair.where}: {repair.what}" for repair in repairs]
    lines.append(
        f"{len(repairs)} objects {'written; check again' if arguments.apply else 'to write: --apply writes them'}"
    )
    document = {"repairs": [[repair.where, repair.what] for repair in repairs], "applied": arguments.apply}
    show(arguments, "\n".join(lines), document)
    return ExitStatus.DONE


def _copy(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.copy import copy_snapshots  # noqa: PLC0415 - as above

    done = copy_snapshots(store_of(arguments), arguments.to, cluster=arguments.cluster, progress=tell)
    lines = [f"NOT copied: {reason}" for reason in done.passed_over]
    lines.append(f"{len(done.copied)} snapshots copied to {arguments.to}, {done.already_there} were there")
    show(arguments, "\n".join(lines), asdict(done))
    return ExitStatus.REFUSED if done.passed_over else ExitStatus.DONE


def _retain(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.retention import plan as retention  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.snapshots.catalog import list_snapshots, require_cluster  # noqa: PLC0415 - as above

    policy = retention.RetentionPolicy(
        last=arguments.keep_last,
        daily=arguments.keep_daily,
        weekly=arguments.keep_weekly,
        monthly=arguments.keep_monthly,
    )
    store, now = store_of(arguments), datetime.now(UTC)
    if arguments.cluster is not None:
        require_cluster(store, arguments.cluster)
    if not arguments.approve:
        plan = retention.plan_retention(store, policy, now=now, cluster=arguments.cluster)
        show(arguments, retention.retention_text(plan), {**retention.retention_json(plan), "removed": False})
        if plan.dropped or plan.abandoned:
            tell(f"kafka-maintenance: nothing removed; after reading the plan: --approve {plan.digest}")
        return ExitStatus.DONE
    for name in {each.cluster for each in list_snapshots(store, arguments.cluster)}:
        permission_of(arguments, store, kind="retain_snapshots", cluster=name)
    plan = retention.apply_retention(
        store, policy, arguments.approve, now=now, approver=approver_of(arguments), cluster=arguments.cluster
    )
    text = f"{retention.retention_text(plan)}\nremoved {len(plan.dropped)} snapshots"
    show(arguments, text, {**retention.retention_json(plan), "removed": True})
    return ExitStatus.DONE


# --------------------------------------------------------------------------------------------- diff, blame, query


def _add_diff(commands: Any) -> None:
    command = _command(commands, "diff", "tell what changed between two snapshots, or since one", _diff)
    _snapshot_argument(command, "before")
    command.add_argument("after", metavar="AFTER", nargs="?", help="the later snapshot; without it the living cluster")
    _cluster_filter(command)
    command.add_argument("--noise", action="store_true", help="also epochs and versions alone")
    add_zookeeper_arguments(command, required=False)


def _diff(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.errors import BadInputError  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.snapshots import diff as operation  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.snapshots.catalog import find_snapshot  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.snapshots.diff_text import diff_json, diff_text  # noqa: PLC0415 - as above

    store = store_of(arguments)
    if bool(arguments.after) == bool(arguments.zookeeper):
        raise BadInputError(
            "nothing compared: give a second snapshot, or --zookeeper for the living cluster; one of both"
        )
    before = operation.side_of_snapshot(store, find_snapshot(store, arguments.before, arguments.cluster))
    if arguments.after:
        after = operation.side_of_snapshot(store, find_snapshot(store, arguments.after, arguments.cluster))
    else:
        after = operation.side_of_cluster(
            address_of(arguments),
            now=datetime.now(UTC),
            progress=progress_teller(),
            before=before,
        )
    found = operation.diff(before, after, noise=arguments.noise)
    show(arguments, diff_text(found), diff_json(found))
    return ExitStatus.DONE


def _add_blame(commands: Any) -> None:
    command = _command(commands, "blame", "tell since when each value of a topic, partition or znode stands", _blame)
    command.add_argument("subject", metavar="TOPIC[-PARTITION]|/PATH")
    _cluster_filter(command, required=True)


def _blame(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots import blame as operation  # noqa: PLC0415 - as above

    report = operation.blame(store_of(arguments), arguments.cluster, arguments.subject)
    show(arguments, operation.blame_text(report), operation.blame_json(report))
    return ExitStatus.DONE


def _add_query(commands: Any) -> None:
    command = _command(commands, "query", "run SQL over the decoded tables of all snapshots", _query)
    command.add_argument("sql", metavar="SQL", help="one SELECT; docs/snapshots.md lists the tables, with examples")
    _cluster_filter(command)
    command.add_argument("--rows-max", metavar="N", type=int, default=1000, help="(default: %(default)s)")
    command.add_argument("--folder", metavar="DIR", type=Path, help="keeps the fetched tables (default: in the cache)")


def _query(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.analysis.published import fetch_results  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.snapshots import query as operation  # noqa: PLC0415 - as above
    from kafka_maintenance.servers.cache import cache_folder  # noqa: PLC0415 - as above

    store = store_of(arguments)
    own = hashlib.sha256(store.uri.encode()).hexdigest()[:16]
    folder = arguments.folder or cache_folder() / "history" / own
    result = operation.query_history(
        store,
        arguments.sql,
        folder=folder,
        results=fetch_results(store, folder / "analyses"),
        cluster=arguments.cluster,
        rows_max=arguments.rows_max,
    )
    show(arguments, operation.query_text(result), asdict(result))
    return ExitStatus.DONE


# ---------------------------------------------------------------------------------------------- restore and kin


def _add_restore(commands: Any) -> None:
    command = _command(
        commands,
        "restore",
        "bring a snapshot back: prints the difference and its digest; with --approve DIGEST it writes",
        _restore,
    )
    _snapshot_argument(command)
    _cluster_filter(command)
    add_zookeeper_arguments(command)
    what = command.add_argument_group("what comes back")
    what.add_argument("--whole", action="store_true", help="the whole tree, into an empty ZooKeeper, brokers stopped")
    what.add_argument("--topics", metavar="PATTERN", action="append", default=[], help="configs of topics (repeatable)")
    what.add_argument(
        "--configs", metavar="TYPE/NAME", action="append", default=[], help="such as clients/* (repeatable)"
    )
    what.add_argument("--path", metavar="PATH", action="append", default=[], help="a subtree (repeatable)")
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
        type=int,
        default=_EPOCH_BUMP,
        help="raise leader epochs, controller epoch and producer ids over the snapshot's (default: %(default)s; 0: not at all)",
    )
    what.add_argument(
        "--cluster-id",
        metavar="ID",
        help="your word that the target is this Kafka cluster, where its own id is gone or wrong",
    )
    what.add_argument("--without-acls", action="store_true", help="leave the snapshot's ACLs out")
    what.add_argument(
        "--widen-acls", action="store_true", help="also ACLs that give everybody more rights than the target does now"
    )
    command.add_argument("--key-file", metavar="FILE", type=Path, help="brings sealed secrets back")
    command.add_argument("--approve", metavar="DIGEST", help="write what the plan of this digest says")
    add_permission_arguments(command)


def _restore(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.restore import apply as operation  # noqa: PLC0415 - as above
    from kafka_maintenance.operations.restore.content import RestoreScope  # noqa: PLC0415 - as above

    store = store_of(arguments)
    manifest = _found(arguments)
    target = address_of(arguments)
    if arguments.approve:
        uri = store.uri_of(f"{manifest.prefix}/plans/{operation.KIND}-{arguments.approve[:12]}.json")
        permitted = permission_of(arguments, store, kind=operation.KIND, cluster=manifest.cluster)
        receipt = operation.apply_restore(
            store=store,
            plan_uri=uri,
            approved_digest=arguments.approve,
            approver=approver_of(arguments) if permitted is None else permitted.approver,
            comment=arguments.comment,
            approval=None if permitted is None else permitted.record,
            target=target,
            now=datetime.now(UTC),
            key_file=arguments.key_file,
            progress=lambda written: tell(f"{written} znodes written"),
        )
        document = {"written": receipt.written, "already_there": receipt.already_there, "uri": receipt.uri}
        text = f"{receipt.written} znodes written, {receipt.already_there} were there, {len(receipt.left_out)} left out"
        show(arguments, f"{text}\n{receipt.uri}", {**document, "left_out": dict(receipt.left_out)})
        return ExitStatus.DONE
    plan = operation.plan_restore(
        store=store,
        manifest=manifest,
        target=target,
        scope=RestoreScope(
            whole=arguments.whole,
            topics=tuple(arguments.topics),
            configs=tuple(arguments.configs),
            paths=tuple(arguments.path),
            recreate=arguments.recreate,
            requests=arguments.with_requests,
            notifications=arguments.with_notifications,
            acls=not arguments.without_acls,
            widen_acls=arguments.widen_acls,
            fill=arguments.fill,
            mirror=arguments.mirror,
            epoch_bump=arguments.epoch_bump,
            cluster_id=arguments.cluster_id,
        ),
        key_file=arguments.key_file,
    )
    document = {"uri": plan.uri, "digest": plan.digest, "steps": plan.step_count, "left_out": plan.left_out_count}
    show(arguments, f"{plan.text}\n{plan.uri}", {**document, "plan": dict(plan.document)})
    tell(
        f"kafka-maintenance: nothing written; after reading the difference, the same command with: --approve {plan.digest}"
    )
    return ExitStatus.DONE


def _add_drill(commands: Any) -> None:
    command = _command(commands, "drill", "restore the newest snapshot into a throw-away ZooKeeper and compare", _drill)
    _cluster_filter(command, required=True)
    command.add_argument(
        "--snapshot", metavar="SNAPSHOT", default="newest", help="address or id (default: %(default)s)"
    )
    command.add_argument(
        "--kafka-version", metavar="X.Y", help="also start brokers of this version on the restored tree"
    )
    command.add_argument("--key-file", metavar="FILE", type=Path, help="brings sealed secrets back, too")


def _drill(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.restore import drill as operation  # noqa: PLC0415 - as above

    passed_over: list[str] = []  # the drill of an older one does not prove the newest
    report = operation.restore_drill(
        store=store_of(arguments),
        manifest=_found(arguments, passed_over=passed_over.append),
        now=datetime.now(UTC),
        kafka_version=arguments.kafka_version,
        key_file=arguments.key_file,
    )
    text = "\n".join([operation.drill_text(report), *passed_over])
    show(arguments, text, {**operation.drill_json(report), "passed_over": passed_over})
    return ExitStatus.DONE if report.passed and not passed_over else ExitStatus.REFUSED


def _add_kit(commands: Any) -> None:
    command = _command(commands, "kit", "write what is needed to make deleted topics again", _kit)
    _snapshot_argument(command)
    _cluster_filter(command)
    command.add_argument("--topics", metavar="PATTERN", action="append", required=True, help="(repeatable)")
    command.add_argument(
        "--output", metavar="DIR", type=Path, help="write the files here (default: print the commands)"
    )


def _kit(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.recreation_kit import recreation_kits  # noqa: PLC0415 - as above

    kits = recreation_kits(store_of(arguments), _found(arguments), arguments.topics)
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
    for kit in kits:
        for name, content in kit.files().items() if arguments.output else ():
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
