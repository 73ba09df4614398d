"""No key hides: a shipped config or study sets it, or a page says what it is good for."""

import dataclasses
import pathlib
import re

import tomllib

from tests.support import shipped_configs
from tff_keyboard.config.reading import tables
from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.study.plan import study_file

PAGES = [pathlib.Path("README.md"), *pathlib.Path("docs").rglob("*.md")]
# `[train]`: ... `key` ... of docs/configs.md, up to the next table.
OF_A_TABLE = re.compile(r"`\[([a-z_.]+)\]`((?:(?!`\[).)*)", re.DOTALL)


def fields(hint=RunConfig, prefix=""):
    """Every key of a config: (dotted name, class, field)."""
    for cls in tables.variants(hint).values() or [hint]:
        for field in dataclasses.fields(cls):
            inner = tables._hints(cls)[field.name]
            if tables._is_table(inner):
                yield from fields(inner, f"{prefix}{field.name}.")
            else:
                yield f"{prefix}{field.name}", cls.__name__, field.name


def names(table, prefix=""):
    for key, value in table.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from names(value, f"{prefix}{key}.")


def keys_set():
    for path in shipped_configs.CONFIGS:
        yield from names(tomllib.loads(path.read_text()))
    for path in shipped_configs.STUDIES:
        study = study_file.load(path)
        yield from (sweep.key for sweep in study.sweeps)
        for override in [*study.set, *(each for arm in study.arms for each in arm.set)]:
            key, _, value = override.partition("=")
            yield key
            if "=" in value:  # a table
                yield from names(tomllib.loads(f"it = {value}")["it"], f"{key}.")


def keys_listed():
    """Of the section of docs/configs.md."""
    page = pathlib.Path("docs/configs.md").read_text()
    for table, text in OF_A_TABLE.findall(page.partition("## Keys that no config sets")[2]):
        yield from (f"{table}.{key}" for key in re.findall(r"`([a-z_0-9]+)`", text))


def keys_told():
    """By their whole names."""
    for page in PAGES:
        yield from re.findall(r"\b([a-z_]+(?:\.[a-z_0-9]+)+)(?=[`=\s])", page.read_text())


def test_every_key_is_set_or_told():
    found = set(keys_set())
    places = {(cls, field) for key, cls, field in fields() if key in found}  # also of another table
    hidden = {key for key, cls, field in fields() if (cls, field) not in places}
    hidden -= {*found, *keys_told(), *keys_listed()}
    assert not hidden, "Set it in a config or a study, say in docs/configs.md what it does, or cut."


def test_the_page_lists_keys_that_are_there_and_that_nothing_sets():
    listed = set(keys_listed())
    assert listed
    assert listed <= {key for key, *_ in fields()}
    assert not listed & set(keys_set())
