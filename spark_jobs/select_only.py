"""What a query of a stranger may be: exactly one SELECT over tables that are known by name.

Judged from the plan that Spark's own parser makes of the text, before anything of it is analysed or run: Spark carries out commands while it
analyses them. A kind of plan that is not listed here is refused, so what a later Spark adds is refused until it is read and listed.

Source: PySpark 4.3 `ParserInterface.parsePlan` and `TreeNode.toJSON`; measured with `tests/attacks/test_query.py`.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions."
_ANALYSIS: Final = "org.apache.spark.sql.catalyst.analysis."
READING: Final = frozenset(
    {
        *(
            "Aggregate",
            "Distinct",
            "Except",
            "Filter",
            "Generate",
            "GlobalLimit",
            "Intersect",
            "Join",
            "LateralJoin",
            "LocalLimit",
        ),
        *(
            "LocalRelation",
            "Offset",
            "OneRowRelation",
            "Pivot",
            "Project",
            "Sample",
            "Sort",
            "SubqueryAlias",
            "Union",
            "Unpivot",
        ),
        *("UnresolvedHint", "UnresolvedWith", "WithWindowDefinition"),
    }
)
"""Kinds of logical plan that read what is below them and nothing else. Not `ScriptTransformation`, which runs a program."""
UNRESOLVED: Final = frozenset(
    {
        *(
            "MultiAlias",
            "UnresolvedAlias",
            "UnresolvedAttribute",
            "UnresolvedDeserializer",
            "UnresolvedExtractValue",
            "UnresolvedFunction",
        ),
        *(
            "UnresolvedGenerator",
            "UnresolvedHaving",
            "UnresolvedInlineTable",
            "UnresolvedNamedLambdaVariable",
            "UnresolvedOrdinal",
        ),
        *("UnresolvedRegex", "UnresolvedRelation", "UnresolvedStar", "UnresolvedStarExceptOrReplace"),
        *("UnresolvedSubqueryColumnAliases", "UnresolvedWindowExpression"),
    }
)
"""Names that are looked up later. Not `UnresolvedTableValuedFunction`, `UnresolvedTableOrView`, `NamedParameter` and the like."""
REFUSED_FUNCTIONS: Final = frozenset({"from_protobuf", "java_method", "reflect", "to_protobuf", "try_reflect"})
"""Functions that call Java methods or read files."""


def refusal(spark: SparkSession, sql: str) -> str | None:
    """Why `sql` is not run; None where it is one SELECT over tables known by one name. Runs and looks up nothing."""
    parser: Any = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - PySpark has no parser of its own
    try:
        tree = json.loads(parser.parsePlan(sql).toJSON())
    except PySparkException as error:
        return f"expected one SELECT, found text that Spark cannot read: {str(error).strip()}"
    return next((reason for node in _nodes(tree) if (reason := _refused(node)) is not None), None)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every node of the plan, those of subqueries and of expressions included."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _refused(node: dict[str, Any]) -> str | None:
    kind = str(node["class"])
    name = kind.rpartition(".")[2].removesuffix("$")
    known = (
        kind.startswith(_EXPRESSIONS)
        or (kind.startswith(_PLANS) and name in READING)
        or (kind.startswith(_ANALYSIS) and name in UNRESOLVED)
    )
    if not known:
        return f"expected one SELECT over tables, found {name}"
    if name == "UnresolvedRelation" and len(parts := _parts(node["multipartIdentifier"])) != 1:
        return f"expected tables by their names, found {'.'.join(parts)!r}; files and other sources are not read"
    if name == "UnresolvedFunction" and (called := _parts(node["nameParts"])[-1].lower()) in REFUSED_FUNCTIONS:
        return f"expected no function that calls Java or reads files, found {called}"
    return None


def _parts(shown: str) -> list[str]:
    """The parts of a name that Spark shows as `[a, b]`. A quoted name with a comma counts as two, and is refused with that."""
    return shown.removeprefix("[").removesuffix("]").split(", ")
