"""Plans of topic deletions: what is eligible and unused, with the reasons of the others; nothing is written to a cluster.

Source: docs/operations.md, "The plan".
"""

from collections.abc import Iterable, Sequence
from typing import Unpack

from msgspec import structs

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.controller.deletion_eligibility import deletion_eligibility
from controller_core.model.words import first_reasons
from controller_core.plans.kinds import deletions_plan
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut, Plan
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import RefusedError, listed
from kafka_maintenance.operations.plans.seen import Seen, Source, context_of, see, store_made
from kafka_maintenance.operations.plans.store import StoredPlan
from kafka_maintenance.operations.plans.topic_use import NOBODY_ASKED, UNUSED_DAYS, ask_use, in_words, why_in_use

_REASONS_SHOWN_MAX = 5


def plan_deletions(
    store: ObjectStore,
    cluster: str,
    *,
    topics: Sequence[str] = (),
    brokers: BrokersAsked | None = None,
    unused_days: int = UNUSED_DAYS,
    even_if_used: bool = False,
    **source: Unpack[Source],
) -> StoredPlan | None:
    """Deletion of the named topics that are eligible and that nobody uses; the others are left out with every reason.

    A topic is in use when a group has members that read it or offsets of it, or when somebody wrote to it within
    `unused_days`. That, or that a program made it for itself (a changelog, a Connect cluster's state), keeps it out unless
    `even_if_used`. The approver reads what the brokers say, or that nobody asked them.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        topics: exact names, no patterns: nothing is deleted that nobody named.
        brokers: asked who uses the topics; None: nobody is asked.
        unused_days: written to within so many days is in use.
        even_if_used: also what is in use.
        **source: what the plan is made from, see `see`.

    Returns:
        The stored plan, or None when no topic was named.

    Raises:
        RefusedError: a topic does not exist, none is eligible, or the cluster may not be asked; with the reasons.
        UseUnknownError, SizesUnknownError: the brokers do not say who uses the topics.
        BadInputError: no snapshot, or no Kafka tree.
    """
    if not topics:
        return None
    seen = see(store, cluster, **source)
    eligible, left_out = _deletable(seen, topics)
    use = ask_use(seen.observed, eligible, brokers, unused_days=unused_days, now=source.get("now"))
    used = {topic: why for topic, found in use.items() if (why := why_in_use(found, unused_days=unused_days))}
    if not even_if_used:
        left_out += [LeftOut(topic, f"{why}; {in_words(use[topic])}") for topic, why in used.items()]
        eligible = [topic for topic in eligible if topic not in used]
    made = deletions_plan(
        seen.observed,
        seen.origin,
        eligible,
        left_out=left_out,
        evidence={topic: in_words(found) for topic, found in use.items()},
        even_if_used=even_if_used,
    )
    if isinstance(made, Plan):
        warned = [f"{topic} is in use: {why}." for topic, why in sorted(used.items()) if topic in eligible]
        made = structs.replace(made, risks=(*([NOBODY_ASKED] if brokers is None else []), *warned, *made.risks))
    if isinstance(made, Plan) and not made.steps:
        reasons = [f"{each.subject}: {each.reason}" for each in made.left_out]
        raise RefusedError(f"no deletion planned for {cluster!r}: no topic is eligible: {listed(reasons)}")
    return store_made(store, made, seen)


def _deletable(seen: Seen, topics: Iterable[str]) -> tuple[list[str], list[LeftOut]]:
    """The topics against whose deletion nothing stands, and the others with every reason."""
    context, unreadable = context_of(seen, with_requests=True), _unreadable_of_topics(seen.observed)
    eligible: list[str] = []
    left_out: list[LeftOut] = []
    for topic in sorted(set(topics)):
        found = deletion_eligibility(context, topic, unreadable=unreadable.get(topic))
        if found.eligible or topic not in seen.observed.topics.keys() | unreadable.keys():
            eligible.append(topic)  # an unknown one is refused by name
        else:
            left_out.append(
                LeftOut(topic, first_reasons([reason.text for reason in found.reasons], _REASONS_SHOWN_MAX))
            )
    return eligible, left_out


def _unreadable_of_topics(observed: Observation) -> dict[str, str]:
    """Topic → the first of its znodes that cannot be read, and why."""
    found: dict[str, str] = {}
    for path, what in sorted(observed.unreadable.items()):
        if path.startswith(f"{znodes.TOPICS}/"):
            found.setdefault(path.split("/")[3], f"{path}: {what}")
    return found
