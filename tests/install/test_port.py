"""docs/port.md lists every name of TFF that the product uses, and no other."""

import ast
import contextlib
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TFF = "tensorflow_federated"


def names_in(source):
    """Dotted names below `tensorflow_federated` that a module uses, also in quoted annotations."""
    tree = ast.parse(source)
    local = {}  # name in the module -> what it is below TFF
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == TFF or alias.name.startswith(f"{TFF}."):
                    local[alias.asname or TFF] = alias.name if alias.asname else TFF
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == TFF:
            for alias in node.names:
                local[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    quoted = []
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.fullmatch(r"[\w.\[\], |]*\btff\.[\w.\[\], |]+", text):
            with contextlib.suppress(SyntaxError):  # a sentence
                quoted.append(ast.parse(text, mode="eval"))
    nodes = [node for part in [tree, *quoted] for node in ast.walk(part)]
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    whole = {dotted(node, local) for node in nodes if id(node) not in inner}
    return {name.removeprefix(TFF).lstrip(".") for name in whole if name}


def dotted(node, local):
    if isinstance(node, ast.Attribute):
        parent = dotted(node.value, local)
        return f"{parent}.{node.attr}" if parent else None
    return local.get(node.id) if isinstance(node, ast.Name) else None


@functools.cache
def used():
    paths = [
        p for top in ("tff_keyboard", "tflite_export", "tasks") for p in (ROOT / top).rglob("*.py")
    ]
    sources = [path.read_text() for path in paths]
    return set().union(*(names_in(source) for source in sources if TFF in source))


@functools.cache
def listed():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "port.md").read_text(), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def is_of(name, one):
    """Whether `name` is `one` or an attribute of it."""
    return name == one or name.startswith(f"{one}.")


def test_every_name_of_tff_is_listed():
    assert not sorted(name for name in used() if not any(is_of(name, one) for one in listed()))


def test_every_name_that_is_listed_is_used():
    assert not [one for one in listed() if not any(is_of(name, one) for name in used())]
    assert len(listed()) == len(set(listed()))


@pytest.mark.parametrize(
    "source, names",
    [
        (
            "import tensorflow_federated as tff\ntff.learning.x.y(tff.CLIENTS)",
            {"learning.x.y", "CLIENTS"},
        ),
        ("import tensorflow_federated\ntensorflow_federated.Type", {"Type"}),
        ("from tensorflow_federated.proto.v0 import a_pb2 as a\na.B()", {"proto.v0.a_pb2.B"}),
        ("import tensorflow_federated as tff\ndef f(x: 'list[tff.Type] | None'): ...", {"Type"}),
        ("import tensorflow as tf\ntf.Type", set()),
    ],
)
def test_names_are_read_from_the_source(source, names):
    assert names_in(source) == names
