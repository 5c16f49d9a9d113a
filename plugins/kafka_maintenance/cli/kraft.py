"""`kafka-maintenance kraft`: what stands against the migration of a cluster to KRaft, and its rehearsal on a copy."""

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller_core.model.errors import ObjectStoreError
from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_approver_argument,
    add_client_settings_argument,
    add_cluster_argument,
    add_dry_run_argument,
    add_json_argument,
    add_store_arguments,
    approver_of,
    brokers_named,
    done,
    exit_status,
    positive,
    show,
    store_of,
    stored_address,
    tell,
)
from kafka_maintenance.cli.named_files import json_object, text_in
from kafka_maintenance.cli.output import reader_has_left
from kafka_maintenance.cli.progress import Bars
from kafka_maintenance.cli.terminal import Table
from kafka_maintenance.cli.zookeeper_arguments import add_zookeeper_arguments, address_of


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    kraft = commands.add_parser(
        "kraft",
        help="judge a cluster's way from ZooKeeper to KRaft",
        description="From the first judgement to the day on which a cluster leaves ZooKeeper, in the order of docs/kraft.md. Nothing here writes to a cluster.",
    ).add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_readiness(kraft)
    _add_fleet(kraft)
    _add_rehearse(kraft)
    _add_runbook(kraft)
    _add_watch(kraft)
    _add_left(kraft)


def _add_left(kraft: Any) -> None:
    for name, what, more, run in (
        (
            "left",
            "record that a cluster has left ZooKeeper",
            "Pins its newest snapshot; nothing of ours reads or writes its tree from then on.",
            _left,
        ),
        ("returned", "take back that a cluster has left ZooKeeper", "The pin of its snapshot stays.", _returned),
    ):
        command = kraft.add_parser(
            name, help=what, description=f"{what[0].upper()}{what[1:]}. {more} Contacts no cluster."
        )
        add_cluster_argument(command)
        command.add_argument("--reason", metavar="TEXT", required=True, help="for the record")
        add_approver_argument(command)
        add_store_arguments(command)
        add_dry_run_argument(command)
        add_json_argument(command)
        command.set_defaults(run=run)


def _add_readiness(kraft: Any) -> None:
    command = kraft.add_parser(
        "readiness",
        help="judge every precondition of the migration from a snapshot",
        description="Judges the rules R1 to R25 of docs/kraft.md. Reads the store, and contacts no cluster, but for the brokers of --bootstrap-servers: "
        "they are asked for their version, settings and log directories.",
    )
    _add_snapshot_arguments(command)
    command.add_argument(
        "--since", metavar="FILE", type=Path, help="an earlier certificate (--json): whether what it judged has changed"
    )
    _add_broker_arguments(command)
    command.set_defaults(run=_readiness)


def _add_fleet(kraft: Any) -> None:
    command = kraft.add_parser(
        "fleet",
        help="judge every cluster of the store: how far each is from ready, and what is missing most often",
        description="Judges the newest snapshot of every cluster. Reads the store, and contacts no cluster.",
    )
    add_store_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_fleet)


def _add_rehearse(kraft: Any) -> None:
    command = kraft.add_parser(
        "rehearse",
        help="migrate a copy of a snapshot with a real controller, and say what happened",
        description="Restores the snapshot into a throw-away ZooKeeper on this machine and lets one real KRaft controller migrate it; brokers are "
        "imitated, unless --with-brokers starts some. Explains each obstacle, goes on without it, and compares the result. Contacts no cluster, but for the brokers of --bootstrap-servers; nothing stays.",
    )
    _add_snapshot_arguments(command)
    add_dry_run_argument(command)
    command.add_argument(
        "--kafka-version", metavar="X.Y", default="3.9", help="of the quorum: 3.6, 3.7, 3.9 (default: %(default)s)"
    )
    command.add_argument(
        "--release-version",
        metavar="X.Y",
        help="with which the quorum will be formatted (default: that of its version)",
    )
    command.add_argument(
        "--controller-config",
        metavar="FILE",
        type=Path,
        help="further settings of the quorum, such as password.encoder.secret",
    )
    command.add_argument(
        "--key-file", metavar="FILE", type=Path, help="opens sealed secrets, so that they are rehearsed, too"
    )
    command.add_argument("--fix", action="store_true", help="also rehearse the repairs, on another copy")
    command.add_argument(
        "--with-brokers",
        metavar="N",
        type=positive,
        help="also start N real brokers on another copy, in migration mode and then in KRaft mode",
    )
    command.add_argument(
        "--broker-config",
        metavar="FILE",
        type=Path,
        help="with --with-brokers: a broker's server.properties (default: what the asked brokers answer)",
    )
    _add_broker_arguments(command)
    command.set_defaults(run=_rehearse)


