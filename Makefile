# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.bench-ready

.PHONY: demo test test-elsewhere test-lowest test-sanitized test-wheel test-device fuzz lint lock docs bench reproduce release clean quick

$(READY): pyproject.toml hatch_build.py src/kapitza/flow/kernel/hybrid.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

$(BENCH_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@

demo: $(READY)
	$(BIN)/kapitza demo

# Below two minutes on two cores, before a commit; `make test` is the judge.
quick: $(READY)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m quick

# Three workers on two cores: those that drive a browser wait for half of their time. Four are slower.
test: $(READY)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# As other processors would run them: kernels, SIMD widths, rounding, signs, hash seeds. Twice the time of `make test`.
test-elsewhere: $(READY)
	$(BIN)/python -m tests.elsewhere $(ONLY)

# Events once more, with a stepper that checks every access to memory and every operation on numbers.
SANITIZED := build/hybrid-sanitized.so
test-sanitized: $(READY)
	mkdir -p build
	$(CC) -O1 -g -std=c11 -shared -fPIC -ffp-contract=off -fsanitize=address,undefined -fno-sanitize-recover=all \
	    -DKZ_VERSION=$$($(BIN)/python -c "import zlib; print(zlib.crc32(open('src/kapitza/flow/kernel/hybrid.c', 'rb').read()) & 0x7FFFFFFF)") -o $(SANITIZED) src/kapitza/flow/kernel/hybrid.c -lm
	KAPITZA_KERNEL=$(abspath $(SANITIZED)) LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
	    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 \
	    tests/flow/test_kernel.py tests/flow/test_events_friction.py tests/flow/test_events_impacts.py \
	    tests/flow/test_events_tangents.py tests/flow/test_knots.py tests/flow/test_nested.py tests/flow/test_sections.py

# With the lowest versions of all dependencies that pyproject.toml admits. Warnings of old libraries are no errors.
LOWEST := build/lowest
test-lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --only-binary :all: \
	    --no-binary kapitza --editable '.[bayes,dask,docs,fmu,formats,mdf,rig,studio]' 'openpyxl>=3.1' 'nbclient>=0.10' 'ipykernel>=6.29' 'pytest>=9.0' 'pytest-xdist>=3.6' 'hypothesis>=6.100' 'playwright>=1.49'
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n 2 --dist loadfile -o filterwarnings=default $(ONLY)

# Versions of everything that `make test` needs, as they were tried: pip install -r packaging/dev-lock.txt
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/lock/bin/uv pip compile pyproject.toml --universal --extra dev --python-version 3.11 --no-header --no-annotate \
	    --quiet --output-file packaging/dev-lock.txt

# Wheel and source in dist/, each installed into an empty environment and tried there; then the suite on the wheel.
release: $(READY)
	$(BIN)/python -m harness.release $(ONLY)

# The suite, or ONLY="tests/base tests/cli", on the wheel in an empty environment; the tree it runs in has no src/.
test-wheel: $(READY)
	$(BIN)/python -m harness.release --tests-only $(ONLY)

# Kernels for an accelerator, on a card of NVIDIA; `make test` checks their numbers by the C compiler.
test-device: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cuda]'
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.flow.on_card
	$(BIN)/python -W error -m harness.docs_blocks device

fuzz: $(READY)
	$(BIN)/python -m tests.hostile $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)")
	$(if $(ONLY),,$(BIN)/python -W ignore -c "from benchmarks.kills import main; print(main())")

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

docs: $(READY)
	$(BIN)/python -m harness
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -W error -m harness.docs_blocks
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

reproduce: $(READY)
	$(BIN)/python -m reproductions $(ONLY)

bench: $(BENCH_READY)
	$(BIN)/python -m benchmarks $(ONLY)

clean:
	rm -rf $(VENV) site out build dist
