"""The rehearsal as a task, without its servers."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import logging

import pytest

from controller_core.adapters.object_store.open import FolderStore
from controller_core.model.errors import ObjectStoreError
from kafka_maintenance import hooks
from kafka_maintenance.operations.kraft.rehearsal import of_snapshot
from kafka_maintenance.operations.snapshots import catalog
from kafka_maintenance.tasks import kraft_rehearsal
from tests.kafka_maintenance.operations.kraft.rehearsals import rehearsal

assert airflow_home


def test_the_log_has_what_a_rehearsal_found_where_the_store_does_not_take_it(monkeypatch, tmp_path, caplog):
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1/rehearsals").touch()
    monkeypatch.setattr(hooks, "store", lambda: FolderStore(tmp_path))
    monkeypatch.setattr(hooks, "usable_cluster", lambda _: None)
    monkeypatch.setattr(kraft_rehearsal, "label", lambda _: None)
    monkeypatch.setattr(catalog, "find_snapshot", lambda *_: None)
    monkeypatch.setattr(of_snapshot, "rehearse_snapshot", lambda *_, **__: rehearsal(41.0))
    with caplog.at_level(logging.INFO), pytest.raises(ObjectStoreError):
        kraft_rehearsal.rehearse.function("blue", "3.9", None, fix=False, with_brokers=0)
    assert "NOT REHEARSED, ask before the day" in caplog.text
