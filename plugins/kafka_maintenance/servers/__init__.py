"""Real servers on loopback: ZooKeeper, Kafka brokers, an S3 server, Postgres, with their processes, jars and folders."""

from kafka_maintenance.servers.kafka import KafkaBroker, KafkaCluster
from kafka_maintenance.servers.postgres import PostgresServer
from kafka_maintenance.servers.s3 import ObjectStoreServer
from kafka_maintenance.servers.workspace import Workspace, stop_orphans, stop_workspace
from kafka_maintenance.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

__all__ = [
    "KafkaBroker",
    "KafkaCluster",
    "ObjectStoreServer",
    "PostgresServer",
    "Workspace",
    "ZooKeeperEnsemble",
    "ZooKeeperServer",
    "stop_orphans",
    "stop_workspace",
]
