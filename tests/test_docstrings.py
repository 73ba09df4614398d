"""What is public says what it is: every module and class, and 95 % of functions and methods.

A method that implements one of a base class has the docstring of that one.
"""

import ast
import importlib
import inspect
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("tff_keyboard", "tflite_export", "tasks")
SHARE_OF_FUNCTIONS = 0.95


def is_function(value):
    return inspect.isroutine(value) or isinstance(value, property)


def public_members(owner, module_name):
    """`(qualified name, class, function or property)` of what `owner` itself defines."""
    for name, value in vars(owner).items():
        value = getattr(value, "__func__", value)  # of a classmethod or staticmethod
        if name.startswith("_") or name != getattr(value, "__name__", name):
            continue
        if inspect.isclass(value) and value.__module__ == module_name:
            yield value.__qualname__, value
            yield from public_members(value, module_name)
        elif isinstance(value, property) and value.fget is not None:
            yield value.fget.__qualname__, value
        elif inspect.isfunction(value) and value.__module__ == module_name:
            yield value.__qualname__, value


@pytest.fixture(scope="module")
def modules():
    """Every module of ours, by name."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    names = [name.removesuffix(".__init__") for name in names]
    return {name: importlib.import_module(name) for name in names if "__main__" not in name}


@pytest.fixture(scope="module")
def members(modules):
    return [
        (f"{name}.{qualified}", value)
        for name, module in modules.items()
        for qualified, value in public_members(module, name)
    ]


def test_every_module(modules):
    missing = [name for name, module in modules.items() if not module.__doc__]
    assert not [name for name in missing if pathlib.Path(modules[name].__file__).read_text()]


def test_every_class(members):
    assert not [name for name, value in members if inspect.isclass(value) and not value.__doc__]


def test_functions(members):
    functions = [(name, value) for name, value in members if is_function(value)]
    missing = [name for name, value in functions if not inspect.getdoc(value)]
    assert len(functions) > 800
    assert 1 - len(missing) / len(functions) >= SHARE_OF_FUNCTIONS, "\n".join(missing)


class Documented:
    def work(self):
        """Does it."""

    def rest(self): ...


class Example(Documented):
    def work(self): ...

    def rest(self): ...

    @property
    def size(self): ...

    @classmethod
    def make(cls): ...


def test_what_counts():
    found = dict(public_members(Example, __name__))
    assert list(found) == [f"Example.{name}" for name in ("work", "rest", "size", "make")]
    assert [bool(inspect.getdoc(value)) for value in found.values()] == [True, False, False, False]


FRAGMENT = re.compile(
    r"(?:(?:Of|As|In|At|From|With|For|To|By|On|Over|Told|Likewise|Such|Whose|Those|Until|Instead|"
    r"Without|Behind|Before|After|Against|Per|Out)\b|[<>]=? |(?:Which|Where)\W*$)"
)
ENTRY = re.compile(r"  (\*{0,2}[A-Za-z_][\w`, /*.]*): (.*)")


def argument_docs(docstring):
    """`(name, first line)` of each argument and attribute."""
    section = None
    for line in inspect.cleandoc(docstring).splitlines():
        if not line.startswith(" "):
            section = line
        elif section in ("Args:", "Attributes:") and (found := ENTRY.fullmatch(line)):
            yield found.groups()


def docstrings():
    """Those of all modules, classes and functions, private ones too; `(place, docstring)`."""
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", ast.get_docstring(node) or ""


def test_an_argument_is_a_phrase_with_a_subject():
    found = [(place, *doc) for place, text in docstrings() for doc in argument_docs(text)]
    assert len(found) > 500
    assert not [doc for doc in found if FRAGMENT.match(doc[2])]


def test_what_is_a_fragment():
    text = """Does.

    Args:
      one: Of the run.
      two: >= 0.
      three: Rounds,
        of the run.
    """
    found = [bool(FRAGMENT.match(words)) for _, words in argument_docs(text)]
    assert found == [True, True, False]
