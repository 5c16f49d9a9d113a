"""How an object of a store in S3 is named in OpenLineage, for deployments without Airflow's provider of Amazon, which says the same."""

from typing import Any
from urllib.parse import urlsplit


def dataset_of_s3(asset: Any, lineage_context: Any) -> Any:  # noqa: ARG001 - the provider's signature
    """The dataset of an asset `s3://bucket/key`, named as OpenLineage wants it: the bucket as namespace.

    Source: OpenLineage, "Dataset naming".
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset  # noqa: PLC0415 - start-up time of every part of Airflow

    parsed = urlsplit(asset.uri)
    return Dataset(namespace=f"s3://{parsed.netloc}", name=parsed.path.removeprefix("/"))
