"""A client of Airflow's REST API, as far as the demo and the end-to-end tests need it: what a user does in the UI.

Source: Airflow 3.3 `/api/v2` (OpenAPI), simple auth manager (`/auth/token`).
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from kafka_maintenance.servers.errors import AirflowRequestError, AlreadyAnsweredError, NotHealthyError

POLL_INTERVAL_S = 1.0
PARSED_WITHIN_S = 120.0
REQUEST_TIMEOUT_S = 60.0
PERSON_TIMEOUT_S = 12 * 3600.0
"""How long a person is waited for: the default of KAFKA_MAINTENANCE_APPROVAL_TIMEOUT_S."""
ANSWER_AFTER_S = 8.0
"""How long a question is left open at its first try; at each further one as long again, as the scheduler may be slow."""
GATE_PATH = "/hitlDetails"
GATE_STATES = frozenset({"awaiting_input", "deferred"})
"""Of a task that waits for an answer: since Airflow 3.3, and in 3.2."""
RUN_ENDED = frozenset({"success", "failed"})
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gate:
    """An open question to a person: a task instance that awaits its answer."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    subject: str
    body: str
    options: tuple[str, ...]
    asked_at: datetime
    try_number: int

    @property
    def path(self) -> str:
        """Where the answer goes, below `/api/v2`."""
        return f"/dags/{self.dag_id}/dagRuns/{self.run_id}/taskInstances/{self.task_id}/{self.map_index}{GATE_PATH}"

    @property
    def page(self) -> str:
        """The page of the UI that asks the question, below the server's address."""
        mapped = f"/mapped/{self.map_index}" if self.map_index >= 0 else ""
        return f"/dags/{self.dag_id}/runs/{self.run_id}/tasks/{self.task_id}{mapped}/required_actions"


