"""`kafka-maintenance executions`: what is listed where a record is damaged."""

import json

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.cli.main import main
from tests.kafka_maintenance.web.records import DONE, put_record


def test_a_damaged_record_is_named_beside_the_others(tmp_path, capsys):
    store = open_store(str(tmp_path))
    put_record(store, "alpha", "a" * 64, DONE)
    store.put(f"v1/receipts/cluster=beta/{'b' * 64}/0001-started.json", b"[]")
    assert main(["executions", "list", "--store", str(tmp_path), "--json"]) == 3
    told = capsys.readouterr()
    found = json.loads(told.out)["executions"]
    assert [(each["cluster"], each["last"]) for each in found] == [("beta", "damaged"), ("alpha", "done")]
    assert "0001-started.json not read: expected an entry of a record" in told.err
