"""A user's part, named as `module:attribute` or `file.py:attribute`.

    my_package.my_module:MyModel     a module that Python can import
    my_models.py:MyModel             a file, relative to the config that names it

A config names such a part wherever a table has a `type`. The part is a function or a class. Its
source is code that runs with the rights of the user, so a reference must come from a config or a
call of the user. If only a file of a model or a run names it, `trusted_code.py` decides.

The file is read once: the bytes that are hashed are the bytes that run. Files of `__pycache__` are
not used for it. A run records the SHA-256 of the source file, and the version of the distribution
that installed it, so that it can refuse another one later (`PartSource`).
"""

import dataclasses
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.util
import linecache
import pathlib
import re
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable
from importlib import metadata
from typing import Any

from tff_keyboard.storage import trusted_code
from tff_keyboard.storage.errors import ConfigError, in_one_line

_REFERENCE = re.compile(r"(?P<source>[^:]+):(?P<attribute>[A-Za-z_]\w*)")
_THIS_PACKAGE = str(pathlib.Path(__file__).resolve().parents[1])
_PYTHON = sysconfig.get_paths()["stdlib"]
_LIBRARY = re.compile(
    "site-packages|__autograph_generated_file|^<|"
    + "|".join(map(re.escape, (_THIS_PACKAGE, _PYTHON)))
)
_NODES = re.compile(r"\[\[.*?\]\]|\{\{.*?\}\}|\[Op:.*?\]|Graph execution error:")


@dataclasses.dataclass(frozen=True)
class PartSource:
    """Which code a part is.

    Attributes:
      reference: The reference. The path of a file is absolute.
      version: Version of the distribution that installed the module, or "".
      sha256: SHA-256 of the source file. It does not cover other modules that the file imports.
    """

    reference: str
    version: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class UserPart:
    """A part and its source."""

    part: Callable[..., Any]
    source: PartSource


def is_reference(name: str) -> bool:
    """Whether a `type` is a reference and not the name of a part of this package.

    >>> is_reference("my_models.py:Gru"), is_reference("gru")
    (True, False)
    """
    return ":" in name


def absolute(reference: str, folder: pathlib.Path) -> str:
    """Returns a reference with the path of its file relative to `folder` made absolute.

    >>> absolute("my_models.py:Gru", pathlib.Path("/home/ann"))
    '/home/ann/my_models.py:Gru'
    >>> absolute("my_models:Gru", pathlib.Path("/home/ann"))
    'my_models:Gru'
    """
    source, separator, attribute = reference.rpartition(":")
    if not source.endswith(".py"):
        return reference
    return f"{(folder / source).resolve()}{separator}{attribute}"


def before_import(path: pathlib.Path) -> None:
    """Is called with the source file of a part before it is imported. Commands replace it."""


def load(reference: str, key: str) -> UserPart:
    """Imports a user's part.

    Args:
      reference: `module:attribute`, or `file.py:attribute` with an absolute path or a path relative
        to the current directory.
      key: The key that names the part, for error messages, such as "model.type".

    Raises:
      ConfigError: If there is no such module, file or attribute, the module raises an error when it
        is imported, or the attribute is not a function or class; or only a file names the part,
        and the user never has (`trusted_code.py`).
    """
    path = source_path(reference, key)
    content = path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    trusted_code.check_content(absolute(reference, pathlib.Path()), key, sha256)
    return _load(reference, key, path, content, sha256)


@functools.cache
def _load(reference: str, key: str, path: pathlib.Path, content: bytes, sha256: str) -> UserPart:
    """Imports the module of a reference, and returns the function or class that it names.

    Args:
      reference: As in the config.
      key: The key of the config, for errors.
      path: The file of the code.
      content: The bytes of the file.
      sha256: Digest of `content`.
    """
    before_import(path)
    source, _, attribute = reference.rpartition(":")
    try:
        if source.endswith(".py"):
            module, version = _module_of_file(path, content, sha256), ""
        else:
            module, version = _installed_module(source, path, content), _version(source)
    except Exception as error:
        raise failure(error, key, reference, path) from error
    part = getattr(module, attribute, None)
    if not callable(part):
        problem = "is not a function or class" if hasattr(module, attribute) else "does not exist"
        raise ConfigError(f"`{key}` = {reference!r}: {attribute!r} {problem} in {path}.")
    return UserPart(part, PartSource(absolute(reference, pathlib.Path()), version, sha256))


