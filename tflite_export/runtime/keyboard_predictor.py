"""The keyboard's side of an exported model: text in, suggestions out.

Needs NumPy and a TFLite interpreter (`ai-edge-litert`, or TensorFlow's); never imports TensorFlow
itself, so that it runs as it stands where only the interpreter fits. Text becomes tokens by the
rules the model was trained with, which travel in the vocabulary file.
"""

import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, PAD, Vocabulary
from tff_keyboard.predictors.predictor import Suggestion, best_words, context_ids
from tff_keyboard.predictors.prefix_index import PrefixIndex
from tff_keyboard.predictors.tail_lexicon import TailLexicon, completed
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import manifest as manifests
from tflite_export.format import signatures
from tflite_export.runtime import signature_shapes
from tflite_export.runtime.context_window import last_ids
from tflite_export.runtime.interpreters import first_line, open_interpreter

# Only the end of a long text is read, from a multiple of this many characters on, so that a key
# costs the same in a long letter as in a short message and the recurrent state can still be kept
# from key to key. Of their words, `context_window` takes as many as training sequences had.
WINDOW_CHARACTERS = 500

_STATES_KEPT = 64  # positions the typist can delete back to without reading again; 3 KB each
_FRAGMENT_END = "x"  # a letter that joins whatever word is being typed

_OTHER_VOCABULARY = (
    "`vocabulary` must hold the words and rules of the exported model. Take that of the run that "
    "was exported."
)


@dataclasses.dataclass(frozen=True)
class Strip:
    """What a keyboard shows after a key.

    Attributes:
      prefix: Normalised characters of the word being typed, "" between words.
      suggestions: `(word, probability)`, best first.
      latency_seconds: Seconds from the key to the suggestions.
    """

    prefix: str
    suggestions: list[Suggestion]
    latency_seconds: float


@dataclasses.dataclass(frozen=True)
class _Position:
    """The model after some ids: its state and its best words."""

    c: np.ndarray  # [1, units]
    h: np.ndarray  # [1, dim]
    ids: np.ndarray  # [k], best first
    probabilities: np.ndarray  # [k]

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.c).all() and np.isfinite(self.h).all())


class Signature:
    """What a file computes: call it with arrays.

    Raises:
      ExportError: Wherever the interpreter refuses.
    """

    def __init__(self, path: pathlib.Path, name: str, interpreter: Any):
        self._path = path
        self._name = name
        with self._told():
            self._runner = interpreter.get_signature_runner(name)

    def input_shapes(self) -> dict[str, list[int]]:
        """Shape of each input."""
        with self._told():
            details = self._runner.get_input_details()
        return {name: found["shape"].tolist() for name, found in details.items()}

    def output_shapes(self) -> dict[str, list[int]]:
        """Shape of each output."""
        with self._told():
            details = self._runner.get_output_details()
        return {name: found["shape"].tolist() for name, found in details.items()}

    def __call__(self, **inputs: np.ndarray | np.generic) -> dict[str, np.ndarray]:
        """Outputs by name."""
        with self._told():
            return self._runner(**inputs)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ValueError) as error:
            raise ExportError(
                f"{self._path}: the interpreter cannot run `{self._name}` ({first_line(error)}). "
                "Export the model again."
            ) from None


