"""An export with `--ngram` as a keyboard: network, n-gram and the user's own words on one strip.

It needs NumPy and a TFLite interpreter, as `keyboard_predictor.py` does. `open_keyboard` returns a
`HybridKeyboardPredictor` if the manifest names an n-gram and mixture weights, or if there is a
cache, else the network alone.
"""

import contextlib
import ctypes
import os
import time
from collections.abc import Mapping, Sequence

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor, rows_in
from tff_keyboard.predictors.hybrid.mixture import WITHOUT_NGRAM, MixtureWeights
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.predictors.locking import locked
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.predictor import Suggestion
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard.storage.errors import DataError, ExportError
from tflite_export.format import associated_files, tail_file
from tflite_export.format import manifest as manifests
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor, Strip


class HybridKeyboardPredictor(HybridPredictor):
    """The hybrid of an export. Several threads may use it; see `KeyboardPredictor`.

        keyboard = tk.runtime.open_keyboard("keyboard.tflite")  # with keyboard.ngram next to it
        keyboard.learn(["see", "you", "later"])

    A word that is not in the network's word table becomes one of the user's own words, with an id,
    once it was typed twice, or once its correction was taken back.

    Args:
      network: Network of the `.tflite` file.
      ngram: The n-gram of the `.ngram` file; None for an export without one.
      weights: Weights of the manifest.
      cache: The user's own words; empty if left out.
      tail: Words that are not in the table, for completion.

    Attributes:
      network: The network.
      manifest: Manifest of the export.
    """

    network: KeyboardPredictor

    def __init__(
        self,
        network: KeyboardPredictor,
        ngram: NGramPredictor | None,
        weights: MixtureWeights,
        cache: WordCache | None = None,
        tail: TailLexicon | None = None,
    ):
        own_order = network.vocabulary == network.index.vocabulary
        index = network.index if own_order else None
        super().__init__(network, ngram, weights, cache, index=index, tail=tail)
        self.manifest = network.manifest

    @property
    def own_ids(self) -> Mapping[str, int]:
        """Ids, in `next_word`, of the user's words that are not in the table."""
        return self.table.extra_ids

    def context_and_prefix(self, text: str) -> tuple[list[str], str]:
        """See `KeyboardPredictor.context_and_prefix`."""
        return self.network.context_and_prefix(text)

    @locked
    def strip_for(self, text: str, k: int = 3) -> Strip:
        """See `KeyboardPredictor.strip_for`."""
        start = time.perf_counter()
        context, prefix = self.context_and_prefix(text)
        suggestions = self.suggest(context, prefix, k)
        return Strip(prefix, suggestions, time.perf_counter() - start)

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`."""
        if k < 1:
            raise ValueError(f"`k` must be >= 1, got {k}.")
        return super().suggest(context, prefix, k)


Keyboard = KeyboardPredictor | HybridKeyboardPredictor


def open_keyboard(
    path: str | os.PathLike[str],
    vocabulary: Vocabulary | None = None,
    *,
    runtime: str | None = None,
    cache: WordCache | None = None,
) -> Keyboard:
    """Opens an export with all files next to the model.

        keyboard = tk.runtime.open_keyboard("keyboard.tflite")
        print(keyboard.strip_for("See you la", k=3).suggestions)

    Args:
      path: The `.tflite` file.
      vocabulary: Vocabulary; see `KeyboardPredictor`.
      runtime: Runtime; see `KeyboardPredictor`.
      cache: The user's own words. Without a cache, an export without an n-gram learns nothing.

    Raises:
      ExportError: If a file is missing, damaged or does not belong to the others.
    """
    return with_parts(KeyboardPredictor(path, vocabulary, runtime=runtime), cache)


def with_parts(network: KeyboardPredictor, cache: WordCache | None = None) -> Keyboard:
    """Returns the keyboard of a network, with the n-gram and the lexicon that its manifest names.

    Raises:
      ExportError: If a part is damaged, or belongs to another export.
    """
    tail, facts = None, network.manifest.tail
    if facts is not None:
        data = manifests.load_described(network.path, associated_files.TAIL, facts.sha256)
        name = str(network.path.with_suffix(".tail"))
        tail = tail_file.decode(data, network.vocabulary, name)
    if network.manifest.ngram is not None:
        return _with_ngram(network, cache, tail)
    if cache is not None:
        return HybridKeyboardPredictor(network, None, WITHOUT_NGRAM, cache, tail)
    network.tail = tail
    return network


def _with_ngram(
    network: KeyboardPredictor, cache: WordCache | None, tail: TailLexicon | None
) -> HybridKeyboardPredictor:
    """Returns the predictor with the n-gram of the export, whose words get the network's ids."""
    path, ngram_facts, mixture = network.path, network.manifest.ngram, network.manifest.mixture
    assert ngram_facts is not None
    assert mixture is not None
    data = manifests.load_described(path, associated_files.NGRAM, ngram_facts.sha256)
    try:
        weights = MixtureWeights.from_json(mixture.weights)
        model, vocabulary = ngram_file.decode(data, str(manifests.ExportPaths(path).ngram))
        rows = rows_in(vocabulary, network.vocabulary)
    except (DataError, ValueError) as error:
        raise ExportError(f"{path}: not a valid hybrid ({error}). Export it again.") from None
    # The file has words by frequency, because that is smaller. Here they get the network's order.
    ngram = model if rows is None else model.reordered(rows)
    del model, vocabulary, rows, data
    _give_back_memory()
    return HybridKeyboardPredictor(
        network, NGramPredictor(ngram, network.vocabulary), weights, cache, tail
    )


def _give_back_memory() -> None:
    """Returns memory used for decoding to the system. glibc would keep 7 of 18 MB."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
