# make test   everything CI checks: lint, types, tests        make slow   the slow tests too
# make demo   installs, then synthetic recordings to a patient's report and ONNX files   DEMO=folder   where to (default: demo)
# make install   a virtual environment in .venv               make TORCH=gpu install   with a CUDA build of torch
# make check-meta   what would fail on a GPU, or wait for it, found without one (docs/extend.md)
# make fuzz   spoiled artefacts, a command over each   CASES=how many  SEED=of the series  CASE=one again  ONLY=artefact
# make oldest   the fast tests with the lowest versions that pyproject.toml allows, in .venv-oldest
# make newest   the same with the newest there are, in .venv-newest
# make LOCKED=1 install   the very files of constraints/lock*.txt and no others, as CI does; make lock writes them anew
# make tflite   the environment in .venv-tflite that converts graphs to TensorFlow Lite (export --tflite, and its tests)
# make browser   Chromium (as root) and the npm packages of the browser tests
# make flower   an environment in .venv-flower with Flower, for `ecgfed federate` and its tests
# make haproxy  HAProxy (as root), which stands before the server of `ecgfed federate`
# make docs   the site of docs/ in build/site, strictly: a broken link fails; its packages are in .venv-docs
# make mcu   gcc, clang, the cross compiler for ARM, QEMU, libsodium, CMake and cppcheck (as root), for the C sources
# make phones   Kotlin's compiler and a Java development kit (as root), for examples/phones
# make audit   the known vulnerabilities of what is installed
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

# Every package with its version and SHA-256, torch's CPU build in a file of its own (docs/dependencies.md).
LOCKS := constraints/lock.txt constraints/lock-$(TORCH).txt
ifneq ($(LOCKED),)
INSTALLED := $(VENV)/installed-$(TORCH)-locked
ASKED := --require-hashes $(LOCKS:%=-r %)
else
INSTALLED := $(VENV)/installed-$(TORCH)
ASKED := -c constraints/$(TORCH).txt -e '.[all,dev]'
endif

SPELLED := README.md CHANGELOG.md changelog.d CITATION.cff CODE_OF_CONDUCT.md CONTRIBUTING.md SECURITY.md .github benchmarks cli containers docs ecgfed examples

DEMO ?= demo
CASES ?= 2000
SEED ?= 0
FUZZ_JSON ?= build/fuzz.json

