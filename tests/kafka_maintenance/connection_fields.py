"""A connection of Airflow, as what reads it sees it."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Fields:
    """What is read of a connection; `extra_dejson` is `extra` as Airflow reads it."""

    host: str | None = "zk1"
    port: int | None = None
    login: str | None = None
    password: str | None = None
    schema: str | None = None
    extra_dejson: Any = None
    conn_type: str = "generic"

    def __post_init__(self):
        self.extra = json.dumps(self.extra_dejson) if self.extra_dejson is not None else None
        self.extra_dejson = {} if self.extra_dejson is None else self.extra_dejson
