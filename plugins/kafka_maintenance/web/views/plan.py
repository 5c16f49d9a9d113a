"""The page Plan: what a stored plan does to brokers and racks, read from its effects; nothing is computed again."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.errors import InvalidPlanError
from controller_core.model.gc_pause import collector_paused
from controller_core.model.words import counted
from controller_core.plans.kinds.common import broker_list
from controller_core.plans.plan import Plan
from controller_core.plans.request_znodes import render_request
from controller_core.plans.text import plan_summary
from kafka_maintenance.operations.analysis.tables import CACHE
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.plans.store import document_at, plan_in, read_proof, uri_of_plan
from kafka_maintenance.operations.restore.document import KIND as RESTORE
from kafka_maintenance.operations.restore.document import StoredRestore, find_restore
from kafka_maintenance.operations.retention.plan import KIND as RETENTION
from kafka_maintenance.operations.retention.plan import RetentionPlan
from kafka_maintenance.operations.retention.store import find_retention
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Cell, Column, Facts, Lines, Note, Page, Section, Table, number
from kafka_maintenance.web.views.plan_changes import Change, changed_in, moved_leaders, moved_replicas
from kafka_maintenance.web.views.plan_curve import trade_off
from kafka_maintenance.web.views.plan_waves import waves
from kafka_maintenance.web.views.record import receipt_blocks

EFFECTS_READ_MAX: Final = 20_000
_NAMES_SHOWN_MAX: Final = 400
_Name = TypeVar("_Name", int, str)
"""A broker or a rack."""
_Moves = Mapping[tuple[int, int], int]
"""(source, target) → how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A plan as the planning task of a run named it."""

    kind: str
    cluster: str
    digest: str


def plan_page(store: ObjectStore, named: Named, *, gate: str | None = None) -> Page:
    """One stored plan with its receipts.

    Args:
        store: where it is.
        named: what the run calls the plan; it is looked for by cluster, kind and digest.
        gate: address of the page of Airflow where a person answers; None where nobody is asked.

    Raises:
        ObjectStoreError: the store cannot be read.
    """
    title = f"{named.kind.replace('_', ' ').capitalize()} on {named.cluster}"
    uri, head, sections = "", list[Block](), list[Section]()
    try:
        if named.kind == RETENTION:
            retention = find_retention(store, cluster=named.cluster, digest=named.digest)
            uri, head, sections = retention.uri, *_retention(retention.plan)
        elif named.kind == RESTORE:
            restore = find_restore(store, cluster=named.cluster, digest=named.digest)
            uri, head, sections = restore.uri, *_restore(restore)
        else:
            uri = uri_of_plan(store, cluster=named.cluster, kind=named.kind, digest=named.digest)
            head, sections = _of_plan(store, uri, named)
    except InvalidPlanError as error:
        head = [Note(f"It will be refused: {error}", "critical")]
    except BadInputError as error:
        head = [Note(f"It is gone, retention removes plans with their snapshot: {error}", "critical")]
    where = Facts(
        (
            ("Digest", Cell(named.digest)),
            ("Stored as", Cell(uri, "quiet")),
            (
                "Answer it",
                Cell("Required Actions", href=gate, leaves=True) if gate else Cell("nobody is asked", "quiet"),
            ),
        ),
        wide=True,
    )
    receipts = receipt_blocks(store, named.cluster, named.digest, step_count=None)
    if len(receipts) > 1:
        page = f"execution?{urlencode({'cluster': named.cluster, 'digest': named.digest})}"
        where = replace(
            where,
            facts=(*where.facts, ("Execution", Cell("steps, replicas that lag, and what can be done", href=page))),
        )
    return Page(
        title=title,
        here="plan",
        trail=(("Clusters", "clusters"), (named.cluster, f"cluster?{urlencode({'name': named.cluster})}")),
        head=[*head, where],
        sections=[*sections, Section(title="Execution", anchor="execution", blocks=receipts)],
    )


def plans_page(dag_id: str, run_id: str, plans: Sequence[Named]) -> Page:
    """The plans of a run that made several, each with a link to its own page."""
    rows = [
        (
            Cell(named.cluster, href=f"plan?{urlencode({'dag_id': dag_id, 'run_id': run_id, 'digest': named.digest})}"),
            Cell(named.kind.replace("_", " ")),
            Cell(named.digest),
        )
        for named in plans
    ]
    columns = (Column("Cluster"), Column("Kind"), Column("Digest"))
    table = Table(
        id="plans",
        caption=counted(len(plans), "plan"),
        columns=columns,
        rows=rows,
        searchable=True,
        rows_shown_max=2000,
    )
    return Page(title=counted(len(plans), "plan"), subtitle=f"Run {run_id} of {dag_id}", here="plan", head=(table,))


def _of_plan(store: ObjectStore, uri: str, named: Named) -> tuple[list[Block], list[Section]]:
    """What a page says of a plan beside its record; kept as long as the stored document has the same bytes."""
    document = document_at(store, uri)

    @collector_paused()
    def made() -> tuple[tuple[list[Block], list[Section]], int]:
        plan, _ = plan_in(document, uri, kind=named.kind, cluster=named.cluster, digest=named.digest)
        changes = [list(changed_in(step)) for step in plan.steps]
        moves, led = Counter(moved_replicas(plan, changes)), Counter(moved_leaders(plan, changes))
        found = _Found(plan, changes, moves, led, read_proof(store, uri, plan))
        return (_head(found), _sections(found)), len(document)

    key = ("page of a plan", uri, named.cluster, named.kind, named.digest, hashlib.sha256(document).hexdigest())
    kept: tuple[list[Block], list[Section]] = CACHE.get(key, made)
    return kept


class _Found(NamedTuple):
    """What the sections are made of: the plan, what each of its steps changes, what moves, and the planner's proof."""

    plan: Plan
    changes: Sequence[Sequence[Change]]
    moves: _Moves
    led: _Moves
    proof: Mapping[str, Any] | None


