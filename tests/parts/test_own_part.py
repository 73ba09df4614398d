"""A user's own part in a config: its options come from its parameters."""

import hashlib
import textwrap
from importlib import metadata

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.aggregators.registry._own import OwnAggregator
from tff_keyboard.parts import own_part
from tff_keyboard.storage import entry_points

SOURCE = """
from typing import Annotated, Literal

from tff_keyboard.storage.checks import Positive


class Nearest:
    averages = True

    def __init__(
        self,
        neighbours: int,
        clients_per_round: int,
        power: Positive = 2.0,
        kind: Literal["near", "far"] = "near",
        groups: dict[str, list[str]] | None = None,
        names: tuple[str, ...] = (),
        callback=print,
        *,
        verbose=False,
    ):
        pass


class Safe:
    keeps_sensitivity = True

    def __init__(self, inner):
        pass


def needs_object(thing: object):
    return thing


not_callable = 3
"""


@pytest.fixture(name="file")
def _file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(SOURCE))
    return path


def read(file, attribute, *overrides):
    type_ = f"aggregation.rule.type={file}:{attribute}"
    return config_lib.loads("", [type_, *(f"aggregation.rule.{o}" for o in overrides)])


def test_keys_are_the_parameters_and_defaults_are_recorded(file):
    config = read(file, "Nearest", "neighbours=5", "power=1", 'groups={a=["x"]}', 'names=["y"]')
    rule = config.aggregation.rule
    assert isinstance(rule, OwnAggregator)
    assert rule.arguments() == {
        "neighbours": 5,
        "power": 1.0,
        "kind": "near",
        "groups": {"a": ["x"]},
        "names": ("y",),
        "verbose": False,
    }
    assert config_lib.loads(config_lib.dump(config)) == config
    assert config.aggregation.resolved_protection.type == "adaptive"  # `averages`
    assert read(file, "Safe").aggregation.resolved_protection.type == "off"


@pytest.mark.parametrize(
    "attribute, overrides, words",
    [
        ("Nearest", [], "`aggregation.rule.neighbours` is missing. It has no default."),
        ("Nearest", ["neighbours=x"], "`aggregation.rule.neighbours` must be a whole number"),
        ("Nearest", ["neighbours=true"], "must be a whole number, got True"),
        ("Nearest", ["neighbours=1", "power=0"], "`aggregation.rule.power` must be > 0, got 0.0"),
        ("Nearest", ["neighbours=1", "kind=x"], "must be one of 'near', 'far', got 'x'"),
        ("Nearest", ["neighbours=1", "names=[1]"], r"`aggregation.rule.names\[0\]` must be a str"),
        ("Nearest", ["neighbours=1", "verbose=3"], "`aggregation.rule.verbose` must be true or"),
        ("Nearest", ["neighbour=1"], "Did you mean `aggregation.rule.neighbours`"),
        ("Nearest", ["clients_per_round=1"], "Unknown key `aggregation.rule.clients_per_round`"),
        ("Nearest", ["callback=x"], "Unknown key `aggregation.rule.callback`"),
        ("Nowhere", [], "'Nowhere' does not exist in"),
        ("not_callable", [], "is not a function or class"),
        ("needs_object", [], "parameter `thing` of needs_object needs a default, an annotation"),
    ],
)
def test_wrong_options_are_one_line(file, attribute, overrides, words):
    with pytest.raises(config_lib.ConfigError, match=words) as error:
        read(file, attribute, *overrides)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "reference, words",
    [
        ("nowhere.py:X", "there is no file"),
        ("no_such_module:X", "Python finds no source of a module 'no_such_module'"),
        ("fedat", "Did you mean 'fedatt'"),
        ("zzz", "Or name your own part: 'module:attribute' or 'file.py:attribute'"),
    ],
)
def test_unknown_part_is_one_line(reference, words):
    with pytest.raises(config_lib.ConfigError, match=words) as error:
        config_lib.loads("", [f"aggregation.rule.type={reference}"])
    assert "\n" not in str(error.value)


