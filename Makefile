# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check lint docs benchmarks clean

demo: .venv/demo.done ## make a mixed dataset in a simulator, train with five samplers, print the table, write the report
	$(BIN)/upweight demo --output demo

test: .venv/dev.done ## the whole suite, in two processes: JAX and the simulators leave one core of two idle
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: lint ## lint, types and the fast tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

lint: .venv/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/docs.done ## the documentation as a site that needs no network: site/index.html
	$(BIN)/python -m tools.site

benchmarks: .venv/dev.done ## re-measure; results go to benchmarks/results
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/rollout.py
	$(BIN)/python benchmarks/adapters.py
	$(BIN)/python benchmarks/explorer.py
	$(BIN)/python benchmarks/train_throughput.py --peer --name train_throughput_cpu

clean:
	rm -rf .venv demo dist build site

.venv/created:
	$(PYTHON) -m venv .venv
	touch $@

.venv/demo.done: .venv/created pyproject.toml
	$(PIP) --editable ".[hdf5,plot,mujoco,train]"
	touch $@

.venv/docs.done: .venv/created pyproject.toml
	$(PIP) --editable ".[docs]"
	touch $@

# torch first and by exact version: a range would pull the newest build with gigabytes of CUDA libraries.
.venv/dev.done: .venv/created pyproject.toml
	$(PIP) torch==2.13.0
	$(PIP) --editable ".[dev]"
	touch $@
