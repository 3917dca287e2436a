# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-oldest bench dist docs clean

$(BIN)/lookalike: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@

# Train on drawn characters (a mirrored b is a d, so none are mirrored), measure on characters never seen, index them, search; leaves demo/run/report.html.
demo: $(BIN)/lookalike
	$(BIN)/lookalike train glyphs --out demo/run --overwrite --set data.flip=false --set data.image_size=96 --set train.epochs=4
	$(BIN)/lookalike index demo/run glyphs --out demo/index
	$(BIN)/lookalike search demo/index --sample 3 -k 5 --html demo/hits.html
	@echo "report: demo/run/report.html   search: demo/hits.html"

# One thread per process: two processes of tests would only wait for each other's threads. Some images of containers
# forbid compiled files; each of the many processes would compile the package again.
test: export OMP_NUM_THREADS = 1
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal

# A part of the tests with the oldest version of each dependency that pyproject.toml allows, in an environment of its own.
OLDEST := .venv-oldest
test-oldest: export OMP_NUM_THREADS = 1
test-oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet -c constraints-oldest.txt -e . pytest pytest-timeout hypothesis
	$(OLDEST)/bin/python -m pytest -W default tests/config tests/losses/test_base.py tests/models/test_checkpoint.py \
		tests/ranking tests/data/test_frames.py tests/data/test_image_column.py tests/data/test_layouts.py tests/evaluation/test_metrics.py tests/training/test_fit.py tests/search/test_build.py \
		tests/cli/test_commands.py

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks

# Source distribution and wheel in dist/, the wheel tried in an empty environment outside this folder.
dist: $(VENV)/dev
	rm -rf dist build
	$(BIN)/python -m build --outdir dist .
	.ci/try_wheel dist/*.whl

docs: $(VENV)/dev
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) $(OLDEST) build dist demo .mypy_cache .pytest_cache .ruff_cache
