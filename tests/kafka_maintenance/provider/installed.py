"""What an Airflow finds of an installed wheel, as one JSON line; run in a process of its own, with an AIRFLOW_HOME of its own.

No checkout on the path, nothing in the plugins folder, a company's `airflow_local_settings` beside ours, DAGs from a bundle of a git repository.
"""

import json
from types import SimpleNamespace

from airflow.utils.db import initdb

initdb()

from airflow import plugins_manager, settings  # noqa: E402
from airflow.dag_processing.bundles.manager import DagBundlesManager  # noqa: E402
from airflow.providers_manager import ProvidersManager  # noqa: E402

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:
    from airflow.models.dagbag import DagBag

import kafka_maintenance  # noqa: E402
from kafka_maintenance.tasks.pools import APPLY_POOL, make_missing_pools  # noqa: E402

make_missing_pools()
task = SimpleNamespace(pool=APPLY_POOL, queue="default")
settings.task_instance_mutation_hook(task, SimpleNamespace(dag_id="delete_topics", conf={"cluster": "100"}))
manager_of_bundles = DagBundlesManager()
manager_of_bundles.sync_bundles_to_db()
(bundle,) = manager_of_bundles.get_all_dag_bundles()
bundle.initialize()
bag = DagBag(dag_folder=str(bundle.path), bundle_path=bundle.path)
plugins, plugin_errors = plugins_manager._get_plugins()
manager = ProvidersManager()
types = sorted(name for name, hook in manager.hooks.items() if hook and hook.package_name == "kafka-maintenance")
fields = sorted(name for name in manager.connection_form_widgets if name.startswith("extra__kafka_"))
print(
    json.dumps(
        {
            "package": kafka_maintenance.__file__,
            "version": manager.providers["kafka-maintenance"].version,
            "dags": sorted(bag.dags),
            "bundle": [
                bundle.name,
                str(bundle.path),
                getattr(version := bundle.get_current_version(), "version", version),
            ],
            "files": sorted({dag.fileloc for dag in bag.dags.values()}),
            "import_errors": bag.import_errors,
            "plugins": sorted(plugin.name for plugin in plugins if plugin.name == "kafka_maintenance"),
            "plugin_errors": plugin_errors,
            "pool": task.pool,
            "queue": task.queue,
            "connection_types": types,
            "fields": fields,
        }
    )
)