class AirflowApi:
    """The API as one user sees it.

    Every method raises AirflowRequestError when the server refuses or does not answer; `wait_…` raise NotHealthyError
    when the time is over.
    """

    def __init__(self, url: str, user: str, password: str, *, transport: httpx.BaseTransport | None = None) -> None:
        """Describe a client; it signs in with its first request. `transport` replaces the network, for tests."""
        self.url = url
        self.user = user
        self._password = password
        self._client = httpx.Client(base_url=url, timeout=REQUEST_TIMEOUT_S, transport=transport)
        self._signed_in = False

    def request(self, method: str, path: str, *, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Send one request below `/api/v2` and return its JSON; None for an empty answer.

        Args:
            method: of HTTP.
            path: below `/api/v2`.
            body: sent as JSON; None: nothing.
            query: parameters of the address; None: none.

        Raises:
            AirflowRequestError: an answer other than 2xx, or none.
            AlreadyAnsweredError: somebody answered the question first.
        """
        if not self._signed_in:
            self._sign_in()
        answer = self._send(method, f"/api/v2{path}", body, query)
        if not answer.is_success:
            answered = answer.status_code == httpx.codes.CONFLICT and path.endswith(GATE_PATH)
            raise (AlreadyAnsweredError if answered else AirflowRequestError)(
                f"{method} {self.url}/api/v2{path} as {self.user}: expected success, found status"
                f" {answer.status_code}: {answer.text[:500]}; correct the request or look into the server's log"
            )
        return answer.json() if answer.content else None

    def set_connection(self, connection_id: str, conn_type: str, **fields: Any) -> None:
        """Create or replace a connection; `extra` may be a mapping."""
        extra = fields.pop("extra", None)
        body = {"connection_id": connection_id, "conn_type": conn_type, **fields}
        body |= {"extra": json.dumps(extra)} if extra is not None else {}
        self._put("/connections", connection_id, body)

    def set_variable(self, key: str, value: str, description: str = "") -> None:
        """Create or replace a variable."""
        self._put("/variables", key, {"key": key, "value": value, "description": description})

    def set_pool(self, name: str, slots: int, description: str = "") -> None:
        """Create or replace a pool."""
        self._put("/pools", name, {"name": name, "slots": slots, "description": description, "include_deferred": False})

    def import_errors(self) -> list[str]:
        """File and stack trace of every DAG file that could not be imported."""
        found = self.request("GET", "/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace']}" for error in found]

    def dag_ids(self) -> frozenset[str]:
        """Ids of all DAGs that were parsed, paused or not."""
        found = self.request("GET", "/dags", query={"limit": 100, "exclude_stale": True})["dags"]
        return frozenset(dag["dag_id"] for dag in found)

    def wait_dags(self, dag_ids: Iterable[str]) -> None:
        """Wait until these DAGs are parsed; an import error ends the wait at once."""
        wanted = frozenset(dag_ids)

        def parsed() -> bool:
            missing = wanted - self.dag_ids()
            errors = self.import_errors() if missing else []
            if errors:
                raise AirflowRequestError(f"waiting for the DAGs {sorted(missing)}: files do not import; {errors[0]}")
            return not missing

        self.wait_for(parsed, what=f"the DAGs {', '.join(sorted(wanted))} are parsed", timeout_s=PARSED_WITHIN_S)

    def pause(self, dag_id: str, *, paused: bool) -> None:
        """Pause or unpause a DAG. A cron DAG without catch-up then runs its latest missed slot."""
        self.request("PATCH", f"/dags/{dag_id}", body={"is_paused": paused}, query={"update_mask": "is_paused"})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None, *, partition_key: str | None = None) -> str:
        """Start a run; the run's id."""
        body: Json = {"logical_date": None, "conf": dict(conf or {})}
        body |= {"partition_key": partition_key} if partition_key else {}
        run_id: str = self.request("POST", f"/dags/{dag_id}/dagRuns", body=body)["dag_run_id"]
        return run_id

    def run(self, dag_id: str, run_id: str) -> Json:
        """A run: `state`, `run_type`, `partition_key`, …"""
        found: Json = self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")
        return found

    def runs(self, dag_id: str, **query: Any) -> list[Json]:
        """Runs of a DAG, newest first."""
        found: list[Json] = self.request(
            "GET", f"/dags/{dag_id}/dagRuns", query={"limit": 100, "order_by": "-run_after", **query}
        )["dag_runs"]
        return found

    def wait_run(self, dag_id: str, run_id: str, *, timeout_s: float) -> str:
        """Wait until a run has ended: "success" or "failed"."""
        self.wait_for(
            lambda: self.run(dag_id, run_id)["state"] in RUN_ENDED,
            what=f"run {run_id} of {dag_id} has ended",
            timeout_s=timeout_s,
        )
        return str(self.run(dag_id, run_id)["state"])

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """State of every task instance of a run, by task id; a mapped one is named `task[index]`."""
        found = self.task_instances(dag_id, run_id)
        return {
            ti["task_id"] + (f"[{ti['map_index']}]" if ti["map_index"] >= 0 else ""): str(ti["state"]) for ti in found
        }

    def task_instances(self, dag_id: str, run_id: str) -> list[Json]:
        """The task instances of a run."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        found: list[Json] = self.request("GET", path, query={"limit": 200})["task_instances"]
        return found

    def xcom(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1) -> Any:
        """What a task returned.

        Args:
            dag_id: of Airflow.
            run_id: of the DAG run.
            task_id: of its task.
            map_index: of a mapped task; -1: not mapped.
        """
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        return self.request("GET", path, query={"map_index": map_index, "deserialize": False})["value"]

    def task_log(self, dag_id: str, run_id: str, task_id: str, *, try_number: int = 1, map_index: int = -1) -> str:
        """The log of one try of a task, as plain lines.

        Args:
            dag_id: of Airflow.
            run_id: of the DAG run.
            task_id: of its task.
            try_number: from 1.
            map_index: of a mapped task; -1: not mapped.
        """
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        found = self.request("GET", path, query={"map_index": map_index, "full_content": True})["content"]
        return "\n".join(_log_line(entry) for entry in found)

    def failures(self, dag_id: str, run_id: str) -> str:
        """The end of the log of every failed task of a run, for a message."""
        texts = []
        for ti in self.task_instances(dag_id, run_id):
            if ti["state"] == "failed":
                log = self.task_log(
                    dag_id, run_id, ti["task_id"], try_number=max(1, ti["try_number"]), map_index=ti["map_index"]
                )
                texts.append(f"--- {dag_id}.{ti['task_id']}\n" + "\n".join(log.splitlines()[-25:]))
        return "\n".join(texts)

    def gates(self, dag_id: str = "~", run_id: str = "~") -> list[Gate]:
        """The questions that wait for an answer now, of one run or of all."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/hitlDetails"
        found = self.request("GET", path, query={"response_received": False, "limit": 100})["hitl_details"]
        waiting = [detail for detail in found if detail["task_instance"]["state"] in GATE_STATES]
        return [_gate(detail) for detail in waiting]

    def last_answer(self, dag_id: str, run_id: str) -> Json:
        """The last answer to the questions of a run: `chosen_options`, `responded_by_user`; empty before there is one.

        A rejected gate has no XCom: Airflow skips what follows it instead.
        """
        path = f"/dags/{dag_id}/dagRuns/{run_id}/hitlDetails"
        found = self.request("GET", path, query={"response_received": True, "limit": 100})["hitl_details"]
        return max(found, key=lambda detail: str(detail["responded_at"]), default={})

    def wait_gate(self, dag_id: str, run_id: str, *, timeout_s: float) -> Gate:
        """Wait until a run asks its question.

        Raises:
            AirflowRequestError: the run ended without asking; carries the logs of its failed tasks.
        """

        def asked() -> bool:
            state = self.run(dag_id, run_id)["state"]
            if state in RUN_ENDED and not self.gates(dag_id, run_id):
                raise AirflowRequestError(
                    f"waiting for the gate of run {run_id} of {dag_id}: the run ended as {state} without a question;"
                    f" tasks: {self.task_states(dag_id, run_id)}\n{self.failures(dag_id, run_id)}"
                )
            return bool(self.gates(dag_id, run_id))

        self.wait_for(asked, what=f"run {run_id} of {dag_id} is at its gate", timeout_s=timeout_s)
        return self.gates(dag_id, run_id)[0]

    def answer(self, gate: Gate, option: str, **params: Any) -> None:
        """Answer a question, as this user; not before it has been asked for a while, as a person would not.

        Airflow 3.3 loses an answer that comes before its scheduler has heard that the asking task has parked: the task
        then counts as failed and, on its next try, asks again.

        Raises:
            AlreadyAnsweredError: somebody has answered it meanwhile.
        """
        answer_at_s = gate.asked_at.timestamp() + ANSWER_AFTER_S * gate.try_number
        time.sleep(max(0.0, answer_at_s - time.time()))
        self.request("PATCH", gate.path, body={"chosen_options": [option], "params_input": params})

    def answer_all(self, dag_id: str, run_id: str, option: str, **params: Any) -> None:
        """Answer every question of a run that waits now; one that somebody else answers meanwhile is theirs."""
        for gate in self.gates(dag_id, run_id):
            with contextlib.suppress(AlreadyAnsweredError):
                self.answer(gate, option, **params)

    def wait_run_answering(self, dag_id: str, run_id: str, option: str, *, timeout_s: float, **params: Any) -> str:
        """Answer every question of a run, also one that is asked again, until it has ended: "success" or "failed".

        Args:
            dag_id: of Airflow.
            run_id: of the DAG run.
            option: the answer.
            timeout_s: to the end of the run, in seconds.
            **params: what the answer brings with it.
        """

        def ended() -> bool:
            self.answer_all(dag_id, run_id, option, **params)
            return self.run(dag_id, run_id)["state"] in RUN_ENDED

        self.wait_for(ended, what=f"run {run_id} of {dag_id} has ended", timeout_s=timeout_s)
        return str(self.run(dag_id, run_id)["state"])

    def backfills(self, dag_id: str) -> list[Json]:
        """The backfills of a DAG."""
        found: list[Json] = self.request("GET", "/backfills", query={"dag_id": dag_id, "limit": 100})["backfills"]
        return found

    def wait_for(self, condition: Callable[[], bool], *, what: str, timeout_s: float) -> None:
        """Poll once a second until `condition` holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise NotHealthyError(
                    f"waited {timeout_s:g} s until {what}: it did not happen; {self.url} and its logs show where it stands"
                )
            time.sleep(POLL_INTERVAL_S)

    def _put(self, path: str, name: str, body: Json) -> None:
        answer = self._existing(f"{path}/{name}")
        if answer:
            self.request("PATCH", f"{path}/{name}", body=body)
        else:
            self.request("POST", path, body=body)

    def _existing(self, path: str) -> bool:
        if not self._signed_in:
            self._sign_in()
        return self._send("GET", f"/api/v2{path}", None, None).is_success

    def _sign_in(self) -> None:
        body = {"username": self.user, "password": self._password}
        answer = self._send("POST", "/auth/token", body, None)
        if not answer.is_success:
            raise AirflowRequestError(
                f"signing in to {self.url} as {self.user}: expected a token, found status {answer.status_code}:"
                f" {answer.text[:300]}; check the user's password in passwords.json"
            )
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        self._signed_in = True

    def _send(self, method: str, path: str, body: Any, query: Mapping[str, Any] | None) -> httpx.Response:
        try:
            return self._client.request(method, path, json=body, params=query)
        except httpx.HTTPError as error:
            raise AirflowRequestError(
                f"{method} {self.url}{path} as {self.user}: no answer ({error!r}); is Airflow still running?"
            ) from error


def _gate(detail: Json) -> Gate:
    ti = detail["task_instance"]
    return Gate(
        dag_id=ti["dag_id"],
        run_id=ti["dag_run_id"],
        task_id=ti["task_id"],
        map_index=ti["map_index"],
        subject=detail["subject"],
        body=detail["body"] or "",
        options=tuple(detail["options"]),
        asked_at=datetime.fromisoformat(ti["start_date"] or detail["created_at"]),
        try_number=ti["try_number"],
    )


def _log_line(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    known = {key: value for key, value in entry.items() if key not in {"timestamp", "event", "level", "logger"}}
    extra = "".join(f" {key}={value}" for key, value in known.items() if key != "error_detail")
    return f"{entry.get('timestamp', '')} {entry.get('level', '')} {entry.get('event', '')}{extra}{_causes(entry)}"


def _causes(entry: Json) -> str:
    return "".join(f"\n{cause.get('exc_type')}: {cause.get('exc_value')}" for cause in entry.get("error_detail") or ())
