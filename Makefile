# The two commands of the README are `make demo` and `make test`. Every target makes .venv and
# installs the package when that has not been done, or when pyproject.toml has changed since.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-ci test-all lint format docs bench rehearse clean help

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "ttm_jax needs Python 3.11 or newer; try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras: a second call installs nothing.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing ttm_jax into $(VENV) (a minute or two, once)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "installing ttm_jax and its test tools into $(VENV) (a minute or two, once)"
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	@echo "installing ttm_jax and the documentation tools into $(VENV) (a minute or two, once)"
	@$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed  ## Test-Time Matching with the small model on two small benchmarks
	@$(BIN)/ttm demo

test: $(VENV)/.installed-dev  ## the quick test suite (PyTorch parity runs too when torch is installed)
	@$(BIN)/python -m pytest -n 2

test-ci: $(VENV)/.installed-dev  ## what .ci/run runs: also pods, kills, the wheel, the notebook
	@$(BIN)/python -m pytest -n 2 -m 'not slow'

test-all: $(VENV)/.installed-dev  ## the suite with the full-size and long tests
	@$(BIN)/python -m pytest -m ''

lint: $(VENV)/.installed-dev  ## ruff and mypy
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(VENV)/.installed-dev  ## let ruff rewrite the files
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

# Not --quiet: that would also silence --strict. The variable silences a notice of the theme.
docs: $(VENV)/.installed-docs  ## the documentation as a site in site/; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.installed-dev  ## speed and memory beside PyTorch, in benchmarks/results.md
	@$(BIN)/python benchmarks/run_all.py $(BENCH)

rehearse: $(VENV)/.installed-dev  ## the experiments at full size, random weights from a local server
	@$(BIN)/python -m benchmarks.rehearsal $(REHEARSE)

clean:  ## remove the environment, the runs and the site
	rm -rf $(VENV) runs site
