"""A part that is not in this package: the user's own, or one that another package registers.

    [aggregation.rule]
    type = "my_aggregators.py:NearestMean"   # or "my_package.my_module:NearestMean"
    neighbours = 5

The part is a function or a class. Its options are its parameters: the keys of the table are checked
against their annotations and defaults. A parameter may be annotated with int, float, bool, str,
`Literal`, list, tuple, dict, one of these `| None`, or `Annotated` with a `Range`
(`storage/checks.py`). Parameters with the name of a value that a run gives (`RUN_VALUES` of the
kind) get this value, and cannot be configured.

A package registers a short name with an entry point, whose group is `GROUP` of the kind:

    [project.entry-points."tff_keyboard.aggregators"]
    nearest_mean = "my_package.my_module:NearestMean"
"""

import contextlib
import contextvars
import dataclasses
import inspect
import pathlib
import traceback
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from typing_extensions import Self

from tff_keyboard.parts import tables
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage import entry_points, part_reference, trusted_code
from tff_keyboard.storage.checks import Range, require_one_of
from tff_keyboard.storage.errors import ConfigError, UserError
from tff_keyboard.storage.part_reference import PartSource, UserPart

_PLAIN = (bool, int, float, str)
_OF_CLASS = ("settings", "problem", "table")  # fields of `OwnPart` that are not keys
SENSITIVITY_PROMISE = "keeps the sensitivity of the mean"
PROMISES: Mapping[str, str] = {
    "aggregation.rule.type": SENSITIVITY_PROMISE,
    "client.type": SENSITIVITY_PROMISE,
    "data.source": "gives each message to the client that typed it",
    "model.type": (
        "draws its initial weights, and has no constants made from text of these clients"
    ),
    "server.type": "has no constants made from text of these clients",
}
"""Key -> what a privacy statement assumes of an own part with this key."""
_is_recorded = contextvars.ContextVar("_is_recorded", default=False)


