"""Which cluster brokers say that they are: they hold its id from their start on, whatever happens to ZooKeeper.

Source: Kafka's Metadata response, version 2 and newer (0.10.1).
"""

from typing import NamedTuple

from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.errors import OperationError

_ANSWER_TIMEOUT_S = 5.0


class IdentityUnknownError(OperationError):
    """No broker says which cluster it is of."""


class BrokersIdentity(NamedTuple):
    """The id of the Kafka cluster, and the brokers that it has, as one of them says."""

    cluster_id: str
    broker_ids: frozenset[int]


def identity_asked(brokers: BrokersAsked) -> BrokersIdentity:
    """Asks the first broker that answers.

    Raises:
        IdentityUnknownError: none answers, or it is older than 0.10.1.
        BadInputError: an argument that the client does not have.
    """
    asked = f"Kafka cluster id asked of the brokers at {brokers.bootstrap_servers}"
    with admin_client(asked, brokers, _ANSWER_TIMEOUT_S, IdentityUnknownError) as admin:
        known = admin._manager.cluster  # noqa: SLF001 - what the client learned when it connected; no second question
        found = known.cluster_id
        ids = frozenset(each.node_id for each in known.brokers())
    if not found:
        raise IdentityUnknownError(f"{asked}: an id expected, found none; are they older than 0.10.1?")
    return BrokersIdentity(found, ids)
