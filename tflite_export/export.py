"""From a trained model to the files a phone takes, checked before they appear.

    load -> quantise -> write aside -> verify the bytes -> the gate, in the interpreter -> rename

Nothing appears under the final names unless every check passed.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard import config as config_lib
from tff_keyboard.data.store import truecase_table
from tff_keyboard.data.vocabulary import BOS, Vocabulary
from tff_keyboard.evaluation.golden_prompts import Prompts, check_prompts
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.privacy import statement
from tff_keyboard.storage import directories, file_sets, names
from tff_keyboard.storage.errors import DataError, ExportError, SavedModelError, UsageError
from tflite_export import (
    associated_files,
    converter,
    inspection,
    manifest,
    model_card,
    ngram_part,
    quantization,
    row_scaled,
    signatures,
    signing,
    trainable,
    vocabulary_file,
)
from tflite_export.cifg_weights import CifgWeights
from tflite_export.errors import ParityFailed
from tflite_export.export_options import ExportOptions
from tflite_export.export_result import ExportResult
from tflite_export.gate import gate, parity
from tflite_export.gate.parity import Texts
from tflite_export.hybrid_keyboard import open_keyboard, with_ngram
from tflite_export.ngram_part import HybridReport, NGramPart
from tflite_export.runtime import KeyboardPredictor

NO_PRIVACY_CLAIM = "none: trained without differential privacy"


def load_run(run_dir: pathlib.Path) -> tuple[NextWordModel, Vocabulary]:
    """The model of a run directory.

    Raises:
      ExportError: There is none, or it is damaged.
    """
    try:
        return load_model(run_dir)
    except (SavedModelError, DataError) as error:
        raise ExportError(str(error)) from None


def export(
    run_dir: pathlib.Path,
    out: pathlib.Path,
    options: ExportOptions,
    *,
    held_out: Texts | None = None,
    calibration: Texts | None = None,
    ngram: NGramPart | None = None,
    prompts: Prompts | None = None,
    licence: str | None = None,
    sign_key: Ed25519PrivateKey | None = None,
) -> ExportResult:
    """Exports the model of a run.

    Args:
      run_dir: A run directory, or a saved model.
      out: The model file, `.tflite`; vocabulary and manifest get its name with other endings.
      options: How.
      held_out: Text for the parity gate; without it there is no gate, and the manifest says so.
      calibration: Text that int4 rounding is fitted to; "int4-rows" needs it.
      ngram: The other half of a hybrid, written beside the model.
      prompts: Golden prompts, which the keyboard as written must pass.
      licence: Of the files, for the model card.
      sign_key: Signs the manifest, and with it all files.

    Raises:
      ExportError: The run cannot be read or exported, or `out` is a directory.
      UsageError: `out` is no name for a model file.
      CheckFailed: The written file broke a promise, or there is too little text to say; nothing
        was published.
      OSError: The disk is full, or `out` may not be written.
      ProgramError: Beside `out` lies what no interrupted export leaves.
    """
    if out.suffix != ".tflite":
        raise UsageError(f"--out must end in .tflite, got '{out.name}'.")
    if out.is_dir():
        raise ExportError(f"{out} is a directory. Give the name of a file.")
    file_sets.finish(out, manifest.ExportPaths(out).names)  # of an export that was killed
    if held_out is not None and not options.allow_little_text:
        parity.check_enough(held_out)
    model, vocabulary = load_run(run_dir)
    weights = CifgWeights.from_model(model)
    if options.top_k > len(vocabulary) - len(manifest.SPECIAL_IDS):
        raise ExportError(
            f"`top_k` must be at most the {len(vocabulary) - 4} words of the vocabulary, "
            f"got {options.top_k}."
        )
    rows = vocabulary_file.sorted_rows(vocabulary)
    weights = dataclasses.replace(weights, embedding=weights.embedding[rows])
    data = _model_bytes(weights, options, model, vocabulary, calibration)
    vocabulary_data = vocabulary_file.encode(vocabulary_file.sorted_vocabulary(vocabulary))

    with directories.scratch_directory(out) as directory:
        staged = manifest.ExportPaths(directory / out.name)
        staged.model.write_bytes(data)
        written = staged.model.read_bytes()
        report = _verified(written, weights, options)
        content = _manifest(run_dir, options, weights, vocabulary, written, vocabulary_data)
        if ngram is not None:
            content |= {"ngram": ngram.ngram, "mixture": ngram.mixture}
            staged.ngram.write_bytes(ngram.data)
        content["bytes"] = _total_bytes(content)
        content["licence"] = licence
        staged.vocabulary.write_bytes(vocabulary_data)
        staged.manifest.write_bytes(manifest.to_bytes(content))

        predictor = KeyboardPredictor(staged.model)
        gate.check_contents(written, predictor, model, vocabulary)
        comparison, forgiven = None, None
        if held_out is not None:
            comparison = parity.compare(model, vocabulary, predictor, held_out)
            forgiven = _forgiven(comparison, options)
            content["parity"] = dataclasses.asdict(comparison) | {"forgiven": forgiven}
            staged.manifest.write_bytes(manifest.to_bytes(content))
        hybrid = _hybrid_report(staged.model, held_out, options) if ngram is not None else None
        if hybrid is not None:
            content["hybrid"] = dataclasses.asdict(hybrid)
            staged.manifest.write_bytes(manifest.to_bytes(content))
        shown = None
        if prompts is not None:
            shown = check_prompts(open_keyboard(staged.model), prompts)
            shown.check(out.name)
            content["prompts"] = shown.to_json()
            staged.manifest.write_bytes(manifest.to_bytes(content))
        card = model_card.model_card(content, run_dir).encode()
        content["card"] = {"bytes": len(card), "sha256": manifest.sha256(card)}
        parts = {
            manifest.PACKED_VOCABULARY: vocabulary_data,
            manifest.PACKED_MANIFEST: manifest.to_bytes(content),
            associated_files.CARD: card,
        }
        if ngram is not None:
            parts[manifest.PACKED_NGRAM] = ngram.data
        if sign_key is not None:
            parts[associated_files.SIGNATURE] = signing.sign(
                parts[manifest.PACKED_MANIFEST], sign_key
            )
        model_bytes = _publish(staged, out, written, parts, pack=options.pack)
    return ExportResult(
        paths=manifest.ExportPaths(out),
        report=report,
        parity=comparison,
        vocabulary_bytes=len(vocabulary_data),
        model_bytes=model_bytes,
        forgiven=forgiven,
        hybrid=hybrid,
        prompts=shown,
    )


def _publish(
    staged: manifest.ExportPaths,
    out: pathlib.Path,
    model: bytes,
    parts: Mapping[str, bytes],
    *,
    pack: bool,
) -> int:
    """Writes all files of an export, or one with all of them, in place of an older export.

    Args:
      staged: Where the model lies.
      out: Where it shall be.
      model: Its bytes.
      parts: What goes with it, by name in `manifest.SUFFIXES`.
      pack: Whether that goes into the model file.

    Returns:
      Bytes of the model file.
    """
    beside = {} if pack else parts
    for name, data in beside.items():
        staged.part(name).write_bytes(data)
    if pack:
        staged.model.unlink()  # it is mapped; a new file leaves the old one readable
        staged.model.write_bytes(associated_files.append(model, parts))
    num_bytes = staged.model.stat().st_size
    file_sets.publish(
        staged.model.parent,
        out,
        [out.name, *(staged.part(name).name for name in beside)],
        parts=manifest.ExportPaths(out).names,
    )
    return num_bytes


def _hybrid_report(
    model: pathlib.Path, held_out: Texts | None, options: ExportOptions
) -> HybridReport | None:
    """Opens the files as written; measures them where there is text."""
    hybrid = with_ngram(KeyboardPredictor(model))
    if held_out is None:
        return None
    found = ngram_part.measure(hybrid, held_out, parity.MAX_TARGETS)
    if not options.allow_loss:
        found.check()
    return found


def _total_bytes(content: dict[str, Any]) -> dict[str, int]:
    """What a phone stores, the manifest left out."""
    alone = content["model"]["bytes"] + content["vocabulary"]["bytes"]
    return {
        "network_and_vocabulary": alone,
        "with_ngram": alone + content.get("ngram", {}).get("bytes", 0),
    }


def _model_bytes(
    weights: CifgWeights,
    options: ExportOptions,
    model: NextWordModel,
    vocabulary: Vocabulary,
    calibration: Texts | None,
) -> bytes:
    if options.trainable:
        return trainable.build(weights, top_k=options.top_k)
    if options.quantization == "int8-rows":
        table = quantization.quantize_rows(weights.embedding)
        return row_scaled.build(weights, table, top_k=options.top_k)
    if options.quantization == "int4-rows":
        if calibration is None:
            raise ExportError(
                "`quantize` = 'int4-rows' needs text that the rounding is fitted to. Give --store "
                "or --calibration_text."
            )
        covariance = hidden_covariance(model, vocabulary, calibration)
        table = quantization.quantize_rows_int4(weights.embedding, covariance)
        return row_scaled.build(weights, table, top_k=options.top_k)
    return converter.convert(weights, options.quantization, top_k=options.top_k)


def hidden_covariance(model: NextWordModel, vocabulary: Vocabulary, texts: Texts) -> np.ndarray:
    """[dim, dim]: sum of h^T h over every position of the text."""
    total: Any = 0.0
    hidden_of = tf.function(model.hidden, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    for messages in texts.values():
        for words in messages:
            ids = np.array([[BOS, *vocabulary.encode(words[: parity.MAX_MESSAGE_WORDS])]], np.int32)
            hidden = hidden_of(ids).numpy()[0].astype(np.float64)
            total = total + hidden.T @ hidden
    return total


def _verified(
    written: bytes, weights: CifgWeights, options: ExportOptions
) -> inspection.FileReport:
    names = list(signatures.INFERENCE_SIGNATURES)
    if options.trainable:
        names += signatures.TRAINING_SIGNATURES
    return inspection.verify(
        written,
        max_bytes=options.byte_limit,
        signatures=names,
        table_shape=(weights.vocabulary_size, weights.dim),
    )


def _forgiven(comparison: parity.ParityReport, options: ExportOptions) -> str | None:
    try:
        comparison.check(parity.TOLERANCES[options.quantization])
    except ParityFailed as error:
        if not options.allow_loss:
            raise
        return str(error)
    return None


def _manifest(
    run_dir: pathlib.Path,
    options: ExportOptions,
    weights: CifgWeights,
    vocabulary: Vocabulary,
    model_data: bytes,
    vocabulary_data: bytes,
) -> dict[str, Any]:
    return {
        "format": manifest.FORMAT,
        "special_ids": manifest.SPECIAL_IDS,
        "model": {
            "name": "cifg",
            "quantization": options.quantization,
            "trainable": options.trainable,
            "top_k": options.top_k,
            "training_length": _training_length(run_dir),
            "state_sizes": {"c": weights.units, "h": weights.dim},
            "bytes": len(model_data),
            "sha256": manifest.sha256(model_data),
        },
        "vocabulary": {
            "size": len(vocabulary),
            "rules": dataclasses.asdict(vocabulary.rules),
            "order": "special ids, then words by code points",
            "run_fingerprint": vocabulary.fingerprint,
            "bytes": len(vocabulary_data),
            "sha256": manifest.sha256(vocabulary_data),
        },
        "truecase": _truecase(run_dir),
        "run": _run_facts(run_dir),
        "privacy": _privacy(run_dir),
        "parity": None,
    }


def _training_length(run_dir: pathlib.Path) -> int | None:
    """Targets of the sequences the run was trained on; None for a model without a config."""
    path = run_dir / names.CONFIG
    return config_lib.load_of_run(path).data.max_length if path.is_file() else None


def _truecase(run_dir: pathlib.Path) -> list[str]:
    """Forms with capitals that the run's store had for its words."""
    path = run_dir / names.TRUECASE
    return truecase_table.read_forms(path.read_bytes()) if path.is_file() else []


def _run_facts(run_dir: pathlib.Path) -> dict[str, Any]:
    """Hashes of what the run recorded, and its results on held-out people where it has them."""
    facts: dict[str, Any] = {"name": run_dir.resolve().name, "sha256": {}}
    weights = f"{names.MODEL}/{names.WEIGHTS}"
    for name in (names.CONFIG, names.DATA_CARD, weights, names.WEIGHTS):
        path = run_dir / name
        if path.is_file():
            facts["sha256"][name] = manifest.sha256(path.read_bytes())
    evaluation = run_dir / names.evaluation("held_out")
    if evaluation.is_file():
        try:
            facts["metrics"] = json.loads(evaluation.read_text(encoding="utf-8"))["metrics"]
        except (ValueError, KeyError, TypeError):
            raise ExportError(
                f"{evaluation}: not the result of an evaluation. Evaluate the run again."
            ) from None
    return facts


def _privacy(run_dir: pathlib.Path) -> str:
    ledger = run_dir / names.LEDGER
    return statement.privacy_statement(ledger) if ledger.is_file() else NO_PRIVACY_CLAIM
