"""Shows that the attack tests can fail: each check is taken out of a copy of the code, and the tests that hold it are run there.

    python -m tests.attacks.mutations            # all: some minutes
    python -m tests.attacks.mutations people     # those whose tests have "people" in their name

Ends with 1 where a test passes without its check. `tests/test_security_page.py` holds each row against the code of today.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.source_files import ROOT

_COPIED = ("controller_core", "dags", "docs", "plugins", "spark_jobs", "tests")
_TIMEOUT_S = 900


class Mutation(NamedTuple):
    """A check that is taken out.

    Attributes:
        tests: file below tests/attacks, without `test_` and ending, and the test in it, with its class where it has one.
        path: of the code.
        cut: the text there, each once, and what stands in its place.
    """

    tests: tuple[str, str]
    path: str
    cut: dict[str, str]


_GATE = "plugins/kafka_maintenance/operations/gate"
_POLICY = f"{_GATE}/policy.py"
_PLANS = "plugins/kafka_maintenance/operations/plans/store.py"
_AUDIT = "plugins/kafka_maintenance/operations/record/audit.py"
_RECEIPTS = "plugins/kafka_maintenance/operations/record/receipts.py"
_RETENTION = "plugins/kafka_maintenance/operations/retention/store.py"
_FOLDER = "controller_core/adapters/object_store/folder.py"
_SCRATCH = "plugins/kafka_maintenance/servers/own_folder.py"
_RULES = "controller_core/plans/validation.py"
_SESSION = "controller_core/adapters/zookeeper/session.py"
_PERMISSION = f"{_GATE}/permission.py"
_AIRFLOW = f"{_GATE}/airflow_record.py"
_APPROVAL = "plugins/kafka_maintenance/tasks/approval.py"
_COMMON = "plugins/kafka_maintenance/tasks/common.py"
_CLUSTER_DAGS = "plugins/kafka_maintenance/tasks/cluster_dags.py"
_ANALYSIS = "plugins/kafka_maintenance/tasks/analysis.py"
_RESTORE = "plugins/kafka_maintenance/operations/restore/document.py"
_RIGHTS = "plugins/kafka_maintenance/operations/cluster/rights.py"
_SUBMIT = "plugins/kafka_maintenance/spark/submit.py"
_SPARK_CONNECTION = "plugins/kafka_maintenance/connections/spark.py"
_BUCKET, _SECOND, _ZOOKEEPER = "docs/bucket-policy.json", "docs/append-only-policy.json", "docs/zookeeper.md"
_REMOVALS = '["arn:aws:s3:::BUCKET/v1/cluster=*", "arn:aws:s3:::BUCKET/v1/runs/*"]'
_NO_REMOVALS = '"Action": ["s3:DeleteObject", "s3:DeleteObjectVersion"],'
_NOT_OVER = '"Condition": {"Null": {"s3:if-none-match": "true"}}'
_OVER = '"Condition": {"Null": {"s3:if-none-match": "false"}}'
_OWN_DAG = 'return f"{kind}{CLUSTER_DAG_MARK}{cluster}" if cluster in SETTINGS.cluster_dags else kind'
_SUBMITTED = "driver_memory=SETTINGS.driver_memory, **kwargs)"
_TRUSTED = {
    "trusted_record(store, cluster, key, counting)": "{k: v for k, v in json.loads(store.get(key)).items() if k != FIELD}"
}
_WORLD = '(Acl(_READ, "world", "anyone"),) if readable else ()'

MUTATIONS = (
    Mutation(("store", "test_a_rejection_edited_into_an_approval_is_none"), _AUDIT, {"if problem or entry is None:": "if entry is None:"}),
    Mutation(("store", "test_a_plan_whose_effects_are_not_of_its_kind_is_refused_by_name"), _RULES, {"    if foreign:\n": "    if False:\n"}),
    Mutation(
        ("store", "test_a_reassignment_to_an_empty_list_is_refused_when_it_is_read"),
        _RULES,
        {"if not replicas or len(set(replicas)) < len(replicas) or min(replicas) < 0:": "if False:"},
    ),
    Mutation(
        ("store", "test_retention_removes_no_key_that_its_plan_names"),
        _RETENTION,
        {
            "    if foreign:\n": "    if False:\n",
            "keys_today.get(dropped.snapshot_id) or store.list(_folder(dropped))": "dropped.keys",
        },
    ),
    Mutation(
        ("store", "test_a_retention_plan_has_the_fields_of_one_and_no_others"),
        _RETENTION,
        {"if json.loads(json.dumps(_document(plan, cluster, version))) != document:": "if False:"},
    ),
    Mutation(("store", "test_the_first_break_of_the_chain_is_named"), _AUDIT, {'if (link["number"], link["previous"]) != (number, previous):': "if False:"}),
    Mutation(("store", "test_an_entry_that_somebody_else_signed_is_a_break"), _AUDIT, {"        if self.public is None:\n            return None\n": "        if True:\n            return None\n"}),
    Mutation(("store", "test_entries_removed_from_the_end_are_missed_by_who_saw_one_of_them"), _AUDIT, {"if head is not None and head not in hashes:": "if False:"}),
    Mutation(("store", "test_a_reassignment_without_its_proof_is_not_applied"), _PLANS, {"    if found != plan.proof:\n": "    if False:\n"}),
    Mutation(
        ("store", "TestFolder::test_a_link_that_leads_out_is_neither_read_nor_written"),
        _FOLDER,
        {"if not real.is_relative_to(os.path.realpath(self._root)):": "if False:"},
    ),
    Mutation(("store", "TestFolder::test_what_it_makes_is_for_its_owner_alone"), _FOLDER, {"flags, 0o600)": "flags, 0o644)"}),
    Mutation(
        ("store", "TestWithoutConditionalWrites::test_the_gate_asks_nobody"),
        "plugins/kafka_maintenance/tasks/approval.py",
        {"        store.probe()\n": ""},
    ),
    Mutation(("record", "test_an_event_of_a_receipt_that_the_chain_does_not_hold_decides_nothing"), _RECEIPTS, _TRUSTED),
    Mutation(("record", "test_a_throttle_that_no_run_set_is_not_taken_back"), _RECEIPTS, _TRUSTED),
    Mutation(("record", "test_a_receipt_from_whose_middle_an_event_was_removed_decides_nothing"), _RECEIPTS, {"        if key != expected:": "        if False:"}),
    Mutation(("record", "test_what_took_an_approval_back_is_not_undone_by_removing_it"), _PERMISSION, {"    refuse_removed_since(store, cluster=cluster, run=run, ask_id=found.ask_id)\n": ""}),
    Mutation(("record", "test_a_withdrawal_that_is_written_out_of_the_chain_takes_the_key_that_signs"), _AUDIT, {'keys_from(os.environ).problem(json.loads(store.get(links[-1].key))) or ""': '""'}),
    Mutation(("record", "test_a_rejection_is_not_undone_by_removing_it_and_comes_back_out_of_the_chain"), f"{_GATE}/approvals.py", {"    refuse_removed(store, cluster, _rejections(cluster, digest))\n": ""}),
    Mutation(("record", "test_a_record_that_was_removed_is_named_with_its_entry_of_the_chain"), _AUDIT, {"for copy, key in named.items()": "for copy, key in {}.items()"}),
    Mutation(
        ("text", "test_no_text_of_a_stranger_hides_or_forges_a_line"),
        "controller_core/plans/plain.py",
        {'"".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in cut)': "cut"},
    ),
    Mutation(
        ("text", "test_of_a_thousand_deletions_not_one_is_hidden"),
        "controller_core/plans/text.py",
        {"rows_max = max(rows_max, len(plan.effects) + len(plan.steps))": "pass"},
    ),
    Mutation(("scratch", "test_a_scratch_folder_is_made_for_its_owner_alone"), _SCRATCH, {"folder.mkdir(mode=0o700, parents=True": "folder.mkdir(mode=0o755, parents=True"}),
    Mutation(("scratch", "test_one_to_which_others_may_write_is_refused"), _SCRATCH, {" or found.st_mode & stat.S_IWOTH": ""}),
    Mutation(("scratch", "test_one_that_somebody_else_made_first_is_refused"), _SCRATCH, {"owners != {os.geteuid()} or ": ""}),
    Mutation(("people", "test_nobody_approves_alone_what_destroys_and_what_he_asked_for"), _POLICY, {"if answer.user == requester and not self.requester_may_approve(kind):": "if False:"}),
    Mutation(
        ("people", "test_where_nobody_vouches_for_who_asked_two_persons_approve"),
        _POLICY,
        {"return max(asked, 2) if requester is None and not self.requester_may_approve(kind) else asked": "return asked"},
    ),
    Mutation(("people", "test_approvers_are_named_by_user_or_role_and_counted"), _POLICY, {"if allowed is not None and answer.user not in allowed:": "if False:"}),
    Mutation(("people", "test_a_comment_names_the_ticket"), _POLICY, {"if ticket is not None and not re.search(ticket, answer.comment):": "if False:"}),
    Mutation(("people", "test_plans_beyond_the_caps_are_not_even_asked_about"), _POLICY, {"if name in most and count > most[name]": "if False"}),
    Mutation(
        ("people", "test_a_reassignment_that_copies_more_bytes_than_the_cap_is_not_even_asked_about"),
        _POLICY,
        {"elif bytes_max is not None and contents.bytes is not None and contents.bytes > bytes_max:": "elif False:"},
    ),
    Mutation(("people", "test_nothing_is_applied_outside_its_window"), _POLICY, {"if windows is not None and not any(": "if False and not any("}),
    Mutation(("people", "test_a_freeze_stops_every_kind"), _POLICY, {'if _moment(freeze["from"]) <= moment < _moment(freeze["to"]):': "if False:"}),
    Mutation(("people", "test_breaking_the_glass_is_for_those_named_with_a_reason_and_is_told"), _POLICY, {"if any(each.user in glass and each.comment": "if any(each.comment"}),
    Mutation(("people", "test_a_rule_approves_exactly_what_it_says"), _POLICY, {'and contents.partitions <= rule["partitions_max"]\n': "and True\n"}),
    Mutation(("people", "test_a_rule_approves_nothing_that_could_not_be_applied_now"), _POLICY, {"and self.closed(kind, now, rule) is None": "and True"}),
    Mutation(("people", "test_a_policy_that_says_something_else_is_refused_by_field"), _POLICY, {"    if problems:\n": "    if False:\n"}),
    Mutation(("xcom", "test_a_run_names_a_plan_by_its_digest_and_never_by_a_place"), _PLANS, {"if not _DIGEST.fullmatch(digest):": "if False:"}),
    Mutation(
        ("xcom", "test_a_name_in_the_store_leads_to_no_object_outside_the_clusters_folder"),
        _PLANS,
        {'if not key.startswith(f"v1/cluster={cluster}/") or ".." in key or not key.endswith(".json"):': "if False:"},
    ),
    Mutation(
        ("airflow_record", "test_an_answer_in_our_record_that_airflow_does_not_know_is_none"),
        _PERMISSION,
        {'return f"{problem}; find out who wrote it, and ask again" if problem else None': "return None"},
    ),
    Mutation(
        ("airflow_record", "test_approved_by_one_and_cleared_by_another_applies_nothing"),
        _PERMISSION,
        {'return f"{problem}; {_AGAIN}" if problem else None': "return None"},
    ),
    Mutation(
        ("cluster_dags", "test_a_run_of_the_common_dag_does_nothing_to_a_cluster_that_has_its_own"),
        _CLUSTER_DAGS,
        {"if own not in {None, cluster} or wanted != dag_id:": "if False:"},
    ),
    Mutation(("zookeeper_rights", "test_a_password_that_travels_in_clear_text_is_told"), _SESSION, {"if tls is None and not _is_loopback(hosts):": "if False:"}),
    Mutation(("zookeeper_rights", "test_no_log_of_any_level_holds_a_login_or_a_secret_znode"), _SESSION, {"lambda record: record.levelno >= logging.INFO": "lambda _: True"}),
    Mutation(("zookeeper_rights", "test_nobody_without_credentials_alters_a_request_the_lock_or_its_fence"), _SESSION, {_WORLD: '(Acl(_ALL, "world", "anyone"),)'}),
    Mutation(("zookeeper_rights", "test_brokers_of_another_principal_rewrite_and_remove_our_request"), _SESSION, {'(Acl(_ALL, "auth", ""), *others, ': '(Acl(_ALL, "auth", ""), '}),
    Mutation(("zookeeper_rights", "test_what_is_created_where_the_world_may_not_read_is_hidden_too"), _SESSION, {_WORLD: '(Acl(_READ, "world", "anyone"),)'}),
    Mutation(("query", "test_what_is_not_one_select_over_our_tables_is_refused"), "spark_jobs/select_only.py", {"if (reason := _refused(node)) is not None)": "if (reason := None) is not None)"}),
    Mutation(("restore_plans", "test_a_plan_that_no_planner_makes_is_refused_by_what_is_wrong"), "plugins/kafka_maintenance/operations/restore/validation.py", {"    if found is not None:\n": "    if False:\n"}),
    Mutation(("bucket_policy", "test_no_role_writes_what_is_anothers"), _BUCKET, {'"arn:aws:s3:::BUCKET/v1/history/*"': '"arn:aws:s3:::BUCKET/v1/*"'}),
    Mutation(("least_privilege", "test_without_one_of_them_the_operation_is_refused"), _ZOOKEEPER, {"| `delete_topics` | `/admin/delete_topics` | create | the request |": "| `delete_topics` | `/admin/delete_topics` | create | the request |\n| `delete_topics` | `/brokers` | create | nothing |"}),
    Mutation(("airflow_record", "test_what_airflow_has_recorded_itself_is_read_before_anything_is_written"), _PERMISSION, {"said = _airflow_says(airflow, found, begun=begun)": "said = _NOT_READ"}),
    Mutation(("airflow_record", "test_who_approved_may_clear_and_whom_the_policy_lets_and_it_stands_in_the_record"), _AIRFLOW, {"if len(own) >= max(clears, 1) and": "if False and"}),
    Mutation(("airflow_record", "test_a_clear_that_airflows_audit_log_does_not_show_applies_nothing"), _PERMISSION, {"if cleared else None)": "if said.changes else None)"}),
    Mutation(("airflow_record", "test_without_a_connection_a_run_that_had_ended_applies_nothing_however_it_was_cleared"), _PERMISSION, {"anew = any(found.question.get(name, value) != value": "anew = any(False"}),
    Mutation(("airflow_record", "test_a_task_that_was_cleared_while_its_run_went_on_applies_nothing"), _PERMISSION, {" or (not isinstance(said, str) and said.ended is not None)": ""}),
    Mutation(("airflow_record", "test_a_request_to_clear_that_airflow_refuses_holds_nothing_up_and_is_no_change"), _PERMISSION, {"if cleared else None)": "if found else None)"}),
    Mutation(("airflow_record", "test_where_nobody_can_be_asked_the_record_says_so_and_the_policy_may_refuse"), _PERMISSION, {"if policy.airflow_must_agree else None": "if False else None"}),
    Mutation(("airflow_record", "test_an_airflow_that_does_not_let_us_read_is_told_and_nothing_is_applied"), _PERMISSION, {"        if not begun:\n            raise\n": ""}),
    Mutation(("bucket_policy", "test_the_record_is_create_only_for_everybody"), _BUCKET, {_NOT_OVER: _OVER}),
    Mutation(("bucket_policy", "test_each_role_can_do_its_work"), _BUCKET, {'"arn:aws:s3:::BUCKET/v1/cluster=*/date=*/snap=*/manifest.json", ': ""}),
    Mutation(("bucket_policy", "test_nobody_deletes_a_record"), _BUCKET, {_NO_REMOVALS: '"Action": ["s3:DeleteObjectVersion"],', _REMOVALS: '"arn:aws:s3:::BUCKET/v1/*"'}),
    Mutation(
        ("bucket_policy", "test_only_the_applier_removes_a_snapshot"),
        _BUCKET,
        {'"AWS": ["APPLIER"]},\n      "Action": "s3:DeleteObject",': '"AWS": ["APPLIER", "ANALYST"]},\n      "Action": "s3:DeleteObject",'},
    ),
    Mutation(
        ("bucket_policy", "test_what_was_written_over_can_be_brought_back_and_no_role_removes_it"),
        _BUCKET,
        {
            _NO_REMOVALS: '"Action": ["s3:GetObjectTagging"],',
            _REMOVALS: '"arn:aws:s3:::BUCKET/v1/*"',
            '"Action": "s3:DeleteObject",': '"Action": ["s3:DeleteObject", "s3:DeleteObjectVersion"],',
        },
    ),
    Mutation(("bucket_policy", "test_nothing_is_written_over_in_a_second_store"), _SECOND, {_NOT_OVER: _OVER}),
    Mutation(
        ("bucket_policy", "test_a_second_store_only_grows"),
        _SECOND,
        {
            _NO_REMOVALS: '"Action": ["s3:GetObjectTagging"],',
            '"Action": "s3:DeleteObject",\n      "Resource": "arn:aws:s3:::BUCKET/probe/*"': '"Action": "s3:DeleteObject",\n      "Resource": "arn:aws:s3:::BUCKET/*"',
        },
    ),
    Mutation(("brokers_asked", "test_a_run_names_no_server_that_gets_the_login_of_the_connection"), _COMMON, {"for server in named if server not in known] if known else []": "for server in named if not server]"}),
    Mutation(("brokers_asked", "test_who_is_asked_and_with_which_login"), _COMMON, {"cluster.client_settings if known else None": "cluster.client_settings"}),
    Mutation(("cluster_dags", "test_each_dag_that_changes_a_cluster_or_its_snapshots_is_there_once_more_for_each"), _CLUSTER_DAGS, {'type="string", const=cluster,': 'type="string",'}),
    Mutation(("cluster_dags", "test_a_run_of_the_clusters_own_dag_is_approved_and_applied"), _CLUSTER_DAGS, {"if own not in {None, cluster} or wanted != dag_id:": "if own is not None:"}),
    Mutation(("cluster_dags", "test_no_run_is_for_another_cluster_than_its_dag"), _CLUSTER_DAGS, {"if own not in {None, cluster} or wanted != dag_id:": "if own is None and wanted != dag_id:"}),
    Mutation(("cluster_dags", "test_runs_that_open_by_themselves_open_in_the_clusters_own_dag"), _CLUSTER_DAGS, {_OWN_DAG: "return kind"}),
    Mutation(("least_privilege", "test_the_page_names_every_operation"), _ZOOKEEPER, {"| `drain_isr_notifications` | `/admin` | create |": "| `drain` | `/admin` | create |"}),
    Mutation(("least_privilege", "test_the_rights_of_the_page_are_enough"), _ZOOKEEPER, {"| `delete_topics` | `/admin/delete_topics` | create |": "| `delete_topics` | `/admin/delete_topics` | write |"}),
    Mutation(("least_privilege", "test_the_button_test_names_the_right_that_is_missing_and_writes_nothing"), _RIGHTS, {"    except NoAuthError:\n        return False": "    except NoAuthError:\n        return True"}),
    Mutation(("least_privilege", "test_the_button_tries_what_the_page_names"), _RIGHTS, {'    WriteRight("/admin/delete_topics", "create", (_DELETE,)),\n': ""}),
    Mutation(("people", "test_an_election_may_be_approved_by_who_asked_for_it_unless_the_policy_says_otherwise"), _POLICY, {'self._of(kind).get("requester_may_approve", kind not in TWO_PERSONS)': "kind not in TWO_PERSONS"}),
    Mutation(
        ("people", "test_the_window_is_looked_at_before_each_step_unless_somebody_broke_glass"),
        _PERMISSION,
        {'if found is not None and policy.verdict(kind, found.question["requester"], found.approvals).broke_glass:': "if found is not None:"},
    ),
    Mutation(("people", "test_each_cap_that_the_policy_takes_for_a_kind_holds_for_its_plans"), f"{_GATE}/contents.py", {"deleted += counted[topic]": "pass"}),
    Mutation(("people", "test_a_cap_that_would_hold_nothing_back_is_refused"), _POLICY, {"        if idle:\n": "        if False:\n"}),
    Mutation(("people", "test_the_file_is_read_and_its_hash_kept_and_a_cluster_has_its_own_rules"), _POLICY, {', **document.get("clusters", {}).get(cluster, {})}': "}"}),
    Mutation(("people", "test_whom_a_plan_waits_for_is_said_as_the_policy_would_count"), _POLICY, {"users = self.approvers if users is None else users & self.approvers": "users = self.approvers"}),
    Mutation(("people", "test_limits_of_a_connection_take_away_and_never_give"), _POLICY, {"if self.approvers is not None and answer.user not in self.approvers:": "if False:"}),
    Mutation(("query", "test_what_an_analyst_asks_is_let_through"), "spark_jobs/select_only.py", {'            "Aggregate",\n': ""}),
    Mutation(("requester", "test_a_plan_that_the_run_did_not_make_is_not_asked_about"), _APPROVAL, {'if found is None or (found["kind"], found["digest"]) != (self.kind, told):': "if False:"}),
    Mutation(("requester", "test_nobody_vouches_for_who_asked_in_a_run_that_was_cleared_before_its_gate_asked"), _POLICY, {"return started_by if not clears or self.others_may_clear else None": "return started_by"}),
    Mutation(("restore_plans", "test_an_honest_plan_is_read_and_its_text_is_made_of_its_steps"), _RESTORE, {"    lines += differences(shown)\n": ""}),
    Mutation(("restore_plans", "test_nothing_that_is_deleted_hides_behind_the_number_of_steps"), _RESTORE, {'frozenset({"delete", "ACL"})': 'frozenset({"ACL"})'}),
    Mutation(("restore_plans", "test_no_data_of_a_znode_forges_a_line"), _RESTORE, {"return [plain(line) for line in lines + ": "return [line for line in lines + "}),
    Mutation(("scratch", "test_what_an_earlier_try_left_there_is_not_used"), "plugins/kafka_maintenance/operations/analysis/run.py", {"    shutil.rmtree(folder, ignore_errors=True)\n": ""}),
    Mutation(("secrets_in_sight", "test_no_process_of_ours_is_told_a_login_in_its_arguments"), _SUBMIT, {'"env_vars": dict(self.environment),': '"env_vars": dict(os.environ),'}),
    Mutation(("secrets_in_sight", "test_a_secret_in_sparks_connection_is_refused_before_it_is_an_argument"), _SPARK_CONNECTION, {"    if secret:\n": "    if False:\n"}),
    Mutation(("secrets_in_sight", "test_what_chooses_a_provider_of_credentials_is_let_through"), _SPARK_CONNECTION, {"secret|password|token|access[.]?key": "secret|password|token|access[.]?key|credentials"}),
    Mutation(
        ("secrets_in_sight", "test_no_field_that_a_task_renders_holds_a_login"),
        _ANALYSIS,
        {
            'template_fields = ("choice",)': 'template_fields = ("choice", "env_vars")',
            _SUBMITTED: f"env_vars=__import__('os').environ, {_SUBMITTED}",
        },
    ),
    Mutation(
        ("secrets_in_sight", "test_no_option_of_the_command_takes_a_password"),
        "plugins/kafka_maintenance/cli/zookeeper_arguments.py",
        {'    parser.add_argument("--zookeeper-user",': '    parser.add_argument("--zookeeper-password")\n    parser.add_argument("--zookeeper-user",'},
    ),
    Mutation(("store", "TestFolder::test_a_store_that_is_itself_reached_by_a_link_works"), _FOLDER, {"real.is_relative_to(os.path.realpath(self._root))": "real.is_relative_to(self._root)"}),
    Mutation(("store", "TestWithoutConditionalWrites::test_a_plan_is_not_applied"), "plugins/kafka_maintenance/operations/apply/plan.py", {"    if not resumed:\n        store.probe()\n": ""}),
    Mutation(("store", "TestWithoutConditionalWrites::test_no_snapshot_is_removed"), _RETENTION, {"    store.probe()\n": ""}),
    Mutation(("text", "test_no_comment_of_a_person_hides_or_forges_a_line_of_a_terminal"), "plugins/kafka_maintenance/operations/apply/executions.py", {"{plain(name)} {plain(str(value))}": "{name} {value}"}),
    Mutation(("text", "test_no_comment_of_an_approver_hides_or_forges_a_line_of_a_log"), _APPROVAL, {'plain(str(answer["comment"] or "no comment"))': 'answer["comment"] or "no comment"'}),
    Mutation(
        ("xcom", "test_a_forged_plan_is_not_applied_under_the_text_of_another"),
        _PLANS,
        {
            "key = store.get(_name_key(cluster, kind, require_digest(digest))).decode()": 'key = store.get(next(each for each in store.list("v1/plans/") if digest in each)).decode()',
            "return load_plan(store, uri, kind=kind, cluster=cluster, digest=digest)": "return load_plan(store, uri, cluster=cluster, digest=digest)",
        },
    ),
    Mutation(("xcom", "test_nothing_of_what_the_worker_runs_comes_from_an_xcom"), _ANALYSIS, {_SUBMITTED: f"application=choice, {_SUBMITTED}"}),
    Mutation(("xcom", "test_no_folder_is_emptied_that_a_task_was_told"), _ANALYSIS, {"    published = of_run(store, day, run)\n": '    shutil.rmtree(analysed["folder"])\n    published = of_run(store, day, run)\n'}),
    Mutation(("zookeeper_rights", "test_a_digest_that_zookeeper_masks_is_not_copied"), _SESSION, {' and not (each.scheme == "digest" and each.id.endswith(":x"))': ""}),
)  # fmt: skip


def missing_rows() -> list[str]:
    """The attack tests without a row: what they hold is not shown here."""
    named = {f"test_{file}.py::{test.rpartition('::')[2]}" for file, test in (each.tests for each in MUTATIONS)}
    found = [
        f"{path.name}::{name}"
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    ]
    return [each for each in found if each not in named]


def _run(copy: Path, mutation: Mutation) -> str:
    """What the tests say without the check: `failed`, as they should, or something else."""
    target, (file, test) = copy / mutation.path, mutation.tests
    whole = target.read_text(encoding="utf-8")
    changed = whole
    for cut, instead in mutation.cut.items():
        changed = changed.replace(cut, instead)
    target.write_text(changed, encoding="utf-8")
    try:
        told = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                f"tests/attacks/test_{file}.py::{test}",
            ],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": f"{copy}:{copy / 'plugins'}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    finally:
        target.write_text(whole, encoding="utf-8")
    if told.returncode == 1 and re.search(r"\d+ failed", told.stdout):
        return "failed"
    last = (told.stdout.strip().splitlines() or ["no output"])[-1]
    return f"status {told.returncode}: {last}"


def main(names: list[str]) -> int:
    """Run the rows whose tests have one of `names` in their name; all without any."""
    chosen = [each for each in MUTATIONS if not names or any(name in "::".join(each.tests) for name in names)]
    passed = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = Path(folder)
        for name in _COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "Makefile"):
            shutil.copy(ROOT / name, copy / name)
        for each in chosen:
            said = _run(copy, each)
            passed += said != "failed"
            print(
                f"{'ok ' if said == 'failed' else 'NOT'} {each.tests[0]}::{each.tests[1]}: without its check in {each.path}: {said}",
                flush=True,
            )
    print(
        f"{len(chosen) - passed} of {len(chosen)} tests fail without their check; no row: {', '.join(missing_rows())}"
    )
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
