"""Text to tokens with tensorflow-text, many messages in a call.

The rules and their patterns are those of `python_tokenizer.py`. `prepare` uses
`fast_tokenizer.py`; this form is for graphs of TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from tff_keyboard.data.text import python_tokenizer as text_python
from tff_keyboard.data.vocabulary import NormalisationRules

_ANY = "(?s:.)"


class Tokenizer:
    """Cuts texts into tokens; equal to `PythonTokenizer` on every input.

    >>> Tokenizer(NormalisationRules()).tokenize(["Haha see u @ 7:30!", "..."])
    [['haha', 'see', 'u', '7:30'], []]
    """

    def __init__(self, rules: NormalisationRules):
        self._rules = rules

    def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
        """Tokens of each text, in order.

        Args:
          texts: Any strings; a lone surrogate counts as `?`. A few thousand in a
            call are fastest.

        Returns:
          A list for each text, empty where it has no token.
        """
        if not texts:
            return []
        whitespace = self._rules.mode == "whitespace"
        if not whitespace:
            texts = [text_python.cut_long_runs(text) for text in texts]
        # [texts]
        batch = tf.constant([text.encode("utf-8", "replace") for text in texts], dtype=tf.string)
        tokens = self._split(batch) if whitespace else self._find_words(batch)  # [texts, (tokens)]
        if self._rules.lowercase:
            tokens = tokens.with_flat_values(
                tf.strings.regex_replace(tokens.flat_values, text_python.FINAL_SIGMA, "ς")
            )
        return [[token.decode("utf-8") for token in row] for row in tokens.to_list()]

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts at white space. (`WhitespaceTokenizer` breaks the bytes of U+0085 and U+2028.)"""
        texts = tf.strings.regex_replace(texts, "\\x00", " ")  # where some operators would stop
        tokens = tf_text.regex_split(texts, text_python.WHITESPACE)
        if self._rules.lowercase:
            tokens = tokens.with_flat_values(_lower(tokens.flat_values))
        return tokens

    def _find_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.regex_replace(texts, text_python.APOSTROPHES, "'")
        texts = tf.strings.regex_replace(texts, text_python.HYPHENS, "-")
        texts = tf.strings.regex_replace(texts, text_python.NOT_TEXT, " ")
        texts = tf_text.normalize_utf8(texts, "NFKC")
        if self._rules.lowercase:
            texts = tf_text.normalize_utf8(_lower(texts), "NFKC")
        # Every character is in a delimiter, and the delimiters that are tokens are kept.
        tokens = tf_text.regex_split(
            texts,
            delim_regex_pattern=f"{text_python.TOKEN}|{_ANY}",
            keep_delim_regex_pattern=text_python.TOKEN,
        )
        masked = tf.strings.regex_replace(
            tokens.flat_values, f"^(?:{text_python.URL})$", text_python.URL_MASK
        )
        return tokens.with_flat_values(masked)


def _lower(texts: tf.Tensor) -> tf.Tensor:
    """Lower case of `[n]` strings without NUL, the same in every locale."""
    texts = tf.strings.lower(texts)  # ASCII, so that no `I` is left for a Turkish locale
    for capital, small in text_python.LOWER_FIRST.items():
        texts = tf.strings.regex_replace(texts, capital, small)
    return tf.strings.lower(texts, encoding="utf-8")
