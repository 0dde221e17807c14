# make test   everything CI checks: lint, types, tests        make slow   the slow tests too
# make demo   the whole path on a synthetic cohort            DEMO=folder   where to (default: demo)
# make install   a virtual environment in .venv               make TORCH=gpu install   with a CUDA build of torch
PYTHON ?= python3
VENV ?= .venv
TORCH ?= cpu
BIN := $(VENV)/bin

# PyPI's torch for Linux is the CUDA build; the CPU build has an index of its own. A machine that brings its own wheel
# says so in PIP_FIND_LINKS and needs no index.
CPU_INDEX := https://download.pytorch.org/whl/cpu
ifeq ($(TORCH)$(PIP_FIND_LINKS),cpu)
INDEX := --extra-index-url $(CPU_INDEX)
endif

DEMO ?= demo

.PHONY: install lint types unit slow test demo format clean

install: $(VENV)/installed-$(TORCH)

$(VENV)/installed-$(TORCH): pyproject.toml constraints/versions.txt constraints/$(TORCH).txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ecgfed needs Python 3.11 or newer; $(PYTHON) is older: make PYTHON=python3.12 ..." >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(INDEX) -c constraints/$(TORCH).txt -e '.[dev]'
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy ecgfed cli

unit: install
	$(BIN)/pytest -n 2 --dist worksteal

slow: install
	$(BIN)/pytest -n 2 --dist worksteal --slow

test: lint types unit

demo: install
	@$(BIN)/python examples/demo.py --out $(DEMO)

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
