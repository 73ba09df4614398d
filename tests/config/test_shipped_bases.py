"""A shipped config has at most two bases, and a base in configs/bases/ belongs to no corpus."""

import pathlib

import pytest

from tests.support import shipped_configs
from tff_keyboard import config
from tff_keyboard.storage import toml

MAX_DEPTH = 2


def bases_of(path):
    """Returns the base of a config, the base of that one, and so on."""
    base = toml.parse(path.read_text()).get("base")
    if base is None:
        return []
    return [(path.parent / base).resolve(), *bases_of(path.parent / base)]


@pytest.mark.parametrize("path", [*shipped_configs.CONFIGS, *shipped_configs.BASES], ids=str)
def test_config_inherits_over_at_most_two_levels(path):
    assert len(bases_of(path)) <= MAX_DEPTH


@pytest.mark.parametrize("path", shipped_configs.BASES, ids=str)
def test_base_loads_has_no_corpus_and_is_used(path):
    run = config.load(path)
    assert run.data.input == config.RunConfig().data.input
    assert run.data.store == config.RunConfig().data.store
    assert any(path.resolve() in bases_of(each) for each in shipped_configs.CONFIGS)


@pytest.mark.parametrize("name", ["german.toml", "language.toml"])
def test_no_base_of_another_language_has_a_corpus(name):
    folders = {base.parent.name for base in bases_of(pathlib.Path("configs", name))}
    assert folders == {"bases"}