@contextlib.contextmanager
def recorded_config() -> Iterator[None]:
    """Reads a config that a run recorded: it may name a part whose source is missing.

    The error is raised when the part is used. So a run can be evaluated without its aggregator.
    No part is loaded that this user never named, because the run may be another person's.
    """
    token = _is_recorded.set(True)
    try:
        with trusted_code.named_by_file():
            yield
    finally:
        _is_recorded.reset(token)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnPart(Table):
    """The options of a part that is not in this package.

    Attributes:
      type: The reference, or the name of an entry point.
      settings: Parameter -> value, checked, with the defaults.
      problem: Why the part could not be loaded, if it is of a recorded config; otherwise "".
      table: Dotted name of its table.
    """

    IS_OWN: ClassVar[bool] = True
    GROUP: ClassVar[str] = ""  # of entry points
    RUN_VALUES: ClassVar[tuple[str, ...]] = ()  # names of parameters that a run fills
    READS_TEXT: ClassVar[bool] = False  # whether its errors may quote text of users
    KEY: ClassVar[str] = ""  # the key that names the part, if it is not `type` of its table

    type: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    problem: str = dataclasses.field(default="", compare=False)
    table: str = dataclasses.field(default="", compare=False)

    @classmethod
    def is_registered(cls, name: str) -> bool:
        """Whether a package registers a part with this name."""
        return name in cls.registered_names()

    @classmethod
    def registered_names(cls) -> list[str]:
        """Returns the names of the parts that packages register."""
        return list(entry_points.find(cls.GROUP)) if cls.GROUP else []

    @classmethod
    def read(cls, values: Mapping[str, Any], prefix: str) -> Self:
        """Builds the part that a table describes.

        Raises:
          ConfigError: If the part cannot be loaded, or a key does not fit its parameters.
        """
        fields = {field.name for field in dataclasses.fields(cls) if field.name not in _OF_CLASS}
        table = {key: value for key, value in values.items() if key in fields}
        options = {key: value for key, value in values.items() if key not in fields}
        hints = {key: hint for key, hint in typing.get_type_hints(cls).items() if key in fields}
        for key, value in table.items():
            table[key] = tables.coerce(value, hints[key], f"{prefix}.{key}")
        key = cls.KEY or f"{prefix}.type"
        if not part_reference.is_reference(table.get("type", "")):
            cls._check_registered(table.get("type"), key)
        try:
            part = part_reference.load(reference_of(table["type"], cls.GROUP), key).part
            parameters = _parameters(part, cls.RUN_VALUES, key)
            checked = _arguments_of_part(options, parameters, {**hints, **parameters}, prefix)
            return cls(**table, settings=checked, table=prefix)
        except ConfigError as error:
            if not _is_recorded.get():
                raise
            return cls(**table, settings=options, problem=str(error), table=prefix)
        except ValueError as error:
            raise ConfigError(str(error).replace(f"`{cls.PATH}.", f"`{prefix}.")) from None

    @classmethod
    def _check_registered(cls, name: str | None, key: str) -> None:
        if name is None:
            raise ConfigError(f"`{key}` is missing. It has no default.")
        if not cls.is_registered(name):
            names = "".join(f"{one!r}, " for one in cls.registered_names())
            raise ConfigError(
                f"`{key}` must be {names}'module:attribute' or 'file.py:attribute', got {name!r}."
            )

    def plain(self) -> dict[str, Any]:
        """Returns the table from which `read` makes this part."""
        names = [field.name for field in dataclasses.fields(self)]
        names = [name for name in names if name not in _OF_CLASS]
        names.sort(key=lambda name: name != "type")
        table = {name: getattr(self, name) for name in names}
        return table | {key: value for key, value in self.settings.items() if value is not None}

    def arguments(self) -> dict[str, Any]:
        """Returns the options."""
        return dict(self.settings)

    def source(self) -> PartSource:
        """Returns which code the part is. Raises `ConfigError` if it cannot be loaded."""
        return self._load().source

    def call(self, run: Mapping[str, Any]) -> Any:
        """Calls the part with its options, and with the values of the run that it takes.

        Raises:
          ConfigError: If the part cannot be loaded, or raises an error.
        """
        part = self._load()
        names = inspect.signature(part.part).parameters
        values = {name: run[name] for name in self.RUN_VALUES if name in names and name in run}
        with self.errors():
            return part.part(**self.settings, **values)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Converts errors from the code of the part to `ConfigError` with the line in its file."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            raise self.failure(error) from error

    def failure(self, error: Exception) -> ConfigError:
        """Returns an error that the code of the part raised as one line for the user."""
        file = part_reference.file_of(self.reference)
        return part_reference.failure(
            error, self.key, self.type, file, shows_message=not self.READS_TEXT
        )

    def raised(self, error: BaseException) -> bool:
        """Whether an error passed through the source file of the part."""
        if self.problem:
            return False
        file = part_reference.file_of(self.reference)
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        return any(pathlib.Path(frame.f_code.co_filename) == file for frame in frames)

    @property
    def key(self) -> str:
        """The key of the config that names the part."""
        return self.KEY or f"{self.table or self.PATH}.type"

    @property
    def reference(self) -> str:
        """The reference "module:attribute" or "file.py:attribute".

        Raises `ConfigError` if the part could not be loaded: nothing can then load it by reference.
        """
        if self.problem:
            raise ConfigError(self.problem)
        return reference_of(self.type, self.GROUP)

    def declares(self, attribute: str) -> bool:
        """Whether the part has an attribute that is True."""
        return not self.problem and getattr(self._load().part, attribute, False) is True

    def must_be(self, condition: bool, kind: str, value: object) -> None:
        """Raises `ConfigError` unless the part returned the right kind of object."""
        if not condition:
            raise ConfigError(
                f"`{self.key}` = {self.type!r} must return {kind}, got {type(value).__name__}."
            )

    def require_fixed_shapes(self, leaves: Iterable[Any]) -> None:
        """Raises `ConfigError` if a checkpoint of one round could not be read by another one.

        Args:
          leaves: The `tff.TensorType` of each tensor of the part's state at the server.
        """
        for leaf in leaves:
            if leaf.shape is None or None in leaf.shape:
                raise ConfigError(
                    f"`{self.key}` = {self.type!r} has a state with the type {leaf}, and no "
                    "checkpoint could be resumed. Give every part of the state a fixed shape."
                )

    def _load(self) -> UserPart:
        return part_reference.load(self.reference, self.key)


def parts_in(config: Any) -> Iterator[OwnPart]:
    """Yields the own parts in a config: a dataclass, with its fields and their tables."""
    if isinstance(config, OwnPart):
        yield config
    elif dataclasses.is_dataclass(config):
        for field in dataclasses.fields(config):
            yield from parts_in(getattr(config, field.name))
    elif isinstance(config, Mapping):
        for value in config.values():
            yield from parts_in(value)


def sources_of(config: Any) -> dict[str, dict[str, str]]:
    """Returns key -> reference, version and SHA-256 of each own part in a config."""
    return {part.key: dataclasses.asdict(part.source()) for part in parts_in(config)}


