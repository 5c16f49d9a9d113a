"""What stands against the migration of each cluster to KRaft, and over the fleet: who is how far, and what to work on first.

    spark-submit --py-files JOBS.zip spark_jobs/kraft_readiness.py \
        --input FOLDER… --output FOLDER --run RUN --date YYYY-MM-DD

Result: `kraft_readiness`, the rules R1 to R25 of docs/kraft.md for the newest snapshot of each cluster, and a report of them. Spark deals out the clusters;
the rules are those of `kafka-maintenance kraft readiness`. Arguments and exit status: see `nightly_analysis.py`. A snapshot whose raw layer is not
in the input is not judged.
"""

import sys

from spark_jobs.nightly_analysis import main

RESULTS = ("kraft_readiness", "not_analysed")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], RESULTS))
