"""Znodes that are corrected or removed: what the snapshot holds of them is what has to stand there still.

The plan of a restore carries them: approved by digest, written in transactions with the notice for the brokers, recorded with what stood there before.
"""

from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.errors import RefusedError, listed
from kafka_maintenance.operations.restore.content import Content, RestoreScope, is_alterable, parent_of_notice
from kafka_maintenance.operations.restore.document import Part, RestoreStep, content_sum
from kafka_maintenance.operations.restore.over import removals


def plan_corrections(session: ZooKeeper, content: Content, scope: RestoreScope, *, brokers_run: bool) -> Part:
    """The steps that correct the named znodes; none for a znode that is corrected already.

    Args:
        session: of the target.
        content: the snapshot's znodes, with the corrections in them.
        scope: names the corrections.
        brokers_run: they are told of each change; what they hold in memory may not change.

    Raises:
        RefusedError: a znode is not in the snapshot, or is neither what the snapshot holds nor corrected, or may not change under running brokers.
    """
    wanted = {path: None if text is None else text.encode() for path, text in scope.corrections}
    absent = sorted(wanted.keys() - content.corrected.keys())
    if absent:
        raise RefusedError(
            f"corrections not planned: expected znodes whose content the snapshot holds, found {listed(absent)} missing in it; take a snapshot, or name another"
        )
    found = dict(zip(wanted, session.get_many(list(wanted)), strict=True))
    stands = {path: None if there is None else there[0] or b"" for path, there in found.items()}
    changed = [path for path in wanted if stands[path] not in (content.corrected[path], wanted[path])]
    if changed:
        raise RefusedError(
            f"corrections not planned: expected znodes as in the snapshot, found {listed(changed)} changed since; take a new snapshot, and plan again"
        )
    held = [path for path in wanted if brokers_run and not is_alterable(path)]
    if held:
        raise RefusedError(
            f"corrections not planned: {listed(held)} may not change under running brokers, which hold them in memory; stop all brokers, or leave them out"
        )
    listening = {parent for path in wanted if brokers_run and (parent := parent_of_notice(path)) is not None}
    steps: list[RestoreStep] = []
    surplus: dict[str, int] = {}
    before: dict[str, bytes] = {}
    for path, there in found.items():
        data = wanted[path]
        if there is None or stands[path] == data:
            continue
        before[path] = there[0]
        if data is None:
            surplus[path] = there[1].mzxid
        else:
            notice = parent_of_notice(path) in listening
            steps.append(RestoreStep(path=path, expected_mzxid=there[1].mzxid, notice=notice, **content_sum(data)))
    return Part([*steps, *removals(dict(sorted(surplus.items(), reverse=True)), listening)], before)
