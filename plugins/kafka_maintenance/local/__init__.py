"""The local stack: ZooKeeper, Kafka brokers, an S3 server, Postgres and Airflow on loopback."""

from kafka_maintenance.local.airflow_api import AirflowApi
from kafka_maintenance.local.airflow_server import AirflowServer
from kafka_maintenance.local.kafka import KafkaBroker, KafkaCluster
from kafka_maintenance.local.postgres import PostgresServer
from kafka_maintenance.local.s3 import ObjectStoreServer
from kafka_maintenance.local.stack import LocalStack, StackSettings
from kafka_maintenance.local.workspace import Workspace, stop_orphans, stop_workspace
from kafka_maintenance.local.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

__all__ = [
    "AirflowApi",
    "AirflowServer",
    "KafkaBroker",
    "KafkaCluster",
    "LocalStack",
    "ObjectStoreServer",
    "PostgresServer",
    "StackSettings",
    "Workspace",
    "ZooKeeperEnsemble",
    "ZooKeeperServer",
    "stop_orphans",
    "stop_workspace",
]
