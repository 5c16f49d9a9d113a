"""Kafka's own controller classes, called live through py4j: no doubles, no recording in between."""

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway

from kafka_maintenance.servers.broker_jvm import JVM_FLAGS, py4j_gateway
from kafka_maintenance.servers.java import find_java
from kafka_maintenance.servers.ports import free_port, listens
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.workspace import Workspace

LOOPBACK = "127.0.0.1"


class KafkaJvm:
    """`java` names Kafka's packages; the other methods translate between Python and Scala values."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.java: Any = gateway.jvm
        self._converters = self.java.scala.jdk.javaapi.CollectionConverters
        self.controller = self.java.kafka.controller

    def sequence(self, values: Iterable[object]) -> Any:
        return self._converters.asScala(self._list(values)).toList()

    def set(self, values: Iterable[object]) -> Any:
        return self._converters.asScala(self._list(values)).toSet()

    def mapping(self, items: dict[object, object]) -> Any:
        java_map = self.java.java.util.HashMap()
        for key, value in items.items():
            java_map.put(key, value)
        return self._converters.asScala(java_map)

    def values(self, scala_collection: Any) -> list[Any]:
        iterator, found = scala_collection.iterator(), []
        while iterator.hasNext():
            found.append(iterator.next())
        return found

    def singleton(self, name: str) -> Any:
        """The Scala object `kafka.controller.<name>`."""
        return getattr(getattr(self.controller, f"{name}$"), "MODULE$")

    def partition(self, topic: str, number: int) -> Any:
        return self.java.org.apache.kafka.common.TopicPartition(topic, number)

    def assignment(self, replicas: Iterable[int], adding: Iterable[int] = (), removing: Iterable[int] = ()) -> Any:
        return self.controller.ReplicaAssignment(
            self.sequence(replicas), self.sequence(adding), self.sequence(removing)
        )

    def leadership(self, leader: int, leader_epoch: int, isr: Iterable[int], controller_epoch: int) -> Any:
        recovered = self.java.org.apache.kafka.metadata.LeaderRecoveryState.RECOVERED
        record = self.java.kafka.api.LeaderAndIsr.apply(leader, leader_epoch, self.sequence(isr), recovered, 0)
        return self.controller.LeaderIsrAndControllerEpoch(record, controller_epoch)

    def broker(self, broker: int) -> Any:
        protocol = self.java.org.apache.kafka.common.security.auth.SecurityProtocol.PLAINTEXT
        listener = self.java.org.apache.kafka.common.network.ListenerName.forSecurityProtocol(protocol)
        return self.java.kafka.cluster.Broker(broker, LOOPBACK, 9092, listener, protocol)

    def _list(self, values: Iterable[object]) -> Any:
        java_list = self.java.java.util.ArrayList()
        for value in values:
            java_list.add(value)
        return java_list


@contextlib.contextmanager
def kafka_jvm(version: str = "3.9") -> Iterator[KafkaJvm]:
    """A JVM with the jars of one Kafka version."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    java, port = find_java(), free_port()
    with Workspace.create_temporary() as workspace:
        command = [str(java.program), "-Xmx256m", *JVM_FLAGS, *py4j_gateway(version, java, port)]
        child = start_child(workspace, "kafka-classes", command)
        wait_until(lambda: listens(port), what="the JVM with Kafka's classes listens", timeout_s=60, children=[child])
        parameters = GatewayParameters(address=LOOPBACK, port=port, enable_memory_management=False)
        gateway = JavaGateway(gateway_parameters=parameters)
        try:
            yield KafkaJvm(gateway)
        finally:
            gateway.close()
            child.stop()
