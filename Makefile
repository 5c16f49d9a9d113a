# Every command a user or developer needs; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= # the newest of 3.13, 3.12 and 3.11 that is there
VENV := .venv
BIN := $(VENV)/bin
export PYTHONPATH := $(CURDIR):$(CURDIR)/plugins
export PATH := $(CURDIR)/$(BIN):$(PATH)
export JAVA_HOME := $(shell .ci/java)
unexport PYTHONDONTWRITEBYTECODE
SEEDS ?= 2000
APPROVE ?= ask
KAFKA_VERSION ?= 3.9
AIRFLOW_VERSIONS ?= 3.2 3.3
MOMENT ?= after
VERSIONS ?= 3.9 2.8 2.4 1.1 0.10.2
FAST := "not services and not spark and not kafka and not e2e and not browser"
CORE_TESTS := tests/controller_core tests/scenarios tests/simulation
AIRFLOW_TESTS := tests/dags
LIVE_TESTS := tests/dags/live
SPARK_TESTS := tests/spark_jobs
OPERATIONS_TESTS := tests/kafka_maintenance/operations
SNAPSHOT_TESTS := $(addprefix $(OPERATIONS_TESTS)/,snapshots restore retention)
DIFFERENTIAL_TESTS := tests/differential tests/benchmarks
PROVIDER_TESTS := tests/kafka_maintenance/provider
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-annotate
FAILURES := build/failures
SUITE = $(BIN)/python -m pytest --cpu --failures $(FAILURES)
BATCH = $(shell command -v chrt > /dev/null && echo chrt --batch 0) # Linux then interrupts a process less often for another one: a twentieth less CPU
WHOLE_LINES := | sed -u '' # of suites that run beside each other

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-kraft test test-services test-operations test-snapshots test-differential test-airflow test-live test-spark test-provider test-fast test-pythons test-kafka test-airflow-versions kill-workers fidelity coverage check format bench bench-planning simulate docs docs-screenshots dist lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-21s %s\n", $$1, $$2}'

setup: $(VENV)/.installed $(VENV)/.classes ## make .venv with everything pinned and the command kafka-maintenance in it

$(VENV)/.installed: requirements.txt requirements-dev.txt requirements-uv.txt
	@python=$$(.ci/require $(PYTHON)) && set -x && "$$python" -m venv $(VENV)
	.ci/install $(BIN)/python
	@touch $@

$(VENV)/.classes: $(VENV)/.installed # what starts quickly: modules compiled, but of packages of which little is read, and Spark's classes recorded
	$(BIN)/python -m compileall -j0 -q -x '/(tests|sympy|plotly|matplotlib|moto|mypy)/' $(VENV)/lib > /dev/null || true
	@$(BIN)/python -m kafka_maintenance.spark.class_archive > /dev/null || echo "make: the classes of Spark are not recorded, see above: its jobs start at half the speed, nothing else is amiss." >&2
	@touch $@

demo: setup ## the daily pipeline on a real cluster in front of you (APPROVE=yes answers the gates itself)
	KAFKA_VERSION=$(KAFKA_VERSION) APPROVE=$(APPROVE) $(BIN)/python -m kafka_maintenance.demo.run

demo-kraft: setup ## certificate, rehearsal, watch and run-book of a real cluster that is to leave ZooKeeper
	$(BIN)/python -m kafka_maintenance.demo.kraft

