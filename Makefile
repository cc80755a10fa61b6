# Everything a developer or a newcomer types. Needs Python 3.11+ and make; the rest is installed into .venv, from the
# locked files of requirements/. A second run installs nothing: the stamp files in .venv say what is there.

PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	command -v $$python >/dev/null 2>&1 && $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$python; break; }; done)
# A Python that is named gets an environment of its own: `make test PYTHON=python3.13` leaves .venv as it is.
ifeq ($(origin PYTHON),command line)
VENV ?= .venv-$(notdir $(PYTHON))
endif
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-input
PYTEST_ARGS ?=
WORKERS ?= 2
# Each worker has brokers of its own; stealing keeps the tests of a file together, and so what they share.
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.installed-demo ## run the whole trip: a broker, flights as records, a Spark pipeline, a picture
	@exec $(BIN)/barnabas demo $(ARGS)

.PHONY: setup
setup: $(VENV)/.installed-dev ## install everything a developer needs, pre-commit hooks among it
	@if git rev-parse --git-dir >/dev/null 2>&1; then $(BIN)/pre-commit install; fi

.PHONY: check
check: lint types ## what to run before each commit: lint, types, layers, unit and wire tests (two minutes)
	$(PYTEST) -m "not slow and not java" tests/architecture tests/unit tests/wire $(PYTEST_ARGS)

.PHONY: test
test: lint types ## lint, check types, run the tests (20 minutes; PYTHON=python3.13 for another Python, WORKERS=4 for more cores)
	$(PYTEST) -m "not slow and not java" $(PYTEST_ARGS)

# What differs between releases of Python shows here first: TLS, sockets, threads, asyncio, the command line, bytes.
FAST_TESTS := tests/wire $(addprefix tests/unit/,cli clients network rpc runtime security transport zk)

.PHONY: test-fast
test-fast: $(VENV)/.installed-test ## the tests that tell soon whether a Python will do (PYTHON=python3.13)
	$(PYTEST) -m "not slow and not java" $(FAST_TESTS) $(PYTEST_ARGS)

.PHONY: test-all
test-all: lint types ## the same with every test: campaigns, Apache Kafka (needs Java and Maven)
	$(PYTEST) $(PYTEST_ARGS)

.PHONY: chaos
chaos: $(VENV)/.installed-test ## kill -9 a loaded broker for ten minutes, 200 times at least (ARGS="--seed 7")
	$(BIN)/python -m tests.chaos.campaign $(ARGS)

.PHONY: chaos-cluster
chaos-cluster: $(VENV)/.installed-test ## kill, freeze, restart and split the brokers of a loaded cluster for half an hour
	$(BIN)/python -m tests.chaos.cluster_campaign $(ARGS)

.PHONY: chaos-pipeline
chaos-pipeline: $(VENV)/.installed-test ## kill -9 the parts of a Spark pipeline 50 times (ARGS="--seed 7")
	$(BIN)/python -m tests.chaos.pipeline_campaign $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.installed-test ## mutated requests of every API and version against a broker, for ten minutes (ARGS="--seed 7")
	$(BIN)/python -m tests.fuzz.campaign $(ARGS)

.PHONY: fuzz-logins
fuzz-logins: $(VENV)/.installed-test ## 200,000 mutated logins, handshakes and TLS streams (ARGS="--seed 7 --count 10000")
	$(BIN)/python -m tests.fuzz.login_campaign $(ARGS)

.PHONY: stalls
stalls: $(VENV)/.installed-test ## what one client's request does to others, beside Apache Kafka (three hours; ARGS="--kinds gzip --sizes 2")
	$(BIN)/python -m tests.chaos.stalls.campaign $(ARGS)

.PHONY: rotation
rotation: $(VENV)/.installed-test ## change certificates, passwords, lists and tokens under load for ten minutes (ARGS="--brokers 3")
	$(BIN)/python -m tests.security.rotation.campaign $(ARGS)

.PHONY: groups
groups: $(VENV)/.installed-test ## groups of seven client libraries: every exam (20 minutes; needs Java, Maven, Node and Go)
	$(PYTEST) tests/groups $(PYTEST_ARGS)

.PHONY: lint
lint: $(VENV)/.installed-test ## check style and the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: $(VENV)/.installed-test ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: types
types: $(VENV)/.installed-test ## check types
	$(BIN)/mypy

