"""A small Airflow for tests: a fresh home with SQLite and real users, our DAGs and plugins, no server.

Airflow reads its configuration at its first import: import this module before anything of Airflow.
"""

import atexit
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.source_files import ROOT

HOME = Path(tempfile.mkdtemp(prefix="airflow-test-"))
STORE = HOME / "store"
USERS = {"ada": "admin", "olivia": "op", "victor": "viewer"}
PASSWORDS = {name: f"password of {name}" for name in USERS}

if "airflow" in sys.modules:
    raise RuntimeError("tests.airflow_home must be imported before Airflow: move its import up")

_PASSWORDS_FILE = HOME / "passwords.json"
_PASSWORDS_FILE.write_text(json.dumps(PASSWORDS))
for _name in [name for name in os.environ if name.startswith(("AIRFLOW_", "KAFKA_MAINTENANCE_"))]:
    del os.environ[_name]
os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "_AIRFLOW_PROCESS_CONTEXT": "server",  # as in the API server, whose pages the tests ask for
        "AIRFLOW__API__BASE_URL": "http://localhost:8080",
        "AIRFLOW__API_AUTH__JWT_SECRET": "k" * 64,
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",  # a DAG that a test alters is written, however soon
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(HOME / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(_PASSWORDS_FILE),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
        # On a loaded disk another thread holds the lock for longer than SQLite's 5 s.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db?timeout=60",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW__SCHEDULER__ENABLE_TRACEMALLOC": "False",
        "KAFKA_MAINTENANCE_APPROVAL_TIMEOUT_S": "60",
        "KAFKA_MAINTENANCE_POKE_INTERVAL_S": "1",
        "KAFKA_MAINTENANCE_SCRATCH": str(HOME / "scratch"),
    }
)
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
