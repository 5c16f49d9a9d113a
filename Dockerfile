# The image of every part of Airflow and of Spark: docker-compose.yml builds it, and the values of docs/install.md name it for the Helm chart.
# Debian 12 and Python 3.11, as tested; Java 17 is for Spark's driver and for drills, procps for Spark's scripts, curl for health checks.
# Nobody runs as root in it, and nothing of it is written at run time but what lies below /opt/airflow and /tmp.

# A registry tells the digest of a tag: --build-arg PYTHON_IMAGE=python@sha256:… builds on exactly that image.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
# The same sources give the same files: the date of the commit, e.g. --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:${PATH}
COPY requirements.txt /build/
RUN pip install --require-hashes -r /build/requirements.txt
COPY LICENSE NOTICE README.md pyproject.toml setup.py /build/
COPY controller_core /build/controller_core
COPY dags /build/dags
COPY plugins /build/plugins
COPY spark_jobs /build/spark_jobs
RUN pip install --no-deps /build \
 && mkdir /opt/dags && kafka-maintenance install-dags /opt/dags

FROM ${PYTHON_IMAGE} AS jvm
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends curl openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 50000 airflow \
 && mkdir -p /opt/airflow/home /opt/airflow/state /opt/airflow/logs /opt/airflow/scratch /opt/airflow/keys/database /opt/airflow/keys/s3 \
 && chown -R airflow /opt/airflow

FROM jvm AS jars
# Of which Kafka versions the drills start brokers; the jars are checked against kafka_jars.lock.json.
ARG KAFKA_VERSIONS="3.9"
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:${PATH} KAFKA_MAINTENANCE_JARS=/opt/jars
# The words of KAFKA_VERSIONS are arguments each.
# hadolint ignore=SC2086
RUN python -m kafka_maintenance.servers.s3a_jars fetch \
 && mkdir /opt/s3a && mv /opt/jars/s3a-jars/*/*.jar /opt/s3a/ \
 && python -m kafka_maintenance.servers.broker_jvm ${KAFKA_VERSIONS}

FROM jvm
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/dags /opt/dags
COPY --from=jars /opt/s3a /opt/s3a
COPY --from=jars /opt/jars/kafka-jars /opt/jars/kafka-jars
ENV KAFKA_MAINTENANCE_JARS=/opt/jars
ENV PATH=/opt/venv/bin:${PATH} AIRFLOW_HOME=/opt/airflow/home AIRFLOW__CORE__DAGS_FOLDER=/opt/dags PYTHONUNBUFFERED=1
# What a JVM of Spark loads, recorded once: its jobs start in half the time.
RUN python -m kafka_maintenance.spark.class_archive
# The probes of the Helm chart start their commands by it.
RUN printf '#!/bin/sh\nexec "$@"\n' > /entrypoint && chmod 755 /entrypoint
USER 50000
WORKDIR /opt/airflow
HEALTHCHECK --interval=30s --timeout=20s --start-period=60s --retries=5 CMD ["kafka-maintenance", "--version"]
