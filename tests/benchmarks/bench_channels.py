"""How long a controller takes to write the requests of a large cluster.

    python -m tests.benchmarks.bench_channels [--partitions 200000] [--peer]

200,000 partitions of RF 3 on 30 brokers, 20 per topic. CPU seconds of one core, the rows being those of the core's request;
with `--peer` the same bytes are made by kio, a library for all of Kafka's messages. Figures are printed, nothing is asserted.
"""

import argparse
import io
import time
import uuid

from controller_core.adapters.brokers.requests import api_of, request_values
from controller_core.messages.effects import (
    LeaderAndIsrPartition,
    LiveLeader,
    SendLeaderAndIsr,
    SendUpdateMetadata,
    UpdateMetadataPartition,
)
from controller_core.model.partitions import Broker, BrokerId, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.wire.codec import encode, uuid_bytes, uuid_text
from tests.benchmarks.yardstick import yardstick

BROKERS = 30
PER_TOPIC = 20


def rows(count):
    for number in range(count):
        partition = TopicPartition(f"topic-of-a-name-{number // PER_TOPIC:06}", number % PER_TOPIC)
        replicas = tuple(BrokerId(1 + (number + each) % BROKERS) for each in range(3))
        yield partition, LeaderAndIsr(replicas[0], 7, replicas, partition_epoch=9, controller_epoch=3), replicas


def requests(count):
    """An UpdateMetadata of version 8 and a LeaderAndIsr of version 7 with all partitions."""
    topics = sorted({partition.topic for partition, _, _ in rows(count)})
    topic_ids = tuple((topic, uuid_text(uuid.uuid5(uuid.NAMESPACE_OID, topic).bytes)) for topic in topics)
    live = tuple(
        Broker(BrokerId(each), 100 + each, (Endpoint(f"broker-{each}.example.org", 9092, "INTERNAL", "SSL"),), "a")
        for each in range(1, BROKERS + 1)
    )
    head = {"broker": BrokerId(1), "broker_epoch": 101, "controller_id": BrokerId(9), "controller_epoch": 3}
    metadata = tuple(UpdateMetadataPartition(each, state, replicas, ()) for each, state, replicas in rows(count))
    states = tuple(
        LeaderAndIsrPartition(each, state, ReplicaAssignment(replicas), is_new=False)
        for each, state, replicas in rows(count)
    )
    leaders = tuple(LiveLeader(each.id, each.endpoints[0].host, 9092) for each in live)
    yield SendUpdateMetadata(**head, version=8, partition_states=metadata, live_brokers=live, topic_ids=topic_ids)
    yield SendLeaderAndIsr(**head, version=7, partition_states=states, live_leaders=leaders, topic_ids=topic_ids)


def kio_bytes(request):
    """The same UpdateMetadata by kio: records made, then written."""
    from kio.schema.update_metadata.v8 import request as schema
    from kio.serial import entity_writer

    values = request_values(request, 8)
    entity = schema.UpdateMetadataRequest(
        controller_id=values["controller_id"],
        is_k_raft_controller=False,
        controller_epoch=values["controller_epoch"],
        broker_epoch=values["broker_epoch"],
        topic_states=tuple(
            schema.UpdateMetadataTopicState(
                topic_name=topic["topic_name"],
                topic_id=uuid.UUID(bytes=uuid_bytes(topic["topic_id"])),
                partition_states=tuple(
                    schema.UpdateMetadataPartitionState(**{k: v for k, v in row.items() if k != "topic_name"})
                    for row in topic["partition_states"]
                ),
            )
            for topic in values["topic_states"]
        ),
        live_brokers=tuple(
            schema.UpdateMetadataBroker(
                id_=row["id"],
                rack=row["rack"],
                endpoints=tuple(schema.UpdateMetadataEndpoint(**each) for each in row["endpoints"]),
            )
            for row in values["live_brokers"]
        ),
    )
    out = io.BytesIO()
    entity_writer(schema.UpdateMetadataRequest)(out, entity)
    return out.getvalue()


def timed(what, make):
    begin = time.process_time()
    found = make()
    print(f"{what:46} {time.process_time() - begin:6.2f} CPU s {len(found) / 1e6:8.2f} MB", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--peer", action="store_true")
    arguments = parser.parse_args()
    print(f"{arguments.partitions} partitions; yardstick {yardstick():.2f} CPU s")
    for request in requests(arguments.partitions):
        message = api_of(request).request
        ours = timed(
            f"{message.name} version {request.version}",
            lambda request=request, message=message: encode(
                message, request.version, request_values(request, request.version)
            ),
        )
        if arguments.peer and isinstance(request, SendUpdateMetadata):
            theirs = timed("the same by kio", lambda request=request: kio_bytes(request))
            print(f"{'':46} {'the same bytes' if ours == theirs else 'OTHER BYTES'}")


if __name__ == "__main__":
    main()
