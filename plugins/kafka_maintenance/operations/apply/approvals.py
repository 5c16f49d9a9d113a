"""What a gate asked and what it was answered, kept in the store: whoever can edit Airflow's records cannot write a yes.

Create-only, a question before anybody can answer it and the answer after; the last of a run counts.
"""

import json
from collections.abc import Mapping
from typing import Any

from controller_core.adapters.snapshot.manifest import ROOT, require_name, run_token
from controller_core.ports.object_store import ObjectStore, put_once


def keep_question(
    store: ObjectStore, *, cluster: str, run: str, ask_id: str, kind: str, digest: str, shown: str
) -> None:
    """Records that the plan of that digest is about to be shown.

    Args:
        store: where plans and receipts are.
        cluster: our name of it.
        run: the run whose gate asks.
        ask_id: names the question among those of the run, which sort in the order in which they were asked.
        kind: of the plan shown.
        digest: of the plan shown.
        shown: SHA-256 of the text that is shown.

    Errors: `ObjectStoreError` subclasses: nobody may be asked then.
    """
    question = {"run": run, "cluster": cluster, "kind": kind, "digest": digest, "shown": shown}
    put_once(store, f"{_prefix(cluster, run)}{ask_id}-asked.json", _bytes_of(question))


def keep_answer(store: ObjectStore, *, cluster: str, run: str, ask_id: str, answer: Mapping[str, Any]) -> str:
    """Records the answer to that question, with the digest that was shown; its address.

    Errors: `ObjectStoreError` subclasses, `ObjectMissingError` when nothing was asked: the answer does not count then.
    """
    prefix = f"{_prefix(cluster, run)}{ask_id}"
    question = json.loads(store.get(f"{prefix}-asked.json"))
    key = f"{prefix}-decided.json"
    put_once(store, key, _bytes_of({**answer, **question}))
    return store.uri_of(key)


def last_answer(store: ObjectStore, *, cluster: str, run: str) -> Mapping[str, Any] | None:
    """The answer to the last question of the run's gate, with what it is about; None when that has none."""
    keys = store.list(_prefix(cluster, run))
    if not keys or not keys[-1].endswith("-decided.json"):
        return None
    answer: Mapping[str, Any] = json.loads(store.get(keys[-1]))
    return answer


def _prefix(cluster: str, run: str) -> str:
    return f"{ROOT}/approvals/cluster={require_name(cluster, 'cluster')}/{run_token(run)}/"


def _bytes_of(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, ensure_ascii=False, default=str).encode()
