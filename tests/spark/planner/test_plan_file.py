"""`kafka-maintenance plan-file`: files in, files out, and a message with status 2 for impossible input."""

import json

import pytest

from kafka_maintenance.cli import main

STATE = {
    "brokers": [{"id": i, "rack": f"r{i % 3}", "live": True, "drain": False} for i in range(1, 7)],
    "partitions": [
        {"topic": "orders", "partition": p, "replicas": [1, 2, 3], "leader": 1, "rf": 3, "size": 10 + p}
        for p in range(12)
    ],
}


def changed(**fields):
    """The state with the first partition changed."""
    return {**STATE, "partitions": [{**STATE["partitions"][0], **fields}, *STATE["partitions"][1:]]}


@pytest.fixture
def plan(tmp_path):
    def run(state, *more):
        (tmp_path / "state.json").write_text(state if isinstance(state, str) else json.dumps(state))
        out, certificate = tmp_path / "plan.json", tmp_path / "certificate.json"
        status = main(
            ["plan-file", str(tmp_path / "state.json"), "--out", str(out), "--certificate", str(certificate), *more]
        )
        return status, out, certificate

    return run


def test_a_plan_and_its_certificate_are_written(plan, capsys):
    status, out, certificate = plan(STATE, "--topic-spread")
    document = json.loads(out.read_text())
    assert status == 0
    assert document["version"] == 1
    assert {tuple(sorted(row)) for row in document["partitions"]} == {("partition", "replicas", "topic")}
    assert set(json.loads(certificate.read_text())) == {"scale", "u", "lw", "v", "w"}
    assert "18 replicas move: proven minimal (certified lower bound 18)" in capsys.readouterr().out


def test_figures_come_as_json(plan, capsys):
    plan(STATE, "--json", "--tolerance", "1", "--curve")
    figures = json.loads(capsys.readouterr().out)
    assert figures["gap"] == 0
    assert figures["goals"]["tolerance"] == {"replicas": 1, "leaders": 1, "topic": 1}
    assert [point["moves"] for point in figures["curve"]] == sorted(
        (p["moves"] for p in figures["curve"]), reverse=True
    )


def test_waves_and_rollback_are_written(plan, tmp_path):
    status, out, _ = plan(
        STATE, "--waves", str(tmp_path / "w"), "--rollback", str(tmp_path / "back.json"), "--wave-in", "2"
    )
    figures = json.loads((tmp_path / "w" / "waves.json").read_text())
    files = sorted((tmp_path / "w").glob("wave-*.json"))
    assert status == 0
    assert len(files) == figures["waves"] == figures["lower_bound"]
    last = {}
    for file in files:
        last.update({(row["topic"], row["partition"]): row for row in json.loads(file.read_text())["partitions"]})
    assert sorted(last.values(), key=lambda row: row["partition"]) == json.loads(out.read_text())["partitions"]
    assert all(row["replicas"] == [1, 2, 3] for row in json.loads((tmp_path / "back.json").read_text())["partitions"])


def test_an_heir_gets_all_of_a_broker(plan):
    status, out, _ = plan(STATE, "--replace", "1=4")
    assert status == 0
    assert {tuple(row["replicas"]) for row in json.loads(out.read_text())["partitions"]} == {(4, 2, 3)}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        pytest.param(changed(rf=9), "fewer brokers than replicas", id="more replicas than brokers"),
        pytest.param(changed(replicas=[1, 2, 77]), "unknown broker [77]", id="an unknown broker"),
        pytest.param({**STATE, "partitions": STATE["partitions"] * 2}, "orders-0", id="duplicate rows"),
        pytest.param("{", "JSON expected", id="no JSON"),
        pytest.param("[]", "a list found", id="another document"),
    ],
)
def test_impossible_input_ends_with_status_2_and_no_file(plan, capsys, state, said):
    status, out, certificate = plan(state)
    assert (status, out.exists(), certificate.exists()) == (2, False, False)
    assert said in capsys.readouterr().err


def test_a_missing_file_ends_with_status_2(tmp_path, capsys):
    assert main(["plan-file", str(tmp_path / "none.json"), "--out", str(tmp_path / "plan.json")]) == 2
    assert "none.json" in capsys.readouterr().err


def test_a_partition_without_a_live_replica_is_planned_and_reported(plan, capsys):
    brokers = [*STATE["brokers"], {"id": 9, "rack": "r0", "live": False, "drain": False}]
    status, out, _ = plan({**changed(replicas=[9], leader=-1), "brokers": brokers})
    assert status == 0
    assert "no live replica to copy from: [orders-0]" in capsys.readouterr().err
    assert json.loads(out.read_text())["partitions"][0]["partition"] == 0
