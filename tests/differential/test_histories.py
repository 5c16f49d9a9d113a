"""Every recorded history of Kafka's whole controller runs through the core: after each step it shows what Kafka did."""

from collections import Counter

import pytest

from tests.differential.histories import HISTORIES, first_difference, histories

VERSIONS = sorted(path.name.removesuffix(".jsonl.xz") for path in HISTORIES.glob("*.jsonl.xz"))
EVENTS = {
    "Startup", "ControllerChanged", "ControllerVanished", "SessionExpired", "SessionEstablished", "BrokersChanged", "BrokerDataChanged",
    "TopicsChanged", "TopicDataChanged", "DeletionsChanged", "ReassignmentRequested", "PartitionStateChanged", "PreferredElectionRequested",
    "IsrNotificationsChanged", "LogDirEventsChanged", "RebalanceDue", "UncleanElectionEnabled", "ControlledShutdown", "AlterReassignments",
    "ListReassignments", "ElectLeaders",
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_the_core_lives_through_it_as_kafkas_controller_did(version):
    assert [told for history in histories(version) if (told := first_difference(history))] == []


@pytest.mark.parametrize(
    ("version", "least", "protocols", "events"),
    [
        ("3.9.1", 230, {"3.9", "3.2", "2.8", "2.6", "2.4"}, EVENTS | {"AlterPartition"}),
        ("2.8.2", 130, {"2.8", "2.6", "2.4", "2.2", "1.1"}, EVENTS),
    ],
)
def test_the_histories_are_there_with_all_that_can_happen(version, least, protocols, events):
    found = list(histories(version))
    assert len(found) >= least
    assert {history["protocol"] for history in found} == protocols
    steps = [step for history in found for step in history["steps"]]
    assert {step["event"][0] for step in steps if "event" in step} == events
    assert {step["answer"][1] for step in steps if "answer" in step} == {
        "LeaderAndIsr",
        "UpdateMetadata",
        "StopReplica",
    }
    assert any(step.get("meanwhile") for step in steps)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fact_that_differs_is_noticed(version):
    """The judge itself: each kind of fact, when Kafka is said to have shown another one, is missed at that step."""
    noticed: Counter[str] = Counter()
    for history in histories(version):
        for number, step in enumerate(history["steps"]):
            for name in {*step["then"], *({"sent", "replies"} & step.keys())} - noticed.keys():
                other = step | (
                    {name: ["?"]} if name in step else {"then": step["then"] | {name: _other(step["then"][name])}}
                )
                forged = history | {"steps": [*history["steps"][:number], other]}
                assert f"step {number}, " in first_difference(forged)
                assert f"{name}: Kafka" in first_difference(forged)
                noticed[name] += 1
    assert len(noticed) >= 20


def _other(fact):
    return fact | {"?": "?"} if isinstance(fact, dict) else "?"
