# `make run` and `make test` do everything on a machine that has only make and Python.

PYTHON = python3
VENV = .venv
BIN = $(VENV)/bin/python
PIP = $(BIN) -m pip --disable-pip-version-check -q install

# Where it is set, each process of the tests would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-quick test-slow lint format reference bench bench-growth bench-threads bench-timing clean

help:
	@echo 'make run          install what the service needs, and run it on http://127.0.0.1:5000'
	@echo 'make test         install the tools too, and run the checks and the quick tests'
	@echo 'make test-slow    what is slow by nature, and faults: for about 40 minutes'
	@echo 'make lint         the checks alone: ruff and mypy'
	@echo 'make format       put the code in its form'
	@echo 'make reference    make docs/reference.md and .env.example from the code'
	@echo 'make bench        measure the service beside other ways to do the same'
	@echo 'make bench-growth measure it with up to a million users and spent rows'
	@echo 'make bench-threads how threads and processes share their work, beside a thin stack'
	@echo 'make bench-timing does the time of an answer tell whether an address has an account?'
	@echo 'make clean        remove what these made, but for the data in instance/'

# For glibc, as in the Procfile: without them a worker grows by more than 200 MB when many large
# pictures come at once, since memory that one thread frees is of no use to the others.
MEMORY = MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072

run: $(VENV)/run.stamp
	@exec env $(MEMORY) $(BIN) -m config $(BIN) -m gunicorn

# The checks keep one core busy, and the tests the other one meanwhile.
test: $(VENV)/dev.stamp
	@$(MAKE) --no-print-directory -j 2 lint test-quick

test-quick: $(VENV)/dev.stamp
	$(BIN) -m pytest -n 3 --dist loadfile

test-slow: $(VENV)/dev.stamp
	$(BIN) -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m 'slow and not faults'
	$(BIN) -m pytest -m faults

lint: $(VENV)/dev.stamp
	$(BIN) -m ruff check .
	$(BIN) -m ruff format --check .
	$(BIN) -m mypy

format: $(VENV)/dev.stamp
	$(BIN) -m ruff check --fix .
	$(BIN) -m ruff format .

reference: $(VENV)/dev.stamp
	$(BIN) -m tests.reference

# Run as root, one of the libraries warns that there is no folder of a desktop session.
BENCH = $(BIN) -W ignore:XDG_RUNTIME_DIR -m bench

bench: $(VENV)/dev.stamp
	$(BENCH)

bench-growth: $(VENV)/dev.stamp
	$(BENCH) --growth

bench-threads: $(VENV)/dev.stamp
	$(BENCH).threads

bench-timing: $(VENV)/dev.stamp
	$(BENCH).timing

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps remember what is installed; a changed requirements file installs again.
$(VENV)/run.stamp: $(BIN) requirements.txt
	@echo 'Installing what the service needs into $(VENV) ...'
	@$(PIP) -r requirements.txt
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.txt
	@echo 'Installing what the tests need into $(VENV) ...'
	@$(PIP) -r requirements-dev.txt
	@touch $@

$(BIN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'This needs Python 3.11 or newer as python3; or name one: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'This Python cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
