"""Files that arguments name: what cannot be read or written there is bad input."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_maintenance.operations.errors import BadInputError


def json_object(path: Path | None, what: str) -> dict[str, Any] | None:
    """The JSON object in a file, None where no file is named; `what` it holds is for messages.

    Raises:
        BadInputError: it cannot be read, or holds something else.
    """
    if path is None:
        return None
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadInputError(
            f"{what} not read: a JSON object expected in {path}, found: {error}; correct the file"
        ) from error
    if not isinstance(found, dict):
        raise BadInputError(f"{what} not read: a JSON object expected in {path}, found {found!r}; correct the file")
    return found


def text_in(path: Path, what: str) -> str:
    """The text in a file; `what` it holds is for messages.

    Raises:
        BadInputError: it cannot be read, or is none.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"{what} not read: text in UTF-8 expected in {path}, found: {error}; correct the file or its name"
        ) from error


def writable_folder(path: Path) -> Path:
    """The folder, made where it is missing.

    Raises:
        BadInputError: nothing can be written to it.
    """
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What is written to `path` while the `with` block runs.

    Raises:
        BadInputError: it cannot be.
    """
    try:
        yield
    except OSError as error:
        raise BadInputError(f"{path} not written: {error.strerror}; name a place that can be written to") from error
