"""Exports a trained model as a TFLite keyboard model, and checks what was written.

tff-keyboard export runs/sms --out keyboard.tflite --quantize int8-rows

Writes keyboard.tflite, .vocabulary, .json (the manifest), .card.md, .ngram with --ngram and .tail
with --tail; nothing if its words for held-out text are noticeably worse than the Keras model's.

tff-keyboard export runs/sms --format=aosp --out=en.combined

writes a word list for HeliBoard and its kin instead (docs/phone/aosp.md).
"""

import dataclasses
import pathlib
from typing import Annotated, Literal

from ..options import Range, TaskOptions, Words
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.evaluation.results import golden_prompts
from tff_keyboard.host import quiet
from tff_keyboard.predictors.ngram import ngram_spec
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.storage.model_description import read_description
from tflite_export.export import private_runs
from tflite_export.export.aosp_options import AospOptions
from tflite_export.format import signing
from tflite_export.gate import texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(AospOptions, TaskOptions):
    """What the task can be told."""

    run_dir: Annotated[pathlib.Path, Words("a run directory")]
    quantize: Annotated[
        Literal["int8", "int8-rows", "int4-rows", "float16", "none"],
        "Weights of the file: int8 by the converter, int8 or int4 with one scale a row of the "
        "word table, float16, or float32.",
    ] = "int8-rows"
    text: Annotated[
        pathlib.Path | None,
        "File for the parity gate in place of a store: a message a line, or user<TAB>message.",
    ] = None
    calibration_text: Annotated[
        pathlib.Path | None,
        "File that int4 rounding is fitted to; train clients if left out, but of no private run.",
    ] = None
    parity: Annotated[bool, "Whether to run the parity gate."] = True
    parity_words: Annotated[
        int, "About how many words the parity gate reads; it takes whole people.", Range(1)
    ] = 20_000
    allow_loss: Annotated[bool, "Write the file even if the parity gate fails."] = False
    ngram: Annotated[
        str | None,
        "Size of an n-gram file beside the model, as 500kB: with it the keyboard is a hybrid that "
        "learns its owner's words. Counted from the store's train people.",
    ] = None
    allow_little_text: Annotated[
        bool, "Let the gate decide on fewer than 1,000 words of 5 people."
    ] = False
    prompts: Annotated[
        pathlib.Path | None, "Golden prompts: what is typed, a TAB, wanted and !unwanted words."
    ] = None
    licence: Annotated[str | None, "Licence of the files, for the model card."] = None
    sign_key: Annotated[
        pathlib.Path | None, "PEM file of an Ed25519 private key that signs the export."
    ] = None
    trainable: Annotated[bool, "Add signatures that go on training on the device."] = False
    pack: Annotated[
        bool, "Pack vocabulary and manifest into the model file (TFLite associated files)."
    ] = False
    top_k: Annotated[int, "Words that the file's `predict` and `step` return.", Range(1)] = 3
    max_bytes: Annotated[
        int,
        "Limit of the model file; 0: 1.45 MB for int8, 1 MB for int4, 1.5 MB if trainable.",
        Range(0),
    ] = 0
    explain: Annotated[bool, "Print a table of bytes by tensor."] = False


def run(options: Options) -> None:
    """Exports and prints what was written."""
    options.check_flags()
    if options.format == "aosp":
        _export_words(options)
        return
    read_description(options.run_dir)  # before TensorFlow is imported
    try:
        ngram_wanted = ngram_spec.of_file(options.ngram) if options.ngram is not None else None
    except ValueError as error:
        raise UsageError(f"--ngram={error}") from None
    store = pathlib.Path()  # where none is needed
    calibrates = options.quantize == "int4-rows" and not options.calibration_text
    reads, population = options.parity and not options.text, options.clients or "held_out"
    private_runs.check_texts(options.run_dir, population if reads else "", calibrates=calibrates)
    is_private = private_runs.is_private(options.run_dir)
    counts = options.ngram is not None or (options.tail > 0 and not is_private)
    if reads or counts or calibrates:
        store = texts.store_of(options.run_dir, options.store)
        read_card(store)
    prompts = golden_prompts.read_prompts(options.prompts) if options.prompts else None
    sign_key = signing.read_private_key(options.sign_key) if options.sign_key else None
    quiet.import_tensorflow()
    from tflite_export.export import export, ngram_part, tail_part
    from tflite_export.export.export_options import ExportOptions
    from tflite_export.export.trained_run import TrainedRun
    from tflite_export.gate.errors import ParityFailed

    trained = TrainedRun.load(options.run_dir)
    words = trained.vocabulary
    held_out = calibration = tail = None
    if options.parity:
        held_out = texts.read(options.text, store, population, words, options.parity_words)
    if options.quantize == "int4-rows":
        calibration = texts.read(options.calibration_text, store, "train", words, 10_000)
    ngram = ngram_part.build(trained, store, ngram_wanted) if ngram_wanted else None
    if options.tail:
        tail = tail_part.build(trained, store, options.tail, options.word_list)
    shared = {field.name for field in dataclasses.fields(ExportOptions)} - {"quantization"}
    export_options = ExportOptions(
        quantization=options.quantize, **{name: getattr(options, name) for name in shared}
    )
    try:
        result = export.export(
            trained,
            options.out or pathlib.Path("keyboard.tflite"),
            export_options,
            held_out=held_out,
            calibration=calibration,
            calibration_is_public=options.calibration_text is not None,
            ngram=ngram,
            tail=tail,
            prompts=prompts,
            licence=options.licence,
            sign_key=sign_key,
        )
    except ParityFailed as error:
        print(error.table)
        raise
    print(*result.lines(export_options, ngram=ngram, tail=tail, explain=options.explain), sep="\n")


def _export_words(options: Options) -> None:
    model, out = shipped_files.found(options.run_dir), options.out or pathlib.Path("words.combined")
    options.check(model, out)
    if model.suffix != ".tflite":
        read_description(model)
        quiet.import_tensorflow()
    elif options.store is None:
        raise UsageError("Give --store=DIR: a .tflite file names no client store.")
    from tflite_export.export import aosp_export

    store = texts.store_of(model, options.store)
    print("\n".join(aosp_export.export(model, store, out, options)))
