"""Rules for every DAG: it loads, says what it does and who owns it, and writes only behind an approval."""

import ast
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from types import SimpleNamespace

import pytest

from controller_core.model.errors import ControllerCoreError
from tests.airflow_home import ROOT
from tests.generated_docs import pages, parts_of_dags, written

DAG_IDS = (
    "cancel_execution",
    "check_snapshots",
    "delete_topics",
    "drain_isr_notifications",
    "elect_preferred_leaders",
    "kraft_rehearsal",
    "kraft_watch",
    "move_leaders",
    "nightly_analysis",
    "reassign_partitions",
    "restore_drill",
    "restore_metadata",
    "retain_snapshots",
    "snapshot_metadata",
    "stop_execution",
)
OPENING = ("open_gated_runs",)  # mapped over plans: its link leads to the run that it opened
WHAT_IT_TOUCHES = {"reads-store", "reads-cluster", "changes-cluster", "changes-store"}
LINKS = {
    **dict.fromkeys(("apply_plan", "act_as_controller", "verify"), ("Plan", "Execution")),
    **dict.fromkeys(("analyse", "publish_report", "all_clusters_analysed", "no_alarms"), ("Report", "Clusters")),
    "announce_snapshots": ("Clusters",),
}
PARAM = re.compile(r"params\.(\w+)")
TAGS = WHAT_IT_TOUCHES | {"kafka", "scheduled", "manual"}
WRITING_TASKS = {
    ("kafka_maintenance.tasks.apply", "ApplyPlanOperator"): "changes-cluster",
    ("kafka_maintenance.tasks.cancel", "cancel_moves"): "changes-cluster",
    ("kafka_maintenance.tasks.leaders", "act_as_controller"): "changes-cluster",
    ("kafka_maintenance.tasks.restore", "apply_restore"): "changes-cluster",
    ("kafka_maintenance.tasks.retention", "remove_snapshots"): "changes-store",
}


def _callable_of(task):
    function = getattr(task, "python_callable", None) or getattr(task, "partial_kwargs", {}).get("python_callable")
    return (function.__module__, function.__name__) if function else (type(task).__module__, type(task).__name__)


def _writing_tasks(dag):
    return [task for task in dag.tasks if _callable_of(task) in WRITING_TASKS]


def _arguments_of(task):
    mapped = getattr(task, "partial_kwargs", {})
    rendered = [getattr(task, name, None) for name in task.template_fields]
    return [*rendered, mapped.get("op_kwargs", {})]


def _texts(value):
    """The templates of params in a nest of lists and dicts."""
    if isinstance(value, str):
        return [value] if "params." in value else []
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [text for each in inside for text in _texts(each)]


def test_the_bag_loads_without_errors_and_holds_exactly_our_dags(bag):
    assert not bag.import_errors
    assert tuple(sorted(bag.dags)) == DAG_IDS


