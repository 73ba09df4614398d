"""Lexicon files of any words, which no export writes."""

import zlib

from tflite_export.format import tail_file, vocabulary_file

# None of them may be on a strip; surrogates and other bytes are no UTF-8.
REFUSED = {
    "empty": b"",
    "mask": b"<url>",
    "mask of a number": b"<#>",
    "blank": b"so so",
    "NUL": b"hell\0o",
    "escape": b"helloo\x1b[31m",
    "control of C1": "hell\x9bo".encode(),
    "no-break space": "hell\u00a0o".encode(),
    "soft hyphen": "hell\u00ado".encode(),
    "turned round": "hell\u202eo".encode(),
    "line": "hell\u2028o".encode(),
    "joiner in letters": "hell\u200do".encode(),
    "joiner behind an emoji": "\U0001f937\u200d".encode(),
    "joiner before an emoji": "\u200d\U0001f937".encode(),
    "tag": "hell\U000e0041o".encode(),
    "surrogate": b"hell\xed\xa0\x80o",
    "no UTF-8": b"hell\xff",
}
ACCEPTED = ("o'haraa", "\U0001f937\U0001f3fb\u200d\u2640\ufe0f", "überalll", "ığdıra", "x\u2010x")


def forged(*words: bytes) -> bytes:
    """A file with a right checksum, of words with one small share each."""
    packed = zlib.compress(
        bytes(len(words)) + bytes([160]) * len(words) + b"".join(word + b"\n" for word in words)
    )
    return vocabulary_file.with_checksum(tail_file.FORMAT, {"words": len(words)}, packed)
