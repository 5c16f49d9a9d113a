"""The local stack: ZooKeeper, Kafka brokers, an S3 server, Postgres and Airflow on loopback."""
