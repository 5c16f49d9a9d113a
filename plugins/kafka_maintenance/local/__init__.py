"""The local stack: ZooKeeper, Kafka brokers, an S3 server, Postgres and Airflow on loopback."""

from kafka_maintenance.local.kafka import KafkaBroker, KafkaCluster
from kafka_maintenance.local.process import Workspace, stop_orphans, stop_workspace
from kafka_maintenance.local.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

__all__ = [
    "KafkaBroker",
    "KafkaCluster",
    "Workspace",
    "ZooKeeperEnsemble",
    "ZooKeeperServer",
    "stop_orphans",
    "stop_workspace",
]
