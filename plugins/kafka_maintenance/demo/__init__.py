"""The demonstration and the local stack: a troubled cluster, its traffic, Airflow."""

from kafka_maintenance.demo.airflow_api import AirflowApi
from kafka_maintenance.demo.airflow_server import AirflowServer
from kafka_maintenance.demo.stack import LocalStack, StackSettings

__all__ = ["AirflowApi", "AirflowServer", "LocalStack", "StackSettings"]
