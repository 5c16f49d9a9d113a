"""The fields of an Airflow connection, and the words in them: each mistake is an error that names connection and field."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from controller_core.model.errors import ControllerCoreError

_TRUTH: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class SettingsMissingError(ControllerCoreError):
    """A Variable or Connection that the pipeline needs is missing or unreadable; says which and how to set it."""


class ConnectionFields(Protocol):
    """What is read of an Airflow connection, in a task as in the API server."""

    conn_type: str | None
    host: str | None
    schema: str | None
    port: int | None
    login: str | None
    password: str | None

    @property
    def extra(self) -> str | None:
        """The extra field as text; a ValueError in the API server when it is not JSON."""

    @property
    def extra_dejson(self) -> Any:
        """The extra field as a mapping; an empty one in a task when it is not JSON."""


def no_connection(name: str, kind: str = "generic", hint: str = "ZooKeeper's host:port") -> SettingsMissingError:
    """The error that says that Airflow found no connection `name`, which should be of a `kind` with a host that is `hint`."""
    return SettingsMissingError(
        f"connection {name!r} not used: there is none of that id, or none that Airflow can read (valid JSON, or a valid URI); "
        f"add or correct one of type {kind} whose host is {hint}"
    )


def extra_of(name: str, connection: ConnectionFields) -> Mapping[str, Any]:
    """The extra field, as Airflow reads it (it keeps secrets out of logs) once it is known to be JSON."""
    try:
        json.loads(connection.extra or "{}")
        found = connection.extra_dejson
    except ValueError as error:
        raise SettingsMissingError(
            f"connection {name!r} not used: its extra is not JSON ({error}), expected a JSON object; correct it"
        ) from error
    return mapping_of(name, found, "its extra")


def mapping_of(name: str, found: Any, what: str) -> Mapping[str, Any]:
    """What was found of the connection `name`, `what` by name; raises SettingsMissingError where it is no JSON object."""
    if not isinstance(found, Mapping):
        raise SettingsMissingError(
            f"connection {name!r} not used: {what} is a {type(found).__name__}, expected a JSON object; correct it"
        )
    return found


def parsed(value: Any) -> Any:
    """A JSON object that was typed into a text field of the form; any other value, and what is no JSON, as it is."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            return json.loads(value)
    return value


def text_of(value: Any) -> str | None:
    """A field as text; None where it is missing or empty."""
    return None if value is None or value == "" else str(value)


def truth_of(says: str, value: Any, expected: str = "true or false") -> bool:
    """What a word for true or false means; any other word is refused in a message that begins with `says`."""
    word = str(value).strip().lower()
    if word not in _TRUTH:
        raise SettingsMissingError(f"{says} {value!r}, expected {expected}; correct it")
    return _TRUTH[word]