def _head(found: _Found) -> list[Block]:
    plan, changes, moves, led, _ = found
    touched = {each.partition for each in chain.from_iterable(changes)}
    facts: list[tuple[str, Cell]] = [
        ("Steps", number(len(plan.steps))),
        ("Requests", number(len(plan.effects))),
        ("Partitions", number(len(touched) or len(plan.predicted))),
    ]
    if moves:
        facts += [
            ("Replicas copied", number(sum(moves.values()))),
            ("Brokers that send", number(len({source for source, _ in moves}))),
            ("Brokers that receive", number(len({target for _, target in moves}))),
        ]
    if led:
        facts += [
            ("Leaders that move", number(sum(led.values()))),
            ("Brokers that lead less", number(len({source for source, _ in led}))),
            ("Brokers that lead more", number(len({target for _, target in led}))),
        ]
    blocks: list[Block] = [Note(f"{plan_summary(plan)}.", "info"), Facts(tuple(facts))]
    if plan.risks:
        blocks.append(Lines("What to weigh first", plan.risks))
    return blocks


def _sections(found: _Found) -> list[Section]:
    plan, changes, moves, led, proof = found
    sections = []
    if moves:
        before_after = _before_after(changes, proof)
        sections.append(Section(title="Before and after", anchor="before-after", blocks=before_after))
        matrix = figures.matrix(
            "moves",
            "Replicas by source and target",
            f"{counted(sum(moves.values()), 'replica', 'leave')} {counted(len({a for a, _ in moves}), 'broker')} for {len({b for _, b in moves})}. A replica that "
            "arrives is counted against those that leave the same partition, in their order.",
            moves,
            head=("from broker", "to broker", "replicas"),
        )
        sections.append(Section(title="Moves", anchor="moves-section", blocks=[matrix]))
        if proof and proof.get("curve"):
            curve = trade_off(proof["curve"], proof["goals"]["tolerance"], sum(moves.values()))
            sections.append(Section(title="Trade-off", anchor="trade-off", blocks=[curve]))
    if led:
        matrix = figures.matrix(
            "leader-moves",
            "Leaders by source and target",
            f"{counted(sum(led.values()), 'leader', 'leave')} {counted(len({a for a, _ in led}), 'broker')} for {len({b for _, b in led})}. Each goes to a replica that is in sync: "
            "no data is copied.",
            led,
            head=("from broker", "to broker", "leaders"),
        )
        sections.append(Section(title="Leaders", anchor="leaders-section", blocks=[matrix]))
    if len(plan.steps) > 1:
        sections.append(Section(title="Waves", anchor="waves", blocks=[waves(plan, proof)]))
    sections += [
        Section(title="Every change", anchor="changes", blocks=[_changes_table(changes)]),
        Section(title="In words", anchor="words", blocks=_words(plan)),
        Section(title="What is written to ZooKeeper", anchor="requests", blocks=[_requests(plan)]),
    ]
    return sections


