"""`kafka-maintenance snapshots`: list, show, verify, fetch, pin, check, repair, copy, retain; ls, cat and find are in `snapshot_znodes`."""

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from controller_core.model.words import counted
from kafka_maintenance.cli import snapshot_znodes
from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_approve_arguments,
    add_approver_argument,
    add_dry_run_argument,
    approver_of,
    day,
    done,
    month,
    natural,
    not_yet_approved,
    positive,
    second_store_of,
    show,
    store_of,
)
from kafka_maintenance.cli.named_files import writing
from kafka_maintenance.cli.permission import add_permission_arguments, permission_of
from kafka_maintenance.cli.progress import Bars, show_lines
from kafka_maintenance.cli.snapshot_arguments import (
    add_cluster_filter,
    add_command,
    add_snapshot_argument,
    chosen_snapshot,
    existing_store_of,
)
from kafka_maintenance.cli.terminal import Table

_COLUMNS: Final = ("taken at (UTC)", "cluster", "snapshot", "topics", "partitions", "consistent", "pinned")


def add_parsers(commands: Any) -> None:
    """Adds the sub-commands to the command line."""
    _add_snapshots(commands)


def _add_snapshots(commands: Any) -> None:
    parent = commands.add_parser(
        "snapshots",
        help="list, show, verify, keep and remove snapshots",
        description="What a store holds: its snapshots, their znodes, and how long they are kept. Contacts no cluster.",
    )
    actions = parent.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = add_command(actions, "list", "list the snapshots, oldest first", _list)
    add_cluster_filter(listing)
    listing.add_argument("--date", metavar="YYYY-MM-DD", type=day, help="only of this UTC date")
    for name, what, run in (
        ("show", "show what a snapshot's manifest says", _show),
        ("verify", "read a snapshot again and check all of it", _verify),
        ("fetch", "decode a snapshot with today's code into Parquet files", _fetch),
        ("pin", "keep a snapshot whatever the policy says", _pin),
        ("unpin", "let the policy judge a snapshot again", _unpin),
    ):
        action = add_command(actions, name, what, run)
        add_snapshot_argument(action)
        add_cluster_filter(action)
        if name == "fetch":
            action.add_argument(
                "--output", metavar="PATH", type=Path, required=True, help="the folder where the files go"
            )
        if name in {"pin", "unpin"}:
            action.add_argument(
                "--reason",
                metavar="TEXT",
                required=True,
                help="recorded; of a pin, shown wherever the snapshot is listed",
            )
            add_approver_argument(action)
            add_dry_run_argument(action)
    check = add_command(actions, "check", "check places, manifests, objects, notes and pins of the whole store", _check)
    add_cluster_filter(check)
    check.add_argument(
        "--sample", metavar="N", type=positive, help="read the content of N snapshots of each cluster (default: of all)"
    )
    repair = add_command(
        actions, "repair", "print what can be mended from what the store holds twice; --apply does it", _repair
    )
    add_cluster_filter(repair)
    one = repair.add_mutually_exclusive_group()
    one.add_argument("--apply", action="store_true", help="write what is printed")
    add_dry_run_argument(one)
    copy = add_command(actions, "copy", "copy snapshots to a second store, verified; a second call goes on", _copy)
    add_cluster_filter(copy)
    copy.add_argument("--to", metavar="URI", required=True, help="a folder, or s3://bucket/prefix")
    add_dry_run_argument(copy)
    compact = add_command(
        actions, "compact", "keep each month's history in one file per table; the daily run does", _compact
    )
    add_cluster_filter(compact)
    compact.add_argument("--month", metavar="YYYY-MM", type=month, help="only of this month (default: of all)")
    one = compact.add_mutually_exclusive_group()
    one.add_argument("--check", action="store_true", help="change nothing; compare what is kept with its snapshots")
    add_dry_run_argument(one)
    _add_retain(actions)
    snapshot_znodes.add_parsers(actions)


def _add_retain(actions: Any) -> None:
    retain = add_command(actions, "retain", "apply a retention policy; without --approve nothing is removed", _retain)
    add_cluster_filter(retain)
    for name, default, what in (
        ("last", 7, "the newest N"),
        ("daily", 14, "the newest of each of N days"),
        ("weekly", 8, "the newest of each of N weeks"),
        ("monthly", 12, "the newest of each of N months"),
    ):
        retain.add_argument(
            f"--keep-{name}", metavar="N", type=natural, default=default, help=f"{what} (default: %(default)s)"
        )
    add_approve_arguments(retain, "remove what the plan of this digest names")
    add_permission_arguments(retain)


