"""Operations as Airflow tasks."""
