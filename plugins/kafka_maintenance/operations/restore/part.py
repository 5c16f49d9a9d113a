"""Plans a restore of parts into a tree that is in use: chosen configs, topics and paths.

Source: docs/restoring.md, "A part, or the whole tree".
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from controller_core import znodes
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.errors import NoNodeError
from controller_core.model.words import counted
from controller_core.ports.zookeeper import ZnodeStat, ZooKeeper
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.restore.acl_steps import acl_steps, parents_of
from kafka_maintenance.operations.restore.content import (
    Content,
    RestoreScope,
    is_alterable,
    naming_nothing,
    notice_of,
    parent_of_notice,
    recreated_topic,
    same_assignment,
    selected_configs,
    selected_paths,
    selected_topics,
)
from kafka_maintenance.operations.restore.document import Part, RestoreStep, content_sum, differs
from kafka_maintenance.operations.restore.over import Extras, extras, read_target, removals


def plan_part(session: KazooZooKeeper, content: Content, scope: RestoreScope, target: ClusterAddress) -> Part:
    """The steps of a restore that is not whole.

    Args:
        session: on the target; read only.
        content: of the snapshot.
        scope: what of it is restored.
        target: the address of the session.

    Raises:
        BadInputError: the scope names nothing that the snapshot has.
        RefusedError: something may not change while brokers run.
    """
    wanted = {znode.path: znode.data or b"" for znode in content.znodes}
    if absent := naming_nothing([*wanted, *content.left_out], scope):
        raise BadInputError(
            f"restore not planned: for each name something expected in the snapshot, found nothing for {listed(absent)}; correct it (a path begins "
            "with /), or leave it out"
        )
    brokers_run = bool(brokers_of(session))
    topics, remarks = _topics_anew(session, wanted, scope)
    selected = _selected(session, wanted, scope, topics)
    asked_for = _asked_for(content.left_out, scope)
    withheld = [path for path in content.left_out if path in asked_for]
    if not (selected or topics or withheld or remarks):
        raise BadInputError(
            "restore not planned: the snapshot holds nothing of what was asked for; check names and patterns"
        )
    more = _extras(session, content, scope, brokers_run=brokers_run)
    heard = _parents_of_notices((*selected, *more.removable)) if brokers_run else set()
    writes = _writes(session, wanted, selected, topics, heard)
    found = dict(zip(writes, session.get_many(list(writes)), strict=True))
    changed = {path: there for path, there in found.items() if _changes(content, path, there, topics)}
    if brokers_run:
        _require_alterable(path for path in selected if path in changed and wanted[path])
    listening = {parent for parent in heard if parent in wanted or session.exists(parent) is not None}
    steps = [
        RestoreStep(
            path=path,
            expected_mzxid=None if there is None else there[1].mzxid,
            notice=path not in topics and parent_of_notice(path) in listening,
            **content_sum(writes[path]),
        )
        for path, there in changed.items()
    ]
    gone = dict(zip(more.removable, session.get_many(list(more.removable)), strict=True))
    secrets = [path for path in withheld if path in content.acls]
    found |= dict(zip(secrets, session.get_many(secrets), strict=True))
    mzxids = {path: there[1].mzxid for path, there in found.items() if there is not None}
    drifted, before_acls = acl_steps(session, content, scope, steps, mzxids, target)
    return Part(
        [*steps, *removals(more.removable, listening), *drifted],
        {path: there[0] for path, there in {**changed, **gone}.items() if there is not None},
        before_acls,
        [
            *(f"{path} is left out: {content.left_out[path]}" for path in withheld),
            *remarks,
            *([more.note] if more.note else []),
        ],
    )


def _selected(
    session: ZooKeeper, wanted: Mapping[str, bytes], scope: RestoreScope, anew: Mapping[str, bytes]
) -> Sequence[str]:
    """The configs and paths that were asked for, each once, without the configs of topics that are gone."""
    unread = set(_configs_of_gone_topics(session, wanted, scope, anew))
    both = dict.fromkeys([*selected_configs(wanted, scope), *selected_paths(wanted, scope)])
    return [path for path in both if path not in unread]


def _parents_of_notices(paths: Iterable[str]) -> set[str]:
    """Where brokers would have to look for the notices of these changes."""
    notices = (notice[0] for path in paths if (notice := notice_of(path)) is not None)
    return {parent for prefix in notices for parent in parents_of(prefix)}


def _writes(
    session: ZooKeeper,
    wanted: Mapping[str, bytes],
    selected: Sequence[str],
    topics: Mapping[str, bytes],
    heard: Collection[str],
) -> dict[str, bytes]:
    """Path → data of all that is to be there, in the order of writing: what lacks a parent gets it from the snapshot."""
    above = {parent for path in (*selected, *topics, LOCK_PATH) for parent in parents_of(path)} | set(heard)
    missing = [path for path in sorted((above & wanted.keys()) - set(selected)) if session.exists(path) is None]
    chosen = {**{path: wanted[path] for path in (*missing, *selected)}, **topics}
    first = sorted(chosen, key=lambda path: (path not in heard, path))  # a notice wants its parent to be there
    return {path: chosen[path] for path in first}


def _require_alterable(paths: Iterable[str]) -> None:
    refused = [path for path in paths if not is_alterable(path)]
    if refused:
        raise RefusedError(
            f"restore refused: {counted(len(refused), 'znode')}, such as {refused[0]!r}, may not change under running brokers, which hold "
            "them in memory; stop all brokers, or restore configs and ACLs only"
        )


def _extras(session: KazooZooKeeper, content: Content, scope: RestoreScope, *, brokers_run: bool) -> Extras:
    """What a mirror of paths removes; refuses what may not go under running brokers."""
    if not scope.mirror:
        return Extras()
    found = extras(read_target(session), content, scope.paths)
    refused = sorted(path for path in found.removable if brokers_run and not is_alterable(path))
    if refused:
        raise RefusedError(
            f"restore refused: {counted(len(refused), 'znode')}, such as {refused[0]!r}, may not be removed under running brokers; stop all "
            "brokers, or leave --mirror out"
        )
    return found


def brokers_of(session: ZooKeeper) -> list[str]:
    """Ids of the registered brokers; none where `/brokers/ids` itself is gone."""
    try:
        return session.children(znodes.BROKER_IDS)
    except NoNodeError:
        return []


def _changes(content: Content, path: str, found: tuple[bytes, ZnodeStat] | None, anew: Mapping[str, bytes]) -> bool:
    if found is None:
        return True
    return differs(found[0], anew[path]) if path in anew else content.changes(path, found[0])


def _configs_of_gone_topics(
    session: ZooKeeper, wanted: Mapping[str, bytes], scope: RestoreScope, anew: Mapping[str, bytes]
) -> list[str]:
    """Configs that nobody would read, unless they are asked for by their own name."""
    topics = [path for path in selected_topics(wanted, scope) if path not in anew and session.exists(path) is None]
    configs = {znodes.config_path("topics", path.rpartition("/")[2]) for path in topics}
    asked_for = set(selected_configs(configs, replace(scope, topics=()))) if scope.configs else set()
    return sorted(configs - asked_for)


def _asked_for(paths: Iterable[str], scope: RestoreScope) -> set[str]:
    listed = list(paths)
    return {*selected_configs(listed, scope), *selected_paths(listed, scope)}


def _topics_anew(
    session: ZooKeeper, wanted: Mapping[str, bytes], scope: RestoreScope
) -> tuple[dict[str, bytes], list[str]]:
    """Assignments of deleted topics, and remarks on those that are not touched."""
    anew: dict[str, bytes] = {}
    remarks: list[str] = []
    live = {int(name) for name in brokers_of(session)}
    for path in selected_topics(wanted, scope):
        topic = path.rpartition("/")[2]
        if session.exists(path) is not None:
            found = session.get(path)[0]
            if differs(found, wanted[path]) and not same_assignment(found, wanted[path], path):
                remarks.append(
                    f"{topic}: its assignment differs and is not touched; move replicas with reassign_partitions"
                )
            continue
        if not scope.recreate:
            remarks.append(
                f"{topic}: was deleted, its data is gone; ask for it anew (empty), or take the recreation kit"
            )
            continue
        data = recreated_topic(wanted[path], path)
        needed = {
            broker for each in znodes.decode_topic(data, path=path).assignments.values() for broker in each.replicas
        }
        if needed - live:
            remarks.append(
                f"{topic}: not made anew, brokers {sorted(needed - live)} do not run; take the recreation kit"
            )
            continue
        anew[path] = data
    return anew, remarks
