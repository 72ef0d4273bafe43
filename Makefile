# `make demo` and `make test` work on a fresh clone: they make .venv first if it is not there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Idle OpenMP threads spin and can slow a busy machine down many times over.
export OMP_WAIT_POLICY ?= PASSIVE
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test check faults mutants bench docs site clean
help:
	@echo "make demo    the tour: built-in corpus, store, Basic and Agree, evaluation, report (5 minutes)"
	@echo "make test    all tests that need no GPU"
	@echo "make check   formatting, lint, types, layers"
	@echo "make faults  2,000 damaged files and 200 killed processes, and what became of them (an hour)"
	@echo "make bench   benchmarks that run here (needs ../shared/data)"
	@echo "make mutants which changes to the code no test notices: a sample of 18 modules (two hours)"
	@echo "make docs    the reference of the experiment file, made from the code"
	@echo "make site    all pages as a site, links checked: site/index.html"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/accord demo

# Three at a time also on two cores: many tests wait for processes that they started.
test: $(READY)
	$(BIN)/pytest -n 3

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

faults: $(READY)
	ACCORD_FAULTS=2000 ACCORD_KILLS=200 $(BIN)/pytest -s tests/faults

bench: $(READY)
	$(BIN)/python benchmarks/prepare.py

mutants: $(READY)
	$(BIN)/python tests/mutants.py

docs: $(READY)
	$(BIN)/python docs/make_reference.py

site: $(READY)
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) demo build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
