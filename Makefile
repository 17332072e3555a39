# make demo       generate, compile and check kernels, on a GPU if there is one, else on the CPU
# make test-fast  the quick ones of tests/unit and tests/golden, which build next to nothing
# make test       tests of every kind that this machine can run
# make test-all   the same and the long tail: every combination, every whole report, thousands of random specs
# make mutants    put single faults into a copy and see whether the tests notice; what is known is kept; ARGS="--room split" for fewer
# make docs       the documentation as a site, in build-out/docs/index.html
# make rocm       fetch what exports for AMD are compiled and linked against in tests, into .rocm: 70 MB from Debian, without root
# make clean      remove what those above made
#
# Nothing is needed but Linux, Python 3.11 or later and a way to pypi.org: no GPU,
# CUDA toolkit, compiler or root. PYTHON=... chooses another interpreter.

VENV := .venv
RUN := $(VENV)/bin/python
DEMO := $(VENV)/.demo
INSTALLED := $(VENV)/.installed
FRAMEWORKS := $(VENV)/.frameworks
AXE := $(VENV)/axe
PYTHON ?=

# What took longest is told at the end; workers take tests from one another.
# Compiled modules and rewritten assertions are kept, which a setting of the user's may forbid.
PYTEST := PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -q -n auto --maxprocesses 8 --dist worksteal --durations=25

.PHONY: help demo test-fast test test-all mutants docs rocm clean
help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed -n 1,8p

demo: $(DEMO)
	@$(RUN) -m gemmgen.demo

# Where C code hangs, the process is ended soon after the test's own limit of 300 s; the long tests' own is that of pyproject.toml.
SHORT := -o faulthandler_timeout=360 -m

test-fast: $(INSTALLED)
	@$(PYTEST) $(SHORT) "not long and not slow" tests/unit tests/golden

test: $(FRAMEWORKS)
	@$(PYTEST) $(SHORT) "not long"

test-all: $(FRAMEWORKS) $(AXE)
	@$(PYTEST)

mutants: $(FRAMEWORKS)
	@$(RUN) tests/mutants/run.py $(ARGS)

# Warnings are errors, as in the test of the site.
docs: $(INSTALLED)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@$(RUN) -m sphinx -b html -W --keep-going -q -d build-out/docs-trees docs build-out/docs
	@echo "wrote build-out/docs/index.html"

# ROCm 5.2's headers and runtime, and a clang that is new enough for the kernels: the one that came with it is not.
rocm:
	@mkdir -p .rocm/packages
	@cd .rocm/packages && apt-get download libamdhip64-dev libamdhip64-5 libhsa-runtime64-1 libhsakmt1 libamd-comgr2 \
	    clang-19 clang-tools-19 lld-19 libllvm19 libclang-cpp19 libclang-common-19-dev
	@cd .rocm && for package in packages/*.deb; do dpkg -x $$package .; done && rm -r packages

clean:
	rm -rf $(VENV) .rocm build-out dist .pytest_cache .hypothesis
	find gemmgen tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Modules are compiled when they are first imported: most never are.
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check --no-compile

# What the demonstration needs and no more. An environment that has all has that, too.
# Each candidate is run, because a name on the PATH may be a stub that only complains.
$(DEMO): pyproject.toml
	@if [ $(INSTALLED) -nt pyproject.toml ]; then touch -r $(INSTALLED) $@; exit; fi; \
	for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	    if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        found=$$python; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "error: no Python 3.11 or later with its venv module was found" >&2; \
	    echo "  try    installing one (Debian, Ubuntu: python3-venv), or make PYTHON=/path/to/python3" >&2; \
	    exit 2; \
	fi; \
	echo "installing gemmgen into $(VENV) with $$($$found --version): 90 MB to download, 250 MB on disk"; \
	$$found -m venv --clear $(VENV) && $(PIP) -e '.[demo]' && touch $@

$(INSTALLED): $(DEMO)
	@echo "installing what tests need into $(VENV): 1.4 GB on disk"
	@$(PIP) -e '.[dev]'
	@touch $@

# JAX and torch for the CPU, where they can be had: tried once, and never torch's usual wheel, which brings CUDA of several GB.
# The tests that need them skip elsewhere.
$(FRAMEWORKS): $(INSTALLED)
	@echo "installing JAX and torch for the CPU into $(VENV), where they can be had: 1.2 GB on disk"
	@for wheels in jax 'torch==2.13.0+cpu'; do \
	    timeout 300 $(PIP) --retries 0 --timeout 20 --only-binary :all: $$wheels 2>/dev/null || \
	    echo "$$wheels could not be installed: tests that need it are skipped" >&2; \
	done
	@touch $@

# Checks reports and the documentation for accessibility: tried once, and the tests that need it skip elsewhere.
$(AXE): $(INSTALLED)
	@mkdir -p $@
	@{ cd $@ && timeout 60 npm pack --silent axe-core@4.11.1 && tar xzf axe-core-*.tgz package/axe.min.js && rm axe-core-*.tgz; } > /dev/null 2>&1 || \
	    echo "axe-core could not be fetched by npm: accessibility is not checked" >&2
	@touch $@
