# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: setup demo check test lint docs release clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up .venv, train on the embedded catalogue, print the table, write runs/demo/report.html"
	@echo "make test    set up .venv, lint, type-check, run every test (needs chromium and strace; .ci/run installs them)"
	@echo "make check   the fast part of that, for use while working: no browser, database, Ray, ONNX, kills or benchmarks"
	@echo "make docs    build the site into build/site, for reading offline; check its links and spelling"
	@echo "make release build wheel and sdist reproducibly, try them in a clean environment, write dist/"
	@echo "make setup   prepare .venv with the eigenmap command in it"

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

demo: setup
	$(BIN)/eigenmap demo --out runs/demo --force

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 -m "not slow"

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2

docs: setup $(VENV)/.docs
	$(BIN)/python tools/check_site.py

$(VENV)/.docs: pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

release:
	$(PYTHON) tools/release.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
