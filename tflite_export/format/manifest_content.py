"""The manifest of an export, as dataclasses.

A field without a default is always in the file, as null if it has no value. A field with a default
is left out if it has that value. Reading checks the type and range of every field, because a
manifest may come from another person.
"""

import dataclasses
import json
import pathlib

from tff_keyboard.data.vocabulary import BOS, EOS, OOV, PAD, NormalisationRules
from tff_keyboard.storage import json_text, typed_json
from tff_keyboard.storage.errors import ExportError

FORMAT = "tff-keyboard export 1"
VOCABULARY_ORDER = "special ids, then words by code points"
MAX_MODEL_BYTES = 2**30

_MAX_STATES = 100_000
_MAX_FORMS = 50_000
_LONGEST_FORM = 100
_LONGEST_NAME = 50  # of a kind of weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """Rows of the word table that are not words."""

    pad: int = PAD
    bos: int = BOS
    eos: int = EOS
    oov: int = OOV


@dataclasses.dataclass(frozen=True, kw_only=True)
class StateSizes:
    """Number of columns of the model's two states: `c`, the cell, and `h`, the projected output."""

    c: int
    h: int

    def __post_init__(self) -> None:
        for size in (self.c, self.h):
            _require_range("model.state_sizes", size, 1, _MAX_STATES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestModel:
    """Facts about the model file."""

    name: str
    quantization: str
    trainable: bool  # whether it can go on training on the device
    top_k: int  # words that `predict` and `step` return
    # Targets of its training sequences; None for a model without a config
    training_length: int | None
    state_sizes: StateSizes
    bytes: int  # size of the file, without the files packed into it
    sha256: str

    def __post_init__(self) -> None:
        is_name = self.quantization.isprintable() and len(self.quantization) <= _LONGEST_NAME
        _require(is_name, "manifest.model.quantization", "must be a name on one line")
        _require_range("model.top_k", self.top_k, 1, _MAX_STATES)
        _require_range("model.bytes", self.bytes, 1, MAX_MODEL_BYTES)
        if self.training_length is not None:
            _require_range("model.training_length", self.training_length, 2, 999_999)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyFacts:
    """Facts about the vocabulary file, and the fingerprint of the run's vocabulary.

    The run's vocabulary has the same words in another order.
    """

    size: int
    rules: NormalisationRules
    order: str
    run_fingerprint: str
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The exported run: hashes of its records, and its metrics on held-out users by name."""

    name: str
    sha256: dict[str, str]
    metrics: dict[str, dict[str, float | None]] | None = None


@dataclasses.dataclass(frozen=True)
class ParityDifference:
    """A paired difference: value and 95 % interval over users, as fractions."""

    keras: float
    file: float
    half_width: float  # nan with one client

    @property
    def value(self) -> float:
        return self.file - self.keras


@dataclasses.dataclass(frozen=True)
class Shown:
    """Differences between the strips of a file and its own logits."""

    strips: int  # outputs of `step` and `predict` that were compared
    wrong_strips: int  # strips with another word, or another probability, than the logits give
    # Largest difference of a probability, relative to the right value
    max_probability_error: float
    wrong_states: int  # outputs of `predict` whose state differs from the chain of `step`
    max_state_error: float  # largest difference of a state


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parity:
    """Result of the comparison of the file with the float model."""

    people: int  # number of clients whose text was read
    words: int  # words typed, OOV included
    positions: int  # predictions compared, end of message included
    same_best: float  # share of positions with the same best word
    same_three: float  # share of positions with the same set of three best words
    differences: dict[str, ParityDifference]  # "recall_at_1", "recall_at_3", "kss" -> difference
    max_logit_error: float  # largest over positions and rows, including the long message
    rms_logit_error: float  # root mean square over both
    logit_spread: float  # spread of the float logits, which the errors are compared with
    shown: Shown  # the file's strips against its own logits
    little_text: bool  # whether there was too little text for a verdict
    forgiven: str | None  # the failure that `allow_loss` forgave


@dataclasses.dataclass(frozen=True, kw_only=True)
class NGramFacts:
    """The n-gram file of a hybrid.

    It has `ngrams[i]` n-grams of length i + 1, each typed by at least `min_clients` users.
    """

    order: int
    ngrams: list[int]
    trained_on: str
    min_clients: int
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TailFacts:
    """The lexicon of words that are not in the table.

    `word_list` names the file whose words are also in the lexicon. Each other word was typed by at
    least `min_clients` users of the text it was counted on; None if the words were not counted.
    Exports by earlier versions have neither `min_clients` nor `word_list_sha256`. `capitals` marks
    the words that are written with a capital; see `tail_file.packed_capitals`.
    """

    words: int
    counted_on: str
    word_list: str | None
    bytes: int
    sha256: str
    min_clients: int | None = None
    word_list_sha256: str | None = None  # of the file, packed or not
    capitals: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixtureFacts:
    """The mixture of a hybrid.

    `weights` are the weights of `predictors/hybrid/mixture.py`, with columns in the order of
    `components`.
    """

    components: list[str]
    weights: list[list[float]]
    fitted_on: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """Bytes that a phone stores, without the manifest. `with_ngram` includes the lexicon."""

    network_and_vocabulary: int
    with_ngram: int


@dataclasses.dataclass(frozen=True)
class HybridFigures:
    """Metrics of the export with and without its n-gram and cache, on users not in its training."""

    people: int  # number of clients
    words: int  # words that they typed
    # Name -> `(network alone, hybrid, half width of the difference's interval)`
    metrics: dict[str, tuple[float, float, float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CardFacts:
    """Facts about the model card."""

    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """The manifest. Fields are in the order of the file."""

    format: str = FORMAT  # `FORMAT`
    # Ids of the special tokens, the same in every model
    special_ids: SpecialIds = SpecialIds()
    model: ManifestModel
    vocabulary: VocabularyFacts
    truecase: list[str]
    run: RunFacts  # the run that was exported
    privacy: str  # the statement of the run's differential privacy, or that there is none
    parity: Parity | None  # None if the gate had no text
    ngram: NGramFacts | None = None  # None without an n-gram
    mixture: MixtureFacts | None = None  # None without an n-gram
    tail: TailFacts | None = None  # None without a lexicon
    bytes: Sizes
    licence: str | None  # licence of the files; None without --licence
    hybrid: HybridFigures | None = None  # None without an n-gram or without text
    card: CardFacts | None = None  # None until the card is written

    def __post_init__(self) -> None:
        _require(self.special_ids == SpecialIds(), "manifest.special_ids", "are not supported")
        _require(
            len(self.truecase) <= _MAX_FORMS
            and all(0 < len(form) <= _LONGEST_FORM for form in self.truecase),
            "manifest.truecase",
            f"must be at most {_MAX_FORMS} words",
        )
        alone = (self.ngram is None) != (self.mixture is None)
        _require(not alone, "manifest.mixture", "must come with `ngram`")


def to_bytes(manifest: Manifest) -> bytes:
    """Returns the manifest as a JSON file."""
    return (json.dumps(typed_json.plain(manifest), indent=2, ensure_ascii=False) + "\n").encode()


def parse(data: bytes, path: pathlib.Path) -> Manifest:
    """Parses a manifest.

    Raises:
      ExportError: If `data` is not a valid manifest. `data` may be any bytes.
    """
    try:
        content = json_text.parse(data)
    except json_text.InvalidJsonError:
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ExportError(f"{path}: not a manifest of format {FORMAT!r}. Export the model again.")
    try:
        return typed_json.read(Manifest, content, "manifest")
    except ValueError as error:
        raise ExportError(
            f"{path}: a field of the manifest is missing or invalid ({str(error)[:200]}). Export "
            "the model again, or use the version that wrote it."
        ) from None


def _require_range(name: str, value: int, minimum: int, maximum: int) -> None:
    _require(
        minimum <= value <= maximum, f"manifest.{name}", f"must be from {minimum} to {maximum}"
    )


def _require(condition: bool, name: str, rule: str) -> None:
    if not condition:
        raise ValueError(f"`{name}` {rule}")
