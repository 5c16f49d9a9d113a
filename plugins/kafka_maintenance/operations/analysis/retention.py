"""How long published analyses are kept: they can be made again as long as their snapshots are there, so no gate asks.

Of each date the current runs are kept for `keep_days`, the runs that they replaced for `replaced_days`. A run is current as long as of one of
its clusters no newer run of the date is there. What a run left that was ended while it published goes with its date.
"""

from collections import defaultdict
from datetime import date, timedelta

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import MANIFEST
from kafka_maintenance.operations.analysis.published import PREFIX, current_analyses, date_of, key_of


def expired_analyses(store: ObjectStore, today: date, *, keep_days: int, replaced_days: int) -> list[str]:
    """Keys of the manifests of expired analyses, oldest date first; of one that was never published it is not there.

    Args:
        store: where they are.
        today: the UTC date.
        keep_days: how old the date of a current run may be.
        replaced_days: how old the date of a replaced run may be.

    Raises:
        ObjectDamagedError: of a date with several runs one cannot be read, so that nobody knows which is current.
    """
    there = set(store.list(PREFIX))
    by_date: dict[str, set[str]] = defaultdict(set)
    for key in there:
        *of_run, _ = key.split("/", maxsplit=4)
        if len(of_run) == 4:  # noqa: PLR2004 - v1/analysis/date=D/run=R
            by_date[date_of(key)].add("/".join((*of_run, MANIFEST)))
    oldest, oldest_replaced = (str(today - timedelta(days=days)) for days in (keep_days, replaced_days))
    found: list[str] = []
    for day, keys in sorted(by_date.items()):
        published = keys & there  # what is under way, or was never published, replaces nothing
        if day < oldest:
            found += sorted(keys)
        elif day < oldest_replaced and len(published) > 1:
            found += sorted(published - {key_of(store, run.uri) for run in current_analyses(store, day)})
    return found


def remove_analysis(store: ObjectStore, manifest_key: str) -> None:
    """Removes a published analysis, its manifest first: what is left of it then is nothing to anybody."""
    store.delete(manifest_key)
    for key in store.list(manifest_key.removesuffix(MANIFEST)):
        store.delete(key)