def _before_after(changes: Sequence[Sequence[Change]], proof: Mapping[str, Any] | None) -> list[Block]:
    """Replicas and preferred leaders by broker and by rack: what the proof says was there, and the plan's changes to it."""
    state = proof["state"] if proof else {"brokers": [], "partitions": []}
    racks = {int(row["id"]): str(row.get("rack") or "no rack") for row in state["brokers"]}
    replicas = [row["replicas"] for row in state["partitions"]]
    held, led = Counter[int](chain.from_iterable(replicas)), Counter[int](each[0] for each in replicas if each)
    moved = [*chain.from_iterable(changes)]
    held_after = _after(held, [(each.before, each.after) for each in moved])
    led_after = _after(led, [(each.before[:1], each.after[:1]) for each in moved])
    blocks: list[Block] = []
    if proof is None:
        blocks.append(
            Note("The state before is not stored with this plan: the changes are shown, not the totals.", "quiet")
        )
    brokers = sorted(racks.keys() | held_after.keys())
    blocks.append(_pair("replicas-by-broker", "Replicas by broker", "broker", brokers, held, held_after))
    blocks.append(_pair("leaders-by-broker", "Preferred leaders by broker", "broker", brokers, led, led_after))
    if len(set(racks.values())) > 1:
        counts = _by_rack(held, racks), _by_rack(held_after, racks)
        blocks.append(_pair("replicas-by-rack", "Replicas by rack", "rack", sorted(set(racks.values())), *counts))
    return blocks


