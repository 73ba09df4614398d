"""What the data card of a store says against a training, and what helps."""

from collections.abc import Mapping
from typing import Any

LITTLE_TEXT_WORDS = 500_000  # below, general text first: 1.5 to 2 points more at 300,000
_TOO_LITTLE_TEXT = 20_000
_FEW_PEOPLE = 100
_MUCH_OOV = 0.15


def warnings_of_card(card: Mapping[str, Any], *, is_fine_tuned: bool = False) -> tuple[str, ...]:
    """Warnings, each with what helps; one sentence or two.

    `is_fine_tuned` says whether the training begins with a model.
    """
    train = card["populations"]["train"]
    found = []
    if train["words"] < _TOO_LITTLE_TEXT:
        found.append(
            "So little text teaches a network little of its own. The base model learns the words "
            "that you send without any training: "
            "`tff-keyboard play models/base/keyboard.tflite --cache=words.cache`."
        )
    elif train["words"] < LITTLE_TEXT_WORDS and not is_fine_tuned:
        found.append(
            "With so little text a model is better that begins with other people's: "
            "--set=model.initial_model=RUN takes the rows of words that both have. Or prepare both "
            "texts as one store, as configs/reference/messages.toml does."
        )
    if train["clients"] < _FEW_PEOPLE:
        found.append(
            f"With {train['clients']} train people intervals will be wide (`tff-keyboard power`), "
            "and differential privacy would cost most of the recall."
        )
    if train["oov_rate"] > _MUCH_OOV:
        found.append(
            f"{train['oov_rate']:.0%} of the train words are out of the vocabulary, which nothing "
            f"can suggest: {_why_out(card)}"
        )
    return tuple(found)


def _why_out(card: Mapping[str, Any]) -> str:
    """Why words are out of the vocabulary, and what lets them in."""
    vocabulary, options = card["vocabulary"], card["options"]
    if options.get("vocabulary_fingerprint"):
        return "the table was given. `merge-vocabulary` makes one of this text and the other."
    if vocabulary["rows"] >= options["vocabulary_size"]:
        return "raise `data.vocabulary_size`, and prepare again."
    if options["min_word_count"] > 1:
        return "`data.min_word_count` keeps rare words out. Lower it, and prepare again."
    people = vocabulary.get("min_word_users", 1)
    if people > 1:
        return (
            f"words of fewer than {people} people are kept out on purpose, because everybody gets "
            "the table. More people let more words in, or a vocabulary of more text "
            "(`prepare --vocabulary=models/base`, `merge-vocabulary`)."
        )
    return "a private choice of words keeps the others out. More people let more in."
