"""One module per page: rows of the store and of Airflow's database → the values of the page."""
