"""Variants chosen by a tag: building, merging, and error messages."""

import dataclasses
import typing
from typing import ClassVar, Literal

import pytest

from tff_keyboard.config import RunConfig
from tff_keyboard.parts import tables
from tff_keyboard.parts.tables import ConfigError, Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Square(Table):
    PATH: ClassVar[str] = "drawing.shape"

    name: Literal["square"] = "square"
    side: float = 1.0
    colour: Literal["red", "blue"] = "red"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Circle(Table):
    PATH: ClassVar[str] = "drawing.shape"

    name: Literal["circle"] = "circle"
    radius: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawing(Table):
    PATH: ClassVar[str] = "drawing"

    title: str = ""
    shape: Square | Circle = dataclasses.field(default_factory=Square)
    groups: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    limit: int | None = None


def build(values):
    return tables.build(Drawing, values, "drawing")


def test_tag_chooses_the_variant_and_defaults_if_missing():
    assert build({}) == Drawing()
    assert build({"shape": {"name": "circle", "radius": 2}}).shape == Circle(radius=2.0)
    assert build({"shape": {"side": 3}}).shape == Square(side=3.0)


def test_plain_and_build_are_inverse():
    drawing = Drawing(shape=Circle(radius=0.5), groups={"a": [1, 2]}, limit=3)
    values = tables.plain(drawing)
    assert build(values) == drawing
    assert list(values["shape"]) == ["name", "radius"]
    assert "limit" not in tables.plain(Drawing())


@pytest.mark.parametrize(
    "values, words",
    [
        (
            {"shape": {"name": "circle", "side": 2.0}},
            "`drawing.shape.side` has no effect with `drawing.shape.name` = 'circle': it belongs "
            "to 'square'. Remove it, or choose 'square'.",
        ),
        (
            {"shape": {"name": "cirle"}},
            "`drawing.shape.name` must be one of 'square', 'circle', got 'cirle'. Did you mean "
            "'circle'?",
        ),
        (
            {"shape": {"name": "circle", "radus": 1}},
            "Unknown key `drawing.shape.radus`. Did you mean `drawing.shape.radius`?",
        ),
        ({"zzz": 1}, "Unknown key `drawing.zzz`. Known: `title`, `shape`, `groups`, `limit`."),
        ({"shape": "circle"}, "must be a section, got 'circle'. Write [drawing.shape]."),
        ({"shape": {"colour": "green"}}, "must be one of 'red', 'blue', got 'green'"),
        ({"shape": {"colour": 3}}, "`drawing.shape.colour` must be a string, got 3."),
        ({"groups": {"a": "b"}}, "`drawing.groups.a` must be a list, got 'b'."),
        ({"groups": {"a": [True]}}, "`drawing.groups.a[0]` must be a whole number, got True."),
        ({"groups": []}, "`drawing.groups` must be a table, got []."),
        ({"limit": "x"}, "`drawing.limit` must be a whole number, got 'x'."),
        ({"title": 3}, "`drawing.title` must be a string, got 3."),
    ],
)
def test_error_is_one_line_with_the_way_out(values, words):
    with pytest.raises(ConfigError) as error:
        build(values)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def merge(below, above):
    return tables.merge(Drawing, below, above)


def test_merge_overrides_single_keys():
    below = {"title": "x", "shape": {"name": "square", "side": 2.0, "colour": "blue"}}
    assert merge(below, {"shape": {"side": 3.0}}) == {
        "title": "x",
        "shape": {"name": "square", "side": 3.0, "colour": "blue"},
    }
    assert merge(below, {"shape": {"name": "square"}}) == below


def test_another_variant_replaces_the_whole_table():
    below = {"shape": {"name": "circle", "radius": 2.0}}
    assert merge(below, {"shape": {"name": "square"}}) == {"shape": {"name": "square"}}
    # Nothing below names "square", but it is the default.
    assert merge({"shape": {"side": 2.0}}, {"shape": {"name": "circle"}})["shape"] == {
        "name": "circle"
    }
    assert merge({"shape": {"side": 2.0}}, {"shape": {"name": "square"}})["shape"]["side"] == 2.0


def test_table_with_free_names_is_replaced_as_a_whole():
    assert merge({"groups": {"a": [1]}}, {"groups": {"b": [1]}}) == {"groups": {"b": [1]}}


def test_merge_keeps_unknown_keys_for_build_to_report():
    merged = merge({"shape": {"name": "hexagon"}}, {"shape": {"sid": 1}, "nonsense": 3})
    assert merged == {"shape": {"name": "hexagon", "sid": 1}, "nonsense": 3}


def all_tables(cls, seen=()):
    """Returns every dataclass of the config with its docstring and the names of its fields."""
    for option in tuple(tables.variants(cls).values()) or typing.get_args(cls) or (cls,):
        if dataclasses.is_dataclass(option):
            yield option
            for hint in typing.get_type_hints(option).values():
                yield from all_tables(hint)


@pytest.mark.parametrize("cls", sorted(set(all_tables(RunConfig)), key=str))
def test_every_option_is_documented_where_it_is_defined(cls):
    for field in dataclasses.fields(cls):
        owners = [c for c in cls.__mro__ if field.name in vars(c).get("__annotations__", {})]
        if field.name != tables.tag_of(cls):
            assert any(f"      {field.name}: " in owner.__doc__ for owner in owners), field.name


def test_the_walk_over_all_tables_finds_variants():
    names = {cls.__name__ for cls in all_tables(RunConfig)}
    assert {"FedMedConfig", "GaussianAdaptiveConfig", "AdaptiveClipping", "TransferConfig"} <= names