def _after(before: Counter[int], moved: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Counter[int]:
    """The counts less the brokers in the first list of each pair, plus those in the second; below 0 where the state before is not known."""
    after = before.copy()
    after.subtract(chain.from_iterable(leaving for leaving, _ in moved))
    after.update(chain.from_iterable(arriving for _, arriving in moved))
    return after


def _by_rack(counts: Counter[int], racks: Mapping[int, str]) -> Counter[str]:
    found = Counter[str]()
    for broker, rack in racks.items():
        found[rack] += counts[broker]
    return found


def _pair(
    figure_id: str, title: str, head: str, names: Sequence[_Name], before: Counter[_Name], after: Counter[_Name]
) -> Block:
    values = {"before": [before[name] for name in names], "after": [after[name] for name in names]}
    return figures.bars(
        figure_id,
        title,
        f"From {_range(values['before'])} before to {_range(values['after'])} after.",
        head=head,
        names=[str(name) for name in names[:_NAMES_SHOWN_MAX]],
        series=values,
        colours={"before": "--series-5", "after": "--series-1"},
    )


def _range(values: Sequence[int]) -> str:
    return f"{min(values)} to {max(values)}" if values else "none"


def _changes_table(changes: Sequence[Sequence[Change]]) -> Table:
    found = [(number_, one) for number_, of_step in enumerate(changes, start=1) for one in of_step]
    rows = [
        (
            Cell(str(one.partition)),
            Cell(str(number_), value=number_),
            Cell(broker_list(one.before)),
            Cell(broker_list(one.after)),
            Cell(broker_list(one.leaving)),
            Cell(broker_list(one.arriving)),
        )
        for number_, one in found[:EFFECTS_READ_MAX]
    ]
    columns = (
        Column("Partition"),
        Column("Step", numeric=True),
        Column("Before"),
        Column("After"),
        Column("Leaves"),
        Column("Arrives"),
    )
    return Table(
        id="changes-table",
        caption="Partitions that change",
        columns=columns,
        rows=rows,
        more=max(0, len(found) - EFFECTS_READ_MAX),
        searchable=True,
        empty="No assignment and no leader is changed by a request; see the requests.",
        rows_shown_max=2000,
    )


def _requests(plan: Plan) -> Table:
    rows = [
        (Cell(str(at), value=at), Cell(line.strip()))
        for at, step in enumerate(plan.steps, start=1)
        for effect in step.effects
        for line in render_request(effect).split("\n")
    ]
    return Table(
        id="requests-table",
        caption="Requests, in the order in which they are made",
        columns=(Column("Step", numeric=True), Column("Request")),
        rows=rows[:EFFECTS_READ_MAX],
        more=max(0, len(rows) - EFFECTS_READ_MAX),
        searchable=True,
        rows_shown_max=2000,
    )


def _words(plan: Plan) -> list[Block]:
    blocks: list[Block] = [Lines("What will change", plan.predicted[:200])] if plan.predicted else []
    if len(plan.predicted) > 200:  # noqa: PLR2004 - as above
        blocks.append(Note(f"{len(plan.predicted) - 200} more lines are in the stored plan."))
    if plan.left_out:
        rows = [(Cell(left.subject), Cell(left.reason)) for left in plan.left_out]
        blocks.append(
            Table(
                id="left-out",
                caption="Left out",
                columns=(Column("Subject"), Column("Reason")),
                rows=rows,
                searchable=True,
            )
        )
    return [*blocks, Lines("How to go back", [plan.rollback.text])]


def _retention(plan: RetentionPlan) -> tuple[list[Block], list[Section]]:
    dropped = Table(
        id="removed",
        caption="What will be removed",
        columns=(Column("Snapshot"), Column("Taken")),
        rows=[(Cell(one.snapshot_id), Cell(str(one.taken_at))) for one in plan.dropped],
        searchable=True,
    )
    kept = Table(
        id="kept",
        caption="What stays, and why",
        columns=(Column("Snapshot"), Column("Reasons")),
        rows=[(Cell(one.snapshot_id), Cell(", ".join(one.reasons))) for one in plan.kept],
        searchable=True,
    )
    head: list[Block] = [
        Note("There is no way back: what is removed is gone.", "warning"),
        Facts(
            (
                ("Removed", number(len(plan.dropped))),
                ("Kept", number(len(plan.kept))),
                ("Left by killed runs", number(len(plan.abandoned))),
            )
        ),
    ]
    sections = [
        Section(
            title="Removed",
            anchor="removed-section",
            blocks=[dropped, *([Lines("What killed runs left behind", plan.abandoned)] if plan.abandoned else [])],
        ),
        Section(title="Kept", anchor="kept-section", blocks=[kept]),
    ]
    return head, sections


def _restore(restore: StoredRestore) -> tuple[list[Block], list[Section]]:
    head: list[Block] = [
        Facts((("Differences to write", number(restore.step_count)), ("Left out", number(restore.left_out_count))))
    ]
    differences = Lines(restore.summary.capitalize(), restore.text.splitlines())
    return head, [Section(title="Differences", anchor="differences", blocks=[differences])]
