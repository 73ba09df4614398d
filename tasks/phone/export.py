"""Exports a trained model as a TFLite keyboard model, and checks the result.

tff-keyboard export runs/sms --out keyboard.tflite --quantize int8-rows

Writes keyboard.tflite, .vocabulary, .json (the manifest) and .card.md (the model card); also .ngram
with --ngram and .tail with --tail. The parity gate compares the suggestions of the export with
those of the Keras model on held-out text. If the export is noticeably worse, nothing is written.
"""

import dataclasses
import pathlib
from typing import Annotated, Literal

from absl import flags

from tff_keyboard.command_line.options import (
    Positional,
    Tail,
    TailWordList,
    TaskOptions,
    check_tail,
)
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import quiet
from tff_keyboard.predictors.ngram import ngram_spec
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.storage.model_description import read_description
from tflite_export.export import private_runs
from tflite_export.format import manifest, signing
from tflite_export.gate import texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `export`."""

    run_dir: Annotated[pathlib.Path, Positional("a run directory")]
    out: Annotated[pathlib.Path, "File to write."] = pathlib.Path("keyboard.tflite")
    store: Annotated[
        pathlib.Path | None,
        "Client store for the parity gate. Default: the store of the training.",
    ] = None
    quantize: Annotated[
        Literal["auto", "int8", "int8-rows", "none"],
        "Weights in the file: int8 (by the converter), int8 with one scale per vocabulary row "
        "(CIFG only), or float32 (none). auto: int8-rows for the CIFG, int8 for other models.",
    ] = "auto"
    text: Annotated[
        pathlib.Path | None,
        "File for the parity gate instead of a store, with lines of message or user<TAB>message.",
    ] = None
    parity: Annotated[bool, "Run the parity gate."] = True
    parity_words: Annotated[
        int,
        "Approximate number of words for the parity gate, which reads whole clients.",
        flags.IntegerParser(1),
    ] = 20_000
    allow_loss: Annotated[bool, "Write the file even if the parity gate fails."] = False
    ngram: Annotated[
        str | None,
        "Size of an n-gram file next to the model, for example 500kB. The keyboard then combines "
        "both and learns its owner's words. Counted on the train clients of the store.",
    ] = None
    allow_little_text: Annotated[
        bool, "Accept a parity gate on fewer than 1,000 words or 5 clients."
    ] = False
    licence: Annotated[str | None, "Licence of the files, for the model card."] = None
    sign_key: Annotated[
        pathlib.Path | None, "PEM file with the Ed25519 private key that signs the export."
    ] = None
    tail: Tail = 0
    word_list: TailWordList = None
    trainable: Annotated[bool, "Add TFLite signatures for training on the device."] = False
    pack: Annotated[
        bool, "Pack vocabulary and manifest into the model file (TFLite associated files)."
    ] = False
    top_k: Annotated[
        int,
        "Number of words that the signatures `predict` and `step` return.",
        flags.IntegerParser(1),
    ] = 3
    max_bytes: Annotated[
        int,
        "Maximum size of the model file. 0: 1.45 MB for int8, 1.5 MB if trainable.",
        flags.IntegerParser(0),
    ] = 0

    def __post_init__(self) -> None:
        check_tail(self.tail, self.word_list)


def run(options: Options) -> None:
    """Exports the model and prints a summary."""
    manifest.check_out(options.out)  # before TensorFlow is imported
    read_description(options.run_dir)
    try:
        ngram_wanted = ngram_spec.of_file(options.ngram) if options.ngram is not None else None
    except ValueError as error:
        raise UsageError(f"--ngram={error}") from None
    store = pathlib.Path()  # if none is needed
    reads = options.parity and not options.text
    is_private = private_runs.is_private(options.run_dir)
    counts = options.ngram is not None or (options.tail > 0 and not is_private)
    if reads or counts:
        store = texts.store_of(options.run_dir, options.store)
        read_card(store)
    sign_key = signing.read_private_key(options.sign_key) if options.sign_key else None
    quiet.import_tensorflow()
    from tflite_export.export import export, ngram_part, tail_part
    from tflite_export.export.export_options import ExportOptions
    from tflite_export.export.trained_run import TrainedRun
    from tflite_export.gate.parity import ParityFailed

    trained = TrainedRun.load(options.run_dir)
    words = trained.vocabulary
    held_out = tail = None
    if options.parity:
        held_out = texts.read(options.text, store, "held_out", words, options.parity_words)
    ngram = ngram_part.build(trained, store, ngram_wanted) if ngram_wanted else None
    if options.tail:
        tail = tail_part.build(trained, store, options.tail, options.word_list)
    shared = {field.name for field in dataclasses.fields(ExportOptions)} - {"quantization"}
    export_options = ExportOptions(
        quantization=options.quantize, **{name: getattr(options, name) for name in shared}
    ).for_model(trained.model.name_in_registry)
    try:
        result = export.export(
            trained,
            options.out,
            export_options,
            held_out=held_out,
            ngram=ngram,
            tail=tail,
            licence=options.licence,
            sign_key=sign_key,
        )
    except ParityFailed as error:
        print(error.table)
        raise
    print(*result.lines(export_options, ngram=ngram, tail=tail), sep="\n")