def _list(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots import catalog as operation
    from kafka_maintenance.operations.snapshots.pins import pins
    from kafka_maintenance.operations.snapshots.show import manifest_json

    store = existing_store_of(arguments)
    if arguments.cluster is not None:
        operation.require_cluster(store, arguments.cluster)
    keys = operation.manifest_keys(store, arguments.cluster, arguments.date)
    found, unusable = operation.readable_snapshots(store, keys)
    pinned = {name: pins(store, name) for name in sorted({manifest.cluster for manifest in found})}
    above = [f"NOT readable: {error}" for error in unusable]
    rows = [_row(manifest, pinned[manifest.cluster].get(manifest.snapshot_id)) for manifest in found]
    lines = [
        f"{taken} {cluster} {name} {topics} topics, {partitions} partitions, {sure}"
        + (f", pinned: {pin}" if pin else "")
        for taken, cluster, name, topics, partitions, sure, pin in rows
    ]
    last = f"{counted(len(found), 'snapshot')} in {store.uri}"
    document = {
        "snapshots": [manifest_json(manifest) for manifest in found],
        "unreadable": [str(error) for error in unusable],
    }
    table = Table(_COLUMNS, rows, above=above, below=(last,))
    show(arguments, "\n".join([*above, *lines, last]), document, table=table)
    return ExitStatus.DONE


def _row(manifest: Any, pin: str | None) -> tuple[str, ...]:
    return (
        f"{manifest.taken_at:%Y-%m-%d %H:%M}",
        manifest.cluster,
        manifest.snapshot_id,
        str(manifest.counts.get("topics", 0)),
        str(manifest.counts.get("partitions", 0)),
        "consistent" if manifest.consistent else f"NOT consistent, {manifest.unresolved} unresolved",
        pin or "",
    )


def _show(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.show import manifest_json, show_snapshot

    manifest = chosen_snapshot(arguments)
    show(arguments, show_snapshot(manifest), manifest_json(manifest))
    return ExitStatus.DONE


def _verify(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.verify import verify_snapshot

    passed_over: list[str] = []  # a newer one that is damaged is what this command is asked for
    manifest = chosen_snapshot(arguments, passed_over=passed_over.append)
    with Bars("verify"):
        findings = verify_snapshot(store_of(arguments), manifest)
    lines = [*passed_over, *(f"{finding.where}: {finding.what}" for finding in findings)]
    lines.append(f"{manifest.uri}: {'whole' if not findings else f'{len(findings)} things are wrong'}")
    document = {"manifest": manifest.uri, "findings": [[each.where, each.what] for each in findings]}
    show(arguments, "\n".join(lines), {**document, "passed_over": passed_over})
    return ExitStatus.FOUND if findings or passed_over else ExitStatus.DONE


def _fetch(arguments: argparse.Namespace) -> int:
    from controller_core.adapters.snapshot.parquet import table_to_parquet
    from kafka_maintenance.operations.snapshots.catalog import decoded_tables

    manifest = chosen_snapshot(arguments)
    counts = {}
    with Bars("fetch"), writing(arguments.output):
        arguments.output.mkdir(parents=True, exist_ok=True)
        for name, table in decoded_tables(store_of(arguments), manifest).items():
            (arguments.output / f"{name}.parquet").write_bytes(table_to_parquet(table))
            counts[name] = table.num_rows
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    show(arguments, f"{text}\n{arguments.output}", {"folder": str(arguments.output), "counts": counts})
    return ExitStatus.DONE


def _pin(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.pins import pin

    manifest = chosen_snapshot(arguments)
    pin(store_of(arguments), manifest, reason=arguments.reason, by=approver_of(arguments), now=datetime.now(UTC))
    show(arguments, done(arguments, f"pinned {manifest.uri}"), {"pinned": manifest.uri})
    return ExitStatus.DONE


def _unpin(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.pins import unpin

    manifest = chosen_snapshot(arguments)
    unpin(store_of(arguments), manifest, reason=arguments.reason, by=approver_of(arguments), now=datetime.now(UTC))
    show(arguments, done(arguments, f"unpinned {manifest.uri}"), {"unpinned": manifest.uri})
    return ExitStatus.DONE


def _check(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots import check as operation
    from kafka_maintenance.operations.snapshots.catalog import require_cluster

    store = store_of(arguments)
    with Bars() as bars:
        found = operation.check_store(
            store,
            now=datetime.now(UTC),
            cluster=arguments.cluster,
            sample=arguments.sample,
            progress=show_lines(bars, "read"),
        )
    if not (found.snapshots or found.findings):
        require_cluster(store, arguments.cluster)
    show(arguments, operation.check_text(found), operation.check_json(found))
    return ExitStatus.FOUND if found.findings else ExitStatus.DONE


def _repair(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.catalog import require_cluster
    from kafka_maintenance.operations.snapshots.repair import carry_out, plan_repairs

    store = store_of(arguments)
    repairs = plan_repairs(store, arguments.cluster)
    if not repairs:
        require_cluster(store, arguments.cluster)
    if arguments.apply:
        carry_out(store, repairs)
    lines = [f"{repair.where}: {repair.what}" for repair in repairs]
    lines.append(f"{counted(len(repairs), 'object')} {'written; check again' if arguments.apply else 'to write'}")
    document = {"repairs": [[repair.where, repair.what] for repair in repairs], "applied": arguments.apply}
    show(arguments, "\n".join(lines), document)
    if arguments.apply or not repairs:
        return ExitStatus.DONE
    return not_yet_approved(arguments, "nothing written; after reading it: --apply")


def _copy(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots.catalog import require_cluster
    from kafka_maintenance.operations.snapshots.copy import copy_snapshots

    store = store_of(arguments)
    require_cluster(store, arguments.cluster)
    with Bars() as bars:
        made = copy_snapshots(
            store,
            second_store_of(arguments),
            cluster=arguments.cluster,
            progress=show_lines(bars, "copy"),
        )
    lines = [f"NOT copied: {reason}" for reason in made.passed_over]
    copied = f"{counted(len(made.copied), 'snapshot')} copied to {arguments.to}, {made.already_there} were there"
    show(arguments, "\n".join([*lines, done(arguments, copied)]), asdict(made))
    return ExitStatus.REFUSED if made.passed_over else ExitStatus.DONE


def _compact(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.snapshots import compact as operation
    from kafka_maintenance.operations.snapshots.catalog import manifest_keys, place_of, require_cluster

    store = store_of(arguments)
    require_cluster(store, arguments.cluster)
    clusters = [arguments.cluster] if arguments.cluster else sorted({place_of(key)[0] for key in manifest_keys(store)})
    places = [
        (name, each)
        for name in clusters
        for each in ([arguments.month] if arguments.month else operation.months_of(store, name))
    ]
    if arguments.check:
        wrong = [reason for place in places for reason in operation.check_compact(store, *place)]
        lines = [*wrong, f"{len(places)} months compared with their snapshots, {len(wrong)} things are wrong"]
        show(arguments, "\n".join(lines), {"wrong": wrong})
        return ExitStatus.FOUND if wrong else ExitStatus.DONE
    with Bars() as bars:
        told = show_lines(bars, "compact")
        kept = {}
        for place in places:
            told(" ".join(place))
            kept[" ".join(place)] = operation.keep_compact(store, *place)
    counts = {
        place: {"snapshots": len(found.snapshots), "bytes": sum(stored.size for stored in found.objects)}
        for place, found in kept.items()
        if found is not None
    }
    lines = [
        f"{place}: {counted(count['snapshots'], 'snapshot')}, {counted(count['bytes'], 'byte')}"
        for place, count in counts.items()
    ]
    show(arguments, "\n".join([*lines, done(arguments, f"{len(counts)} of {len(places)} months are kept")]), counts)
    return ExitStatus.DONE


def _retain(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.retention import plan as retention
    from kafka_maintenance.operations.snapshots.catalog import known_clusters, require_cluster

    policy = retention.RetentionPolicy(
        last=arguments.keep_last,
        daily=arguments.keep_daily,
        weekly=arguments.keep_weekly,
        monthly=arguments.keep_monthly,
    )
    store, now = store_of(arguments), datetime.now(UTC)
    require_cluster(store, arguments.cluster)
    if not arguments.approve:
        plan = retention.plan_retention(store, policy, now=now, cluster=arguments.cluster)
        show(arguments, retention.retention_text(plan), {**retention.retention_json(plan), "removed": False})
        if not plan.dropped and not plan.abandoned:
            return ExitStatus.DONE
        return not_yet_approved(arguments, f"nothing removed; after reading the plan: --approve {plan.digest}")
    for name in [arguments.cluster] if arguments.cluster else known_clusters(store):
        permission_of(arguments, store, kind="retain_snapshots", cluster=name)
    plan = retention.apply_retention(
        store, policy, arguments.approve, now=now, approver=approver_of(arguments), cluster=arguments.cluster
    )
    text = f"{retention.retention_text(plan)}\nremoved {counted(len(plan.dropped), 'snapshot')}"
    show(arguments, text, {**retention.retention_json(plan), "removed": True})
    return ExitStatus.DONE
