"""Exports a trained model as a TFLite keyboard model, and checks what was written.

tff-keyboard export runs/sms --out keyboard.tflite --quantize int8-rows

Writes keyboard.tflite, keyboard.vocabulary and keyboard.json. Float Keras and the written file then
read the same held-out text; if the file suggests noticeably less well, nothing is written.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from tasks import cli

FLAGS = flags.FlagValues()  # of this task alone
_OUT = flags.DEFINE_string("out", "keyboard.tflite", "Model file to write.", flag_values=FLAGS)
_QUANTIZE = flags.DEFINE_enum(
    "quantize",
    "int8-rows",
    ["int8", "int8-rows", "int4-rows", "float16", "none"],
    "Weights of the file: int8 by the converter, int8 or int4 with one scale a row of the word "
    "table, float16, or float32.",
    flag_values=FLAGS,
)
_STORE = flags.DEFINE_string(
    "store",
    None,
    "Client store for the parity gate; the one the run was trained on if left out.",
    flag_values=FLAGS,
)
_CLIENTS = flags.DEFINE_enum(
    "clients",
    "held_out",
    ["held_out", "validation", "train", "train_later"],
    "Population of the store that the parity gate reads.",
    flag_values=FLAGS,
)
_TEXT = flags.DEFINE_string(
    "text",
    None,
    "File for the parity gate in place of a store: a message a line, or user<TAB>message.",
    flag_values=FLAGS,
)
_CALIBRATION_TEXT = flags.DEFINE_string(
    "calibration_text",
    None,
    "File that int4 rounding is fitted to; train clients of the store if left out.",
    flag_values=FLAGS,
)
_PARITY = flags.DEFINE_boolean("parity", True, "Whether to run the parity gate.", flag_values=FLAGS)
_PARITY_WORDS = flags.DEFINE_integer(
    "parity_words",
    20_000,
    "Words the parity gate reads, about; whole people.",
    lower_bound=1,
    flag_values=FLAGS,
)
_ALLOW_LOSS = flags.DEFINE_boolean(
    "allow_loss", False, "Write the file even if the parity gate fails.", flag_values=FLAGS
)
_TRAINABLE = flags.DEFINE_boolean(
    "trainable", False, "Add signatures that go on training on the device.", flag_values=FLAGS
)
_PACK = flags.DEFINE_boolean(
    "pack",
    False,
    "Pack vocabulary and manifest into the model file (TFLite associated files).",
    flag_values=FLAGS,
)
_TOP_K = flags.DEFINE_integer(
    "top_k",
    3,
    "Words that the file's `predict` and `step` return.",
    lower_bound=1,
    flag_values=FLAGS,
)
_MAX_BYTES = flags.DEFINE_integer(
    "max_bytes",
    0,
    "Limit of the model file; 0 means 1,450,000 for int8, 1,000,000 for int4, 1,500,000 for "
    "trainable files and none for float.",
    lower_bound=0,
    flag_values=FLAGS,
)
_EXPLAIN = flags.DEFINE_boolean(
    "explain", False, "Print a table of bytes by tensor.", flag_values=FLAGS
)

CALIBRATION_WORDS = 10_000
SEED = 1  # of which people are read


def run(
    run_dir: pathlib.Path,
    out: pathlib.Path,
    *,
    quantize: str = "int8-rows",
    store: pathlib.Path | None = None,
    clients: str = "held_out",
    text: pathlib.Path | None = None,
    calibration_text: pathlib.Path | None = None,
    parity: bool = True,
    parity_words: int = 20_000,
    allow_loss: bool = False,
    trainable: bool = False,
    pack: bool = False,
    top_k: int = 3,
    max_bytes: int = 0,
    explain: bool = False,
):
    """Exports and prints what was written; see the flags.

    Returns:
      `tflite_export.export.ExportResult`.
    """
    from tff_keyboard import quiet

    quiet.import_tensorflow()
    from tflite_export import export, inspection, texts
    from tflite_export.errors import ParityFailed

    options = export.ExportOptions(
        quantization=quantize,
        top_k=top_k,
        max_bytes=max_bytes,
        trainable=trainable,
        pack=pack,
        allow_loss=allow_loss,
    )
    _, vocabulary = export.load_run(run_dir)
    held_out = calibration = None
    if parity:
        if text is not None:
            held_out = texts.from_file(text, vocabulary.rules, max_words=parity_words)
        else:
            held_out = texts.from_store(
                _store(run_dir, store), clients, vocabulary, max_words=parity_words, seed=SEED
            )
    if quantize == "int4-rows":
        if calibration_text is not None:
            calibration = texts.from_file(
                calibration_text, vocabulary.rules, max_words=CALIBRATION_WORDS
            )
        else:
            calibration = texts.from_store(
                _store(run_dir, store), "train", vocabulary, max_words=CALIBRATION_WORDS, seed=SEED
            )
    try:
        result = export.export(run_dir, out, options, held_out=held_out, calibration=calibration)
    except ParityFailed as error:
        print(error.table)
        raise
    print(f"{result.paths.model}: {result.model_bytes:,} bytes, {quantize}")
    print(f"vocabulary: {result.vocabulary_bytes:,} bytes" + (", packed" if pack else ""))
    if explain:
        print(inspection.explain(result.report))
    print(result.parity.table() if result.parity else "parity: not checked (--noparity)")
    if result.forgiven:
        print(f"allowed by --allow-loss: {result.forgiven}")
    return result


def _store(run_dir: pathlib.Path, given: pathlib.Path | None) -> pathlib.Path:
    """The client store named on the command line, or in the config of the run."""
    if given is not None:
        return given
    from tff_keyboard import config
    from tflite_export.errors import ExportError

    path = run_dir / "config.toml"
    if not path.is_file():
        raise ExportError(
            f"{run_dir} names no client store (it has no config.toml). Give --store or --text for "
            "the parity gate, or switch it off with --noparity."
        )
    return pathlib.Path(config.loads(path.read_text(encoding="utf-8"), origin=str(path)).data.store)


def main(argv: Sequence[str]) -> None:
    """Exports the run directory named on the command line."""

    def path(value: str | None) -> pathlib.Path | None:
        return None if value is None else pathlib.Path(value)

    run(
        pathlib.Path(cli.one_argument(argv, "a run directory")),
        pathlib.Path(_OUT.value),
        quantize=_QUANTIZE.value,
        store=path(_STORE.value),
        clients=_CLIENTS.value,
        text=path(_TEXT.value),
        calibration_text=path(_CALIBRATION_TEXT.value),
        parity=_PARITY.value,
        parity_words=_PARITY_WORDS.value,
        allow_loss=_ALLOW_LOSS.value,
        trainable=_TRAINABLE.value,
        pack=_PACK.value,
        top_k=_TOP_K.value,
        max_bytes=_MAX_BYTES.value,
        explain=_EXPLAIN.value,
    )


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
