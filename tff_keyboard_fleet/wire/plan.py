"""The plan of a round, which a device fetches by its hash and follows exactly, or not at all.

A device decides by itself whether it meets `conditions`; the server only learns that it checked in.
Training takes one message a step, in the order typed, with the `train` signature of the exported
graph (`tflite_export/format/signatures.py`). The delta is the trained weights minus the initial
weights.
"""

import dataclasses
import hashlib
import json
import math

from tff_keyboard.config.sections.devices_config import MAX_CACHE_DAYS
from tff_keyboard.storage import json_text, typed_json
from tff_keyboard_fleet.wire import evaluation_sums, word_cells
from tff_keyboard_fleet.wire.messages import (
    MASKED,
    PROTOCOL,
    QUANTISED,
    RAW,
    is_sha256,
    require_sha256,
)

MAX_SEPARATION = 10_000  # largest `min_separation_rounds` of a plan that a device follows
MAX_EVALUATED_MODELS = 8
MAX_EVALUATED_WORDS = 100_000
MAX_CELLS = 2**21  # of the vector of a round that looks for words
MAX_LETTERS = 3  # letters by which such a round extends a prefix
MAX_LENGTH = 40  # letters of a new word
# Kinds of rounds
TRAINING, EVALUATION, NEW_WORDS = "training", "evaluation", "new words"
SUMS_BITS = (32, 64)
SUMS_PROTOCOL = 2  # version 1 had no step `confirm`; its devices reject a plan with this field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Codec:
    """Encoding of the delta: `messages.RAW`, `QUANTISED` with 2..4 bits a number, or `MASKED`.

    The seed of the rounding comes from the assignment: the first 8 bytes of its SHA-256,
    little-endian.
    """

    name: str = RAW
    bits: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecureSums:
    """Settings of secure sums: the server learns only the sum of integer deltas (`secure_sums/`).

    Attributes:
      protocol: Version of the steps' protocol. A device with another version does not take part.
      clip_norm: L2 bound to which the device scales its delta, in weight units.
      step: Weight units of one integer. Rounding is towards zero. See `require_exact_integers`.
      bits: 32 or 64: sums are modulo 2^bits.
      degree: Number of neighbours of a device.
      threshold: Number of shares that recover a secret.
    """

    clip_norm: float
    step: float
    bits: int
    degree: int
    threshold: int
    protocol: int = SUMS_PROTOCOL

    def require_exact_integers(self) -> None:
        """Checks that no number of a device, and no sum of a device and its neighbours, wraps.

        The numbers of a device are at most `clip_norm / step`. A server that chose a tiny step
        could otherwise make all numbers but the smallest saturate, and read these from the sum.

        Raises:
          ValueError: If one may wrap, or a setting is out of range.
        """
        if self.bits not in SUMS_BITS:
            raise ValueError(f"`plan.secure_sums.bits` must be one of {SUMS_BITS}")
        if self.degree < 1:
            raise ValueError("`plan.secure_sums.degree` must be >= 1")
        for name in ("clip_norm", "step"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"`plan.secure_sums.{name}` must be finite and > 0")
        if self.clip_norm / self.step > 2.0 ** (self.bits - 1) / (self.degree + 1):
            raise ValueError(
                "`plan.secure_sums.step` must be >= `clip_norm` * (`degree` + 1) / 2^(`bits` - 1), "
                "so that no sum wraps"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The work of a round that evaluates models, and trains nothing (`evaluation_sums.py`).

    Attributes:
      models: SHA-256 of the weights of each model. All fit the plan's graph. The first is the
        model of the `TaskAssignment`.
      max_words: Bound on a device's part: it counts its newest messages up to this number of
        targets, the end of a message included. 1..`MAX_EVALUATED_WORDS`.
      own_words: Weight, in [0, 1), of the user's own words next to a model, in a second count of
        each model. The words are those of the device's older messages. 0: no second count.
    """

    models: list[str]
    max_words: int
    own_words: float = 0.0

    @property
    def size(self) -> int:
        """Number of elements of a device's vector."""
        return len(evaluation_sums.columns(len(self.models), self.own_words > 0))

    def check(self) -> None:
        """Raises `ValueError` if a value is out of range."""
        if not 1 <= len(set(self.models)) == len(self.models) <= MAX_EVALUATED_MODELS:
            raise ValueError(
                f"`plan.evaluation.models` must be 1 to {MAX_EVALUATED_MODELS} different models"
            )
        if not all(map(is_sha256, self.models)):
            raise ValueError("`plan.evaluation.models` must be SHA-256 in hex")
        if not 1 <= self.max_words <= MAX_EVALUATED_WORDS:
            raise ValueError(f"`plan.evaluation.max_words` must be in 1..{MAX_EVALUATED_WORDS}")
        if not 0 <= self.own_words < 1:
            raise ValueError("`plan.evaluation.own_words` must be in [0, 1)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewWords:
    """The work of a round that looks for words outside the vocabulary (`word_cells.py`).

    Attributes:
      alphabet: The letters of words, and perhaps "'" and "-". A word with another character is not
        counted.
      prefixes: Beginnings of words that are still alive, different and of one length, in the order
        of the vector. In the first round, the empty one.
      letters: Number of letters by which this round extends them. 1..`MAX_LETTERS`.
      slots: Number of prefixes for which the vector has room.
      max_cells: Maximum number of cells into which a device writes 1.
    """

    alphabet: str
    prefixes: list[str]
    letters: int
    slots: int
    max_cells: int

    @property
    def size(self) -> int:
        """Number of elements of a device's vector."""
        return self.slots * word_cells.cells_of_prefix(len(self.alphabet), self.letters)

    def check(self) -> None:
        """Raises `ValueError` if a value is out of range."""
        if not word_cells.is_alphabet(self.alphabet):
            raise ValueError("`plan.new_words.alphabet` must be different letters, ' or -")
        if not 1 <= self.letters <= MAX_LETTERS:
            raise ValueError(f"`plan.new_words.letters` must be in 1..{MAX_LETTERS}")
        if not 1 <= len(set(self.prefixes)) == len(self.prefixes) <= self.slots:
            raise ValueError("`plan.new_words.prefixes` must be 1 to `slots` different prefixes")
        if len(set(map(len, self.prefixes))) > 1 or len(self.prefixes[0]) > MAX_LENGTH:
            raise ValueError(
                f"`plan.new_words.prefixes` must have one length, at most {MAX_LENGTH}"
            )
        if not set("".join(self.prefixes)) <= set(self.alphabet):
            raise ValueError("`plan.new_words.prefixes` must have letters of the alphabet")
        if self.slots > MAX_CELLS or self.size > MAX_CELLS:
            raise ValueError(
                f"`plan.new_words` has more than {MAX_CELLS:,} cells: use fewer slots or letters"
            )
        if not 1 <= self.max_cells <= self.size:
            raise ValueError("`plan.new_words.max_cells` must be in 1..the number of cells")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conditions:
    """Conditions under which a device takes part, as in Hard et al. 2018, section 5.2.

    Attributes:
      ram_gib: Minimum memory of the device.
      charging: Whether the device must be charging.
      unmetered: Whether its network must be unmetered.
      idle: Whether the device must be idle.
      locale: Language and region, such as "en_US", or a language alone. "" accepts any.
      app_versions: Accepted versions of the keyboard. An empty list accepts all.
      min_examples: Minimum number of messages in its cache.
      min_days_between: Minimum number of days since it last took part.
    """

    ram_gib: float = 2.0
    charging: bool = True
    unmetered: bool = True
    idle: bool = True
    locale: str = ""
    app_versions: list[str] = dataclasses.field(default_factory=list)
    min_examples: int = 1
    min_days_between: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cache:
    """Limits of a device's cache: days, and messages for each kind of app.

    Devices refuse a plan with more than `MAX_CACHE_DAYS`, so text has an end under any server.
    """

    ttl_days: float = 30.0
    max_per_category: int = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The work of one round.

    Attributes:
      protocol: Version of the protocol.
      population: Name of the population.
      vocabulary: Fingerprint of the graph's words and normalisation rules.
      graph: SHA-256 of the packed, trainable `.tflite` with its vocabulary; fetched like a model.
        Weights have the order of its `weights` signature, rows the order of its vocabulary.
      parameters: Number of elements of a delta, and of the weights.
      learning_rate: Rate of plain SGD, one message a step.
      epochs: Passes over the chosen messages.
      max_messages: Number of newest messages that are chosen; 0 for all.
      max_targets: A message is cut after this number of targets (its words and its end sign).
      weighting: Meaning of `UploadHeader.weight`: "tokens" (targets of one pass times epochs),
        "examples" or "uniform".
      loss: "during_training": the mean over steps, each before its update, weighted by targets.
        "after_training": the loss of the trained model over the same messages.
      clip: L2 bound to which the device scales its delta. If None, the server clips.
      codec: Encoding of the delta.
      phases: ["upload"], or ["loss", "upload"].
      secure_sums: Settings of secure sums. If None, uploads are not masked.
      conditions: Conditions for taking part.
      cache: Limits of the device's cache.
      min_separation_rounds: A device that sent an upload for round i takes part in no round of this
        population before i + `min_separation_rounds`, >= 1. The device enforces this from its own
        record: not in an earlier round, not in another attempt at round i, and not if the server
        lost its memory. Each kind of round has its own numbers and its own record.
      evaluation: The models to evaluate, if the round evaluates.
      new_words: The cells to count, if the round looks for new words. Without it and `evaluation`,
        the round trains. It needs secure sums, and has no model: the seat's is the graph.
    """

    protocol: int = PROTOCOL
    population: str
    vocabulary: str
    graph: str
    parameters: int
    learning_rate: float
    epochs: int
    max_messages: int
    max_targets: int
    weighting: str
    loss: str = "during_training"
    clip: float | None
    codec: Codec
    phases: list[str]
    secure_sums: SecureSums | None
    conditions: Conditions
    cache: Cache
    min_separation_rounds: int = 1
    evaluation: Evaluation | None = None
    new_words: NewWords | None = None

    def __post_init__(self) -> None:
        require_sha256(self, "graph")

    def to_bytes(self) -> bytes:
        """Returns canonical JSON: sorted keys, no spaces. The hash is computed from it."""
        text = json.dumps(typed_json.plain(self), sort_keys=True, separators=(",", ":"))
        return text.encode()

    @property
    def kind(self) -> str:
        """`TRAINING`, `EVALUATION` or `NEW_WORDS`."""
        if self.new_words is not None:
            return NEW_WORDS
        return TRAINING if self.evaluation is None else EVALUATION

    @property
    def upload_size(self) -> int:
        """Number of elements of an upload: of a delta, or of sums."""
        work = self.new_words or self.evaluation
        return self.parameters if work is None else work.size

    @property
    def record(self) -> str:
        """Name under which a device records the rounds in which it took part."""
        return self.population if self.kind == TRAINING else f"{self.population} ({self.kind})"

    @property
    def sha256(self) -> str:
        """SHA-256 of the plan, which is its name."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Plan":
        """Decodes a plan.

        Raises:
          ValueError: If it is not a plan, has another protocol version, or needs a feature that
            this version does not have.
        """
        plan: Plan = typed_json.read(cls, json_text.parse(data), "plan")
        supported = {
            "protocol": (plan.protocol, (PROTOCOL,)),
            "codec.name": (plan.codec.name, (RAW, QUANTISED, MASKED)),
            "weighting": (plan.weighting, ("tokens", "examples", "uniform")),
            "loss": (plan.loss, ("during_training", "after_training")),
            "phases": (plan.phases, (["upload"], ["loss", "upload"])),
        }
        for name, (value, allowed) in supported.items():
            if value not in allowed:
                raise ValueError(f"`plan.{name}` is not of protocol {PROTOCOL}")
        if not 0 < plan.cache.ttl_days <= MAX_CACHE_DAYS:
            raise ValueError(f"`plan.cache.ttl_days` must be in (0, {MAX_CACHE_DAYS}]")
        if plan.cache.max_per_category < 1:
            raise ValueError("`plan.cache.max_per_category` must be >= 1")
        if plan.min_separation_rounds < 1:
            raise ValueError("`plan.min_separation_rounds` must be >= 1")
        if plan.secure_sums is not None and plan.secure_sums.protocol != SUMS_PROTOCOL:
            raise ValueError(f"`plan.secure_sums` is not of protocol {SUMS_PROTOCOL}")
        if plan.secure_sums is not None:
            plan.secure_sums.require_exact_integers()
        if plan.secure_sums is not None and plan.phases != ["upload"]:
            raise ValueError(
                "`plan.secure_sums` hides losses, but the phase 'loss' would reveal them"
            )
        if plan.evaluation is not None:
            plan.evaluation.check()
            if plan.phases != ["upload"] or plan.codec.name == QUANTISED:
                raise ValueError("`plan.evaluation` needs the phase 'upload', and a codec for sums")
        if plan.new_words is not None:
            plan.new_words.check()
            if plan.secure_sums is None or plan.evaluation is not None:
                raise ValueError("`plan.new_words` needs `secure_sums`, and no `evaluation`")
        if (plan.secure_sums is None) == (plan.codec.name == MASKED):
            raise ValueError("`plan.secure_sums` and the codec 'masked' belong together")
        return plan
