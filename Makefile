# make decode    install into .venv and decode text on a simulated mesh of tiles
# make test      install what the checks need and run them: lint, types, tests
#
# ARGS passes options on:       make decode ARGS="--model mathformer --prompt 7+8="
#                               make test ARGS="-k topology"
# PYTHON chooses the Python:    make test PYTHON=python3.12  (after make distclean)

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_TEST := $(VENV)/.installed-test

# uv takes 4 s where pip takes 30; whatever it stumbles on is left to pip.
install = $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --editable $(1) \
	|| $(BIN)/python -m pip install --quiet --editable $(1)

.PHONY: help decode test lint types unit format clean distclean
.DELETE_ON_ERROR:

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

decode: $(INSTALLED)
	$(BIN)/tokenpath decode $(ARGS)

test: lint types unit

lint: $(INSTALLED_TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED_TEST)
	$(BIN)/mypy -p tokenpath

unit: $(INSTALLED_TEST)
	$(BIN)/pytest -n 2 $(ARGS)

format: $(INSTALLED_TEST)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Tokenpath needs Python 3.11 or newer, not $$($(PYTHON) --version 2>&1); \
	try make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/pip || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet uv || true
	@echo "installing Tokenpath into $(VENV)"
	@$(call install,.)
	@touch $@

$(INSTALLED_TEST): $(INSTALLED)
	@echo "installing what the checks need into $(VENV)"
	@$(call install,'.[test]')
	@touch $@

clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

distclean: clean
	rm -rf $(VENV) *.egg-info
