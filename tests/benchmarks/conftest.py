"""Benchmarks time the product, so their tests run with the slow ones."""

import pathlib

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if pathlib.Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