def unchecked(config: Any) -> tuple[str, ...]:
    """Returns "key = reference" of each own part whose promise a privacy statement needs.

    `PROMISES` has the promises (docs/own_parts.md). Nothing can check them.
    """
    parts = (part for part in parts_in(config) if part.key in PROMISES)
    return tuple(f"{part.key} = {part.source().reference}" for part in parts)


def unchecked_of_store(card: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns "data.source = reference" if the user's own source read the text of a client store.

    The card of the store says so. A config that trains on the store need not name the source.
    """
    options = card.get("options", {})
    return (f"data.source = {options['source']}",) if "source_sha256" in options else ()


@contextlib.contextmanager
def errors_of_parts(config: Any) -> Iterator[None]:
    """Converts errors from the code of the own parts in a config to `ConfigError`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        for part in parts_in(config):
            if part.raised(error):
                raise part.failure(error) from error
        raise


def reference_of(name: str, group: str) -> str:
    """Returns the reference "module:attribute" of a `type`; entry points have one."""
    if part_reference.is_reference(name):
        return name
    return entry_points.find(group)[name].value.partition("[")[0].strip()


@dataclasses.dataclass(frozen=True)
class _Parameter:
    """A parameter of the user's function, as an option of the config."""

    hint: Any
    default: Any


def _parameters(
    part: Callable[..., Any], run_values: tuple[str, ...], key: str
) -> dict[str, _Parameter]:
    """Returns the options of a part: its parameters without those that a run fills."""
    target = part.__init__ if isinstance(part, type) else part  # type: ignore[misc]
    try:
        hints = typing.get_type_hints(target, include_extras=True)
        signature = inspect.signature(part)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(
            f"`{key}`: the parameters of {part.__qualname__} cannot be read: {error}."
        ) from None
    options = {}
    for name, parameter in signature.parameters.items():
        if name in run_values or parameter.kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            continue
        has_default = parameter.default is not inspect.Parameter.empty
        hint = hints.get(name)
        if hint is None and has_default and type(parameter.default) in _PLAIN:
            hint = type(parameter.default)
        if hint is None or not _is_readable(hint):
            if has_default:
                continue  # it keeps its default
            raise ConfigError(
                f"`{key}`: the parameter `{name}` of {part.__qualname__} needs a default, "
                "an annotation that a config can give (int, float, bool, str, Literal, list), or "
                f"the name of a value of the run ({', '.join(run_values) or 'none'})."
            )
        options[name] = _Parameter(hint, parameter.default if has_default else dataclasses.MISSING)
    return options


def _is_readable(hint: Any) -> bool:
    """Whether a TOML value can have this type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _is_readable(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return all(one is type(None) or _is_readable(one) for one in arguments)
    if origin is Literal:
        return all(type(one) in _PLAIN for one in arguments)
    if origin in (list, tuple):
        return _is_readable(arguments[0]) and all(one is ... for one in arguments[1:])
    if origin is dict:
        return arguments[0] is str and _is_readable(arguments[1])
    return hint in _PLAIN


def _arguments_of_part(
    values: Mapping[str, Any],
    parameters: Mapping[str, _Parameter],
    keys: Mapping[str, Any],
    prefix: str,
) -> dict[str, Any]:
    """Returns an argument for each parameter: its value, or its default if that is a plain value.

    Defaults that TOML cannot express are left to the user's function.

    Args:
      values: The table of the config.
      parameters: The parameters of the user's function.
      keys: All keys that the table may have, for the error about an unknown one.
      prefix: Name of the table.
    """
    for key in values:
        if key not in parameters:
            raise ConfigError(tables.unknown_key(key, prefix, list(keys)))
    options = {}
    for key, parameter in parameters.items():
        name = f"{prefix}.{key}"
        if key not in values:
            if parameter.default is dataclasses.MISSING:
                raise ConfigError(f"`{name}` is missing. It has no default.")
            if type(parameter.default) in _PLAIN:
                options[key] = parameter.default
            continue
        options[key] = _value(values[key], parameter.hint, name)
    return options


def _value(value: Any, hint: Any, name: str) -> Any:
    """Returns a value converted to the type of a parameter, after checks of choices and ranges."""
    ranges = []
    if typing.get_origin(hint) is Annotated:
        ranges = [extra for extra in hint.__metadata__ if isinstance(extra, Range)]
        hint = hint.__origin__
    checked = tables.coerce(value, hint, name)
    if typing.get_origin(hint) is Literal:
        require_one_of(name, checked, typing.get_args(hint))
    for one in ranges:
        one.check(name, checked)
    return checked
