"""What Airflow's connections and Variables say, each field judged; `hooks` asks Airflow for them."""
