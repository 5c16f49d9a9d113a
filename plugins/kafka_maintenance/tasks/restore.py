"""A restore as tasks: planned against the living target, carried out after approval, compared again."""

import logging
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.approval import approved, approved_plan
from kafka_maintenance.tasks.common import brokers_of, cluster_of_run, context_of_run, given, run_name
from kafka_maintenance.tasks.plans import kept_for_gate
from kafka_maintenance.tasks.pools import APPLY_POOL
from kafka_maintenance.tasks.settings import SETTINGS

KIND: Final = "restore"
SCOPE: Final = {
    name: given(name)
    for name in (
        "whole",
        "fill",
        "mirror",
        "topics",
        "configs",
        "paths",
        "recreate",
        "requests",
        "notifications",
        "acls",
        "widen_acls",
        "epoch_bump",
        "cluster_id",
        "kraft_repairs",
        "brokers_stopped",
    )
}
"""The run's scope, as templates."""

log = logging.getLogger(__name__)


@task(multiple_outputs=False)
def plan_restore(cluster: str, plan: str | None, snapshot: str, scope: dict[str, Any]) -> dict[str, Any]:
    """What the restore would write, stored; every difference stands in the plan, or in the file that it names.

    Where the target has lost its id, the connection's `bootstrap_servers` are asked which cluster they are.
    """
    from kafka_maintenance.operations.cluster.identity_asked import IdentityUnknownError
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.operations.kraft.repairs import repairs_of
    from kafka_maintenance.operations.restore.content import RestoreScope
    from kafka_maintenance.operations.restore.document import find_restore
    from kafka_maintenance.operations.restore.plan import plan_restore as planned
    from kafka_maintenance.operations.snapshots.catalog import find_snapshot

    store = hooks.store()
    if plan:
        found = find_restore(store, cluster=cluster, digest=plan)
    else:
        texts = {name: tuple(scope[name] or ()) for name in ("topics", "configs", "paths")}
        manifest = find_snapshot(store, snapshot, cluster)
        wanted = {
            name: value for name, value in scope.items() if name not in {"kraft_repairs", "brokers_stopped"}
        } | texts
        if scope["kraft_repairs"]:
            wanted |= repairs_of(store, manifest, brokers_stopped=scope["brokers_stopped"])
        try:
            restored = RestoreScope(**wanted)
        except ValueError as error:
            raise BadInputError(str(error)) from error  # which is not tried again
        target = hooks.cluster_to_write(cluster)
        plan_for = partial(
            planned,
            store=store,
            manifest=manifest,
            target=target.address,
            scope=restored,
            key_file=hooks.snapshot_key_file(SETTINGS.snapshot_key_file),
        )
        try:
            found = plan_for(brokers=brokers_of(target, None))
        except IdentityUnknownError as error:  # they may be stopped, and znodes that survive say it, too
            log.warning("%s", error)
            found = plan_for()
    log.info("%s", found.text)
    return kept_for_gate({"cluster": cluster, "kind": KIND, "digest": found.digest})


@task(multiple_outputs=False, pool=APPLY_POOL)
def apply_restore() -> dict[str, Any]:
    """Writes what the approved plan says, if it is still that plan and the target is still as it expects.

    Takes the approved digest from the store's record of the run's gate, and the plan from the store by that digest. The receipt
    names the approver; a second try writes what is left.
    """
    from kafka_maintenance.operations.restore.apply import apply_restore as applied

    context = context_of_run()
    store, run, cluster = hooks.store(), run_name(context), cluster_of_run(context)
    approval = approved(KIND, context, store=store)
    receipt = applied(
        store=store,
        plan_uri=approval.shown.plan.uri,
        approved_digest=approval.shown.plan.digest,
        approver=approval.approver,
        comment=approval.comment,
        approval=approval.record,
        permit=lambda: approved(KIND, context, store=store),
        target=hooks.cluster_to_write(cluster).address,
        now=datetime.now(UTC),
        run_id=run,
        key_file=hooks.snapshot_key_file(SETTINGS.snapshot_key_file),
    )
    log.info(
        "%s: %d written, %d were there already; approved by %s",
        cluster,
        receipt.written,
        receipt.already_there,
        approval.approver,
    )
    return {
        "cluster": cluster,
        "plan": approval.shown.plan.digest,
        "receipt": receipt.uri,
        "written": receipt.written,
        "already_there": receipt.already_there,
        "approver": approval.approver,
    }


@task(multiple_outputs=False)
def verify_restore() -> dict[str, Any]:
    """Compares snapshot and target again: nothing may be left to be written."""
    from kafka_maintenance.operations.errors import NothingToRestoreError
    from kafka_maintenance.operations.restore.content import scope_of
    from kafka_maintenance.operations.restore.document import load_restore
    from kafka_maintenance.operations.restore.plan import plan_restore as planned

    context = context_of_run()
    store, cluster = hooks.store(), cluster_of_run(context)
    document = load_restore(store, approved_plan(KIND, context, store=store).uri).document
    try:
        left = planned(
            store=store,
            manifest=document["snapshot"]["manifest"],
            target=hooks.cluster_to_write(cluster).address,
            scope=scope_of(document["scope"]),
            key_file=hooks.snapshot_key_file(SETTINGS.snapshot_key_file),
        )
    except NothingToRestoreError:
        log.info("%s: nothing is left to be written", cluster)
        return {"cluster": cluster, "verified": True}
    raise AirflowFailException(
        f"cluster {cluster!r}: the restore was carried out, but {left.step_count} differences are there again: {left.text}"
    )
