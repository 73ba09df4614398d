"""The public surface: every promised name is there and documented, and nothing else shows."""

import importlib
import inspect
import json
import pathlib
import pkgutil
import subprocess
import sys

import pytest
import tensorflow_federated  # noqa: F401 (that the seconds of its import are not this file's)

import tff_keyboard as tk
from tests.test_docstrings import argument_docs

NAMES = [(namespace, name) for namespace, names in tk.SURFACE.items() for name in names]
ROOT = pathlib.Path(tk.__file__).parent.parent
MOST_SECONDS = 0.2
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
    """Of namespaces that no file is there is a module, of the others not even that."""
    seconds, _, _, modules = looked
    assert seconds < MOST_SECONDS
    beside = ("aggregators", "algorithms", "export", "metrics", "runtime")
    assert modules == ["tff_keyboard", *(f"tff_keyboard.{name}" for name in beside)]


def test_what_shows_is_what_is_promised(looked):
    _, shown, lists, _ = looked
    assert sorted(shown) == sorted(["__version__", *tk.SURFACE]) == sorted(tk.__all__)
    assert lists == {name: sorted(names) for name, names in tk.SURFACE.items()}
    assert all(getattr(tk, name).__all__ == list(names) for name, names in tk.SURFACE.items())


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
    documented = {one.strip() for names, _ in argument_docs(docstring) for one in names.split(",")}
    assert not set(arguments(value)) - documented