def test_file_is_relative_to_the_config_that_names_it(file, monkeypatch):
    folder = file.parent / "configs"
    folder.mkdir()
    (folder / "base.toml").write_text(
        '[aggregation.rule]\ntype = "../mine.py:Nearest"\nneighbours = 1\n'
    )
    (folder / "mine.toml").write_text('base = "base.toml"\n[aggregation.rule]\nneighbours = 2\n')
    rule = config_lib.load(folder / "mine.toml").aggregation.rule
    assert (rule.type, rule.settings["neighbours"]) == (f"{file}:Nearest", 2)
    monkeypatch.chdir(file.parent)
    assert read("mine.py", "Nearest", "neighbours=1").aggregation.rule.type == f"{file}:Nearest"


def test_mechanism_needs_a_declaration(file):
    private = ["aggregation.privacy.type=gaussian", "aggregation.client_weighting=uniform"]
    safe, unknown = (f"aggregation.rule.type={file}:{name}" for name in ("Safe", "Nearest"))
    assert config_lib.loads("", [safe, *private]).aggregation.is_private
    with pytest.raises(config_lib.ConfigError, match=r"NO CLAIM.*`keeps_sensitivity` = True"):
        config_lib.loads("", [unknown, "aggregation.rule.neighbours=1", *private])


@pytest.mark.parametrize("table", ["model", "client", "server"])
def test_other_tables_take_parts_too(file, table):
    file.write_text("def part(seed: int = 3, size: int = 4, learning_rate: float = 0.5): pass\n")
    config = config_lib.loads("", [f"{table}.type={file}:part", f"{table}.size=7"])
    part = getattr(config, table)
    assert part.settings["size"] == 7
    assert ("seed" in part.settings) == (table == "server")  # the others get the run's seed
    assert config_lib.loads(config_lib.dump(config)) == config
    assert [one.PATH for one in own_part.parts_in(config)] == [table]


def test_recorded_config_is_read_without_the_source(file, tmp_path):
    recorded = tmp_path / "run" / "config.toml"
    recorded.parent.mkdir()
    recorded.write_text(config_lib.dump(read(file, "Nearest", "neighbours=5")))
    file.unlink()
    own_part.part_reference._load.cache_clear()
    config = config_lib.load_of_run(recorded)
    assert config.aggregation.rule.settings["neighbours"] == 5
    with pytest.raises(config_lib.ConfigError, match="there is no file"):
        config.aggregation.rule.source()
    with pytest.raises(config_lib.ConfigError, match="there is no file"):
        config_lib.load(recorded)


def test_recorded_private_config_is_read_without_the_source(file, tmp_path):
    private = ["aggregation.privacy.type=gaussian", "aggregation.client_weighting=uniform"]
    recorded = tmp_path / "run" / "config.toml"
    recorded.parent.mkdir()
    own = f"aggregation.rule.type={file}:Safe"
    recorded.write_text(config_lib.dump(config_lib.loads("", [own, *private])))
    file.unlink()
    own_part.part_reference._load.cache_clear()
    assert config_lib.load_of_run(recorded).aggregation.is_private


def test_package_registers_a_short_name(file, monkeypatch):
    monkeypatch.syspath_prepend(str(file.parent))
    point = metadata.EntryPoint("nearest", "mine:Nearest", "tff_keyboard.aggregators")
    monkeypatch.setattr(
        entry_points,
        "find",
        lambda group: {"nearest": point} if group == "tff_keyboard.aggregators" else {},
    )
    options = ["aggregation.rule.type=nearest", "aggregation.rule.neighbours=3"]
    rule = config_lib.loads("", options).aggregation.rule
    assert (rule.type, rule.reference) == ("nearest", "mine:Nearest")
    assert rule.source().sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(config_lib.ConfigError, match="Did you mean 'nearest'"):
        config_lib.loads("", ["aggregation.rule.type=nearst"])
