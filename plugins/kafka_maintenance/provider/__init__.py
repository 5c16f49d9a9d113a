"""What Airflow learns of an installed distribution through its entry points: provider, plugin, cluster policy."""
