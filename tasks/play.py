"""Opens a keyboard that types with an exported model: in the browser, or in the terminal.

tff-keyboard play keyboard.tflite
tff-keyboard play one.tflite two.tflite        (both suggest side by side)
tff-keyboard play keyboard.tflite --terminal

The page is served to this machine only and loads nothing from elsewhere.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from tasks import cli

FLAGS = flags.FlagValues()  # of this task alone
_PORT = flags.DEFINE_integer(
    "port",
    8765,
    "Port of the page on 127.0.0.1; 0 takes any free one.",
    lower_bound=0,
    upper_bound=65_535,
    flag_values=FLAGS,
)
_TERMINAL = flags.DEFINE_boolean(
    "terminal", False, "Type in this terminal, with the first model.", flag_values=FLAGS
)
_RUNTIME = flags.DEFINE_enum(
    "runtime",
    None,
    ["litert", "tensorflow"],
    "Interpreter; the first installed if left out.",
    flag_values=FLAGS,
)

MOST_MODELS = 2


def run(
    models: Sequence[pathlib.Path],
    *,
    port: int = 8765,
    terminal: bool = False,
    runtime: str | None = None,
) -> None:
    """Serves the page until interrupted, or types in the terminal until the end of input.

    Raises:
      ExportError: A model cannot be opened, or the port cannot be used.
    """
    from tflite_export import interpreters, keyboard_server, terminal_keyboard
    from tflite_export.runtime import KeyboardPredictor

    interpreters.import_quietly(runtime)
    predictors = {
        name: KeyboardPredictor(path, runtime=runtime)
        for name, path in zip(keyboard_server.names_of(models), models, strict=True)
    }
    if terminal:
        with terminal_keyboard.raw_keys() as read_key:
            terminal_keyboard.run(next(iter(predictors.values())), read_key, _show)
        return
    server = keyboard_server.make_server(predictors, port)
    print(f"Keyboard: http://{keyboard_server.HOST}:{server.server_port}/  (Ctrl-C ends it)")
    sys.stdout.flush()
    try:
        server.serve_forever()
    finally:
        server.server_close()


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main(argv: Sequence[str]) -> None:
    """Opens the models named on the command line."""
    if not 1 <= len(argv) <= MOST_MODELS:
        raise cli.UsageError(f"Give one or two .tflite files; got {len(argv)}. See --help.")
    run(
        [pathlib.Path(name) for name in argv],
        port=_PORT.value,
        terminal=_TERMINAL.value,
        runtime=_RUNTIME.value,
    )


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