def _add_runbook(kraft: Any) -> None:
    command = kraft.add_parser(
        "runbook",
        help="write the steps of a cluster's migration, from its own data",
        description="Writes Markdown with boxes to tick: brokers in rack order, settings to add, the check and the way back of each phase. Contacts no cluster.",
    )
    _add_snapshot_arguments(command)
    command.add_argument(
        "--rehearsal",
        metavar="FILE",
        type=Path,
        help="output of `kraft rehearse --json`: counts and times (default: the newest that the store has)",
    )
    command.set_defaults(run=_runbook)


def _add_watch(kraft: Any) -> None:
    command = kraft.add_parser(
        "watch",
        help="say from the living cluster whether to go on, to wait, or to go back",
        description="Reads the cluster's tree twice and judges: phase, whether /migration rises, what is under way, what is not in sync, and what the brokers of --bootstrap-servers tell their clients. Writes nothing.",
    )
    add_zookeeper_arguments(command)
    command.add_argument(
        "--pause-s", metavar="S", type=positive, default=6, help="between two looks (default: %(default)s)"
    )
    command.add_argument("--follow", action="store_true", help="print each new judgement until it says go or go back")
    command.add_argument(
        "--metadata-log",
        metavar="DIR",
        type=Path,
        help="a copy of a controller's __cluster_metadata-0: whether a registration still says ZooKeeper",
    )
    command.add_argument(
        "--kafka-version", metavar="X.Y", default="3.9", help="whose tools read it (default: %(default)s)"
    )
    _add_broker_arguments(command)
    command.add_argument(
        "--since-snapshot",
        metavar="SNAPSHOT",
        type=stored_address,
        help="of the store: nothing that it holds may be lost",
    )
    command.add_argument(
        "--cluster", metavar="NAME", help="with --since-snapshot, where the store holds several clusters"
    )
    add_store_arguments(command, required=False)
    add_json_argument(command)
    command.set_defaults(run=_watch)


def _add_broker_arguments(command: Any) -> None:
    command.add_argument(
        "--bootstrap-servers", metavar="HOST:PORT,…", help="brokers to ask what a snapshot cannot tell"
    )
    add_client_settings_argument(command)


def _add_snapshot_arguments(command: Any) -> None:
    command.add_argument(
        "snapshot",
        metavar="SNAPSHOT",
        type=stored_address,
        nargs="?",
        default="newest",
        help="address, id or its beginning (default: %(default)s)",
    )
    command.add_argument("--cluster", metavar="NAME", help="where the store holds several clusters")
    add_store_arguments(command)
    add_json_argument(command)


def _certified(arguments: argparse.Namespace) -> Any:
    """The certificate of the snapshot that the arguments name, and its tree."""
    from kafka_maintenance.operations.kraft.certificate import certify

    manifest, tree = _tree(arguments, arguments.snapshot)
    return certify(tree, manifest), tree


def _tree(arguments: argparse.Namespace, snapshot: str) -> Any:
    """Manifest and tree of a snapshot of the store."""
    from kafka_maintenance.operations.snapshots.catalog import (
        find_snapshot,
        public_configs,
        read_raw,
    )
    from spark_jobs.kraft.tree import tree_of

    store = store_of(arguments)
    manifest = find_snapshot(store, snapshot, arguments.cluster)
    return manifest, tree_of(read_raw(store, manifest), public_configs(store, manifest))


def _readiness(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.kraft.asked import ask_brokers, with_answers
    from kafka_maintenance.operations.kraft.certificate import (
        certificate_json,
        certificate_text,
        changes_since,
        is_ready,
    )

    certificate, tree = _certified(arguments)
    brokers = brokers_named(arguments)
    if brokers is not None:
        certificate = with_answers(certificate, tree, ask_brokers(brokers, datetime.now(UTC)))
    text, document = certificate_text(certificate, datetime.now(UTC)), certificate_json(certificate)
    changed: tuple[str, ...] = ()
    earlier = json_object(arguments.since, "earlier certificate")
    if earlier is not None:
        changed = changes_since(earlier, certificate)
        document["changed"] = list(changed)
        text += "\n\nSINCE THE EARLIER CERTIFICATE\n" + "\n".join(
            f"  {each}" for each in changed or ("nothing has changed",)
        )
    show(arguments, text, document)
    return ExitStatus.DONE if is_ready(certificate) and not changed else ExitStatus.FOUND


def _fleet(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.kraft import fleet as operation
    from kafka_maintenance.operations.snapshots.catalog import require_cluster

    store = store_of(arguments)
    require_cluster(store, None)
    with Bars("fleet"):
        fleet = operation.certify_fleet(store)
    table = Table(operation.FLEET_COLUMNS, operation.fleet_rows(fleet), below=("", *operation.fleet_remarks(fleet)))
    show(arguments, operation.fleet_text(fleet), operation.fleet_json(fleet), table=table)
    return ExitStatus.DONE if fleet.ready else ExitStatus.FOUND


def _runbook(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.kraft.rehearsal.kept import newest_rehearsal, rehearsal_of
    from kafka_maintenance.operations.kraft.runbook import runbook

    certificate, tree = _certified(arguments)
    given = json_object(arguments.rehearsal, "rehearsal")
    rehearsal = (
        newest_rehearsal(store_of(arguments), certificate.cluster)
        if given is None
        else rehearsal_of(given, str(arguments.rehearsal))
    )
    text = runbook(certificate, tree, rehearsal)
    show(arguments, text, {"cluster": certificate.cluster, "snapshot": certificate.snapshot, "markdown": text})
    return ExitStatus.DONE


def _rehearse(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.operations.kraft.rehearsal.kept import keep_rehearsal
    from kafka_maintenance.operations.kraft.rehearsal.of_snapshot import RealBrokers, rehearse_snapshot
    from kafka_maintenance.operations.kraft.rehearsal.report import rehearsal_json, rehearsal_text
    from kafka_maintenance.operations.kraft.rehearsal.run import planned_quorum
    from kafka_maintenance.operations.snapshots.catalog import find_snapshot

    store = store_of(arguments)
    config = arguments.controller_config
    quorum = planned_quorum(
        arguments.kafka_version, arguments.release_version, text_in(config, "the quorum's properties") if config else ""
    )
    own = arguments.broker_config
    if own and not arguments.with_brokers:
        raise BadInputError("--broker-config not used: expected --with-brokers N beside it, found none; name it")
    real = RealBrokers(arguments.with_brokers, text_in(own, "a broker's properties") if own else None)
    manifest = find_snapshot(store, arguments.snapshot, arguments.cluster)
    with Bars("rehearsal"):
        rehearsal = rehearse_snapshot(
            store,
            manifest,
            quorum,
            key_file=arguments.key_file,
            fix=arguments.fix,
            brokers=brokers_named(arguments),
            real=real if arguments.with_brokers else None,
        )
    show(arguments, rehearsal_text(rehearsal), rehearsal_json(rehearsal))
    try:
        kept = keep_rehearsal(store, rehearsal, datetime.now(UTC))
    except ObjectStoreError as error:  # told here: what it found is shown, and with --json that is the one document
        tell(f"kafka-maintenance: {error}")
        return exit_status(error)
    tell(done(arguments, f"kept as {kept}"))
    return ExitStatus.DONE if rehearsal.passed else ExitStatus.FOUND


def _left(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.kraft.departure import leave

    found = leave(
        store_of(arguments),
        arguments.cluster,
        by=approver_of(arguments),
        reason=arguments.reason,
        now=datetime.now(UTC),
    )
    show(
        arguments,
        done(arguments, f"{found.cluster} has left ZooKeeper ({found.by}, {found.at}); pinned {found.snapshot}"),
        found._asdict(),
    )
    return ExitStatus.DONE


def _returned(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.kraft.departure import come_back

    found = come_back(
        store_of(arguments),
        arguments.cluster,
        by=approver_of(arguments),
        reason=arguments.reason,
        now=datetime.now(UTC),
    )
    show(arguments, done(arguments, f"{found.cluster} lives in ZooKeeper ({found.by}, {found.at})"), found._asdict())
    return ExitStatus.DONE


def _watch(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.kraft.brokers_say import ask_topics
    from kafka_maintenance.operations.kraft.drift import LogReader
    from kafka_maintenance.operations.kraft.watch import (
        Advice,
        judgement_json,
        judgement_text,
        look,
        watch,
    )

    folder = arguments.metadata_log
    log = LogReader(folder, arguments.kafka_version) if folder else None
    since = _tree(arguments, arguments.since_snapshot)[1] if arguments.since_snapshot else None
    address = address_of(arguments)
    pause_s = max(arguments.pause_s, 5)
    brokers = brokers_named(arguments)
    ask = None if brokers is None else lambda: ask_topics(brokers)
    shown = None
    for judgement in watch(lambda: look(address, datetime.now(UTC)), lambda: time.sleep(pause_s), log, since, ask):
        if judgement != shown:
            show(arguments, judgement_text(judgement), judgement_json(judgement))
            shown = judgement
        if not (arguments.follow or judgement.again) or judgement.advice is not Advice.WAIT:
            return ExitStatus.DONE if judgement.advice is Advice.GO else ExitStatus.FOUND
        if reader_has_left():
            return ExitStatus.FOUND
    raise AssertionError  # a watch has no end of its own
