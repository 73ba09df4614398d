"""Suggests words with an exported model, as a keyboard does.

It needs NumPy and a TFLite interpreter (`ai-edge-litert`, or TensorFlow's). It does not import
TensorFlow itself, so that it runs on devices that only have room for the interpreter. Text is cut
into tokens by the rules of the training, which are in the vocabulary file.
"""

import dataclasses
import os
import pathlib
import time
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, PAD, Vocabulary
from tff_keyboard.predictors.locking import Lock, locked
from tff_keyboard.predictors.predictor import Suggestion, best_words, context_ids
from tff_keyboard.predictors.prefix_index import PrefixIndex
from tff_keyboard.predictors.tail_lexicon import TailLexicon, completed
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import manifest as manifests
from tflite_export.format import signatures
from tflite_export.runtime.interpreters import open_interpreter
from tflite_export.runtime.libcifg import Libcifg
from tflite_export.runtime.signature import Signature, check_shapes

# Only the end of a long text is read, so that a key costs the same in a long text as in a short
# one. The end starts at a multiple of this number of characters, so that the recurrent state can be
# kept from key to key. `last_ids` then limits the words to the length of training sequences.
WINDOW_CHARACTERS = 500

_STATES_KEPT = 64  # positions to which a user can delete without a recomputation; 3 KB each
_LOGITS_AT_ONCE = 64  # states whose scores are computed together: 2.5 MB for a table of 10,000
_FRAGMENT_END = "x"  # a letter that extends any word being typed

_OTHER_VOCABULARY = (
    "`vocabulary` must have the words and rules of the exported model. Use the vocabulary of the "
    "exported run."
)


