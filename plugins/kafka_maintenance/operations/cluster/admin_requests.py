"""Requests that change a cluster through its brokers: reassignments, their cancel, preferred elections; with an answer per partition.

An answer that says that nothing was done is told apart from no answer at all, after which nobody knows.
Source: Kafka protocol guide, AlterPartitionReassignments (KIP-455: Kafka 2.4) and ElectLeaders (KIP-183: Kafka 2.2); Kafka 3.9 `DelayedElectLeader`;
kafka-python `KafkaAdminClient`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller_core.model.partitions import TopicPartition
from kafka_maintenance.operations.cluster.brokers_asked import ANSWER_TIMEOUT_S, BrokersAsked, admin_client, said
from kafka_maintenance.operations.errors import NotFinishedError, OperationError

Errors = Mapping[TopicPartition, str]
"""Name of Kafka's error by partition, of those that were refused."""


class BrokersCannotError(OperationError):
    """Nothing was asked: no broker was reached, they are too old for it, or our principal may not."""


class UnansweredError(NotFinishedError):
    """The request was sent, and nobody knows what became of it."""


def alter_reassignments(
    brokers: BrokersAsked, targets: Mapping[TopicPartition, Sequence[int] | None], what: str
) -> Errors:
    """Asks the controller to move partitions to their targets; None cancels what is under way. A second time changes nothing.

    Raises:
        BrokersCannotError: nothing was asked.
        UnansweredError: nobody knows.
    """
    from kafka import TopicPartition as ClientPartition  # noqa: PLC0415 - only who asks brokers loads their client

    def ask(admin: Any) -> Errors:
        wanted = {ClientPartition(*each): None if to is None else list(to) for each, to in targets.items()}
        answers = admin.alter_partition_reassignments(wanted)
        return {
            TopicPartition(each.topic, each.partition): "no answer" if each not in answers else answers[each].__name__
            for each in wanted
            if each not in answers or answers[each] is not None
        }

    return _asked(brokers, what, ask, since="2.4")


def elect_preferred_leaders(brokers: BrokersAsked, partitions: Sequence[TopicPartition], what: str) -> Errors:
    """Asks the controller to elect the preferred leaders; one that leads already is no error, and neither is one that was elected and of
    which the broker that answers has not heard in time.

    Raises:
        BrokersCannotError: nothing was asked.
        UnansweredError: nobody knows.
    """
    from kafka.errors import ElectionNotNeededError, NoError, RequestTimedOutError, for_code  # noqa: PLC0415 - as above

    def ask(admin: Any) -> Errors:
        numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            numbers.setdefault(topic, []).append(number)
        response = admin.elect_leaders(0, numbers, raise_errors=False)
        if failed := getattr(response, "error_code", 0):
            raise for_code(failed)(f"{what} refused")
        answers = {
            TopicPartition(topic.topic, each.partition_id): for_code(each.error_code)
            for topic in response.replica_election_results
            for each in topic.partition_result
        }
        fine = {NoError, ElectionNotNeededError, RequestTimedOutError}
        return {
            each: getattr(answers.get(each), "__name__", "no answer")
            for each in partitions
            if answers.get(each) not in fine
        }

    return _asked(brokers, what, ask, since="2.2")


def _asked(brokers: BrokersAsked, what: str, ask: Callable[[Any], Errors], *, since: str) -> Errors:
    """What `ask` answers.

    Args:
        brokers: who is asked.
        what: is asked, for messages.
        ask: asks, as an admin client.
        since: the version of Kafka that understands it.

    Raises:
        BrokersCannotError: nothing was asked.
        UnansweredError: nobody knows.
    """
    from kafka.errors import (  # noqa: PLC0415 - as above
        ClusterAuthorizationFailedError,
        IncompatibleBrokerVersion,
        KafkaError,
        UnsupportedVersionError,
    )

    asked = f"{what} asked of the brokers at {brokers.bootstrap_servers}"
    with admin_client(asked, brokers, ANSWER_TIMEOUT_S, BrokersCannotError) as admin:
        try:
            return ask(admin)
        except (IncompatibleBrokerVersion, UnsupportedVersionError) as error:
            raise BrokersCannotError(
                f"{asked}: brokers of Kafka {since} or newer expected, found older ones ({said(error)})"
            ) from error
        except ClusterAuthorizationFailedError as error:
            raise BrokersCannotError(
                f"{asked}: refused ({said(error)}); our principal needs Alter on the cluster"
            ) from error
        except (KafkaError, OSError, RuntimeError) as error:  # the client's word for a controller that it does not find
            raise UnansweredError(f"{asked}: no answer: {said(error)}") from error