@pytest.mark.parametrize("dag_id", DAG_IDS)
class TestEveryDag:
    def test_is_documented_task_by_task(self, bag, dag_id):
        dag = bag.dags[dag_id]
        assert dag.doc_md.startswith("###")
        assert [task.task_id for task in dag.tasks if not (task.doc_md or "").strip()] == []

    def test_says_what_it_never_does_and_what_to_do_when_it_fails(self, bag, dag_id):
        said = bag.dags[dag_id].doc_md.split("\n\n")
        assert [paragraph.split()[0] for paragraph in said[-2:]] == ["**Never**", "**When"]
        assert all(paragraph.rstrip().endswith(".") for paragraph in said[-2:])

    def test_names_only_dags_tasks_and_commands_that_there_are(self, bag, dag_id):
        tasks = {task.task_id for dag in bag.dags.values() for task in dag.tasks}
        params = {name for dag in bag.dags.values() for name in dag.params}
        named = re.findall(r"`([a-z]+(?:_[a-z]+)+)`", bag.dags[dag_id].doc_md)
        fields = {"bootstrap_servers", "may_act_as_controller", "cancel_reassignment"}  # of a connection, of a policy
        assert [
            name for name in named if name not in {*DAG_IDS, *tasks, *params, *fields} and not name.startswith("kafka_")
        ] == []

    def test_a_mapped_task_is_labelled_by_its_cluster(self, bag, dag_id):
        mapped = [task for task in bag.dags[dag_id].tasks if getattr(task, "is_mapped", False)]
        assert [task.task_id for task in mapped if not task.map_index_template and task.task_id not in OPENING] == []

    def test_its_tasks_lead_to_the_pages_of_what_they_make(self, bag, dag_id):
        """A mapped task has no link: it would be a row of XCom for each cluster."""
        from kafka_maintenance.web.airflow_records import PLANNING_TASKS

        expected = dict.fromkeys((*PLANNING_TASKS, "approve"), ("Plan",)) | LINKS
        for task in bag.dags[dag_id].tasks:
            found = tuple(link.name for link in task.operator_extra_links)
            if task.task_id not in OPENING:
                assert found == (() if task.is_mapped else expected.get(task.task_id, ()))

    def test_has_an_owner_and_retries(self, bag, dag_id):
        for task in bag.dags[dag_id].tasks:
            assert task.owner == "kafka-maintenance"
            assert task.retries >= 2, "two workers may be lost, with what else ran on them"

    def test_uses_the_closed_vocabulary_of_tags(self, bag, dag_id):
        tags = set(bag.dags[dag_id].tags)
        assert tags <= TAGS
        assert "kafka" in tags
        assert len(tags & WHAT_IT_TOUCHES) == 1
        assert len(tags & {"scheduled", "manual"}) == 1

    def test_is_scheduled_exactly_when_its_tag_says_so(self, bag, dag_id):
        dag = bag.dags[dag_id]
        assert ("scheduled" in dag.tags) == bool(getattr(dag.timetable, "expression", None))

    def test_describes_every_param(self, bag, dag_id):
        params = bag.dags[dag_id].params
        assert [name for name in params if not params.get_param(name).description] == []

    def test_a_param_that_names_a_plan_takes_nothing_but_a_digest(self, bag, dag_id):
        params = bag.dags[dag_id].params
        named = [params.get_param(name) for name in {"plan", "rollback_of", "approve"} & set(params)]
        assert [each.schema.get("pattern") for each in named] == ["^[0-9a-f]{64}$"] * len(named)

    def test_its_params_reach_the_tasks_as_they_were_given(self, bag, dag_id):
        """A cluster "42" is no number, and "None" is a name."""
        dag = bag.dags[dag_id]
        templates = set(_texts([_arguments_of(task) for task in dag.tasks]))
        texts = ("42", "None", "0x10", "[1]", 'it\'s "quoted"', "<é>", "\U0001f525 %s \\ {{ 7 }}\n", "")
        for value in (*texts, None, 7, True, ["42"], {"drain": [3]}):
            context = {"params": dict.fromkeys(dag.params, value)}
            found = [dag.get_template_env().from_string(template).render(context) for template in templates]
            assert [(each, type(each)) for each in found] == [(value, type(value))] * len(templates)

    def test_renders_native_values_exactly_where_a_param_that_is_no_text_reaches_a_task(self, bag, dag_id):
        dag = bag.dags[dag_id]
        given = {each for text in _texts([_arguments_of(task) for task in dag.tasks]) for each in PARAM.findall(text)}
        no_text = [name for name in given if dag.params.get_param(name).schema.get("type") != "string"]
        assert dag.render_template_as_native_obj == bool(no_text)

    def test_never_catches_up_and_bounds_its_runs(self, bag, dag_id):
        dag = bag.dags[dag_id]
        assert not dag.catchup
        assert dag.max_active_runs <= (256 if "changes-cluster" in dag.tags or "changes-store" in dag.tags else 8)

    def test_writes_only_behind_an_approval_that_the_writing_task_receives(self, bag, dag_id):
        from kafka_maintenance.tasks.approval import PlanApprovalOperator

        dag = bag.dags[dag_id]
        writing = _writing_tasks(dag)
        assert {WRITING_TASKS[_callable_of(task)] for task in writing} == dag.tags & set(WRITING_TASKS.values())
        for task in writing:
            if (
                dag_id == "cancel_execution"
            ):  # the second of two runs is the yes: it names the digest that the first one printed
                assert dag.params["approve"] is None
                continue
            gates = [dag.get_task(up) for up in task.upstream_task_ids]
            gates = [gate for gate in gates if isinstance(gate, PlanApprovalOperator)]
            assert len(gates) == 1
            assert gates[0].response_timeout is not None
            assert gates[0].defaults == [PlanApprovalOperator.REJECT]
            assert task.trigger_rule == "all_success"
            assert task.pool == "kafka_apply"

    def test_only_wires(self, bag, dag_id):
        """No loop, branch, comprehension over data, file, clock or environment at parse time."""
        tree = ast.parse((ROOT / "dags" / f"{dag_id}.py").read_text())
        forbidden = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.ListComp, ast.Lambda)
        assert [type(node).__name__ for node in ast.walk(tree) if isinstance(node, forbidden)] == []
        imported = {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert imported <= {"airflow", "kafka_maintenance"}

    def test_can_be_serialised(self, bag, dag_id):
        from airflow.serialization.serialized_objects import DagSerialization

        assert DagSerialization.to_dict(bag.dags[dag_id])


@pytest.mark.parametrize("name", ["alpha", "100", "1e5", "true", "None", "[1]", "eu-west.blue_1", "0x10"])
def test_mapped_tasks_are_labelled_by_cluster_whatever_its_name(bag, name):
    """Through the DAG's own template environment, as Airflow renders a label; half of our DAGs render native values."""
    mapped = {
        f"{dag.dag_id}.{task.task_id}": (dag, task)
        for dag in bag.dags.values()
        for task in dag.tasks
        if task.is_mapped and task.task_id != "open_gated_runs"
    }
    assert set(mapped) == {
        "check_snapshots.check_snapshots",
        "drain_isr_notifications.report_notifications",
        "kraft_rehearsal.rehearse",
        "nightly_analysis.plan_repairs",
        "restore_drill.drill",
        "retain_snapshots.report_retention",
        "snapshot_metadata.measure_disks",
        "snapshot_metadata.take_snapshot",
    }
    labels = {
        dag.get_template_env().from_string(task.map_index_template).render({"cluster_name": name})
        for dag, task in mapped.values()
    }
    assert labels == {f"cluster {name}"}


def test_the_day_of_the_analysis_is_its_partition_key_and_can_be_backfilled(bag):
    from airflow.serialization.encoders import coerce_to_core_timetable

    timetable = coerce_to_core_timetable(bag.dags["nightly_analysis"].timetable)
    from pendulum import datetime

    infos = list(
        timetable.iter_partition_dagrun_infos(earliest=datetime(2026, 11, 14), latest=datetime(2026, 11, 16, 23, 59))
    )
    assert [info.partition_key for info in infos] == ["2026-11-14", "2026-11-15", "2026-11-16"]


@pytest.mark.parametrize("cron", ["0 1 * *", "0 0 31 2 *"])
def test_a_wrong_cron_keeps_its_own_dag_from_being_read_and_no_other(monkeypatch, database, cron):
    from airflow.dag_processing.dagbag import DagBag

    from kafka_maintenance.tasks import settings

    monkeypatch.setattr(settings, "SETTINGS", replace(settings.SETTINGS, drain_cron=cron))
    read = DagBag(dag_folder=str(ROOT / "dags"))
    assert {file.rpartition("/")[2] for file in read.import_errors} == {"drain_isr_notifications.py"}
    assert [
        error for error in read.import_errors.values() if "KAFKA_MAINTENANCE_DRAIN_CRON not read" not in error
    ] == []
    assert len(read.dags) == len(DAG_IDS) - 1


def test_spark_runs_in_its_one_slot_and_in_one_job(bag):
    jobs = [task for dag in bag.dags.values() for task in dag.tasks if task.task_type == "AnalyseOperator"]
    assert [(job.task_id, job.pool, job.is_mapped) for job in jobs] == [("analyse", "spark", False)]
    assert jobs[0].execution_timeout, "Spark waits without end for workers, and nothing would turn red"


def test_the_snapshots_of_a_run_are_announced_once_and_may_start_the_analysis(bag):
    from airflow.sdk import DAG

    from kafka_maintenance.tasks.analysis import schedule
    from kafka_maintenance.tasks.common import SNAPSHOTS, day_of
    from kafka_maintenance.tasks.settings import settings_from

    outlets = {task.task_id: [each.name for each in task.outlets] for task in bag.dags["snapshot_metadata"].tasks}
    assert {name: found for name, found in outlets.items() if found} == {
        "announce_snapshots": ["kafka_metadata_snapshots"]
    }
    cron = settings_from({"KAFKA_MAINTENANCE_ANALYSIS_CRON": "snapshots"}).analysis_cron
    waiting = DAG("waiting", schedule=schedule(cron))
    assert (type(waiting.timetable).__name__, waiting.schedule) == ("AssetTriggeredTimetable", [SNAPSHOTS])
    events = [SimpleNamespace(extra={"date": "2026-11-20"}), SimpleNamespace(extra={"date": "2026-11-21"})]
    run = SimpleNamespace(logical_date=None, run_after=datetime(2026, 11, 22, tzinfo=UTC))
    assert day_of({"dag_run": run, "triggering_asset_events": {"snapshots": events}}) == date(2026, 11, 21)


def test_a_task_returns_one_value_of_names(bag):
    """A dictionary is one row of XCom, not one a key as well; texts lie in the store and in the log."""
    split = [f"{dag.dag_id}.{task.task_id}" for dag in bag.dags.values() for task in dag.tasks if _splits(task)]
    assert split == []


def _splits(task):
    return getattr(task, "multiple_outputs", False) or getattr(task, "partial_kwargs", {}).get(
        "multiple_outputs", False
    )


def test_no_cluster_is_waited_for_without_an_end(bag):
    """What is mapped over clusters, or over batches of them, has a time of its own."""
    mapped = [task for dag in bag.dags.values() for task in dag.tasks if task.is_mapped and task.task_id not in OPENING]
    assert [task.task_id for task in mapped if not task.execution_timeout] == []
    (drill,) = [task for task in mapped if task.task_id == "drill"]
    assert drill.max_active_tis_per_dagrun == 2


def test_goals_that_cannot_be_read_are_refused_and_not_tried_again():
    from kafka_maintenance.tasks.plans import plan_reassignment

    with pytest.raises(ControllerCoreError, match="include_topics: expected list, found 'orders'"):
        plan_reassignment.function("alpha", "a manifest", None, 100, {"include_topics": "orders"})


def test_the_reference_of_the_docs_is_that_of_the_dags(bag_read_anew):
    made = parts_of_dags(bag_read_anew.dags)
    (page,) = pages(made)
    text = page.read_text(encoding="utf-8")
    assert written(text, made) == text, "run `make format`"


def test_a_database_that_is_not_airflows_is_named(monkeypatch, tmp_path):
    from airflow import settings
    from sqlalchemy import create_engine

    from kafka_maintenance.tasks.pools import require_tables

    for url in ("sqlite://", f"sqlite:///{tmp_path}/airflow.db"):
        monkeypatch.setattr(settings, "engine", create_engine(url))
        with pytest.raises(ControllerCoreError, match="found none; run `airflow db migrate`"):
            require_tables()
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(settings, "engine", create_engine(f"sqlite:///{tmp_path}"))
    with pytest.raises(ControllerCoreError, match="does not answer"):
        require_tables()


def test_a_missing_pool_is_made_in_the_middle_of_the_schedulers_work(database, monkeypatch):
    """The scheduler asks with a session open whose end nobody else may bring about."""
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from airflow.utils.sqlalchemy import prohibit_commit

    from kafka_maintenance.provider import policy
    from kafka_maintenance.tasks import pools

    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["gamma"]')
    ti = SimpleNamespace(pool="kafka_apply")
    run = SimpleNamespace(dag_id="delete_topics", conf={"cluster": "gamma"})
    policy.task_instance_mutation_hook(ti, run)
    assert ti.pool == "kafka_apply", "SQLite has one writer: nothing is made"
    monkeypatch.setattr(pools, "_has_many_writers", lambda: True)
    with create_session() as session, prohibit_commit(session) as guard:
        assert session.query(Pool).count()
        policy.task_instance_mutation_hook(ti, run)
        guard.commit()
    assert ti.pool == "kafka_apply_gamma"
    stranger = SimpleNamespace(pool="kafka_apply")
    policy.task_instance_mutation_hook(
        stranger, SimpleNamespace(dag_id="delete_topics", conf={"cluster": "not listed"})
    )
    assert stranger.pool == "kafka_apply"


@pytest.mark.parametrize(
    ("task_id", "key", "first"),
    [
        pytest.param("analyse", "2026-01-05", False, id="of a past date"),
        pytest.param("analyse", "2026-11-22", True, id="of today"),
        pytest.param("analyse", None, True, id="without a date"),
        pytest.param("publish_report", "2026-01-05", True, id="in another pool"),
    ],
)
def test_a_spark_job_of_a_past_date_gives_way_to_that_of_today(bag, database, monkeypatch, task_id, key, first):
    """As the scheduler makes the tasks of a run: of those that wait in a pool it takes the heaviest first."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.serialization.serialized_objects import DagSerialization

    from kafka_maintenance.provider import policy

    monkeypatch.setattr(policy, "datetime", SimpleNamespace(now=partial(datetime, 2026, 11, 22, 12, 0, 0, 0)))
    dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(bag.dags["nightly_analysis"]))
    run = DagRun(dag_id=dag.dag_id, run_id="one", run_type="backfill", partition_key=key)
    ti = TaskInstance(dag.get_task(task_id), run_id=run.run_id, dag_version_id=None)
    ti.refresh_from_task(dag.get_task(task_id), dag_run=run)
    assert (ti.priority_weight > 0) == first
