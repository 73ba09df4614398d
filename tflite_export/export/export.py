"""Exports a trained model to the files for a phone, and checks them before they appear.

    load -> quantise -> write aside -> verify the bytes -> the gate, in the interpreter -> rename

The final names appear only after every check passed.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary
from tff_keyboard.models import NextWordModel
from tff_keyboard.storage import directories, in_progress
from tff_keyboard.storage.errors import ExportError
from tflite_export.export import model_card, ngram_part
from tflite_export.export.export_options import ExportOptions
from tflite_export.export.export_result import ExportResult
from tflite_export.export.ngram_part import HybridReport, NGramPart
from tflite_export.export.tail_part import TailPart
from tflite_export.export.trained_run import TrainedRun
from tflite_export.format import (
    associated_files,
    inspection,
    manifest,
    manifest_content,
    signatures,
    signing,
    vocabulary_file,
)
from tflite_export.gate import parity, shown_words, stored_table, training_signatures
from tflite_export.gate.parity import ParityFailed, Texts
from tflite_export.graphs import converter, quantization, row_scaled, streaming, trainable
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.streaming import StreamingWeights
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, with_parts
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor


def export(
    run: TrainedRun,
    out: pathlib.Path,
    options: ExportOptions,
    *,
    held_out: Texts | None = None,
    ngram: NGramPart | None = None,
    tail: TailPart | None = None,
    licence: str | None = None,
    sign_key: Ed25519PrivateKey | None = None,
) -> ExportResult:
    """Exports the model of a run.

        run = tk.export.TrainedRun.load(pathlib.Path("runs/sms"))
        options = tk.export.ExportOptions(quantization="int8-rows", top_k=3)
        result = tk.export.export(run, pathlib.Path("keyboard.tflite"), options)

    Args:
      run: The run to export.
      out: The model file, `.tflite`. Vocabulary and manifest get its name with other suffixes.
      options: Options of the export.
      held_out: Text for the parity gate. It must not come from users on whom a private run was
        trained. If None, there is no parity gate, and the manifest says so.
      ngram: The n-gram of a hybrid, written next to the model.
      tail: Words that are not in the table, written next to the model.
      licence: Licence of the files, for the model card.
      sign_key: Signs the manifest, and with it all files.

    Raises:
      ExportError: If the run cannot be exported, or `out` is a directory.
      UsageError: If `out` is not a name for a model file.
      CheckFailed: If the written file failed a check, or there is too little text to decide. No
        file is published.
      OSError: If the disk is full, or `out` may not be written.
    """
    manifest.check_out(out)
    if held_out is not None and not options.allow_little_text:
        parity.check_enough(held_out)
    model, vocabulary = run.model, run.vocabulary
    options = options.for_model(model.name_in_registry)
    if options.top_k > len(vocabulary) - NUM_SPECIAL:
        raise ExportError(
            f"`top_k` must be at most the {len(vocabulary) - NUM_SPECIAL} words of the vocabulary, "
            f"got {options.top_k}."
        )
    rows = vocabulary_file.sorted_rows(vocabulary)
    weights = _weights(model, np.asarray(rows))
    data = _model_bytes(weights, options)
    vocabulary_data = vocabulary_file.encode(vocabulary_file.sorted_vocabulary(vocabulary))

    with directories.scratch_directory(out) as directory:
        staged = manifest.ExportPaths(directory / out.name)
        staged.model.write_bytes(data)
        written = staged.model.read_bytes()
        report = _verify_file(written, weights, options)
        facts = _manifest(run, options, weights, written, vocabulary_data, ngram, tail, licence)
        parts = {associated_files.VOCABULARY: vocabulary_data}
        if ngram is not None:
            parts[associated_files.NGRAM] = ngram.data
        if tail is not None:
            parts[associated_files.TAIL] = tail.data
        parts[associated_files.MANIFEST] = manifest_content.to_bytes(facts)
        for name, part in parts.items():
            staged.part(name).write_bytes(part)

        predictor = KeyboardPredictor(staged.model)
        check_contents(written, predictor, model, vocabulary)
        comparison = _parity(run, predictor, held_out, options) if held_out is not None else None
        hybrid = _hybrid_report(staged.model, held_out, options) if ngram is not None else None
        facts = dataclasses.replace(facts, parity=comparison, hybrid=hybrid)
        card = model_card.model_card(facts, run.directory).encode()
        about_card = manifest_content.CardFacts(bytes=len(card), sha256=manifest.sha256(card))
        facts = dataclasses.replace(facts, card=about_card)
        parts |= {
            associated_files.MANIFEST: manifest_content.to_bytes(facts),
            associated_files.CARD: card,
        }
        if sign_key is not None:
            signed = signing.sign(parts[associated_files.MANIFEST], sign_key)
            parts[associated_files.SIGNATURE] = signed
        model_bytes = _publish(staged, out, written, parts, pack=options.pack)
    return ExportResult(
        paths=manifest.ExportPaths(out),
        report=report,
        parity=comparison,
        vocabulary_bytes=len(vocabulary_data),
        model_bytes=model_bytes,
        hybrid=hybrid,
    )


def _publish(
    staged: manifest.ExportPaths,
    out: pathlib.Path,
    model: bytes,
    parts: Mapping[str, bytes],
    *,
    pack: bool,
) -> int:
    """Writes the files of an export in place of an older export.

    Args:
      staged: Paths in the scratch directory.
      out: Final path of the model.
      model: Bytes of the model.
      parts: The other files, by name in `manifest.SUFFIXES`.
      pack: Whether the other files are packed into the model file.

    Returns:
      The size of the model file, in bytes.
    """
    separate = {} if pack else parts
    for name, data in separate.items():
        staged.part(name).write_bytes(data)
    if pack:
        staged.model.unlink()  # the old file is mapped; a new file leaves it intact
        staged.model.write_bytes(associated_files.append(model, parts))
    num_bytes = staged.model.stat().st_size
    # A kill while the files are moved leaves a mixture, which readers reject: the manifest has the
    # hash of every file. Exporting again replaces all of them.
    final = manifest.ExportPaths(out)
    new = [staged.model, *map(staged.part, separate)]
    for path in new:
        in_progress.sync(path)
    for name in final.names:
        if name in [path.name for path in new]:
            staged.model.with_name(name).replace(out.with_name(name))
        else:
            out.with_name(name).unlink(missing_ok=True)
    in_progress.sync(out.parent)
    return num_bytes


def _hybrid_report(
    model: pathlib.Path, held_out: Texts | None, options: ExportOptions
) -> HybridReport | None:
    """Compares the hybrid (network, n-gram, own words) with the network alone on held-out text.

    Opens the staged files as an app does, also without text: a file that does not open fails here.
    Returns None if there is no text.

    Raises:
      CheckFailed: If the hybrid is worse than the network, unless `options.allow_loss`.
    """
    hybrid = with_parts(KeyboardPredictor(model))
    assert isinstance(hybrid, HybridKeyboardPredictor)
    if held_out is None:
        return None
    report = ngram_part.measure(hybrid, held_out, parity.MAX_TARGETS)
    if not options.allow_loss:
        report.check()
    return report


def check_contents(
    data: bytes, predictor: KeyboardPredictor, model: NextWordModel, vocabulary: Vocabulary
) -> None:
    """Checks that a file holds the trained weights and shows the words that it computes.

    A file that contradicts itself or the weights it was made from is broken, and no option accepts
    it. These checks need no text:

        the table   each row is read back from the bytes (`stored_table`)
        the strips  the strips of `step` and `predict` agree with the file's logits (`shown_words`)
        training    the training signatures of a trainable file (`training_signatures`)

    A file that rounds too much loses accuracy, which --allow-loss accepts. That check needs text
    (`parity`).

    Args:
      data: Bytes of the file.
      predictor: The same file, opened with its vocabulary and manifest.
      model: The trained model.
      vocabulary: The run's vocabulary, whose ids `model` uses.

    Raises:
      CheckFailed: If a check fails.
    """
    # Matched by the words of the written vocabulary: a row stored under another word is found.
    rows = parity.rows_of(predictor.index.vocabulary, vocabulary)
    if model.name_in_registry == "cifg":
        stored_table.check_table(data, np.asarray(model.output_table[0])[rows])
    else:
        copies = streaming.StreamingWeights.from_model(model, rows).copies
        for shape, tables in streaming.tables_of(model).items():
            for table in tables:
                stored_table.check_table(data, table[rows], copies(shape))
    shown_words.check_made_up(predictor)
    if predictor.manifest.model.trainable:
        training_signatures.check_training(predictor, model, rows)


def _weights(model: NextWordModel, rows: np.ndarray) -> CifgWeights | StreamingWeights:
    """Returns the weights with the words in the file's order; `rows` [V] are the model's ids."""
    if model.name_in_registry != "cifg":
        return StreamingWeights.from_model(model, rows)
    weights = CifgWeights.from_model(model)
    return dataclasses.replace(weights, embedding=weights.embedding[rows])


def _model_bytes(weights: CifgWeights | StreamingWeights, options: ExportOptions) -> bytes:
    """Returns the model file, by the converter or builder that these options need."""
    if isinstance(weights, StreamingWeights):
        return streaming.convert(weights, options.quantization, top_k=options.top_k)
    if options.trainable:
        return trainable.build(weights, top_k=options.top_k)
    if options.quantization == "int8-rows":
        table = quantization.quantize_rows(weights.embedding)
        return row_scaled.build(weights, table, top_k=options.top_k)
    return converter.convert(weights, options.quantization, top_k=options.top_k)


def _verify_file(
    written: bytes, weights: CifgWeights | StreamingWeights, options: ExportOptions
) -> inspection.FileReport:
    """Checks the size, signatures and word tables of a written file. Returns its report."""
    names = list(signatures.INFERENCE_SIGNATURES)
    if options.trainable:
        names += signatures.TRAINING_SIGNATURES
    check = functools.partial(
        inspection.verify, written, max_bytes=options.byte_limit, signatures=names
    )
    if isinstance(weights, CifgWeights):
        return check(table_shape=(weights.vocabulary_size, weights.dim))
    report = check(table_shape=None)
    for shape in weights.table_shapes:
        check(table_shape=shape, copies=weights.copies(shape))
    return report


def _parity(
    run: TrainedRun, predictor: KeyboardPredictor, held_out: Texts, options: ExportOptions
) -> parity.ParityReport:
    """Compares the file with the model, and raises failures that the options do not allow."""
    report = parity.compare(run.model, run.vocabulary, predictor, held_out)
    try:
        report.check(parity.TOLERANCES[options.quantization])
    except ParityFailed as error:
        if not options.allow_loss:
            raise
        return dataclasses.replace(report, forgiven=error.losses)
    return report


def _manifest(
    run: TrainedRun,
    options: ExportOptions,
    weights: CifgWeights | StreamingWeights,
    model_data: bytes,
    vocabulary_data: bytes,
    ngram: NGramPart | None,
    tail: TailPart | None,
    licence: str | None,
) -> manifest_content.Manifest:
    """Returns the manifest without the results of the checks."""
    alone = len(model_data) + len(vocabulary_data)
    if isinstance(weights, CifgWeights):
        sizes = manifest_content.StateSizes(c=weights.units, h=weights.dim)
    else:
        sizes = manifest_content.StateSizes(c=weights.c, h=weights.h)
    # Without the place of a user's file, which is nobody else's business.
    name = run.model.name_in_registry.rpartition(":")[2]
    return manifest_content.Manifest(
        model=manifest_content.ManifestModel(
            name=name,
            quantization=options.quantization,
            trainable=options.trainable,
            top_k=options.top_k,
            training_length=run.training_length(),
            state_sizes=sizes,
            bytes=len(model_data),
            sha256=manifest.sha256(model_data),
        ),
        vocabulary=manifest_content.VocabularyFacts(
            size=len(run.vocabulary),
            rules=run.vocabulary.rules,
            order=manifest_content.VOCABULARY_ORDER,
            run_fingerprint=run.vocabulary.fingerprint,
            bytes=len(vocabulary_data),
            sha256=manifest.sha256(vocabulary_data),
        ),
        truecase=run.truecase(),
        run=run.facts(),
        privacy=run.privacy(),
        parity=None,
        ngram=ngram.ngram if ngram else None,
        mixture=ngram.mixture if ngram else None,
        tail=tail.facts if tail else None,
        bytes=manifest_content.Sizes(
            network_and_vocabulary=alone,
            with_ngram=alone + sum(len(part.data) for part in (ngram, tail) if part),
        ),
        licence=licence,
    )
