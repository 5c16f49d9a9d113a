"""Pages of the pipeline inside the Airflow UI."""
