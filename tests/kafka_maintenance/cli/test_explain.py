"""`kafka-maintenance explain`: one event on a snapshot, as the controller would log it."""

import json
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import BrokerId
from controller_core.plans.request_znodes import DeleteController
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.plans.explain import carry_out
from kafka_maintenance.operations.snapshots.take import take_snapshot

pytestmark = pytest.mark.services
NOTHING = "no partition and no replica changes its state"


@pytest.fixture
def explain(kafka, chroot, tmp_path, capsys):
    """Takes a snapshot and explains an event on it; gives the exit status, the lines and what was said on standard error."""
    store = open_store(str(tmp_path))

    def run(*event):
        take_snapshot(
            address=ClusterAddress(chroot),
            cluster="alpha",
            store=store,
            run_id="r",
            now=datetime(2026, 3, 1, tzinfo=UTC),
        )
        status = main(["explain", "--store", str(tmp_path), "--cluster", "alpha", "--kafka-version", "3.9", *event])
        said = capsys.readouterr()
        return status, said.out.splitlines(), said.err

    return run


def test_a_broker_fails(explain):
    status, lines, _ = explain("--broker-fails", "2")
    prefix = "[Controller id=1 epoch=3]"
    assert status == 0
    assert lines == [
        f"{prefix} Changed partition orders-1 state from OnlinePartition to OfflinePartition",
        f"{prefix} Changed partition payments-0 state from OnlinePartition to OfflinePartition",
        (
            f"{prefix} Changed partition orders-1 from OfflinePartition to OnlinePartition with state LeaderAndIsr(leader=1, "
            "leaderEpoch=5, isr=List(1), leaderRecoveryState=RECOVERED, partitionEpoch=1)"
        ),
        (
            f"{prefix} Controller 1 epoch 3 failed to change state for partition payments-0: no electable leader: leader 2, ISR [2]; "
            "replicas [1, 2], of them live [1]; controller 1, epoch 3"
        ),
        *(
            line
            for partition, leader, isr, epoch, version in (
                ("orders-1", 1, 1, 5, 1),
                ("orders-0", 1, 1, 1, 1),
                ("payments-0", -1, 2, 8, 1),
            )
            for line in (
                (
                    f"{prefix} Partition {partition} state changed to (Leader:{leader},ISR:{isr},LeaderRecoveryState:RECOVERED,"
                    f"LeaderEpoch:{epoch},ZkVersion:{version},ControllerEpoch:3) after removing replica 2 from the ISR as part of "
                    "transition to OfflineReplica"
                ),
                f"{prefix} Changed state of replica 2 for partition {partition} from OnlineReplica to OfflineReplica",
            )
        ),
    ]


def test_a_topic_is_deleted(explain):
    _, lines, _ = explain("--delete-topic", "payments")
    assert [line.partition("] ")[2] for line in lines[:2] + lines[-2:]] == [
        "Changed partition payments-0 state from OnlinePartition to OfflinePartition",
        "Changed partition payments-0 state from OfflinePartition to NonExistentPartition",
        "Changed state of replica 1 for partition payments-0 from ReplicaDeletionSuccessful to NonExistentReplica",
        "Changed state of replica 2 for partition payments-0 from ReplicaDeletionSuccessful to NonExistentReplica",
    ]


def test_a_broker_leaves_in_order_and_another_one_comes(explain):
    _, lines, _ = explain("--broker-shuts-down", "2")
    assert (
        "Changed partition orders-1 from OnlinePartition to OnlinePartition with state LeaderAndIsr(leader=1"
        in lines[0]
    )
    _, lines, _ = explain("--broker-starts", "3")
    assert lines == [NOTHING]


def test_partitions_are_reassigned(explain, tmp_path):
    wanted = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2]}]}
    file = tmp_path / "wanted.json"
    file.write_text(json.dumps(wanted), encoding="utf-8")
    _, lines, _ = explain("--reassign", str(file))
    assert any("Changed partition orders-0 from OnlinePartition to OnlinePartition" in line for line in lines)
    assert lines[-1].endswith(
        "Changed state of replica 1 for partition orders-0 from ReplicaDeletionSuccessful to NonExistentReplica"
    )


def test_a_plan_is_explained_as_its_requests_are(explain, tmp_path, capsys):
    """The prediction of a plan in Kafka's words: the lines of its moves, and then those of its other wave."""
    files = []
    for partition, replicas in ((0, [2]), (1, [1])):
        wanted = {"version": 1, "partitions": [{"topic": "orders", "partition": partition, "replicas": replicas}]}
        files.append(tmp_path / f"wave{partition}.json")
        files[-1].write_text(json.dumps(wanted), encoding="utf-8")
    _, alone, _ = explain("--reassign", str(files[0]))
    targets = [word for file in files for word in ("--targets", str(file))]
    made = ("plan", "reassignment", "--store", str(tmp_path), "--cluster", "alpha", *targets)
    assert main([*made, "--change-replication-factor", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]["uri"]
    status, lines, _ = explain("--plan", plan)
    assert status == 0
    assert lines[: len(alone)] == alone
    assert {line for line in lines[len(alone) :] if "orders-1" in line} == set(lines[len(alone) :]) != set()


def test_a_plan_that_asks_no_controller_is_not_explained():
    ends_it = DeleteController(controller_id=BrokerId(1), version=0, epoch_version=0)
    with pytest.raises(
        BadInputError, match="expected requests for elections, moves and deletions, found DeleteController"
    ):
        carry_out([ends_it])


def test_nothing_changes(explain):
    status, lines, _ = explain("--elect-preferred", "orders-0")
    assert (status, lines) == (0, [NOTHING])


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (("--broker-fails", "7"), "broker 7 does not end: it is not registered; expected one of [1, 2]"),
        (("--broker-shuts-down", "7"), "broker 7 does not end"),
        (("--broker-starts", "1"), "broker 1 does not start: it is registered"),
        (("--elect-preferred", "orders-9"), "the snapshot has no partition orders-9"),
        (("--delete-topic", "nothing"), "topic 'nothing' is not deleted: the snapshot has none of that name"),
    ],
)
def test_an_event_that_does_not_fit_is_bad_input(explain, event, said):
    status, _, error = explain(*event)
    assert status == 2
    assert said in error
