"""Tokenises text inside a TensorFlow graph, with tensorflow-text.

The rules and their patterns come from `python_tokenizer.py`, which `prepare` and the phone use.
This form is for text in a `tf.data.Dataset` (`data/client_data.py`).
"""

import tensorflow as tf
import tensorflow_text as tf_text

from tff_keyboard.data.text import casing
from tff_keyboard.data.text import python_tokenizer as text_python
from tff_keyboard.data.vocabulary import NormalisationRules

_ANY = "(?s:.)"
_LONG_RUN = f"([^ \\t\\n\\v\\f\\r]{{{text_python.LONGEST_RUN}}})"


class Tokenizer:
    """A tokeniser for tensors of strings, equal to `PythonTokenizer` on every input.

    >>> Tokenizer(NormalisationRules()).tokens(tf.constant(["Haha see u @ 7:30!", "..."])).to_list()
    [[b'haha', b'see', b'u', b'7:30'], []]

    Args:
      rules: How text becomes tokens; the rules of the vocabulary.
    """

    def __init__(self, rules: NormalisationRules):
        self._rules = rules

    def tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the tokens of each text in order, [n, (tokens)] strings. A row may be empty.

        Args:
          texts: [n] strings in UTF-8. Calls with a few thousand texts are fastest.
        """
        whitespace = self._rules.mode == "whitespace"
        tokens = self._split(texts) if whitespace else self._find_words(texts)
        if self._rules.lowercase:
            tokens = tokens.with_flat_values(
                tf.strings.regex_replace(tokens.flat_values, text_python.FINAL_SIGMA, "ς")
            )
        return tokens

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits at white space.

        `WhitespaceTokenizer` would break the bytes of U+0085 and U+2028.
        """
        texts = tf.strings.regex_replace(texts, "\\x00", " ")  # some operators stop at NUL
        tokens = tf_text.regex_split(texts, text_python.WHITESPACE)
        if self._rules.lowercase:
            tokens = tokens.with_flat_values(self._lower(tokens.flat_values))
        return tokens

    def _find_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the tokens of each text, with web addresses masked: [texts, tokens] strings."""
        texts = tf.strings.regex_replace(texts, _LONG_RUN, "\\1 ")
        texts = tf.strings.regex_replace(texts, text_python.APOSTROPHES, "'")
        texts = tf.strings.regex_replace(texts, text_python.HYPHENS, "-")
        texts = tf.strings.regex_replace(texts, text_python.NOT_TEXT, " ")
        texts = tf_text.normalize_utf8(texts, "NFKC")
        if self._rules.lowercase:
            texts = tf_text.normalize_utf8(self._lower(texts), "NFKC")
        token = text_python.token_pattern(self._rules.language)
        # Every character is part of a delimiter, and the delimiters that are tokens are kept.
        tokens = tf_text.regex_split(
            texts, delim_regex_pattern=f"{token}|{_ANY}", keep_delim_regex_pattern=token
        )
        masked = tf.strings.regex_replace(
            tokens.flat_values, f"^(?:{text_python.URL})$", text_python.URL_MASK
        )
        return tokens.with_flat_values(masked)

    def _lower(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns [n] strings without NUL in lower case, identical in every locale."""
        for capital, small in casing.lower_first(self._rules.language).items():
            texts = tf.strings.regex_replace(texts, capital, small)
        texts = tf.strings.lower(texts)  # ASCII, so that no `I` is left for a Turkish locale
        return tf.strings.lower(texts, encoding="utf-8")
