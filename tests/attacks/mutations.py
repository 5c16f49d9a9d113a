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

ROOT = Path(__file__).parents[2]
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
_RETENTION = "plugins/kafka_maintenance/operations/retention/store.py"
_FOLDER = "controller_core/adapters/object_store/folder.py"
_SCRATCH = "plugins/kafka_maintenance/servers/own_folder.py"
_RULES = "controller_core/plans/validation.py"
_SESSION = "controller_core/adapters/zookeeper/session.py"
_PERMISSION = f"{_GATE}/permission.py"
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
    Mutation(("store", "test_a_reassignment_without_its_proof_is_not_applied"), _PLANS, {"    if found != wanted:\n": "    if False:\n"}),
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
        {'        return f"{problem}; {_AGAIN}"\n': "        return None\n"},
    ),
    Mutation(
        ("cluster_dags", "test_a_run_of_the_common_dag_does_nothing_to_a_cluster_that_has_its_own"),
        "plugins/kafka_maintenance/tasks/cluster_dags.py",
        {"if own not in {None, cluster} or wanted != dag_id:": "if False:"},
    ),
    Mutation(("zookeeper_rights", "test_a_password_that_travels_in_clear_text_is_told"), _SESSION, {"if tls is None and not _is_loopback(hosts):": "if False:"}),
    Mutation(("zookeeper_rights", "test_no_log_of_any_level_holds_a_login_or_a_secret_znode"), _SESSION, {"lambda record: record.levelno >= logging.INFO": "lambda _: True"}),
    Mutation(("zookeeper_rights", "test_nobody_without_credentials_alters_a_request_the_lock_or_its_fence"), _SESSION, {_WORLD: '(Acl(_ALL, "world", "anyone"),)'}),
    Mutation(("zookeeper_rights", "test_brokers_of_another_principal_rewrite_and_remove_our_request"), _SESSION, {'(Acl(_ALL, "auth", ""), *others, ': '(Acl(_ALL, "auth", ""), '}),
    Mutation(("zookeeper_rights", "test_what_is_created_where_the_world_may_not_read_is_hidden_too"), _SESSION, {_WORLD: '(Acl(_READ, "world", "anyone"),)'}),
    Mutation(("query", "test_what_is_not_one_select_over_our_tables_is_refused"), "spark_jobs/select_only.py", {"if (reason := _refused(node)) is not None)": "if (reason := None) is not None)"}),
    Mutation(("restore_plans", "test_a_plan_that_no_planner_makes_is_refused_by_what_is_wrong"), "plugins/kafka_maintenance/operations/restore/validation.py", {"    if found is not None:\n": "    if False:\n"}),
    Mutation(("bucket_policy", "test_no_role_writes_what_is_anothers"), "docs/bucket-policy.json", {'"arn:aws:s3:::BUCKET/v1/cluster=*/plans/*"': '"arn:aws:s3:::BUCKET/v1/*"'}),
    Mutation(("least_privilege", "test_without_one_of_them_the_operation_is_refused"), "docs/zookeeper.md", {"| `delete_topics` | `/admin/delete_topics` | create | the request |": "| `delete_topics` | `/admin/delete_topics` | create | the request |\n| `delete_topics` | `/brokers` | create | nothing |"}),
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
