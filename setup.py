"""The packages of the wheel. What `pyproject.toml` cannot say: the DAG files travel as `kafka_maintenance.dags`."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(".", include=["controller_core*", "spark_jobs*"]),
        *find_packages("plugins", include=["kafka_maintenance*"]),
        "kafka_maintenance.dags",
    ],
    package_dir={"kafka_maintenance": "plugins/kafka_maintenance", "kafka_maintenance.dags": "dags"},
)
