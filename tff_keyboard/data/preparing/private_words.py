"""Chooses the vocabulary of a store with differential privacy (`data.vocabulary_epsilon`)."""

import secrets
from collections.abc import Iterable

from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.text.identifiers import is_identifier
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary, is_mask
from tff_keyboard.privacy.accounting import private_vocabulary
from tff_keyboard.storage.errors import DataError

_UNITS = 10**9  # factor to whole numbers for `Vocabulary.from_counts`


class PrivateWords:
    """The words of train users, for one private choice with `vocabulary_epsilon` > 0.

    The noise comes from the operating system's random generator.
    """

    def __init__(self, config: DataConfig):
        self._config = config
        self._mechanism = private_vocabulary.plan_vocabulary(
            epsilon=config.vocabulary_epsilon,
            delta=config.vocabulary_delta,
            max_words=config.vocabulary_words_per_client,
        )
        self._counts = private_vocabulary.BoundedCounts(config.vocabulary_words_per_client)
        self._choice_id = secrets.token_hex(16)

    def add_client(self, words: Iterable[str]) -> None:
        """Adds all words of a train user. Masks and identifiers never count."""
        self._counts.add_client(w for w in words if not is_mask(w) and not is_identifier(w))

    def vocabulary(self, rules: NormalisationRules) -> Vocabulary:
        """Releases the vocabulary. Call it once: each call draws new noise, and `facts` covers one.

        A word's weight is the sum over clients of 1 / sqrt(number of the client's counted words),
        plus Gaussian noise. Words below the mechanism's threshold are left out. The rest are sorted
        by noisy weight, at most `data.vocabulary_size` rows including the special ones.

        Raises `DataError` if no word reaches the threshold.
        """
        weights = self._counts.released(self._mechanism, private_vocabulary.fresh_normal)
        if not weights:
            raise DataError(
                "No word reaches the threshold of `data.vocabulary_epsilon` = "
                f"{self._config.vocabulary_epsilon:g}: {self._mechanism.threshold:.1f} clients' "
                "weight. Provide text of more clients, a larger epsilon, or a public vocabulary "
                "with `data.vocabulary_path`."
            )
        counts = {word: round(weight * _UNITS) for word, weight in weights.items()}
        return Vocabulary.from_counts(counts, self._config.vocabulary_size, rules)

    @property
    def facts(self) -> dict[str, float | str]:
        """Parameters and privacy cost of the choice, for the data card.

        A random id distinguishes the choice from others with the same outcome, which cost as much.
        """
        return {
            "choice_id": self._choice_id,
            "epsilon": self._config.vocabulary_epsilon,
            "delta": self._config.vocabulary_delta,
            "rho": self._mechanism.rho,
            "delta_of_words": self._mechanism.delta_of_words,
            "threshold": self._mechanism.threshold,
            "words_per_person": self._mechanism.max_words,
        }