def source_path(reference: str, key: str) -> pathlib.Path:
    """Returns the source file of a user's part, without importing it.

    The packages around a module are imported.

    Raises:
      ConfigError: If the module or file does not exist, or only a file names it, and the user never
        has (`trusted_code.py`).
    """
    source = _REFERENCE.fullmatch(reference)
    if source is None:
        raise ConfigError(
            f"`{key}` = {reference!r} must be 'module:attribute' or 'file.py:attribute'."
        )
    trusted_code.check_name(absolute(reference, pathlib.Path()), key)
    if not source["source"].endswith(".py"):
        return _path_of_module(source["source"], key, reference)
    path = pathlib.Path(source["source"]).resolve()
    if not path.is_file():
        raise ConfigError(f"`{key}` = {reference!r}: there is no file {path}.")
    return path


def _module_of_file(path: pathlib.Path, content: bytes, sha256: str) -> types.ModuleType:
    """Imports a file under a name that belongs to its path and content."""
    name = "_".join(
        ["tff_keyboard_part", hashlib.sha256(str(path).encode()).hexdigest()[:16], sha256[:16]]
    )
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    return _run(spec, path, content)


def _installed_module(name: str, path: pathlib.Path, content: bytes) -> types.ModuleType:
    """Imports a module of an installed package from `content`, unless it is imported already."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    if spec.name in sys.modules:  # the program itself imported it
        return sys.modules[spec.name]
    module = _run(spec, path, content)
    package, _, child = spec.name.rpartition(".")
    if package:
        setattr(sys.modules[package], child, module)
    return module


def _run(
    spec: importlib.machinery.ModuleSpec, path: pathlib.Path, content: bytes
) -> types.ModuleType:
    """Runs the bytes that were checked and hashed as a module.

    Python's own loader would read the file again, or run a file of `__pycache__` instead.
    """
    module = importlib.util.module_from_spec(spec)
    code = compile(content, str(path), "exec", dont_inherit=True)
    # AutoGraph reads the lines of a function when it is traced. It must not see another file.
    lines = importlib.util.decode_source(content).splitlines(keepends=True)
    linecache.cache[str(path)] = (len(content), None, lines, str(path))
    sys.modules[spec.name] = module  # before its code runs, as dataclasses in it need
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _path_of_module(name: str, key: str, reference: str) -> pathlib.Path:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ConfigError(
            f"`{key}` = {reference!r}: Python finds no source of a module {name!r}. Install its "
            "package, or name a file: 'file.py:attribute'."
        )
    return pathlib.Path(spec.origin).resolve()


def file_of(reference: str) -> pathlib.Path:
    """Returns the source file of a part that was loaded."""
    source = reference.rpartition(":")[0]
    if source.endswith(".py"):
        return pathlib.Path(source).resolve()
    spec = importlib.util.find_spec(source)
    assert spec is not None
    return pathlib.Path(spec.origin or "").resolve()


def failure(
    error: Exception,
    key: str,
    reference: str,
    path: pathlib.Path,
    *,
    shows_message: bool = True,
) -> ConfigError:
    """Returns the error of a user's part in one line, with the last line of `path` that it passed.

    Args:
      error: The error that the part raised.
      key: The key that names the part.
      reference: The value of the key.
      path: The source file of the part.
      shows_message: Whether the message of the error is quoted. It may contain text of users.
    """
    return ConfigError(
        f"`{key}` = {reference!r}: " + what_happened(error, path, shows_message=shows_message)
    )


def what_happened(
    error: Exception, path: pathlib.Path | None = None, *, shows_message: bool = True
) -> str:
    """Returns the place, the type and the message of an error in the code of a user.

    AutoGraph puts the traceback into the message of another error, and Keras adds the arguments of
    the layer. Both are left out.

        /home/ann/my_parts.py, line 7 raised ValueError: ...

    Args:
      error: The error.
      path: The file whose last line is named. Default: the last file outside of libraries.
      shows_message: Whether the message of the error is quoted.
    """
    name, text = type(error).__name__, str(error)
    frames = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)]
    metadata = getattr(error, "ag_error_metadata", None)
    if metadata is not None:
        frames += [(each.filename, each.lineno) for each in reversed(metadata.translated_stack)]
        name, _, text = metadata.cause_message.partition(": ")
    if isinstance(error, SyntaxError) and error.lineno:
        frames.append((str(error.filename), error.lineno))
    if path is None:
        lines = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    else:
        lines = [frame for frame in frames if pathlib.Path(frame[0]) == path]
    location = str(path) if path else ""
    if lines:
        location = f"{lines[-1][0]}, line {lines[-1][1]}"
    text = re.split(r"Node: '.*'\n", text)[-1].partition("Call arguments received by")[0]
    text = " ".join(_NODES.sub(" ", text).split())
    message = f": {in_one_line(Exception(text))}" if shows_message else "."
    return f"{location} raised {name}{message}".strip()


def _version(module: str) -> str:
    package = module.partition(".")[0]
    for distribution in metadata.packages_distributions().get(package, []):
        return metadata.version(distribution)
    return ""
