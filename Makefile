# The verbs of the project. Everything needs only git, make and Python >= 3.11; the JVM checks also need Java and Maven.
SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
RUNTIME_STAMP := $(VENV)/.runtime-installed
PROJECT_STAMP := $(VENV)/.project-installed
DEV_STAMP := $(VENV)/.dev-installed
CLASSPATH := build/jvm-classpath.txt
JVM_CLASSES := build/jvm-classes.jsa

# The first interpreter that is new enough; `make PYTHON=/path/to/python3.12 setup` overrides it.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
T ?= tests
# Tests wait for brokers, clients and timers more than they compute, so there are more workers than a small machine has cores.
WORKERS ?= 3
SPREAD := -n $(WORKERS)
PACKAGES := broker protocol storage config native
BUILDER ?= docker
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

# `make PURE=1 ...` runs the sources and compiles nothing.
ifdef PURE
export ODRADEK_PURE := 1
endif

.PHONY: help setup compile dev run fmt lint test test-one test-pure test-crash test-conformance test-jvm test-all jvm bench bench-kafka docs image ci clean

help:
	@echo "make setup             create $(VENV) from requirements.lock, with the odradek command in it"
	@echo "make compile           compile the hot modules anew if a source has changed; PURE=1 with any verb: run the sources"
	@echo "make run [ARGS=...]    start the broker in the foreground (127.0.0.1:9092, data in ./data)"
	@echo "make fmt | lint        format | check format, lint, types and import contracts"
	@echo "make test              the whole suite but the JVM checks"
	@echo "make test-one T=...    one file or test, from source, with SEED=... to replay a random one"
	@echo "make test-crash        SIGKILL under load; make test-conformance: stock Python and C clients"
	@echo "make test-jvm          Apache Kafka's own tools against the broker (needs Java and Maven); make test-all: both"
	@echo "make bench             ratios to bare loops, beside the stored ones (a minute; ARGS=--record, ARGS=--all)"
	@echo "make bench-kafka       side by side with Apache Kafka, into docs/benchmarks.md (half an hour; ARGS=--help)"
	@echo "make docs | image | ci | clean (all that was built; the data stays)"

# --- set-up ---------------------------------------------------------------------------------------------------------

# A changed lock gives a new environment, so nothing unpinned survives in it.
$(RUNTIME_STAMP): requirements.lock requirements-build.lock
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 found; say which: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up $(VENV), once"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
		rm -rf $(VENV); \
		$(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; \
	} || { \
		rm -rf $(VENV); \
		echo "$(PYTHON) can neither make a virtual environment with pip in it nor lend its own pip:" \
			"install its venv package (Debian: python3-venv)" >&2; exit 1; }
	@$(PIP) install --quiet --no-deps -r requirements.lock
	@touch $@

# compat mode: one .pth line, so start-up pays for no import hook; setuptools warns that it may go one day.
$(PROJECT_STAMP): $(RUNTIME_STAMP) pyproject.toml
	@PYTHONWARNINGS=ignore $(PIP) install --quiet --no-deps --no-build-isolation --config-settings editable_mode=compat --editable .
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

$(DEV_STAMP): $(PROJECT_STAMP) requirements-dev.lock
	@$(PIP) install --quiet --no-deps -r requirements-dev.lock
	@touch $@

# Without a C compiler or Python's headers one line says so, and the broker runs its sources; `make compile` insists.
# Status 2: nothing but mypyc is missing.
COMPILE = $(BIN)/python -m native.build || { \
	test $$? = 2 && $(PIP) install --quiet --no-deps -r requirements-build.lock && $(BIN)/python -m native.build; }

setup: $(PROJECT_STAMP)
ifndef PURE
	@$(COMPILE) || true
endif

compile: $(PROJECT_STAMP)
	@$(COMPILE)

dev: $(DEV_STAMP)

run: setup
	@exec $(BIN)/odradek serve $(ARGS)

# --- checks ---------------------------------------------------------------------------------------------------------

fmt: dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup dev
	$(PYTEST) $(SPREAD) -m "not jvm" tests

# Who edits a compiled module does not wait for a compiler here; ODRADEK_PURE=0 takes what is compiled and current.
test-one: dev
	ODRADEK_PURE=$${ODRADEK_PURE-1} $(PYTEST) $(T)

# What the compiled modules do, done by their sources; and what only these can be asked. Tests that load no compiled
# module are the same in both forms, so the long ones of them are left to the other run.
SAME_IN_BOTH_FORMS := tests/property/test_messages.py tests/property/test_messages_against_peers.py
test-pure: dev
	ODRADEK_PURE=1 $(PYTEST) $(SPREAD) $(SAME_IN_BOTH_FORMS:%=--ignore=%) \
		tests/unit tests/property tests/tidy tests/crash/test_swap_crashes.py

test-crash: setup dev
	$(PYTEST) $(SPREAD) tests/crash

test-conformance: setup dev
	$(PYTEST) $(SPREAD) -m "not jvm" tests/conformance

$(CLASSPATH): tests/jvm/pom.xml
	@mkdir -p $(@D)
	@mvn --batch-mode --quiet --file $< dependency:build-classpath -Dmdep.outputFile=$(CURDIR)/$@

# JVMs of the tests start in half the time with it; those that are too old to make one do without.
$(JVM_CLASSES): $(CLASSPATH) $(DEV_STAMP)
	@$(BIN)/python -m tests.harness.java_archive >/dev/null 2>&1 || true

jvm: $(CLASSPATH) $(JVM_CLASSES)

test-jvm: setup dev jvm
	$(PYTEST) $(SPREAD) -m jvm tests

test-all: setup dev jvm
	$(PYTEST) $(SPREAD) tests

bench: setup dev
	$(BIN)/python -m tests.bench $(ARGS)

bench-kafka: setup dev jvm
	$(BIN)/python -m tests.bench.kafka $(ARGS)

# --- docs and images ------------------------------------------------------------------------------------------------

# What is generated from a table: one page a module that prints it.
# That the committed ones are current is a test (tests/tidy).
docs: export ODRADEK_PURE := 1
docs: $(PROJECT_STAMP)
	$(BIN)/python -m config.docs > docs/config.md
	$(BIN)/python -m broker.api.docs > docs/apis.md
	$(BIN)/python -m broker.metrics.docs > docs/metrics.md
	$(BIN)/python docker/grafana/generator

# `make image BUILDER=buildah` needs no container engine; its own format would lose the health check.
image:
	$(BUILDER) build $(if $(findstring buildah,$(BUILDER)),--format docker) --file docker/Dockerfile \
		--build-arg VERSION=$(VERSION) --tag odradek:dev $(IMAGE_OPTIONS) .

ci: lint test

clean:
	rm -rf $(VENV) build native/built native/built-* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
