"""The facts of small clusters, as the jobs have them."""

from spark_jobs import schemas, settings
from spark_jobs.io import datasets
from spark_jobs.transforms import facts

SETTINGS = '{"default": {"kafka_version": "3.9", "min_insync_replicas": 1}}'


def described_facts(spark, tables, text=SETTINGS, refused=None):
    """The facts as a plan of Spark: computed anew for each result that is made of them."""
    evidence = settings.evidence_frame(tables["cluster"], tables["brokers"], tables["topics"], tables["partitions"])
    rules = [settings.rules_of(settings.parse_settings(text), row) for row in evidence.collect()]
    return facts.snapshot_facts(tables, datasets.driver_rows(spark, rules, settings.RULES), refused)


def facts_of(spark, tables, text=SETTINGS, refused=None):
    """The facts as the job has them: computed once, whatever is made of them."""
    return datasets.through_driver(described_facts(spark, tables, text, refused), schemas.FACTS)
