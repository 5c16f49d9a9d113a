"""What a task read from the store and what it left there, told to Airflow's collector of lineage: snapshot → analysis, plan → receipt.

The collector does nothing unless a reader of it is installed, as the provider of OpenLineage is; then each task's event names these
objects. Airflow's own assets are not made of them: 200 clusters would be 800 events a day in its database.
"""

from collections.abc import Iterable
from typing import Any, Final

from airflow.sdk.lineage import get_hook_lineage_collector

from controller_core.adapters.snapshot.manifest import MANIFEST

_PLANS: Final = "/plans/"
_STORE: Final[Any] = object()
"""Stands for the hook that Airflow's collector wants beside each asset: ours are read and written by no hook of Airflow."""


def tell_lineage(*, read: Iterable[str], written: Iterable[str]) -> None:
    """Tells the objects with these addresses, of a store in a folder or in S3."""
    collector = get_hook_lineage_collector()
    for address in read:
        collector.add_input_asset(_STORE, uri=asset_uri(address))
    for address in written:
        collector.add_output_asset(_STORE, uri=asset_uri(address))


def asset_uri(address: str) -> str:
    """An address of the store as Airflow writes those of assets: `s3://bucket/key`, `file:///folder/key`."""
    return address if "://" in address else f"file://{address}"


def snapshot_of_plan(plan_uri: str) -> list[str]:
    """The manifest of the snapshot beside which a plan lies; none of a plan that was made from a live read."""
    folder, _, _ = plan_uri.partition(_PLANS)
    return [] if folder.endswith("/live") else [f"{folder}/{MANIFEST}"]