.SECONDARY:
.PHONY: install lint types languages unit slow test check-meta demo fuzz format oldest newest lock audit browser mcu phones tflite flower lock-flower haproxy docs lock-docs clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints/versions.txt constraints/$(TORCH).txt $(if $(LOCKED),$(LOCKS))
	@command -v $(PYTHON) >/dev/null || { echo "ecgfed needs Python 3.11 or newer; there is no $(PYTHON): make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ecgfed needs Python 3.11 or newer; $(PYTHON) is older: make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) || \
		{ echo "$(VENV) could not be made: $(PYTHON) needs its venv and ensurepip (Debian, Ubuntu: apt install python3-venv)" >&2; exit 2; }
	@echo "Installing ecgfed and about 100 packages into $(VENV), $(if $(filter cpu,$(TORCH)),1.4 GB,several GB with CUDA): some minutes."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(INDEX) $(ASKED) || \
		{ echo "The packages could not be installed; pip says why above. Where there is no network, PIP_INDEX_URL or PIP_FIND_LINKS may name a place that has them." >&2; exit 2; }
	$(if $(LOCKED),$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .)
	@touch $@

# Catalogues of the pages' sentences, brought up to date with the code (docs/languages.md).
languages: install
	$(BIN)/python tests/catalogue.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell $(SPELLED)

types: install
	$(BIN)/mypy ecgfed cli

unit: install
	$(BIN)/pytest -n 2 --dist worksteal

slow: install
	$(BIN)/pytest -n 2 --dist worksteal --slow

check-meta: install
	$(BIN)/pytest -n 2 --dist worksteal --slow tests/federation/test_meta_device.py

test: lint types unit

demo: install
	@$(BIN)/python examples/demo.py --out '$(DEMO)'

fuzz: install
	@mkdir -p $(dir $(FUZZ_JSON))
	@cd tests && $(abspath $(BIN))/python -m fuzz --cases $(CASES) --seed $(SEED) $(if $(CASE),--case $(CASE)) \
		$(if $(ONLY),--only '$(ONLY)') --json $(abspath $(FUZZ_JSON))

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Every direct dependency at its lowest or newest version, in an environment made anew. Torch alone stays what `make
# install` took: other builds of it for the CPU are not at hand on every machine, and PyPI's would fetch CUDA.
oldest: RESOLUTION := lowest-direct
newest: RESOLUTION := highest
oldest newest: PIP = $(BIN)/uv pip install --quiet --python .venv-$@
oldest newest: install
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-$@
	$(BIN)/python -c "from importlib.metadata import version; print('torch==' + version('torch'))" > .venv-$@/torch.txt
	$(PIP) --no-deps $(INDEX) $(foreach place,$(PIP_FIND_LINKS),--find-links $(place)) -r .venv-$@/torch.txt
	$(PIP) --resolution $(RESOLUTION) -c .venv-$@/torch.txt -e '.[all,dev]'
	$(BIN)/uv pip check --python .venv-$@
	.venv-$@/bin/pytest -n 2 --dist worksteal -p no:cacheprovider

# Versions are those of constraints/versions.txt; what they need besides is the newest there is. No package is installed,
# and torch, of which no CPU build for every Python is at hand, stands in constraints/lock-cpu.txt by hand.
lock: install
	sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints/lock-cpu.txt > $(VENV)/torch-cpu.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-header --extra all --extra dev \
		$(INDEX) $(foreach place,$(PIP_FIND_LINKS),--find-links $(place)) \
		-c constraints/versions.txt -c $(VENV)/torch-cpu.txt --no-emit-package torch -o constraints/lock.txt pyproject.toml
	$(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --upgrade --no-header --prerelease allow \
		--override constraints/tflite-override.txt -o constraints/lock-tflite.txt constraints/tflite.in

# Flower asks for older versions of typer and rich than everybody else gets: an environment and a lock of its own.
lock-flower: install
	sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints/lock-cpu.txt > $(VENV)/versions-flower.txt
	grep -vE '^(typer|rich|uv|check-jsonschema)==' constraints/versions.txt | cat - constraints/flower.in >> $(VENV)/versions-flower.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-header \
		--extra records --extra train --extra sign --extra dev --extra flower \
		$(INDEX) $(foreach place,$(PIP_FIND_LINKS),--find-links $(place)) \
		-c $(VENV)/versions-flower.txt --no-emit-package torch -o constraints/lock-flower.txt pyproject.toml

# Environments of their own, each of its lock: what the site is made with (docs), Flower (flower), pip-audit (audit), and
# TensorFlow, onnx2tf and TensorFlow Lite for Microcontrollers, which want older packages than ours (tflite). The site's
# generators load the registry and the application, and Flower's programs all of it: there ecgfed and torch are in it.
.venv-%/installed: OWN = $(filter docs flower,$*)
.venv-%/installed: constraints/lock-%.txt constraints/lock-cpu.txt pyproject.toml
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		-r $< $(if $(OWN),$(INDEX) -r constraints/lock-cpu.txt)
	$(if $(OWN),.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .)
	touch $@

flower tflite: %: .venv-%/installed

# HAProxy before a federation's server, for `ecgfed federate server` and the tests of strangers (as root)
haproxy:
	[ -x /usr/sbin/haproxy ] || command -v haproxy >/dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends haproxy; }

lock-docs: install
	sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints/lock-cpu.txt | cat - constraints/versions.txt > $(VENV)/versions-docs.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-header --extra train \
		$(INDEX) $(foreach place,$(PIP_FIND_LINKS),--find-links $(place)) \
		-c $(VENV)/versions-docs.txt --no-emit-package torch -o constraints/lock-docs.txt pyproject.toml constraints/docs.in

docs: .venv-docs/installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs --quiet build --strict

audit: install .venv-audit/installed
	.venv-audit/bin/python constraints/audit.py $(BIN)/python

# What the browser tests need: Chromium and node from Debian where this is root and they are missing, and the driver and
# the accessibility checker by the digests of tests/browser/package-lock.json.
browser:
	@missing=""; command -v chromium >/dev/null || missing="chromium"; command -v npm >/dev/null || missing="$$missing nodejs npm"; \
		if [ -n "$$missing" ]; then \
			[ "$$(id -u)" = 0 ] || { echo "browser: install $$missing first" >&2; exit 2; }; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
		fi
	npm --prefix tests/browser ci --ignore-scripts --no-audit --no-fund --loglevel=error

# What the tests of the C sources need: from Debian where this is root and they are missing. The runtime of clang's
# sanitizers is a package of its own, so clang is asked to link a program with it.
mcu:
	@probe="$$(mktemp -d)"; trap 'rm -rf "$$probe"' EXIT; missing=""; command -v gcc >/dev/null && command -v g++ >/dev/null || missing="gcc g++ libc6-dev"; command -v make >/dev/null || missing="$$missing make"; \
		echo 'int main(void) { return 0; }' | clang -fsanitize=address,undefined -x c - -o "$$probe/main" 2>/dev/null || missing="$$missing clang libclang-rt-dev"; \
		command -v arm-none-eabi-gcc >/dev/null || missing="$$missing gcc-arm-none-eabi libnewlib-arm-none-eabi"; \
		command -v qemu-system-arm >/dev/null || missing="$$missing qemu-system-arm"; \
		[ -e /usr/include/sodium.h ] || missing="$$missing libsodium-dev"; \
		command -v cmake >/dev/null || missing="$$missing cmake"; \
		command -v cppcheck >/dev/null || missing="$$missing cppcheck"; \
		if [ -n "$$missing" ]; then \
			[ "$$(id -u)" = 0 ] || { echo "mcu: install $$missing first" >&2; exit 2; }; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
		fi

phones:
	@if ! { command -v kotlinc && command -v javac; } >/dev/null; then \
		[ "$$(id -u)" = 0 ] || { echo "phones: install kotlin and default-jdk first" >&2; exit 2; }; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends kotlin default-jdk; \
	fi

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-audit .venv-tflite .venv-flower .venv-docs build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf .import_linter_cache