class KeyboardPredictor:
    """Suggestions of an exported model, as a `Predictor` and for text as it is typed.

    Keeps the states of the last context: going on costs one step a word, deleting none. Not
    thread-safe: one instance a thread.

    Args:
      model_path: The `.tflite` file; its vocabulary and manifest lie beside it. As in `play`, a
        shipped model is found from anywhere: "models/messages/keyboard.tflite".
      vocabulary: A vocabulary of the same words and rules, in whose ids `log_probabilities` then
        speaks; the file's own, in sorted order, without it.
      num_threads: Threads inside one operator.
      xnnpack: Faster and larger in LiteRT; see `interpreters.open_interpreter`.
      runtime: "litert" or "tensorflow"; None takes the first that is installed.
      tail: Words beyond the table that are completed, if any.

    Attributes:
      path: The model file.
      vocabulary: Vocabulary that was given, or the file's own.
      manifest: What the export says of itself.
      index: Index of the file's own vocabulary.
      tail: The lexicon.

    Raises:
      ExportError: A file is missing, damaged or does not belong to the others.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        vocabulary: Vocabulary | None = None,
        *,
        num_threads: int = 1,
        xnnpack: bool = False,
        runtime: str | None = None,
        tail: TailLexicon | None = None,
    ):
        self.path = shipped_files.found(pathlib.Path(model_path))
        self.tail = tail
        self.manifest, self._words = manifests.load_checked(self.path)
        self.vocabulary = vocabulary if vocabulary is not None else self._words
        self._to_file = _rows_of(self.vocabulary, self._words)
        self._own_order = self.vocabulary == self._words
        self.index = PrefixIndex(self._words)
        self._tokenizer = PythonTokenizer(self._words.rules)
        self._interpreter = open_interpreter(
            self.path, num_threads=num_threads, xnnpack=xnnpack, runtime=runtime
        )
        self._step = self.signature(signatures.STEP)
        self._logits = self.signature(signatures.LOGITS)
        self._predict = self.signature(signatures.PREDICT)
        signature_shapes.check_shapes(
            self.path,
            self._step,
            self._predict,
            self._logits,
            self.manifest.model,
            len(self._words),
        )
        self.reset()

    @property
    def network(self) -> "KeyboardPredictor":
        """Itself: the part of any keyboard that knows nothing of its owner."""
        return self

    @property
    def signature_names(self) -> frozenset[str]:
        """All that the file offers."""
        return frozenset(self._interpreter.get_signature_list())

    def signature(self, name: str) -> "Signature":
        """A signature, such as `train` of a trainable file.

        Raises `ExportError` if the file has none of that name.
        """
        if name not in self.signature_names:
            raise ExportError(
                f"{self.path}: has no signature {name!r}. Export the model again"
                + (", with --trainable." if name in signatures.TRAINING_SIGNATURES else ".")
            )
        return Signature(self.path, name, self._interpreter)

    def encode(self, words: Sequence[str]) -> list[int]:
        """Ids of normalised words in the file's own order, BOS first: what signatures take."""
        return context_ids(self._words, words)

    def reset(self) -> None:
        """Forgets what was typed."""
        self._ids: list[int] = []
        self._positions: list[_Position | None] = []  # one for each id; None where not kept
        self._probabilities: np.ndarray | None = None  # [V] after the last of `_ids`

    def strip_for(self, text: str, k: int = 3) -> Strip:
        """Suggestions for text as it stands in the input field, cursor at the end.

        Args:
          text: Any string, of any length; only its last 500 to 1,000 characters are read.
          k: Suggestions wanted, >= 1.
        """
        start = time.perf_counter()
        context, prefix = self.context_and_prefix(text)
        suggestions = self.suggest(context, prefix, k)
        return Strip(prefix, suggestions, time.perf_counter() - start)

    def context_and_prefix(self, text: str) -> tuple[list[str], str]:
        """The finished words of a text, and the normalised start of the unfinished one.

        A word is unfinished if one more letter would still belong to it, so that letter is typed
        and taken away again: what counts as a word stays with the tokeniser.
        """
        words = self._tokenizer.tokenize_one(_end_of(text) + _FRAGMENT_END)
        return words[:-1], words[-1].removesuffix(_FRAGMENT_END)

    def place_of(self, text: str) -> int:
        """How many words stand before the one at the end of a text, however long that is."""
        return len(self._tokenizer.tokenize_one(text + _FRAGMENT_END)) - 1

    def words_of(self, text: str) -> list[str]:
        """All words of a text, normalised."""
        return self._tokenizer.tokenize_one(text)

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`.

        Raises `ExportError` if the model computes NaN; its weights are broken.
        """
        if k < 1:
            raise ValueError(f"`k` must be >= 1, got {k}.")
        position = self._read(context_ids(self._words, context))
        words = self._words.words
        if not prefix and k <= len(position.ids):
            found = zip(position.ids, position.probabilities, strict=True)
            return [(words[i], float(p)) for i, p in list(found)[:k]]
        probabilities = self._probabilities_at(position)
        # Rows are sorted like the index, so its ranges are ranges of ids.
        first, end = self.index.range(prefix)
        ids = np.arange(first + NUM_SPECIAL, end + NUM_SPECIAL)
        ids, best = best_words(probabilities, ids, k)
        ranked = [(words[i], float(p)) for i, p in zip(ids, best, strict=True)]
        return completed(ranked, self.tail, prefix, float(probabilities[OOV]), k)

    def next_word(self, context: Sequence[str]) -> np.ndarray:
        """Probabilities of the word behind a context: [V] float32, in `vocabulary` ids.

        Raises `ExportError` if the model computes NaN; its weights are broken.
        """
        position = self._read(context_ids(self._words, context))
        probabilities = self._probabilities_at(position)
        return probabilities if self._own_order else probabilities[self._to_file]

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`; ids and columns are those of `vocabulary`."""
        ids = np.asarray(ids, np.int32)
        scores = np.empty([np.count_nonzero(ids != PAD), len(self.vocabulary)], np.float32)
        place = 0
        for row in ids:
            c, h = self._zero_state()
            for word_id in row[row != PAD]:
                out = self._step(token=self._to_file[word_id : word_id + 1], c=c, h=h)
                c, h = out["new_c"], out["new_h"]
                scores[place] = self._log_softmax(h)[self._to_file]
                place += 1
        return scores

    def logits(self, ids: np.ndarray) -> np.ndarray:
        """Raw scores after each id of one message: [time] -> [time, V] in `vocabulary` ids."""
        c, h = self._zero_state()
        rows = []
        for word_id in ids:
            out = self._step(token=self._to_file[word_id : word_id + 1], c=c, h=h)
            c, h = out["new_c"], out["new_h"]
            rows.append(self._logits(h=h)["logits"][0, self._to_file])
        return np.stack(rows) if rows else np.empty([0, len(self.vocabulary)], np.float32)

    def _read(self, ids: list[int]) -> _Position:
        """The model after the last of `ids` ([BOS, ...]), from the longest known start of them."""
        ids = last_ids(ids, self.manifest.model.training_length)
        known = len(os.path.commonprefix([self._ids, ids]))  # noqa: RUF071 - of ids, no paths
        while known and self._positions[known - 1] is None:
            known -= 1
        if known < len(ids) or len(ids) != len(self._ids):
            self._probabilities = None
        del self._ids[known:], self._positions[known:]
        last = self._positions[-1] if self._positions else None
        if last is not None and not last.is_finite:
            self.reset()
            last, known = None, 0
        if known == 0 and len(ids) > 1:
            last = self._run(self._predict(tokens=np.array([ids], np.int32)))
            self._ids, self._positions = list(ids), [None] * (len(ids) - 1) + [last]
            known = len(ids)
        for word_id in ids[known:]:
            c, h = self._zero_state() if last is None else (last.c, last.h)
            last = self._run(self._step(token=np.array([word_id], np.int32), c=c, h=h))
            self._ids.append(word_id)
            self._positions.append(last)
            if len(self._positions) > _STATES_KEPT:
                self._positions[-1 - _STATES_KEPT] = None
        assert last is not None, "there is one id at least, BOS"
        return last

    def _run(self, out: dict[str, np.ndarray]) -> _Position:
        position = _Position(out["new_c"], out["new_h"], out["ids"][0], out["probabilities"][0])
        if not position.is_finite:
            self.reset()
            raise ExportError("The model computes values that are not finite. Export it again.")
        return position

    def _probabilities_at(self, position: _Position) -> np.ndarray:
        """[V] float32 after the last word read."""
        if self._probabilities is None:
            logits = self._logits(h=position.h)["logits"][0]
            shares = np.exp(logits - logits.max())
            self._probabilities = shares / shares.sum()
        return self._probabilities

    def _log_softmax(self, h: np.ndarray) -> np.ndarray:
        logits = self._logits(h=h)["logits"][0]
        largest = logits.max()
        return logits - (largest + np.log(np.exp(logits - largest).sum()))

    def _zero_state(self) -> tuple[np.ndarray, np.ndarray]:
        sizes = self.manifest.model.state_sizes
        return np.zeros([1, sizes.c], np.float32), np.zeros([1, sizes.h], np.float32)


def _end_of(text: str) -> str:
    """The last 500 to 1,000 characters, from a place that stays where it is while one types on."""
    start = max(0, (len(text) // WINDOW_CHARACTERS - 1) * WINDOW_CHARACTERS)
    if start == 0:
        return text
    window = text[start:]
    # A word that the window cuts in two is left out, unless it is all there is.
    for place, character in enumerate(window[:WINDOW_CHARACTERS]):
        if character.isspace():
            return window[place:]
    return window


def _rows_of(outside: Vocabulary, inside: Vocabulary) -> np.ndarray:
    """Row of the file for each id of another order of its words: int32 [V]."""
    row = {word: i for i, word in enumerate(inside.words)}
    if outside.rules != inside.rules or len(outside) != len(inside):
        raise ExportError(_OTHER_VOCABULARY)
    try:
        return np.array([row[word] for word in outside.words], np.int32)
    except KeyError:
        raise ExportError(_OTHER_VOCABULARY) from None