.PHONY: bench
bench: compiled ## measure everything against Apache Kafka (an hour; needs Java, Maven and a quiet machine)
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.codec
	$(BIN)/python -m benchmarks.recycled_outputs
	$(BIN)/python -m benchmarks.broker $(ARGS)
	$(BIN)/python -m benchmarks.cleaner
	$(BIN)/python -m benchmarks.startup --rounds 5
	$(BIN)/python -m benchmarks.partition_count
	$(BIN)/python -m benchmarks.connections
	$(BIN)/python -m benchmarks.control_plane --output results/control_plane --picture docs/images/control-plane.svg
	$(BIN)/python -m benchmarks.mixed_load
	$(BIN)/python -m benchmarks.fetch_sessions
	$(BIN)/python -m benchmarks.group_load
	$(BIN)/python -m benchmarks.group_loading
	$(BIN)/python -m benchmarks.transaction_loading
	$(BIN)/python -m benchmarks.transactions
	$(BIN)/python -m benchmarks.security
	$(BIN)/python -m benchmarks.cluster
	$(BIN)/python -m benchmarks.controller_failover --partitions 1000
	$(BIN)/python -m benchmarks.bytecodes
	$(BIN)/python -m benchmarks.time_by_layer
	$(BIN)/python -m benchmarks.metrics_cost
	$(BIN)/python -m benchmarks.system_calls --systems barnabas barnabas-compiled

.PHONY: compiled
compiled: $(VENV)/.installed-test ## build a wheel whose hot modules are compiled, and unpack it into build/compiled
	rm -rf build/compiled build/wheels
	BARNABAS_COMPILE=1 BARNABAS_COMPILE_DIRECTORY=build/compile $(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --no-build-isolation \
		--wheel-dir build/wheels .
	$(PIP_INSTALL) --quiet --no-deps --target build/compiled build/wheels/barnabas-*.whl

# The packages that have compiled modules; a test compares them with the list in pyproject.toml.
COMPILED_PACKAGES := api clients network protocol purgatory records replica rpc runtime storage transport
# The tests that look at what is compiled from above and from below.
COMPILED_TESTS ?= tests/architecture/test_compiled_build.py $(addprefix tests/unit/,$(COMPILED_PACKAGES)) tests/wire \
	$(addprefix tests/broker/test_,\
	bad_input.py fetch.py idempotence.py kill.py list_offsets.py pipelining.py produce.py restart.py stop.py)

.PHONY: test-compiled
test-compiled: compiled ## build the compiled wheel and run a sample of the tests against it
	@$(MAKE) --no-print-directory test-compiled-sample

.PHONY: test-install
test-install: $(VENV)/.installed-test ## install as users do, compiled and plain, into environments of their own (3 minutes)
	$(BIN)/python -m pytest tests/broker/test_install.py $(PYTEST_ARGS)

.PHONY: test-compiled-sample
test-compiled-sample: $(VENV)/.installed-test ## run that sample against the build that is there
	BARNABAS_TESTS_COMPILED=1 PYTHONPATH=build/compiled $(PYTEST) -m "not slow and not java and not interpreted" \
		$(COMPILED_TESTS) $(PYTEST_ARGS)

.PHONY: bytecodes
bytecodes: $(VENV)/.installed-test ## count the bytecodes a network thread runs per request, before and after a change (a minute)
	$(BIN)/python -m benchmarks.bytecodes $(ARGS)

.PHONY: measure-source
measure-source: $(VENV)/.installed-test ## print the shape of the source: sizes, comments, double names (ARGS="src/barnabas/replica")
	@$(BIN)/python -m tests.architecture.measure_source $(ARGS)

.PHONY: docs
docs: $(VENV)/.installed-test ## rewrite the pages that are made from tables and from a running broker
	$(BIN)/python -m tests.architecture.generated_docs
	$(BIN)/python -m tests.architecture.metrics_page
	$(BIN)/python -m tests.architecture.call_tree

.PHONY: lock
lock: ## resolve the requirements again (pins new versions)
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	PATH="$(CURDIR)/$(VENV)-lock/bin:$$PATH" requirements/lock.sh

.PHONY: clean
clean: ## remove what the other targets made, .venv among it
	rm -rf $(VENV) $(VENV)-lock build dist demo-output .mypy_cache .pytest_cache .ruff_cache .hypothesis \
		.import_linter_cache .grimp_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the virtual environment -----------------------------------------------------------------------------------------

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; say where it is: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments: install its venv package (Debian: python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The tools that build this package and the sdists among the others: with them installed, builds need nothing unlocked.
$(VENV)/.installed-build: requirements/build.txt | $(BIN)/python
	$(PIP_INSTALL) --require-hashes -r requirements/build.txt
	@touch $@

$(VENV)/.installed-%: requirements/%.txt pyproject.toml $(VENV)/.installed-build
	@echo "Installing what '$*' needs (the first time this takes a few minutes: Spark alone is 450 MB)"
	$(PIP_INSTALL) --require-hashes --no-build-isolation -r requirements/$*.txt
	$(PIP_INSTALL) --no-deps --no-build-isolation --quiet --editable .
	@touch $@

.PRECIOUS: $(VENV)/.installed-%
