"""Verifies an export for its recipient: is it complete, does it open, and who signed it?"""

import pathlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tff_keyboard.storage.errors import CheckFailed, ExportError
from tflite_export.format import associated_files, manifest, signing
from tflite_export.gate import model_trial


def verify(model: pathlib.Path, public_key: pathlib.Path | None) -> list[str]:
    """Checks the signature of a manifest, then every part of the export, then the model.

        for line in tk.export.verify(pathlib.Path("keyboard.tflite"), pathlib.Path("release.pem")):
            print(line)

    The model is opened last, after signature and hashes were found right, and in a child process
    (`model_trial`). No file is changed.

    Args:
      model: The `.tflite` file.
      public_key: PEM file of the trusted key. If None, the signature is not checked.

    Returns:
      Lines that report the results.

    Raises:
      ExportError: If a part is missing, damaged, from another export, or does not fit the others.
      CheckFailed: If a key was given and the export is not signed by it, or if the model crashes
        the interpreter.
    """
    key = signing.read_public_key(public_key) if public_key is not None else None
    signature = _signature_line(model, key)
    content, vocabulary = manifest.load_checked(model)
    lines = ["model and vocabulary: match the manifest"]
    if content.ngram is not None:
        manifest.load_described(model, associated_files.NGRAM, content.ngram.sha256)
        lines.append("n-gram: matches the manifest")
    if content.tail is not None:
        manifest.load_described(model, associated_files.TAIL, content.tail.sha256)
        lines.append("lexicon: matches the manifest")
    if content.card is not None:
        card = manifest.load_part(model, associated_files.CARD)
        if card is None or manifest.sha256(card) != content.card.sha256:
            raise ExportError(f"{model}: its model card is missing or does not match the manifest.")
        lines.append("model card: matches the manifest")
    model_trial.use_in_child(model)
    facts = f"{content.model.quantization}, {len(vocabulary):,} rows"
    return [*lines, f"{model}: opens and suggests ({facts})", signature]


def _signature_line(model: pathlib.Path, key: Ed25519PublicKey | None) -> str:
    """Checks the signature of the manifest. The manifest is not parsed before that."""
    signature = manifest.load_part(model, associated_files.SIGNATURE)
    if key is None:
        what = "present, not checked" if signature is not None else "none"
        return f"signature: {what} (--public-key checks it)"
    signed = manifest.load_part(model, associated_files.MANIFEST)
    if signature is None or signed is None:
        raise CheckFailed(f"{model}: is not signed. Export it with --sign-key.")
    signing.check_signature(signed, signature, key, f"{model}: signature")
    return f"signature: valid, from key {signing.key_id(key)[:16]}.."