test: setup ## every test, the slow ones included, and every branch of the core; seven of nine suites at once, for they wait a lot; takes up to 9 GB of memory
	@rm -rf $(FAILURES)
	@$(BATCH) $(MAKE) --no-print-directory --keep-going --jobs=7 test-live test-services test-operations test-spark test-airflow test-provider coverage test-differential test-snapshots || { \
	  echo; echo "What failed, of all suites:"; tail -n 80 $(FAILURES)/*.txt 2> /dev/null; exit 1; }

test-services: setup # a part of `test`: all that no other suite has
	@.ci/browser; .ci/kerberos $(BIN)/python
	$(SUITE) --durations=15 $(patsubst %,--ignore=%,$(CORE_TESTS) $(AIRFLOW_TESTS) $(SPARK_TESTS) $(OPERATIONS_TESTS) $(DIFFERENTIAL_TESTS) $(PROVIDER_TESTS)) $(WHOLE_LINES)

test-operations: setup # a part of `test`: plans and their application, the way to KRaft, on real brokers
	$(SUITE) --durations=15 $(OPERATIONS_TESTS) $(addprefix --ignore=,$(SNAPSHOT_TESTS)) $(WHOLE_LINES)

test-snapshots: setup # a part of `test`: snapshots and restores, on real ZooKeepers
	$(SUITE) --durations=15 $(SNAPSHOT_TESTS) $(WHOLE_LINES)

test-differential: setup # a part of `test`: Kafka's own controller beside the core, and that each benchmark prints its figures
	$(SUITE) --durations=15 $(DIFFERENTIAL_TESTS) $(WHOLE_LINES)

test-airflow: setup # a part of `test`: the DAGs and the pages, without a scheduler
	@.ci/browser
	$(SUITE) --durations=15 $(AIRFLOW_TESTS) --ignore=$(LIVE_TESTS) $(WHOLE_LINES)

test-live: setup # a part of `test`: the whole stack, its scheduler, workers and brokers
	@.ci/browser
	$(SUITE) --durations=15 $(LIVE_TESTS) $(WHOLE_LINES)

test-spark: setup # a part of `test`: the jobs
	$(SUITE) --durations=15 $(SPARK_TESTS) $(WHOLE_LINES)

test-provider: setup # a part of `test`: the wheel in an Airflow of somebody else
	$(SUITE) --durations=15 $(PROVIDER_TESTS) $(WHOLE_LINES)

test-fast: $(VENV)/.installed ## the tests that start no process; of one room or file: make test-fast TESTS=tests/controller_core/plans
	$(BIN)/python -m pytest -m $(FAST) $(TESTS)

test-pythons: $(VENV)/.installed ## `test-fast` on each other Python of this machine that is supported, at once, each with an environment in .local
	@own=$$($(BIN)/python -c 'import sys; print("3.%d" % sys.version_info[1])'); others=(); running=(); \
	for python in $$(.ci/python all); do \
	  version=$$("$$python" -c 'import sys; print("3.%d" % sys.version_info[1])'); \
	  [ "$$version" = "$$own" ] && continue; \
	  $(MAKE) --no-print-directory VENV=.local/python-$$version PYTHON="$$python" .local/python-$$version/.installed || exit 1; \
	  others+=($$version); \
	done; \
	for version in "$${others[@]}"; do \
	  ( $(MAKE) --no-print-directory VENV=.local/python-$$version test-fast $(WHOLE_LINES) ) & running+=($$!); \
	done; \
	for each in "$${running[@]}"; do wait "$$each" || failed=1; done; exit $${failed:-0}

test-kafka: setup ## each operation on real brokers of VERSIONS="3.9 2.8 2.4 1.1 0.10.2", then under traffic and disturbed
	KAFKA_VERSIONS_OF_TESTS="$(VERSIONS)" $(BIN)/python -m pytest -rA tests/kafka_maintenance/operations/apply/test_kafka.py | sed -u ''
	$(BIN)/python -m tests.kafka_maintenance.operations.apply.traffic_matrix --versions "$(VERSIONS)"

test-airflow-versions: setup ## from an empty environment to an approved change, by docs/install.md alone, on each Airflow of AIRFLOW_VERSIONS="3.2 3.3"
	AIRFLOW_VERSIONS_OF_TESTS="$(AIRFLOW_VERSIONS)" $(BIN)/python -m pytest -rA tests/kafka_maintenance/provider/test_how_to.py | sed -u ''

kill-workers: setup ## lose a Celery worker at each task of the daily run and of a gated run, MOMENT=after or before its work, and print how each ended
	$(BIN)/python -m tests.dags.live.worker_kills --moment $(MOMENT)

fidelity: setup ## what Kafka's own controller makes of the same events, and what the core predicted, on real brokers of VERSIONS; all scenarios from 2.4 on
	KAFKA_VERSIONS_OF_TESTS="$(VERSIONS)" $(BIN)/python -m pytest -rA tests/differential/test_real_brokers.py tests/differential/test_laboratory.py | sed -u ''
	$(BIN)/python -m tests.differential.scenario_table --versions "$(VERSIONS)"

coverage: setup ## fails where a branch of the core (adapters apart) is taken by no test of its own
	$(SUITE) -q -m $(FAST) $(CORE_TESTS) --cov --cov-fail-under=100 --cov-report=term-missing:skip-covered $(WHOLE_LINES)

check: $(VENV)/.installed ## format, lint, types (strict), import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## rewrite the code as `check` wants it, and the generated parts of docs/
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m tests.generated_docs

bench: setup ## print every benchmark's figures, beside its peers where they are there
	$(BIN)/python -m tests.benchmarks

bench-planning: setup ## Spark's figures and the planner's matrix, beside their peers (40 minutes to an hour)
	$(BIN)/python -m tests.benchmarks.bench_spark
	$(BIN)/python -m tests.benchmarks.bench_planning

simulate: setup ## random histories against the invariants (SEEDS=2000)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

docs: setup ## the site of docs/ in .local/site, with search and checked links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open .local/site/index.html, or: $(BIN)/python -m http.server --directory .local/site --bind 127.0.0.1"

docs-screenshots: setup ## the pictures of docs/: those of the tutorial, taken anew from the real pages in a real browser, and changed diagrams
	@.ci/browser
	$(BIN)/python -m tests.diagrams
	$(BIN)/python -m pytest -q tests/dags/test_pages.py tests/dags/test_red_run.py -k "tutorial or red_run"
	cp build/screenshots/tutorial/*.png docs/images/

dist: setup ## a wheel of everything in dist/, the DAG files included
	rm -rf build dist
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

lock: setup ## resolve requirements*.in again into the pinned files, with the hashes of all platforms
	$(LOCK) requirements.in -o requirements.txt
	sed -i 's/^celery==/celery[redis]==/' requirements.txt # the provider wants the extra, and pip 23 does not take the plain pin for it
	$(LOCK) requirements-dev.in -o requirements-dev.txt
	sed -i 's/^coverage==/coverage[toml]==/' requirements-dev.txt # pytest-cov wants it, likewise
	$(LOCK) requirements-kerberos.in -o requirements-kerberos.txt
	$(LOCK) requirements-uv.in -o requirements-uv.txt

clean: ## stop what the local stack left running; remove everything that was made here
	@.ci/stopped $(BIN)/python
	rm -rf $(VENV) .local build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
