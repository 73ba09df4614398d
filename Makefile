# `make demo` and `make test` need Python 3.11, make and pip; they fetch uv when it is missing.
.PHONY: help demo check test slow test-all coverage tutorials docs lint format lock clean install \
	native wheelhouse wheel fleet
.DEFAULT_GOAL := help

SHELL := /bin/bash
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
EXTRAS :=  # of pyproject.toml, as in `make test EXTRAS="--extra cluster"`
OFFLINE :=  # a folder that `make wheelhouse` filled: nothing is asked of an index
WHEELS := build/wheelhouse
RUN := $(UV) run --frozen $(if $(OFFLINE),--no-sync) $(EXTRAS)
# A file is run by one process, for what its tests share; conftest.py puts the long files first.
PYTEST := $(RUN) pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder
# Examples in docstrings, beside the tests.
DOCTESTS := --doctest-modules tests tff_keyboard tflite_export tff_keyboard_app tff_keyboard_fleet \
	tff_keyboard_lab/study tff_keyboard_lab/attacks tff_keyboard_lab/audits tff_keyboard_lab/tests libcifg/tests
STORE := data/persuasion_for_good  # of `tff-keyboard prepare`, for `make fleet`

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: install  ## prepare, train, evaluate on synthetic typists: about a minute on 2 cores
	$(RUN) python -m tasks.demo

check: lint  ## lint, types and the quick tests that need no TensorFlow: a minute
	$(RUN) pytest --without-tensorflow -m "not slow" $(DOCTESTS)

test: lint  ## lint, types and the quick tests
	$(PYTEST) -m "not slow"

slow: install  ## the slow tests, the ten slowest named, and all examples of hypothesis
	HYPOTHESIS_PROFILE=full $(PYTEST) -m "slow or hypothesis" --durations=10

test-all: lint  ## lint, types and all tests, the ten slowest named
	HYPOTHESIS_PROFILE=full $(PYTEST) --durations=10 $(DOCTESTS)

coverage: lint  ## all tests but the thorough, and which branches they take: at least 95 %; build/coverage/index.html
	$(PYTEST) -m "not thorough" --durations=10 $(DOCTESTS) --ignore=tff_keyboard_lab/tests/benchmarks \
	  --cov --cov-fail-under=95 --cov-report=term-missing:skip-covered --cov-report=html:build/coverage
	$(PYTEST) tff_keyboard_lab/tests/benchmarks  # they time the product, so nothing traces them

tutorials: install  ## runs docs/tutorials/*.py; build/tutorials/*.md have outputs and pictures
	$(RUN) python -m tff_keyboard_lab.tools.tutorials

native: install  ## libcifg, the keyboard in C++: build/native/, and its quick tests
	$(MAKE) --no-print-directory -f libcifg/build.mk OUT=build/native \
	  build/native/libcifg.so build/native/cifg.hpp build/native/strips
	$(RUN) pytest libcifg/tests -m "not slow"

fleet: install  ## a server, the devices of 200 people of STORE, kills, attackers; then its load
	$(RUN) python -m tff_keyboard_lab.benchmarks.fleet.fleet --store=$(STORE) --out=build/fleet
	$(RUN) python -m tff_keyboard_lab.benchmarks.fleet.load

lint: install  ## ruff, mypy and the direction of imports
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) lint-imports

format: install  ## put the code into shape: ruff's fixes and its formatter
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

install: $(UV)  ## the locked packages, into .venv; with OFFLINE=folder from a wheelhouse, no index
ifeq ($(OFFLINE),)
	$(UV) sync --frozen --quiet $(EXTRAS)
else
	$(UV) venv --offline --quiet --allow-existing --python 3.11 .venv
	$(UV) pip install --no-config --offline --quiet --no-index --find-links $(OFFLINE) --no-deps --require-hashes \
	  --python .venv -r $(OFFLINE)/requirements.txt
	$(UV) pip install --no-config --offline --quiet --no-deps --no-build-isolation --python .venv --editable .
endif

wheelhouse: $(UV)  ## every locked package, and uv, into the folder WHEELS, checked by hash
	mkdir -p $(WHEELS)
	$(UV) export --frozen --quiet --no-emit-project $(EXTRAS) --output-file $(WHEELS)/requirements.txt
	$(UV) tool run --quiet --python 3.11 pip download --quiet --disable-pip-version-check \
	  --no-deps --require-hashes --prefer-binary --dest $(WHEELS) \
	  -r $(WHEELS)/requirements.txt -r requirements-uv.txt

wheel: $(UV)  ## build/dist/*.whl, to be installed anywhere: configs and models are inside
	rm -rf build/lib build/bdist.*  # of an earlier build: its files would be taken along
	$(UV) build --wheel --quiet --out-dir build/dist

# Not --quiet: it hides warnings from --strict, and nothing fails.
docs: $(UV)  ## the documentation site, build/site/index.html; a broken link or undocumented name fails
	$(UV) venv --quiet --allow-existing --python 3.11 build/docs_env
	$(UV) pip install --no-config --quiet --require-hashes --python build/docs_env -r requirements-docs.txt
	NO_MKDOCS_2_WARNING=1 build/docs_env/bin/python -m mkdocs build --strict
	@echo "Open build/site/index.html. For its search: python3 -m http.server --directory build/site"

# Only reached when no uv is on the PATH: a private one, beside the checkout.
.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
	  $(if $(OFFLINE),--no-index --find-links $(OFFLINE)) -r requirements-uv.txt

# uv.lock is the truth; requirements.txt is the same set, hashed, for plain pip. uv itself is not in it.
lock: install  ## after a change of the dependencies: uv.lock and requirements.txt anew
	$(UV) lock
	$(UV) export --frozen --no-emit-project --no-dev --extra train --extra fleet --format requirements-txt --output-file requirements.txt
	$(UV) export --frozen --no-emit-project --no-dev --extra train --extra fleet --extra cluster --format requirements-txt --output-file requirements-cluster.txt
	echo uv | $(UV) pip compile --upgrade --generate-hashes --no-deps --no-annotate --output-file requirements-uv.txt -
	printf '%s\n' latex2mathml mkdocs-material 'mkdocstrings[python]' ruff tomli-w typing-extensions | $(UV) pip compile --no-config --upgrade --generate-hashes \
	  --python-version 3.11 --no-annotate --custom-compile-command "make lock" --output-file requirements-docs.txt -

clean:  ## everything that make made
	rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* build/coverage build/docs_env build/site
