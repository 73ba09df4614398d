"""Opens a keyboard that types with an exported model: in the browser, or in the terminal.

tff-keyboard play keyboard.tflite
tff-keyboard play one.tflite two.tflite        (both suggest side by side)
tff-keyboard play keyboard.tflite --terminal
tff-keyboard play keyboard.tflite --cache words.cache
tff-keyboard play keyboard.tflite --events me.jsonl      (a line for each strip, without any words)

A model exported with --ngram learns the words of the messages that are sent, in memory or, with
--cache, in a file that only its owner can read. The page is served to this machine only, loads
nothing from elsewhere, and opens for whoever has the whole address that is printed: it holds a
token that other users of the machine do not know.
"""

import contextlib
import dataclasses
import functools
import pathlib
import sys
from typing import Annotated, Literal

from ..options import Range, Runtime, TaskOptions, UsageError, Words
from tff_keyboard.storage import shipped_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    models: Annotated[tuple[pathlib.Path, ...], Words("one or two .tflite files", 1, 2)]
    port: Annotated[
        int, "Port of the page on 127.0.0.1; 0 takes any free one.", Range(0, 65_535)
    ] = 8765
    terminal: Annotated[bool, "Type in this terminal, with the first model."] = False
    language: Annotated[
        Literal["en", "de", "tr", "none"] | None,
        "Language of keys, contractions and the blocklist; the model's if left out.",
    ] = None
    blocklist: Annotated[
        pathlib.Path | None,
        "File of further words that are never suggested; a line is a word or `start*`.",
    ] = None
    cache: Annotated[
        pathlib.Path | None,
        "File for what a model with an n-gram learns of its owner; kept in memory by default.",
    ] = None
    events: Annotated[
        pathlib.Path | None,
        "Log of what became of each strip, without any words; an existing log is continued.",
    ] = None
    runtime: Runtime = None


def run(options: Options) -> None:
    """Serves the page until interrupted, or types in the terminal until the end of input.

    Raises:
      ExportError: A model or the blocklist cannot be read.
      ProgramError: The port cannot be used.
      CheckFailed: A model crashes the interpreter.
    """
    from tflite_export.format import manifest
    from tflite_export.keyboard import blocklist

    blocked = blocklist.entries_of(options.blocklist) if options.blocklist is not None else []
    models = list(dict.fromkeys(map(shipped_files.found, options.models)))
    for path in models:
        manifest.load_checked(path)  # before what takes longer to import
    from tff_keyboard.evaluation.events import live_log
    from tff_keyboard.evaluation.named import references
    from tflite_export.gate import model_trial
    from tflite_export.keyboard import terminal_keyboard
    from tflite_export.keyboard.owner import Owner, held_cache
    from tflite_export.keyboard.server import keyboard_server
    from tflite_export.keyboard.strip import StripKeyboard
    from tflite_export.keyboard.strip_events import KeyboardEvents, TypedStrips
    from tflite_export.runtime.hybrid_keyboard import open_keyboard

    for path in models:
        model_trial.use_in_child(path, options.runtime)
    with contextlib.ExitStack() as held:
        cache, problem = held.enter_context(held_cache(options.cache))
        if problem is not None:
            print(f"warning: {problem}", file=sys.stderr)
        names = references.names_of(list(map(str, models)))
        opened = [open_keyboard(path, runtime=options.runtime, cache=cache) for path in models]
        owner = Owner(opened, cache, options.cache)
        if options.cache is not None and not owner.can_learn:
            raise UsageError(
                "--cache is for a model that learns, and none of these has an n-gram. Export it "
                "with --ngram, or leave --cache out."
            )
        keyboards = {
            name: StripKeyboard(predictor, options.language, blocked)
            for name, predictor in zip(names, opened, strict=True)
        }
        log = held.enter_context(live_log.opened(options.events)) if options.events else None
        events = [KeyboardEvents(keyboards[name], log) for name in names] if log else []
        if options.terminal:
            first = Owner(opened[:1], cache, options.cache)
            show = functools.partial(print, end="", flush=True)
            strips = TypedStrips(events[0]) if events else None
            with terminal_keyboard.raw_keys() as read_key:
                terminal_keyboard.run(keyboards[names[0]], read_key, show, first, strips)
            return
        server = keyboard_server.make_server(keyboards, options.port, owner, events)
        print(f"Keyboard: {server.address}  (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        finally:
            server.server_close()
