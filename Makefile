# Everything starts here. `make` alone prints what there is.
PYTHON ?= python3
UV     := .tools/bin/uv
BIN    := .venv/bin
MEMBERS := libs/common $(wildcard services/*)
ARGS   ?=
export UV_LINK_MODE ?= hardlink

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/ready ## the whole of Headgate on this machine, with one webhook's way through it (ARGS=--once: and stop)
	@$(BIN)/headgate demo $(ARGS)

dev: .venv/ready ## every service, a real Kafka and a real registry, until Ctrl-C (ARGS="--scale processor=2")
	@$(BIN)/headgate dev $(ARGS)

test: .venv/ready ## every test but the long suites; starts the Kafka it needs (ARGS="-k runner")
	@$(BIN)/pytest $(ARGS)

check: .venv/ready ## ruff, mypy strict, generated files are current
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m tools.generate --check

bench: .venv/ready ## speed, as ratios against baselines run beside it; appends to bench/results.jsonl
	@$(BIN)/python -m tests.bench $(ARGS)

chaos: .venv/ready ## kill -9 and worse, then count (SCENARIO=F2 SEED=7, or ARGS="--seeds 10")
	@$(BIN)/python -m tests.chaos $(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(SEED),--seed $(SEED)) $(ARGS)

generate: .venv/ready ## rewrite what is generated: JSON Schemas, provider pages, chart values schema
	@$(BIN)/python -m tools.generate

lock: $(UV) ## resolve dependencies anew into requirements.lock
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  $(MEMBERS:%=%/pyproject.toml) --group pyproject.toml:dev --no-emit-package headgate-common -o requirements.lock

clean: ## remove the tool chain, caches and the data of headgate dev
	rm -rf .venv .tools .headgate .mypy_cache .ruff_cache .pytest_cache .hypothesis chaos-reports
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV):
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v < (3, 14) or sys.exit("Headgate runs on Python 3.11 to 3.13; $(PYTHON) is %d.%d. Name another one: make demo PYTHON=python3.13" % v)'
	@echo "setting up: uv"
	@$(PYTHON) -m venv .tools
	@.tools/bin/pip install --quiet --disable-pip-version-check uv==0.13.8

.venv/ready: requirements.lock $(MEMBERS:%=%/pyproject.toml) | $(UV)
	@echo "setting up: Python packages"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	@$(UV) pip sync --quiet --require-hashes requirements.lock
	@$(UV) pip install --quiet --no-deps $(MEMBERS:%=-e ./%)
	@touch $@

.PHONY: help demo dev test check bench chaos generate lock clean
.DEFAULT_GOAL := help
