"""The public surface: every promised name is there and documented, and nothing else shows."""

import ast
import importlib
import inspect
import json
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest
import tensorflow_federated  # noqa: F401 (that the seconds of its import are not this file's)

import tff_keyboard as tk

NAMES = [(namespace, name) for namespace, names in tk.SURFACE.items() for name in names]
ROOT = pathlib.Path(tk.__file__).parent.parent
MAX_SECONDS = 0.2
# One by one: what a script or a library of somebody else may write.
LOOK = """
import json, resource, sys, time
before, start = set(sys.modules), time.process_time()
import tff_keyboard as tk
seconds = time.process_time() - start
modules = {name for name in set(sys.modules) - before if name.split(".")[0] not in
           sys.stdlib_module_names}
from tff_keyboard import aggregators
import tff_keyboard.metrics as metrics
from tff_keyboard.privacy import Guarantee
import tff_keyboard.runtime
lists = {name: dir(getattr(tk, name)) for name in dir(tk) if name != "__version__"}
assert not {"tensorflow", "tensorflow_federated", "tflite_export"} & set(sys.modules)
assert tk.aggregators is aggregators and tk.metrics is metrics and tk.privacy.Guarantee is Guarantee
print(json.dumps([seconds, dir(tk), lists, sorted(modules)]))
"""


@pytest.fixture(scope="module")
def looked():
    found = subprocess.run(
        [sys.executable, "-c", LOOK],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return json.loads(found.stdout)


def test_it_imports_at_once_and_nothing_with_it(looked):
    seconds, _, _, modules = looked
    assert seconds < MAX_SECONDS
    assert modules == ["tff_keyboard"]


def test_what_shows_is_what_is_promised(looked):
    _, shown, lists, _ = looked
    assert sorted(shown) == sorted(["__version__", *tk.SURFACE]) == sorted(tk.__all__)
    assert lists == {name: sorted(names) for name, names in tk.SURFACE.items()}
    assert all(getattr(tk, name).__all__ == sorted(names) for name, names in tk.SURFACE.items())


WITHOUT = """
import json, sys
sys.modules["tensorflow"] = sys.modules["tensorflow_federated"] = None
import tff_keyboard as tk
errors = {}
for namespace, name in json.loads(sys.argv[1]):
    try:
        getattr(getattr(tk, namespace), name)
    except ModuleNotFoundError as error:
        errors[f"{namespace}.{name}"] = str(error)
print(json.dumps(errors))
"""
LIGHT = ("metrics", "privacy", "runtime")


def test_what_does_not_train_needs_no_tensorflow():
    asked = [
        *((namespace, name) for namespace, name in NAMES if namespace in LIGHT),
        ("aggregators", "FedAtt"),
        ("data", "Vocabulary"),
        ("models", "Cifg"),
    ]
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps(asked)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    why = "`tff_keyboard.{}` needs tensorflow, which is not installed here. Install"
    errors = json.loads(found.stdout)
    assert list(errors) == ["aggregators.FedAtt", "models.Cifg"]
    assert all(text.startswith(why.format(name)) for name, text in errors.items())


@pytest.mark.parametrize("namespace", tk.SURFACE)
def test_what_is_not_promised_is_refused(namespace):
    module = getattr(tk, namespace)
    with pytest.raises(AttributeError, match=f"module 'tff_keyboard.{namespace}' has no public"):
        _ = module.not_promised
    with pytest.raises(ImportError, match="not_promised"):
        exec(f"from tff_keyboard.{namespace} import not_promised")
    with pytest.raises(AttributeError, match="module 'tff_keyboard' has no public name 'agrega'"):
        _ = tk.agrega
    assert module.__doc__


@pytest.mark.parametrize("namespace", tk.SURFACE)
def test_no_name_is_also_that_of_a_module(namespace):
    """Importing the module would put it where the name was."""
    path = getattr(getattr(tk, namespace), "__path__", [])
    assert not {found.name for found in pkgutil.iter_modules(path)} & set(tk.SURFACE[namespace])


ENTRY = re.compile(r"  (\*{0,2}[A-Za-z_][\w`, /*.]*): .*")


def documented_arguments(docstring):
    """Returns the names of the arguments and attributes that a docstring describes."""
    section, found = None, set()
    for line in docstring.splitlines():
        if not line.startswith(" "):
            section = line
        elif section in ("Args:", "Attributes:") and (entry := ENTRY.fullmatch(line)):
            found |= {name.strip() for name in entry[1].split(",")}
    return found


def arguments(value):
    """Names of what a call takes; of a protocol or an abstract class none."""
    if not callable(value) or inspect.isabstract(value):
        return []
    parameters = inspect.signature(value).parameters.values()
    return [("**" if one.kind is one.VAR_KEYWORD else "") + one.name for one in parameters]


@pytest.mark.parametrize("namespace, name", NAMES)
def test_a_promised_name_resolves_and_says_what_it_takes(namespace, name):
    value = getattr(getattr(tk, namespace), name)
    module, _, attribute = tk.SURFACE[namespace][name].rpartition(".")
    assert value is getattr(importlib.import_module(module), attribute)
    if not callable(value):
        return
    owners = value.__mro__[:-1] if inspect.isclass(value) else [value]
    docstring = "\n".join(inspect.cleandoc(one.__doc__ or "") for one in owners)
    if inspect.isclass(value):
        docstring += "\n" + (inspect.getdoc(value.__init__) or "")
    assert not set(arguments(value)) - documented_arguments(docstring)


def test_only_export_and_runtime_take_names_from_tflite_export():
    """import-linter, which has these two above `tflite_export`, does not read stubs."""
    packages = {
        namespace: {origin.partition(".")[0] for origin in names.values()}
        for namespace, names in tk.SURFACE.items()
    }
    above = {"export", "runtime"}
    assert packages == {
        name: {"tflite_export" if name in above else "tff_keyboard"} for name in tk.SURFACE
    }


@pytest.mark.parametrize("namespace", tk.SURFACE)
def test_a_stub_exports_all_that_it_imports(namespace):
    """A type checker sees only the names in a stub's `__all__`."""
    exported = tk._stub(f"tff_keyboard.{namespace}").read_text().partition("__all__ = ")[2]
    assert set(ast.literal_eval(exported)) == set(tk.SURFACE[namespace])


USER_SCRIPT = """
import tff_keyboard as tk

tk.aggregators.FedAtt(norm=2, temperature=0.5)
tk.aggregators.FedAtt(nrom=2)
tk.aggregators.TrimmedMeen(0.2)
vocabulary: tk.data.Vocabulary = tk.runtime.open_keyboard("messages.tflite")
guarantee = tk.privacy.tree_gaussian(noise=1)
"""


@pytest.mark.slow
def test_a_type_checker_finds_the_mistakes_of_a_user(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(USER_SCRIPT)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", f"--cache-dir={tmp_path}", str(script)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    lines = {int(line.split(":")[1]) for line in checked.stdout.splitlines() if ": error:" in line}
    assert lines == {5, 6, 7, 8}, checked.stdout
    assert 'Unexpected keyword argument "nrom"' in checked.stdout
