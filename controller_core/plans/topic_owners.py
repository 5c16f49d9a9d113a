"""Topics that a program made for itself, told by their names: whoever deletes one breaks that program.

Source: Kafka 3.9 `Topic.INTERNAL_TOPICS`, `InternalTopologyBuilder` (names of Streams' topics), `connect-distributed.properties`,
`DefaultReplicationPolicy` and `MirrorUtils` (names of MirrorMaker 2's topics); Schema Registry `kafkastore.topic`.
"""

import re
from typing import Final

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
_OWNERS: Final = tuple(
    (re.compile(pattern), owner)
    for pattern, owner in (
        (r"__.*", "an internal topic of Kafka or its tools"),
        (r"_schemas(_.*)?", "the store of a Schema Registry"),
        (r"_confluent.*", "an internal topic of Confluent's platform"),
        (
            r"(.*[-_.])?connect(-cluster)?[-_.](.*[-_.])?(config|offset|status)(s|es)?",
            "state of a Kafka Connect cluster",
        ),
        (r"(.*\.)?heartbeats|.*\.checkpoints\.internal|mm2-.*\.internal", "an internal topic of MirrorMaker 2"),
        (r".+-(changelog|repartition)", "an internal topic of a Kafka Streams application"),
        (r".+-subscription-(registration|response)-topic", "an internal topic of a Kafka Streams application"),
    )
)


def owner_of(topic: str) -> str | None:
    """What the topic is, where its name says that a program made it for itself; None for any other."""
    return next((owner for pattern, owner in _OWNERS if pattern.fullmatch(topic)), None)
