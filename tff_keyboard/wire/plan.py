"""What a device does in a round: fetched by its hash, followed to the letter, or not at all.

A device decides by itself whether it meets `conditions`; the server learns no more than that it
came. Training is a message a step, in the order typed: the `train` signature of the exported graph
(`tflite_export/format/signatures.py`); the delta is trained weights minus those it began with.
"""

import dataclasses
import hashlib
import json

from tff_keyboard.storage import typed_json
from tff_keyboard.wire.messages import MASKED, PROTOCOL, QUANTISED, RAW, require_sha256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Codec:
    """How the delta is written: `messages.RAW`, `QUANTISED` with 2..4 bits a number, or `MASKED`.

    The seed of its rounding is the assignment: the first 8 bytes of its SHA-256,
    little-endian.
    """

    name: str = RAW
    bits: int | None = None
    rotated: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecureSums:
    """Deltas as integers that the server learns only the sum of (`secure_sums/`).

    Attributes:
      clip_norm: L2 bound the device scales its delta to, in weight units.
      step: Weight units of one integer; rounding is towards zero.
      bits: 32 or 64: sums are modulo 2^bits.
      degree: Neighbours of a device.
      threshold: Shares that give a secret.
    """

    clip_norm: float
    step: float
    bits: int
    degree: int
    threshold: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conditions:
    """When a device takes part; as in Hard et al. 2018, section 5.2.

    Attributes:
      ram_gib: Memory of the device at least.
      locale: Language and region, such as "en_US", or a language alone; "": any.
      app_versions: Versions of the keyboard that may; none named: all.
      least_examples: Messages in its cache at least.
      least_days_between: Days since it last took part at least.
    """

    ram_gib: float = 2.0
    charging: bool = True
    unmetered: bool = True
    idle: bool = True
    locale: str = ""
    app_versions: list[str] = dataclasses.field(default_factory=list)
    least_examples: int = 1
    least_days_between: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cache:
    """How long a device keeps what was typed, and how many messages of one kind of app."""

    ttl_days: float = 30.0
    most_per_category: int = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """One round's work.

    Attributes:
      vocabulary: Fingerprint of the graph's words and rules of normalisation.
      graph: SHA-256 of the packed, trainable `.tflite`, with its vocabulary; fetched as a model is.
        Weights have the order of its `weights` signature, rows that of its vocabulary.
      parameters: Numbers of a delta, and of the weights.
      learning_rate: Rate of plain SGD, a message a step.
      epochs: Passes over the chosen messages.
      max_messages: The newest so many are chosen; 0: all.
      max_targets: A message is cut after so many words and its end sign.
      weighting: What `UploadHeader.weight` counts: "tokens" (targets of one pass times epochs),
        "examples" or "uniform".
      loss: "during_training": the mean over steps, each before its update, weighted by targets;
        "after_training": of the trained model over the same messages.
      clip: L2 bound the device scales its delta to; None: the server does.
      phases: ["upload"], or ["loss", "upload"].
      secure_sums: How uploads are masked; None: they are in clear.
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

    def __post_init__(self) -> None:
        require_sha256(self, "graph")

    def to_bytes(self) -> bytes:
        """Canonical JSON: sorted keys, no spaces; what the hash is of."""
        text = json.dumps(typed_json.plain(self), sort_keys=True, separators=(",", ":"))
        return text.encode()

    @property
    def sha256(self) -> str:
        """Names the plan."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Plan":
        """The plan of an answer.

        Raises:
          ValueError: It is none, of another protocol, or asks for what this version does not know.
        """
        plan: Plan = typed_json.read(cls, json.loads(data), "plan")
        known = {
            "protocol": (plan.protocol, (PROTOCOL,)),
            "codec.name": (plan.codec.name, (RAW, QUANTISED, MASKED)),
            "weighting": (plan.weighting, ("tokens", "examples", "uniform")),
            "loss": (plan.loss, ("during_training", "after_training")),
            "phases": (plan.phases, (["upload"], ["loss", "upload"])),
        }
        for name, (found, allowed) in known.items():
            if found not in allowed:
                raise ValueError(f"`plan.{name}` is not of protocol {PROTOCOL}")
        if (plan.secure_sums is None) == (plan.codec.name == MASKED):
            raise ValueError("`plan.secure_sums` and the codec 'masked' belong together")
        return plan
