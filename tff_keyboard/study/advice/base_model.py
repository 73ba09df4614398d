"""The shipped model that training on little text begins with (docs/models/base.md)."""

from collections.abc import Mapping
from typing import Any

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.storage import names, shipped_files

NAME = "models/base"


def has_its_words(card: Mapping[str, Any]) -> bool:
    """Whether a store was prepared with its vocabulary; `card` is the store's data card."""
    words = shipped_files.ROOT / NAME / names.MODEL / names.VOCABULARY
    given = card["options"].get("vocabulary_fingerprint")
    return given is not None and given == Vocabulary.load(words).fingerprint
