# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test oldest check lint docs benchmarks clean

demo: .venv/demo.done ## make a mixed dataset in a simulator, train with five samplers, print the table, write the report
	$(BIN)/upweight demo --output demo

test: .venv/dev.done ## the whole suite, in two processes: JAX and the simulators leave one core of two idle
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The tests of the library's floor that need no PyTorch.
OLDEST := base data weightings samplers policies io inspection explorer cli adapters/test_draws.py adapters/test_resample.py \
	adapters/test_minari.py test_layers.py
oldest: .venv-oldest/done ## the library's tests with the oldest versions that pyproject.toml promises
	.venv-oldest/bin/python -m pytest -n 2 --dist loadfile $(addprefix tests/,$(OLDEST))

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
	rm -rf .venv .venv-oldest demo dist build site

.venv/created:
	$(PYTHON) -m venv .venv
	touch $@

.venv/demo.done: .venv/created pyproject.toml
	$(PIP) --editable ".[hdf5,parquet,plot,mujoco,train]"
	touch $@

.venv/docs.done: .venv/created pyproject.toml
	$(PIP) --editable ".[docs]"
	touch $@

# torch first and by exact version: a range would pull the newest build with gigabytes of CUDA libraries.
.venv/dev.done: .venv/created pyproject.toml
	$(PIP) torch==2.13.0
	$(PIP) --editable ".[dev]"
	touch $@

.venv-oldest/done: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check $$($(PYTHON) -m tools.oldest) \
		hypothesis pandas polars playwright pytest pytest-xdist scikit-learn
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@
