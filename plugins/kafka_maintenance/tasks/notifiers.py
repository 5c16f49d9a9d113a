"""Who is told when a task fails, a plan waits for a person, or something else calls for one: notifiers of Airflow, named by settings.

`KAFKA_MAINTENANCE_ALERT_WEBHOOK` is an address that gets JSON, with a `text` as Slack, Mattermost and Teams take it.
`KAFKA_MAINTENANCE_NOTIFIERS` names further ones, `module:name` with commas between: instances of
`airflow.sdk.BaseNotifier`, e.g. a `SlackNotifier` of Airflow's own provider in a module of the company.
"""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from copy import copy
from importlib import import_module
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

from airflow.sdk import BaseNotifier

from kafka_maintenance.operations.webhook import post_json
from kafka_maintenance.tasks.settings import SettingsError

WEBHOOK_VARIABLE: Final = "KAFKA_MAINTENANCE_ALERT_WEBHOOK"
NOTIFIERS_VARIABLE: Final = "KAFKA_MAINTENANCE_NOTIFIERS"
TIMEOUT_S: Final = 10.0
WAIT_S: Final = 60.0
"""How long a task waits until one notifier has told it: a company's own code may have no time limit, and gates and executions wait for it."""

log = logging.getLogger(__name__)


class WebhookNotifier(BaseNotifier):
    """Posts what happened to an address: JSON with text, dag, run, task, cluster, and the page of the task instance.

    Args:
        url: `https://…` or `http://…`.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def notify(self, context: Any) -> None:
        """Called by Airflow. What is not delivered is logged, and nothing else: the task's own state says the rest."""
        document = message_of(context)
        try:
            post_json(self.url, json.dumps(document).encode(), TIMEOUT_S)
            log.info("told %s: %s", urlsplit(self.url).hostname, document["text"])
        except OSError as error:
            log.warning("not told %s: %s: %s", urlsplit(self.url).hostname, error, document["text"])


def message_of(context: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of a task that failed, of a gate that waits, or of what the task itself calls an `alarm`."""
    ti, run, error = context["ti"], context["dag_run"], context.get("exception")
    cluster = dict(context.get("params") or {}).get("cluster") or context.get("cluster_name")
    what = context.get("alarm") or (f"failed: {error}" if error is not None else "waits for a person")
    return {
        "text": f"{run.dag_id}{f' on {cluster}' if cluster else ''}: {ti.task_id} {what}",
        "dag": run.dag_id,
        "run": run.run_id,
        "task": ti.task_id,
        "cluster": cluster,
        "page": getattr(ti, "log_url", None),
    }


def ring(
    context: Mapping[str, Any], alarm: str | None = None, notifiers: "Sequence[BaseNotifier] | None" = None
) -> None:
    """Tells everybody who is to know; their templates may name `message`, which is the text of `message_of`.

    Who cannot tell it, or not within `WAIT_S`, is logged, and keeps nobody else from being told and no task from its work. Each time it is a
    copy that tells: a notifier of Airflow renders its templates in place, so that the next alarm of the same process would read as the first.

    Args:
        context: of the task, or of a deadline alert.
        alarm: what happened, after the name of DAG, cluster and task; None: the task failed, or waits.
        notifiers: who is told; None: those of the settings.
    """
    told = dict(context) if alarm is None else {**context, "alarm": alarm}
    told["message"] = message_of(told)["text"]
    for notifier in NOTIFIERS if notifiers is None else notifiers:
        telling = Thread(target=copy_context().run, args=(_tell, notifier, told), daemon=True)
        telling.start()
        telling.join(WAIT_S)
        if telling.is_alive():
            log.error(
                "not told by %s within %g s, and not waited for: %s", type(notifier).__name__, WAIT_S, told["message"]
            )


def _tell(notifier: BaseNotifier, told: Mapping[str, Any]) -> None:
    try:
        copy(notifier)(dict(told))
    except Exception:  # whatever a company's own code raises
        log.exception("not told by %s: %s", type(notifier).__name__, told["message"])


def notifiers_from(environment: Mapping[str, str]) -> list[BaseNotifier]:
    """The notifiers that the environment names.

    Raises:
        SettingsError: no address, or no notifier of that name.
    """
    found: list[BaseNotifier] = []
    if url := environment.get(WEBHOOK_VARIABLE, "").strip():
        if urlsplit(url).scheme not in {"https", "http"} or not urlsplit(url).hostname:
            raise SettingsError(f"{WEBHOOK_VARIABLE}: expected https://… or http://…, found {url!r}; correct it")
        found.append(WebhookNotifier(url))
    for name in filter(None, map(str.strip, environment.get(NOTIFIERS_VARIABLE, "").split(","))):
        module, _, attribute = name.partition(":")
        try:
            notifier = getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise SettingsError(
                f"{NOTIFIERS_VARIABLE}: expected module:name of a notifier, found {name!r} ({error})"
            ) from error
        if not isinstance(notifier, BaseNotifier):
            raise SettingsError(
                f"{NOTIFIERS_VARIABLE}: expected an instance of airflow.sdk.BaseNotifier in {name!r}, found {type(notifier).__name__}"
            )
        found.append(notifier)
    return found


NOTIFIERS: Final = notifiers_from(os.environ)
