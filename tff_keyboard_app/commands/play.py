"""Opens a keyboard that types with an exported model, in the browser or in the terminal.

tff-keyboard play keyboard.tflite
tff-keyboard play english.tflite german.tflite         type in two or three languages at once
tff-keyboard play one.tflite two.tflite                compare two models of one language
tff-keyboard play keyboard.tflite --terminal
tff-keyboard play keyboard.tflite --cache words.cache
tff-keyboard play keyboard.tflite --events me.json     count how strips are used, in a file

The keyboard learns the words of the messages that you send. They stay in memory or, with --cache,
in a file that only you can read. Only this machine can open the page, and the
page loads nothing from the network. The printed address contains a token, so other users of this
machine cannot open the page.
"""

import contextlib
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from absl import flags

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.config.sections.data_config import Language
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tff_keyboard_app.events.event_log import LiveLog


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `play`."""

    models: Annotated[tuple[pathlib.Path, ...], Positional("one to three .tflite files", 1, 3)]
    port: Annotated[
        int, "Port of the page on 127.0.0.1. 0 selects a free one.", flags.IntegerParser(0, 65_535)
    ] = 8765
    terminal: Annotated[bool, "Type in this terminal."] = False
    language: Annotated[
        Literal[Language, "none"] | None,
        "Language of the keys, contractions and blocklist. Default: the language of the model.",
    ] = None
    blocklist: Annotated[
        pathlib.Path | None,
        "File with additional words that are never suggested. Each line is a word or `prefix*`.",
    ] = None
    emoji: Annotated[bool, 'Offer emoji after words such as "happy birthday".'] = True
    cache: Annotated[
        pathlib.Path | None,
        "File for the words that the keyboard learns. Default: memory only.",
    ] = None
    dictionary: Annotated[
        tuple[pathlib.Path, ...],
        "Your personal dictionary: a file of `tff-keyboard dictionary`, Gboard or SwiftKey. "
        "Repeatable.",
    ] = ()
    events: Annotated[
        pathlib.Path | None,
        "Log file with counts of shown and accepted suggestions. The counts of 10 or more messages "
        "are added at a time. An existing log is continued.",
    ] = None


def run(options: Options) -> None:
    """Serves the page until interrupted, or runs in the terminal until the end of input.

    Raises:
      ExportError: If a model or the blocklist cannot be read.
      UsageError: If the models or flags do not go together.
      ProgramError: If the port cannot be used.
      CheckFailed: If a model crashes the interpreter.
    """
    from tff_keyboard_app.keyboard import blocklist, dictionary_files
    from tflite_export.format import manifest

    blocked = blocklist.entries_of(options.blocklist) if options.blocklist is not None else []
    dictionary = dictionary_files.entries_of(options.dictionary)
    models = list(dict.fromkeys(map(shipped_files.locate, options.models)))
    for path in models:
        manifest.load_checked(path)  # before the slow imports
    from tff_keyboard.evaluation.model_specs import references
    from tff_keyboard_app.events import event_log
    from tff_keyboard_app.keyboard import terminal_keyboard
    from tff_keyboard_app.keyboard.multilingual import AnyKeyboard, MultilingualKeyboard
    from tff_keyboard_app.keyboard.server import keyboard_server
    from tff_keyboard_app.keyboard.strip import AppKeyboard
    from tff_keyboard_app.keyboard.strip_events import KeyboardEvents, TypedStrips
    from tff_keyboard_app.keyboard.user_history import UserHistory, held_cache
    from tflite_export.gate import model_trial
    from tflite_export.runtime.hybrid_keyboard import open_keyboard

    for path in models:
        model_trial.use_in_child(path)
    with contextlib.ExitStack() as held:
        cache, problem = held.enter_context(held_cache(options.cache))
        if problem is not None:
            print(f"warning: {problem}", file=sys.stderr)
        names = references.names_of(list(map(str, models)))
        opened = [open_keyboard(path, cache=cache) for path in models]
        alone = [
            AppKeyboard(
                predictor, options.language, blocked, emoji=options.emoji, dictionary=dictionary
            )
            for predictor in opened
        ]
        keyboards: dict[str, AnyKeyboard]
        keyboards = dict(zip(names, alone, strict=True))
        languages = None
        if _are_together(options, [keyboard.code for keyboard in alone]):
            languages = MultilingualKeyboard(alone)
            keyboards = {" + ".join(names): languages}
        owner = UserHistory(opened, cache, options.cache, languages)
        log = held.enter_context(event_log.opened(options.events)) if options.events else None
        events = [KeyboardEvents(keyboard, log) for keyboard in alone] if log else []
        if log is not None:
            held.callback(_report_unwritten, log)
        if options.terminal:
            first = owner if languages else UserHistory(opened[:1], cache, options.cache)
            show = functools.partial(print, end="", flush=True)
            strips = TypedStrips(events[0]) if events else None
            with terminal_keyboard.raw_keys() as read_key:
                keyboard = next(iter(keyboards.values()))
                terminal_keyboard.run(keyboard, read_key, show, first, strips)
            return
        server = keyboard_server.make_server(keyboards, options.port, owner, events)
        print(f"Keyboard: {server.address}  (press Ctrl-C to stop)", flush=True)
        try:
            server.serve_forever()
        finally:
            server.server_close()


def _report_unwritten(log: "LiveLog") -> None:
    """Says how many messages the log lacks because their counts were never written."""
    from tff_keyboard_app.events.event_log import MIN_MESSAGES

    if log.num_unwritten:
        print(
            f"--events: messages that are not in the log: {log.num_unwritten}. Counts are written "
            f"for {MIN_MESSAGES} or more messages at a time.",
            file=sys.stderr,
        )


def _are_together(options: Options, codes: Sequence[str]) -> bool:
    """Returns whether models of some languages are one keyboard, and not compared.

    Raises:
      UsageError: If they can be neither, or a flag does not go with it.
    """
    if len(set(codes)) == 1 and len(codes) <= 2:
        return False
    if len(set(codes)) < len(codes):
        raise UsageError(
            f"Two of the models have the same language ({', '.join(codes)}). Give one model for "
            "each language, or two models of one language to compare them."
        )
    for flag, is_given in (("language", options.language), ("events", options.events)):
        if is_given is not None:
            raise UsageError(
                f"--{flag} does not go with models of several languages ({', '.join(codes)}). Give "
                "models of one language, or leave the flag out."
            )
    return True
