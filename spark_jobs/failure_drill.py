"""What every broker's, every rack's and the worst pairs' failure would do to each cluster, ranked.

    spark-submit --py-files JOBS.zip spark_jobs/failure_drill.py \
        --input FOLDER… --output FOLDER --run RUN --date YYYY-MM-DD [--settings FILE] [--drill-pairs-max N]

Results: `failure_drill`, `not_analysed`, and a report of them. Arguments and exit status: see `nightly_analysis.py`.
"""

import sys

from spark_jobs.nightly_analysis import main

RESULTS = ("failure_drill", "not_analysed")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], RESULTS))
