"""Is an export whole, does it open, and who signed it? Asked by whoever receives the files."""

import pathlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tff_keyboard.storage.errors import CheckFailed, ExportError
from tflite_export.format import associated_files, manifest, signing
from tflite_export.gate import model_trial


def verify(model: pathlib.Path, public_key: pathlib.Path | None) -> list[str]:
    """Checks the signature of a manifest, every part of the export against it, then the model.

    The model is opened last, once signature and hashes are known to be right, and in a child
    process (`model_trial`). Nothing is changed.

    Args:
      model: The `.tflite` file.
      public_key: PEM file of the key that is trusted; None leaves the signature unchecked.

    Returns:
      Lines that say what was found.

    Raises:
      ExportError: A part is missing, damaged, from another export, or does not fit the others.
      CheckFailed: A key was given, and the export is not signed by it; or the model crashes the
        interpreter.
    """
    key = signing.read_public_key(public_key) if public_key is not None else None
    manifest.check_not_interrupted(model)
    signature = _signature_line(model, key)
    content, vocabulary = manifest.load_checked(model)
    lines = ["model and vocabulary: those of the manifest"]
    if content.ngram is not None:
        manifest.load_described(model, associated_files.NGRAM, content.ngram.sha256)
        lines.append("n-gram: that of the manifest")
    if content.tail is not None:
        manifest.load_described(model, associated_files.TAIL, content.tail.sha256)
        lines.append("lexicon: that of the manifest")
    if content.card is not None:
        card = manifest.load_part(model, associated_files.CARD)
        if card is None or manifest.sha256(card) != content.card.sha256:
            raise ExportError(f"{model}: its model card is missing or not that of the manifest.")
        lines.append("model card: that of the manifest")
    model_trial.use_in_child(model)
    facts = f"{content.model.quantization}, {len(vocabulary):,} rows"
    return [*lines, f"{model}: opens and suggests ({facts})", signature]


def _signature_line(model: pathlib.Path, key: Ed25519PublicKey | None) -> str:
    """Checks the signature of the manifest, which nobody has read so far."""
    signature = manifest.load_part(model, associated_files.SIGNATURE)
    if key is None:
        what = "there is one, not checked" if signature is not None else "none"
        return f"signature: {what} (--public-key checks it)"
    signed = manifest.load_part(model, associated_files.MANIFEST)
    if signature is None or signed is None:
        raise CheckFailed(f"{model}: is not signed. Export it with --sign-key.")
    signing.check_signature(signed, signature, key, f"{model}: signature")
    return f"signature: right, by the key {signing.key_id(key)[:16]}.."
