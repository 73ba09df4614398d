"""An n-gram as a `Predictor`, and its files.

A trained model is a directory:

    ngram.npz        `KneserNey.to_arrays`
    vocabulary.txt   `Vocabulary.save`

A pruned and rounded model is one small file (`ngram_file.py`).
"""

import functools
import io
import os
import pathlib
import zipfile
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from tff_keyboard.data.vocabulary import PAD, Vocabulary
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.compact_ngram import CompactNGram
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.predictors.predictor import Suggestion, best_with_prefix, context_ids
from tff_keyboard.predictors.prefix_index import PrefixIndex
from tff_keyboard.storage import files, names
from tff_keyboard.storage.errors import DataError


class NGramPredictor:
    """A predictor with an n-gram model, as trained or from a file.

    Order 1 is the unigram baseline. Raises `ValueError` if the sizes of model and vocabulary
    differ.
    """

    def __init__(self, model: KneserNey | CompactNGram, vocabulary: Vocabulary):
        if model.vocabulary_size != len(vocabulary):
            raise ValueError(
                f"The n-gram has {model.vocabulary_size} rows, but the vocabulary has "
                f"{len(vocabulary)}."
            )
        self.model = model
        self.vocabulary = vocabulary

    @classmethod
    def train(
        cls, messages: Iterable[np.ndarray], vocabulary: Vocabulary, *, order: int = 5
    ) -> "NGramPredictor":
        """Trains on pooled messages, ids [words] each, without BOS and EOS."""
        model = KneserNey.train(messages, vocabulary_size=len(vocabulary), order=order)
        return cls(model, vocabulary)

    @functools.cached_property
    def _index(self) -> PrefixIndex:
        return PrefixIndex(self.vocabulary)  # 1 MB, not needed in a hybrid

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`."""
        ids, found = best_with_prefix(self.next_word(context), self._index, prefix, k)
        words = self.vocabulary.words
        return [(words[i], float(p)) for i, p in zip(ids, found, strict=True)]

    def next_word(self, context: Sequence[str]) -> np.ndarray:
        """Returns the probabilities of the word after a context, [V] float32."""
        # The model reads only the last `order - 1` ids.
        ids = context_ids(self.vocabulary, context[-self.model.order :])
        if isinstance(self.model, KneserNey):
            ids = ids[-max(self.model.order - 1, 1) :]
            nodes = self.model.context_nodes(np.array([ids]))[0, -1:]
            return self.model.probabilities(nodes)[0]
        return self.model.distribution(self.model.contexts(ids))

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`. PAD and BOS get -inf."""
        probabilities = self.model.probabilities(self.model.context_nodes(ids)[ids != PAD])
        with np.errstate(divide="ignore"):
            return np.log(probabilities, out=probabilities)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes the two files, the arrays last, so that a directory with them is complete.

        Raises:
          ProgramError: If the files cannot be written.
          ValueError: If the model comes from a small file; copy that file instead.
        """
        if isinstance(self.model, CompactNGram):
            raise ValueError("A rounded n-gram cannot be saved. Copy the file it was loaded from.")
        folder = pathlib.Path(directory)
        files.make_directory(folder)
        self.vocabulary.save(folder / names.VOCABULARY)
        arrays = io.BytesIO()
        np.savez_compressed(arrays, **self.model.to_arrays())
        files.write_atomically(folder / names.NGRAM, [arrays.getbuffer()])

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "NGramPredictor":
        """Reads a directory that `save` wrote, or a file of `ngram_file`.

        Raises `DataError` if a file is missing or damaged, or they belong to different models.
        """
        folder = pathlib.Path(directory)
        if folder.is_file():
            return cls(*ngram_file.load(folder))
        vocabulary = Vocabulary.load(folder / names.VOCABULARY)
        path = folder / names.NGRAM
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return cls(KneserNey.from_arrays(dict(arrays)), vocabulary)
        except FileNotFoundError:
            raise DataError(f"{path}: there is no n-gram model. Train one first.") from None
        except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(
                f"{path}: not a complete n-gram model ({error}). Train it again."
            ) from None
