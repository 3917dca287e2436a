# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test bench dist docs clean

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
	$(BIN)/lookalike train glyphs --out demo/run --overwrite --set data.flip=false --set data.image_size=96
	$(BIN)/lookalike index demo/run glyphs --out demo/index
	$(BIN)/lookalike search demo/index --sample 3 -k 5 --html demo/hits.html
	@echo "report: demo/run/report.html   search: demo/hits.html"

# One thread a process: two processes of tests would only wait for each other's threads.
test: export OMP_NUM_THREADS = 1
test: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile

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
	rm -rf $(VENV) build dist demo .mypy_cache .pytest_cache .ruff_cache
