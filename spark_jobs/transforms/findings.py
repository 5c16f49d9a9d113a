"""What a finding looks like, for all that make some."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.model import words
from spark_jobs.schemas import FINDINGS

CRITICAL, WARNING, INFO = "critical", "warning", "info"
BROKER_DOWN = "broker_down"
_FINDING = "struct<kind:string,severity:string,brokers:array<int>,age_s:bigint,detail:string,cause:string>"


def finding(
    condition: Column,
    kind: str,
    severity: str,
    detail: str | Column,
    brokers: Column | None = None,
    *,
    cause: Column | None = None,
) -> Column:
    """A struct with kind, severity, brokers, age_s (null), detail and cause where `condition` holds; null elsewhere.

    `cause` is the finding that this one follows from, in words that the report groups by; null where it stands alone.

    Args:
        condition: null counts as false.
        kind: of the finding.
        severity: of the finding.
        detail: its text.
        brokers: that it concerns; None: null.
        cause: what it follows from; None: null.
    """
    whole = F.struct(
        F.lit(kind).alias("kind"),
        F.lit(severity).alias("severity"),
        (F.lit(None) if brokers is None else brokers).cast("array<int>").alias("brokers"),
        F.lit(None).cast("bigint").alias("age_s"),
        (F.lit(detail) if isinstance(detail, str) else detail).alias("detail"),
        (F.lit(None) if cause is None else cause).cast("string").alias("cause"),
    )
    return F.when(condition, whole.cast(_FINDING))


def each_finding(rows: DataFrame, columns: Sequence[str], *findings: Column) -> DataFrame:
    """`columns` and the fields of a finding: one row for each of the `findings` of a row that is not null.

    Spark compiles this. It interprets whatever stands inside a lambda, `array_compact` included, row by row.
    """
    judged = rows.select(*columns, F.array(*findings).alias("findings"))
    several = judged.select(*columns, F.explode_outer("findings").alias("finding"))
    return several.where(F.col("finding").isNotNull()).select(*columns, "finding.*")


def counted(number: Column, noun: str, verb: str = "") -> Column:
    """How many of what, in the words of `controller_core.model.words.counted`: `3 replicas`, `1 replica`."""
    one, two = (words.counted(each, noun, verb) for each in (1, 2))
    return F.when(number == 1, one).otherwise(F.concat(F.format_number(number, 0), F.lit(two.removeprefix("2"))))


def listed(brokers: Column) -> Column:
    """Broker ids as text, `[1, 2]`."""
    return F.concat(F.lit("["), F.concat_ws(", ", brokers.cast("array<string>")), F.lit("]"))


def as_findings(frame: DataFrame) -> DataFrame:
    """`frame` with the columns of schemas.FINDINGS; absent ones are null."""
    present = set(frame.columns)
    return frame.select(
        *[
            (F.col(field.name) if field.name in present else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in FINDINGS.fields
        ]
    )
