# `make demo` and `make test` need Python 3.11, make and pip; they fetch uv when it is missing.
.PHONY: demo test test-all lint lock clean install

SHELL := /bin/bash
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --frozen

demo: install
	$(RUN) bash tasks/demo.sh

test: lint
	$(RUN) pytest --numprocesses=2 --dist=loadfile -m "not slow"

test-all: lint
	$(RUN) pytest --numprocesses=2 --dist=loadfile

lint: install
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

install: $(UV)
	$(UV) sync --frozen --quiet

# Only reached when no uv is on the PATH: a private one, beside the checkout.
.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check "uv>=0.5,<1"

# uv.lock is the truth; requirements.txt is the same set, hashed, for plain pip.
lock: install
	$(UV) lock
	$(UV) export --frozen --no-emit-project --no-dev --format requirements-txt --output-file requirements.txt

clean:
	rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis
