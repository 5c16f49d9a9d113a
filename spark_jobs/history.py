"""What changed over many dates in each cluster: leaders, in-sync replicas, brokers, the controller, growth.

    spark-submit --py-files JOBS.zip spark_jobs/history.py \
        --input FOLDER… --output FOLDER --run RUN --date YYYY-MM-DD --history-days 365

Results: `growth`, `leader_churn`, `unstable_partitions`, `broker_history`, `controller_churn`, and a report of them.
Arguments and exit status: see `nightly_analysis.py`; the date is the last date of the window.
"""

import sys

from spark_jobs.nightly_analysis import main

RESULTS = ("growth", "leader_churn", "unstable_partitions", "broker_history", "controller_churn", "not_analysed")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], RESULTS))