@dataclasses.dataclass(frozen=True)
class Strip:
    """The suggestions that a keyboard shows after a key.

    >>> Strip(prefix="la", suggestions=[("later", 0.4)], latency_seconds=0.001).suggestions[0]
    ('later', 0.4)

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


class KeyboardPredictor:
    """Suggestions of an exported model, as a `Predictor` and for text as it is typed.

        keyboard = tk.runtime.KeyboardPredictor("models/messages/keyboard.tflite")
        print(keyboard.suggest(["see", "you"], prefix="l", k=3))

    It keeps the states of the last context: a further word costs one step, and deleting a word
    costs none.

    Several threads may use a keyboard. Its methods take turns: each holds `lock` while it runs. For
    suggestions on several processors at a time, open one keyboard for each thread.

    Args:
      model_path: The `.tflite` file; its vocabulary and manifest must be next to it or packed into
        it. Names of shipped models work from any directory: "models/messages/keyboard.tflite".
      vocabulary: A vocabulary of the same words and rules, whose ids `log_probabilities` uses.
        None means the ids of the file, which are in sorted order.
      xnnpack: With LiteRT, faster, but needs more memory; see `interpreters.open_interpreter`.
      runtime: "litert" or "tensorflow"; None takes the first that is installed.

    Attributes:
      path: The model file.
      vocabulary: The argument `vocabulary`, or the file's own.
      manifest: The manifest of the export.
      index: Index of the file's own vocabulary.
      tail: Words that are not in the table, for completion; set by `open_keyboard`.
      lock: Hold it in a `with` block to make several calls without another thread's in between.

    Raises:
      ExportError: If a file is missing, damaged or does not belong to the others.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        vocabulary: Vocabulary | None = None,
        *,
        xnnpack: bool = False,
        runtime: str | None = None,
    ):
        self.path = shipped_files.locate(pathlib.Path(model_path))
        self.lock = Lock()
        self.tail: TailLexicon | None = None
        self._native: Libcifg | None = None
        self.manifest, self._words = manifests.load_checked(self.path)
        self.vocabulary = vocabulary if vocabulary is not None else self._words
        self._to_file = _rows_of(self.vocabulary, self._words)
        self._own_order = self.vocabulary == self._words
        self.index = PrefixIndex(self._words)
        self._tokenizer = PythonTokenizer(self._words.rules)
        self._interpreter = open_interpreter(self.path, xnnpack=xnnpack, runtime=runtime)
        self._step = self.signature(signatures.STEP)
        self._logits = self.signature(signatures.LOGITS)
        self._predict = self.signature(signatures.PREDICT)
        check_shapes(
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
        """The predictor itself.

        Every keyboard class has this property: the part that does not learn from its user.
        """
        return self

    @property
    def signature_names(self) -> frozenset[str]:
        """Names of all signatures of the file."""
        return frozenset(self._interpreter.get_signature_list())

    def signature(self, name: str) -> Signature:
        """Returns a signature, such as `train` of a trainable file.

        Raises:
          ExportError: If the file has no signature of that name.
        """
        if name not in self.signature_names:
            trains = name in signatures.TRAINING_SIGNATURES
            how = ", with --trainable, which requires a CIFG" if trains else ""
            raise ExportError(
                f"{self.path}: has no signature {name!r}. Export the model again{how}."
            )
        return Signature(self.path, name, self._interpreter, self.lock)

    def encode(self, words: Sequence[str]) -> list[int]:
        """Returns BOS and the ids of normalised words in the file's own order, for signatures."""
        return context_ids(self._words, words)

    @locked
    def reset(self) -> None:
        """Forgets the typed text."""
        self._ids: list[int] = []
        self._positions: list[_Position | None] = []  # one for each id; None if not kept
        self._probabilities: np.ndarray | None = None  # [V] after the last of `_ids`

    def strip_for(self, text: str, k: int = 3) -> Strip:
        """Returns the strip for the text in an input field, with the cursor at the end.

        Args:
          text: Any string, of any length. Only its last 500 to 1,000 characters are read.
          k: Number of suggestions, >= 1.
        """
        start = time.perf_counter()
        context, prefix = self.context_and_prefix(text)
        suggestions = self.suggest(context, prefix, k)
        return Strip(prefix, suggestions, time.perf_counter() - start)

    def context_and_prefix(self, text: str) -> tuple[list[str], str]:
        """Returns the finished words of a text, and the normalised start of the unfinished word.

        A word is unfinished if one more letter would still belong to it. Therefore this method
        appends a letter, tokenizes, and removes the letter again. So the tokenizer alone decides
        what a word is.
        """
        words = self._tokenizer.tokenize_one(_end_of(text) + _FRAGMENT_END)
        return words[:-1], words[-1].removesuffix(_FRAGMENT_END)

    def place_of(self, text: str) -> int:
        """Returns the number of words before the word at the end of a text of any length."""
        return len(self._tokenizer.tokenize_one(text + _FRAGMENT_END)) - 1

    def words_of(self, text: str) -> list[str]:
        """Returns all words of a text, normalised."""
        return self._tokenizer.tokenize_one(text)

    @locked
    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`.

        Raises:
          ExportError: If the model computes NaN, because its weights are broken.
        """
        if k < 1:
            raise ValueError(f"`k` must be >= 1, got {k}.")
        position = self._read(context_ids(self._words, context))
        words = self._words.words
        if not prefix and k <= len(position.ids):
            best_known = zip(position.ids, position.probabilities, strict=True)
            return [(words[i], float(p)) for i, p in list(best_known)[:k]]
        probabilities = self._probabilities_at(position)
        # Rows are sorted like the index, so its ranges are ranges of ids.
        first, end = self.index.range(prefix)
        ids = np.arange(first + NUM_SPECIAL, end + NUM_SPECIAL)
        ids, best = best_words(probabilities, ids, k)
        ranked = [(words[i], float(p)) for i, p in zip(ids, best, strict=True)]
        return completed(ranked, self.tail, prefix, float(probabilities[OOV]), k)

    @locked
    def next_word(self, context: Sequence[str]) -> np.ndarray:
        """Returns the probabilities [V] float32 of the next word, in ids of `vocabulary`.

        Raises:
          ExportError: If the model computes NaN, because its weights are broken.
        """
        position = self._read(context_ids(self._words, context))
        probabilities = self._probabilities_at(position)
        return probabilities if self._own_order else probabilities[self._to_file]

    @locked
    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`. Ids and columns are those of `vocabulary`.

        Each distinct beginning of a message is read once, and the scores of many states are
        computed together. After `read_states_with`, libcifg computes the states.
        """
        states, index = self._states(np.asarray(ids, np.int32))
        scores = np.empty([len(index), len(self.vocabulary)], np.float32)
        order = np.argsort(index, kind="stable")
        for start in range(0, len(states), _LOGITS_AT_ONCE):
            h = states[start : start + _LOGITS_AT_ONCE]
            first, end = np.searchsorted(index[order], [start, start + len(h)])
            positions = order[first:end]
            scores[positions] = self._log_softmax(h)[index[positions] - start][:, self._to_file]
        return scores

    @locked
    def read_states_with(self, library: pathlib.Path) -> None:
        """Lets libcifg compute the states of `log_probabilities`, which is several times as fast.

        The interpreter still computes everything else.

        Raises:
          ExportError: If `library` is not libcifg, or cannot read the file.
        """
        self._native = Libcifg(library, self.path)

    def _states(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes the state h after each distinct beginning of the rows of `ids`.

        Returns:
          `(states, index)`: [n, dim] float32, and the row of `states` for each position,
          [positions].
        """
        states: list[np.ndarray] = []
        index: list[int] = []
        states_of_prefix: dict[tuple[int, int], tuple[int, np.ndarray, np.ndarray]] = {}
        for row in ids:
            number, (c, h) = -1, self._zero_state()
            for word_id in self._to_file[row[row != PAD]]:
                key = (number, int(word_id))  # the beginning before the word, and the word
                if key not in states_of_prefix:
                    c, h = self._stepped(word_id, c, h)
                    states_of_prefix[key] = (len(states), c, h)
                    states.append(h[0])
                number, c, h = states_of_prefix[key]
                index.append(number)
        sizes = self.manifest.model.state_sizes
        return np.reshape(np.array(states, np.float32), [-1, sizes.h]), np.array(index, np.int64)

    def _stepped(
        self, word_id: np.int32, c: np.ndarray, h: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the state [1, ...] after a word."""
        if self._native is None:
            out = self._step(token=np.array([word_id], np.int32), c=c, h=h)
            return out["new_c"], out["new_h"]
        c, h = c.copy(), h.copy()
        self._native.step(int(word_id), c, h)
        return c, h

    def _read(self, ids: list[int]) -> _Position:
        """Returns the model after the last of `ids` ([BOS, ...]).

        Starts from the longest beginning of `ids` whose state is kept.
        """
        ids = last_ids(ids, self.manifest.model.training_length)
        num_read = len(os.path.commonprefix([self._ids, ids]))  # noqa: RUF071 - compares ids, not paths
        while num_read and self._positions[num_read - 1] is None:
            num_read -= 1
        if num_read < len(ids) or len(ids) != len(self._ids):
            self._probabilities = None
        del self._ids[num_read:], self._positions[num_read:]
        last = self._positions[-1] if self._positions else None
        if last is not None and not last.is_finite:
            self.reset()
            last, num_read = None, 0
        if num_read == 0 and len(ids) > 1:
            last = self._run(self._predict(tokens=np.array([ids], np.int32)))
            self._ids, self._positions = list(ids), [None] * (len(ids) - 1) + [last]
            num_read = len(ids)
        for word_id in ids[num_read:]:
            c, h = self._zero_state() if last is None else (last.c, last.h)
            last = self._run(self._step(token=np.array([word_id], np.int32), c=c, h=h))
            self._ids.append(word_id)
            self._positions.append(last)
            if len(self._positions) > _STATES_KEPT:
                self._positions[-1 - _STATES_KEPT] = None
        assert last is not None, "the context must have at least one id, BOS"
        return last

    def _run(self, out: dict[str, np.ndarray]) -> _Position:
        """Returns the position after a step, from the outputs of a signature."""
        position = _Position(out["new_c"], out["new_h"], out["ids"][0], out["probabilities"][0])
        if not position.is_finite:
            self.reset()
            raise ExportError("The model computes values that are not finite. Export it again.")
        return position

    def _probabilities_at(self, position: _Position) -> np.ndarray:
        """Returns the probabilities after the last word read, [V] float32."""
        if self._probabilities is None:
            logits = self._logits(h=position.h)["logits"][0]
            shares = np.exp(logits - logits.max())
            self._probabilities = shares / shares.sum()
        return self._probabilities

    def _log_softmax(self, h: np.ndarray) -> np.ndarray:
        """Returns log probabilities [n, V] float32 of states [n, dim], in the order of the file."""
        logits = self._logits(h=h)["logits"]
        largest = logits.max(axis=1, keepdims=True)
        return logits - (largest + np.log(np.exp(logits - largest).sum(axis=1, keepdims=True)))

    def _zero_state(self) -> tuple[np.ndarray, np.ndarray]:
        sizes = self.manifest.model.state_sizes
        return np.zeros([1, sizes.c], np.float32), np.zeros([1, sizes.h], np.float32)


def last_ids(ids: Sequence[int], training_length: int | None) -> list[int]:
    """Returns the ids to feed; all of them if `training_length` is None.

    The model was not trained on states of sequences longer than `training_length`, so it reads only
    the last words, from a zero state and without BOS. Training does the same: it continues a long
    message in a further sequence (`tff_keyboard/data/batches.py`).

    The first id is at a multiple of half the length. So it stays the same for several words, and
    the state after the last word can be continued.

    Args:
      ids: BOS, then the words before the cursor.
      training_length: Targets of a training sequence, >= 2.

    >>> [last_ids(range(n), 4) for n in (4, 5, 6, 7)]
    [[0, 1, 2, 3], [2, 3, 4], [2, 3, 4, 5], [4, 5, 6]]
    """
    if training_length is None or len(ids) <= training_length:
        return list(ids)
    step = training_length // 2
    start = -(-(len(ids) - training_length) // step) * step
    return list(ids[start:])


def _end_of(text: str) -> str:
    """Returns the last 500 to 1,000 characters.

    Their start stays the same while the user types on.
    """
    start = max(0, (len(text) // WINDOW_CHARACTERS - 1) * WINDOW_CHARACTERS)
    if start == 0:
        return text
    window = text[start:]
    # A word that the window cuts in two is left out, unless the window has no other word.
    for index, character in enumerate(window[:WINDOW_CHARACTERS]):
        if character.isspace():
            return window[index:]
    return window


def _rows_of(outside: Vocabulary, inside: Vocabulary) -> np.ndarray:
    """Returns the row of the file for each id of another order of its words: int32 [V]."""
    row = {word: i for i, word in enumerate(inside.words)}
    if outside.rules != inside.rules or len(outside) != len(inside):
        raise ExportError(_OTHER_VOCABULARY)
    try:
        return np.array([row[word] for word in outside.words], np.int32)
    except KeyError:
        raise ExportError(_OTHER_VOCABULARY) from None
