"""The product uses only public names of TFF."""

import ast
import contextlib
import pathlib
import re

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


def test_no_private_module_of_tff_is_used():
    paths = [
        p for top in ("tff_keyboard", "tflite_export", "tasks") for p in (ROOT / top).rglob("*.py")
    ]
    used = {path: names_in(path.read_text()) for path in paths}
    assert any(used.values())
    private = {name for names in used.values() for name in names if "python" in name.split(".")}
    assert not private
