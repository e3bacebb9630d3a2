# Everything a developer needs; `make venv` comes first and every other target brings it.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
SOURCES := src tests tools hatch_build.py $(wildcard examples benchmarks)
# Jupyter refuses to serve as root unless told; containers often are root.
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] && echo --allow-root)

.PHONY: venv bundles lab demo test-needs test check format bench build clean

venv: $(VENV)/.stamp bundles

$(VENV)/.stamp: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "piweb-jupyter needs Python 3.11 or newer: make venv PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade 'pip>=25.1'
	$(PY) -m pip install --quiet --group build
	@$(PY) hatch_build.py bundle
	$(PY) -m pip install --quiet --no-build-isolation --editable . --group dev
	@touch $@

bundles: $(VENV)/.stamp
	@$(PY) hatch_build.py bundle

lab: venv
	$(PY) -m jupyterlab $(AS_ROOT) notebooks/01_quickstart.ipynb

demo: venv
	@$(PY) tools/demo.py notebooks/01_quickstart.ipynb

# Chromium, pi and the kernels of other ipykernel versions. What can't be had is said, and the
# tests that need it skip; with CI=true they fail.
test-needs: venv
	@$(PY) tools/provision.py

test: test-needs
	@$(PY) -m pytest --nbval tests $(wildcard notebooks) $(ARGS)

check: venv
	$(PY) -m ruff check $(SOURCES)
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m mypy $(SOURCES)
	$(VENV)/bin/lint-imports
	$(PY) hatch_build.py check

format: venv
	$(PY) -m ruff check --fix $(SOURCES)
	$(PY) -m ruff format $(SOURCES)

bench: venv
	$(PY) -m benchmarks.run $(ARGS)

build: venv
	$(PY) -m build

clean:
	rm -rf $(VENV) .cache node_modules dist test-artifacts src/piweb_jupyter/static
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
