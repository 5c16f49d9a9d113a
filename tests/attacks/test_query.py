"""Boundary: whoever may ask a question of the snapshots. Text of his becomes one SELECT over our tables, or nothing."""

import pytest

from spark_jobs.select_only import refusal
from tests.spark_session import spark

pytestmark = pytest.mark.spark
__all__ = ["spark"]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        pytest.param("SELECT * FROM parquet.`/etc`", "parquet./etc", id="a file as a table"),
        pytest.param("SELECT 1 WHERE 1 IN (SELECT x FROM csv.`/etc/passwd`)", "csv./etc/passwd", id="in a subquery"),
        pytest.param("WITH t AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM t", "text./etc/passwd", id="in a CTE"),
        pytest.param("SELECT * FROM global_temp.x", "global_temp.x", id="another catalog"),
        pytest.param("SELECT reflect('java.lang.Runtime', 'getRuntime')", "reflect", id="a Java method"),
        pytest.param("SELECT system.builtin.JAVA_METHOD('a', 'b')", "java_method", id="a Java method by its long name"),
        pytest.param("SELECT TRANSFORM(topic) USING 'sh' AS x FROM topics", "ScriptTransformation", id="a program"),
        pytest.param("INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1", "InsertIntoDir", id="writes a folder"),
        pytest.param("FROM topics INSERT INTO x SELECT *", "InsertIntoStatement", id="writes a table behind FROM"),
        pytest.param(
            "WITH t AS (SELECT 1) INSERT INTO x SELECT * FROM t", "InsertIntoStatement", id="writes behind WITH"
        ),
        pytest.param("SELECT 1; DROP TABLE topics", "extra input", id="two statements"),
        pytest.param("SELEC 1", "cannot read: [PARSE_SYNTAX_ERROR] Syntax error", id="no statement"),
        pytest.param("BEGIN SELECT 1; DROP TABLE topics; END", "CompoundBody", id="a script"),
        pytest.param("EXPLAIN SELECT 1", "ExplainCommand", id="a command around it"),
        pytest.param("DESCRIBE topics", "UnresolvedTableOrView|DescribeRelation", id="a description"),
        pytest.param("SET spark.sql.warehouse.dir=/", "SetCommand", id="a setting"),
        pytest.param("ADD JAR '/tmp/x.jar'", "AddJarsCommand", id="a jar"),
        pytest.param("CREATE TEMPORARY FUNCTION f AS 'x'", "CreateFunction", id="a function"),
        pytest.param("SELECT * FROM range(1000000000)", "UnresolvedTableValuedFunction", id="a table function"),
    ],
)
def test_what_is_not_one_select_over_our_tables_is_refused(spark, sql, found):
    assert found_in(refusal(spark, sql), found)


def found_in(reason, found):
    return reason is not None and any(each in reason for each in found.split("|"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT cluster, count(*) AS n FROM partitions WHERE size(isr) < 2 GROUP BY cluster HAVING n > 1 ORDER BY n DESC LIMIT 3",
        "WITH t AS (SELECT *, row_number() OVER (PARTITION BY topic ORDER BY date DESC) AS k FROM topics) SELECT * FROM t WHERE k = 1",
        "SELECT p.topic, b FROM partitions p JOIN brokers USING (cluster) LATERAL VIEW explode(p.isr) x AS b",
        "SELECT * FROM topics EXCEPT SELECT * FROM topics WHERE EXISTS (SELECT 1 FROM requests)",
        "SELECT filter(isr, x -> x > 1), isr[0], config['retention.ms'] FROM topics",
        "SELECT * FROM (SELECT date, cluster FROM snapshots) PIVOT (count(*) FOR cluster IN ('blue', 'green'))",
        "-- a comment\nSELECT 1 UNION ALL VALUES (2)",
    ],
)
def test_what_an_analyst_asks_is_let_through(spark, sql):
    assert refusal(spark, sql) is None
