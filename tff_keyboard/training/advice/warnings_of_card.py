"""Warnings about a training from the data card of a store, each with a remedy."""

from collections.abc import Mapping
from typing import Any

from tff_keyboard.data.store import store_card

LITTLE_TEXT_WORDS = 500_000  # below, start from general text: 1.5 to 2 points more at 300,000
_TOO_LITTLE_TEXT = 20_000
_FEW_CLIENTS = 100
_MUCH_OOV = 0.15


def warnings_of_card(
    card: Mapping[str, Any], base: str | None, *, is_fine_tuned: bool = False
) -> tuple[str, ...]:
    """Returns warnings of one or two sentences, each with a remedy.

    Args:
      card: Data card of the store.
      base: Directory of the shipped model of the store's language, if there is one.
      is_fine_tuned: Whether the training starts from a model.
    """
    train = card["populations"]["train"]
    warnings = []
    if train["words"] < _TOO_LITTLE_TEXT:
        warnings.append("A network learns little from so little text." + _play(base))
    elif train["words"] < LITTLE_TEXT_WORDS and not is_fine_tuned:
        warnings.append(
            "With so little text, start from a model of other text: "
            "--set=model.initial_model=RUN copies the rows of the words that both vocabularies "
            "have. Or prepare both texts as one store, as in configs/reference/messages.toml."
        )
    if train["clients"] < _FEW_CLIENTS:
        warnings.append(
            f"With {train['clients']} train clients, intervals will be wide, and differential "
            "privacy would cost most of the recall."
        )
    if remark := store_card.remark_on_held_out(card["populations"]):
        warnings.append(remark)
    if train["oov_rate"] > _MUCH_OOV:
        warnings.append(
            f"{train['oov_rate']:.0%} of the train words are not in the vocabulary, so the model "
            f"cannot suggest them: {_why_out(card, base)}"
        )
    return tuple(warnings)


def _play(base: str | None) -> str:
    if base is None:
        return ""
    return (
        " The base model learns the words that you send, without any training: "
        f"`tff-keyboard play {base}/keyboard.tflite --cache=words.cache`."
    )


def _why_out(card: Mapping[str, Any], base: str | None) -> str:
    """Returns the reason for words out of the vocabulary, and a remedy."""
    vocabulary, options = card["vocabulary"], card["options"]
    if options.get("vocabulary_fingerprint"):
        return (
            "the vocabulary was given. `merge-vocabulary` builds one from this text and the other."
        )
    if vocabulary["rows"] >= options["vocabulary_size"]:
        return "raise `data.vocabulary_size` and run `prepare` again."
    if options["min_word_count"] > 1:
        return "`data.min_word_count` excludes rare words. Lower it and run `prepare` again."
    minimum = vocabulary.get("min_word_users", 1)
    if minimum > 1:
        of_base = f"`prepare --vocabulary={base}`, " if base else ""
        return (
            f"words of fewer than {minimum} clients are excluded on purpose, because every device "
            "receives the vocabulary. Add clients, or use a vocabulary of more text "
            f"({of_base}`merge-vocabulary`)."
        )
    return "the private choice of words excludes the others. Add clients to include more words."
