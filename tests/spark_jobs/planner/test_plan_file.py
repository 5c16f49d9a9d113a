"""`kafka-maintenance plan-file`: files in, files out, and a message with status 2 for impossible input."""

import json

import pytest

from kafka_maintenance.cli.main import main

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


def test_a_replacement_broker_gets_all_of_a_broker(plan):
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
        pytest.param("[" * 200_000, "JSON expected", id="nested without end"),
        pytest.param(changed(topic=None), "partitions[0]: 'topic' as a text", id="no topic"),
        pytest.param(changed(replicas=[1, 2, 2**70]), "partitions[0]: 'replicas' from 0", id="an id beyond 64 bits"),
    ],
)
def test_impossible_input_ends_with_status_2_and_no_file(plan, capsys, state, said):
    status, out, certificate = plan(state)
    assert (status, out.exists(), certificate.exists()) == (2, False, False)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(("--replace", "1=3", "1=4"), "broker 1 is replaced by 3 and by 4", id="two replacement brokers"),
        pytest.param(
            ("--replace", "1=3", "--replace", "1=4"), "by 3 and by 4", id="two replacement brokers, one after the other"
        ),
        pytest.param(
            ("--replace", "1=2"),
            "12 partitions that it would hold twice found [orders-0",
            id="a shared replacement broker",
        ),
        pytest.param(("--aim", "leaders", "--bytes-tolerance", "0.1"), "exclude each other", id="bytes of leaders"),
        pytest.param(
            ("--aim", "repair", "--replace", "1=4"), "exclude each other", id="a replacement broker in a repair"
        ),
        pytest.param(("--bytes-tolerance", "nan"), "expected a number from 0 on", id="no number"),
        pytest.param(("--bytes-tolerance", "-0.5"), "expected float of at least 0", id="below zero"),
        pytest.param(("--bandwidth", "5"), "belong to --waves", id="bandwidth without waves"),
        pytest.param(("--window-s", "5"), "belong to --waves", id="a window without waves"),
        pytest.param(("--wave-in", "20"), "belong to --waves", id="a limit without waves"),
        pytest.param(
            ("--replace", "1=4", "--topic-spread"),
            "no effect beside --replace",
            id="a replacement broker spreads nothing",
        ),
        pytest.param(
            ("--aim", "leaders", "--topic-spread"), "no effect beside --aim leaders", id="leaders spread nothing"
        ),
        pytest.param(("--aim", "repair", "--curve"), "no effect beside --aim repair", id="a repair has no curve"),
    ],
)
def test_options_that_would_be_dropped_end_with_status_2_and_no_file(plan, capsys, options, said):
    status, out, certificate = plan(STATE, *options)
    assert (status, out.exists(), certificate.exists()) == (2, False, False)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--drain", "--wave-bytes", "--replication-factor"])
def test_an_option_below_its_least_is_a_wrong_command_line(plan, capsys, option):
    assert plan(STATE, option, "-1")[0] == 2
    assert "expected a whole number from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("once", "twice"),
    [
        pytest.param(("--drain", "1", "2"), ("--drain", "1", "--drain", "2"), id="drain"),
        pytest.param(("--include", "x", "o*"), ("--include", "x", "--include", "o*"), id="include"),
        pytest.param(("--exclude", "x", "y"), ("--exclude", "x", "--exclude", "y"), id="exclude"),
    ],
)
def test_an_option_given_again_adds_to_the_first(plan, capsys, once, twice):
    goals = []
    for options in (once, twice):
        assert plan(STATE, "--json", *options)[0] == 0
        goals.append(json.loads(capsys.readouterr().out)["goals"])
    assert goals[0] == goals[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(("--include", "nosuch", "o*"), "include_topics 'nosuch': none of 1 topic matches", id="include"),
        pytest.param(("--exclude", "odrers"), "exclude_topics 'odrers': none of 1 topic matches", id="exclude"),
    ],
)
def test_a_pattern_without_effect_is_told(plan, capsys, options, said):
    assert plan(STATE, "--json", *options)[0] == 0
    told = capsys.readouterr()
    assert said in told.err
    assert said in json.loads(told.out)["remarks"][0]


def test_limits_in_bytes_need_sizes(plan, capsys, tmp_path):
    rows = [{key: value for key, value in row.items() if key != "size"} for row in STATE["partitions"]]
    status, out, _ = plan({**STATE, "partitions": rows}, "--waves", str(tmp_path / "w"), "--wave-bytes", "5")
    assert (status, out.exists()) == (2, False)
    assert "waves cut with broker_bytes_max: the sizes of the partitions expected" in capsys.readouterr().err


def test_a_missing_file_ends_with_status_2(tmp_path, capsys):
    assert main(["plan-file", str(tmp_path / "none.json"), "--out", str(tmp_path / "plan.json")]) == 2
    assert "none.json" in capsys.readouterr().err


def test_a_partition_without_a_live_replica_is_planned_and_reported(plan, capsys):
    brokers = [*STATE["brokers"], {"id": 9, "rack": "r0", "live": False, "drain": False}]
    status, out, _ = plan({**changed(replicas=[9], leader=-1), "brokers": brokers})
    assert status == 0
    assert "no live replica to copy from: [orders-0]" in capsys.readouterr().err
    assert json.loads(out.read_text())["partitions"][0]["partition"] == 0
