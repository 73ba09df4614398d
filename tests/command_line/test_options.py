"""A field of a task's options is a flag: type, default, range and help are written once."""

import dataclasses
import pathlib
from typing import Annotated, Literal

import pytest
from absl import flags

from tff_keyboard.command_line.options import ConfigOptions, Positional, TaskOptions
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    run_dir: Annotated[pathlib.Path, Positional("a run directory")]
    workdir: Annotated[pathlib.Path, "Where the run is kept."]
    clients: Annotated[Literal["held_out", "train"], "Population, 100 % of it."] = "held_out"
    parity_words: Annotated[int, "Words that are read.", flags.IntegerParser(1)] = 20_000
    share: Annotated[float | None, "Share.", flags.FloatParser(0, 1)] = None
    parity: Annotated[bool, "Whether to check."] = True
    allow_loss: Annotated[bool, "Whether to allow."] = False
    left_out: Annotated[tuple[int, ...], "Positions."] = ()
    attacks: Annotated[tuple[Literal["nan", "boost"], ...], "Attacks."] = ("nan", "boost")
    set: Annotated[tuple[str, ...], "Override; may be repeated."] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Several(TaskOptions):
    models: Annotated[tuple[str, ...], Positional("one or two models", 1, 2)]
    deep: Annotated[bool, "A flag."] = False


NEEDED = ("runs/a", "--workdir=w")


def parse(*arguments):
    return Options.parse("try", arguments)


def test_defaults():
    expected = Options(run_dir=pathlib.Path("runs/a"), workdir=pathlib.Path("w"))
    assert parse(*NEEDED) == expected
    assert (expected.parity, expected.attacks, expected.set) == (True, ("nan", "boost"), ())


@pytest.mark.parametrize(
    "arguments, name, value",
    [
        (["--parity-words=5"], "parity_words", 5),
        (["--parity_words", "5"], "parity_words", 5),
        (["--no-parity"], "parity", False),
        (["--noparity"], "parity", False),
        (["--parity"], "parity", True),
        (["--allow-loss"], "allow_loss", True),
        (["--allow_loss"], "allow_loss", True),
        (["--no-allow_loss"], "allow_loss", False),
        (["--noallow_loss"], "allow_loss", False),
        (["--share=0"], "share", 0.0),
        (["--left-out=0,3,7"], "left_out", (0, 3, 7)),
        (["--attacks=boost"], "attacks", ("boost",)),
        (
            ["--set=a.b=[1, 2]", "--set", "c.under_score=x-y"],
            "set",
            ("a.b=[1, 2]", "c.under_score=x-y"),
        ),
        (["--workdir=two"], "workdir", pathlib.Path("two")),
    ],
)
def test_a_flag_sets_its_field_and_no_other(arguments, name, value):
    before, after = parse(*NEEDED), parse(*NEEDED, *arguments)
    assert getattr(after, name) == value
    assert type(getattr(after, name)) is type(value)
    assert dataclasses.replace(after, **{name: getattr(before, name)}) == before


def test_positional_arguments_may_be_anywhere():
    assert parse("--workdir", "w", "runs/a", "--noparity").run_dir == pathlib.Path("runs/a")
    assert Several.parse("try", ["a", "--deep", "b"]).models == ("a", "b")


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], "Pass a run directory; got 0 arguments. See tff-keyboard try --help."),
        (["a", "b", "--workdir=w"], "Pass a run directory; got 2 arguments."),
        (["a"], "--workdir is required: Where the run is kept."),
        ([*NEEDED, "--wokdir=x"], "Unknown command line flag 'wokdir'. Did you mean: workdir? See"),
        ([*NEEDED, "--parity_w=3"], "Unknown command line flag 'parity-w'. Did you mean: parity-w"),
        ([*NEEDED, "--zzz"], "Unknown command line flag 'zzz'. See tff-keyboard try --help."),
        ([*NEEDED, "--parity-words=0"], "flag --parity-words=0: 0 is not a positive integer. See"),
        ([*NEEDED, "--parity-words=many"], "flag --parity-words=many: "),
        ([*NEEDED, "--share=1.5"], "flag --share=1.5: 1.5 is not a number in the range [0, 1]."),
        ([*NEEDED, "--share=nan"], "--share must be finite, got nan."),
        (
            [*NEEDED, "--clients=all"],
            "flag --clients=all: value should be one of <held_out|train>.",
        ),
        ([*NEEDED, "--attacks=nan,bost"], "flag --attacks=nan,bost: value should be one of"),
        ([*NEEDED, "--left-out=0,b"], "flag --left-out=0,b: "),
        ([*NEEDED, "--workdir"], "Missing value for flag --workdir."),
    ],
)
def test_usage_errors_are_one_line(arguments, says):
    with pytest.raises(UsageError) as caught:
        parse(*arguments)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [0, 3])
def test_too_few_or_many_words(count):
    with pytest.raises(UsageError, match=f"Pass one or two models; got {count} arguments"):
        Several.parse("try", ["m"] * count)


def test_a_task_without_positional_arguments_rejects_them():
    with pytest.raises(UsageError, match="Unexpected argument 'a'"):
        ConfigOptions.parse("try", ["a"])


def test_help_says_everything():
    text = " ".join(Options.help("try", "Tries.\n\nMore of it.").split())
    assert text.startswith("Tries. More of it. Arguments: RUN_DIR")
    assert "Population, 100 % of it. (default: held_out)" in text
    assert "--parity, --no-parity Whether to check. (default: on)" in text
    assert "RUN_DIR a run directory" in text
    assert "--clients {held_out,train}" in text
    assert "--parity-words N Words that are read. (default: 20000)" in text
    assert "--left-out A,B,.. Positions." in text


def test_config_options_apply_what_was_set():
    options = ConfigOptions.parse("try", ["--set=train.rounds=7", '--store=a "b"'])
    config = options.run_config()
    assert (config.train.rounds, config.data.store) == (7, 'a "b"')
