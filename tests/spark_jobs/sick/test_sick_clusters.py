"""Every result of the job on sick clusters is what Kafka's rules say; many more: `python -m tests.spark_jobs.sick.compare`."""

from tests.spark_jobs.sick.compare import RESULTS, differences

CLUSTERS = 150
OF_A_QUEUED_TOPIC_NOTHING_CAN_BE_READ = (154, 209)


def test_the_job_agrees_with_kafkas_rules(spark, tmp_path):
    compared, different = differences(spark, tmp_path, (*range(CLUSTERS), *OF_A_QUEUED_TOPIC_NOTHING_CAN_BE_READ))
    assert not different, "\n".join(different[:20])
    assert set(compared) == set(RESULTS)
    assert min(compared.values()) >= CLUSTERS / 2
