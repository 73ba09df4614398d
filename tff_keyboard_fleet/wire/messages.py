"""The requests of the round server, as frozen dataclasses that are JSON on the wire.

    POST /v1/check-in              CheckIn -> CheckinResponse: a TaskAssignment, or Rejection
    GET  /v1/plan                  the newest plan; GET /v1/plans/SHA256 returns any plan
    (`plan.py`)
    GET  /v1/models/SHA256         bytes: weights (`weights.py`) or graph; Range is supported. With
                                   `?from=SHA256` of older weights that the server still has, only
                                   the difference (`model_patch.py`)
    POST /v1/rounds/ROUND/loss     Loss -> Verdict, if the plan has a phase "loss"
    POST /v1/rounds/ROUND/secure/STEP   if the plan has secure sums (`secure_steps.py`)
    PUT  /v1/rounds/ROUND/upload   4 bytes, the header's length, big-endian; UploadHeader; payload
                                   -> Accepted

A device begins every exchange. If the server rejects a request, it answers with a `Refused`: a 4xx
or 503 and `{"code": ..., "message": ...}`. Names and meaning follow Bonawitz et al. 2019,
https://arxiv.org/abs/1902.01046, and federated-compute's protocol.
"""

import dataclasses
import json
import math
import re
from typing import Any, TypeVar

from tff_keyboard.storage import json_text, typed_json

PROTOCOL = 1
LONGEST_JSON = 64 * 1024  # bytes of a request, or of the header of an upload
LENGTH_BYTES = 4  # of the length in front of the header of an upload
RAW, QUANTISED, MASKED = "float32", "quantised", "masked"  # codecs of a payload
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # hosts for which TLS is optional

# Code of a refusal -> HTTP status.
REFUSALS = {
    "bad_json": 400,
    "bad_signature": 401,
    "stale_time": 401,
    "forged_token": 403,
    "too_soon": 403,
    "not_found": 404,
    "wrong_model": 404,
    "unknown_round": 404,
    "bad_method": 405,
    "bad_step": 409,
    "surplus": 409,
    "replay": 409,
    "wrong_plan": 409,
    "late": 410,
    "length_required": 411,
    "too_large": 413,
    "bad_codec": 415,
    "bad_range": 416,
    "wrong_shape": 422,
    "not_finite": 422,
    "busy": 503,
}

_HASH = re.compile("[0-9a-f]{64}")
_Message = TypeVar("_Message")


class Refused(Exception):
    """A request that the server rejects.

    Attributes:
      code: A key of `REFUSALS`.
      message: One line for developers of devices. It quotes nothing of the request's body.
      retry_after_s: Seconds after which the device may try again, or None.
    """

    def __init__(self, code: str, message: str, retry_after_s: int | None = None):
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.retry_after_s = code, message, retry_after_s
        self.status = REFUSALS[code]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckIn:
    """A device's offer to take part; it meets the conditions of the plan.

    Attributes:
      protocol: Version of the protocol.
      population: Name of the population.
      plan: SHA-256 of the plan whose conditions the device meets.
      token: Token of the last `Accepted` (`tokens.py`); None if it never took part.
    """

    protocol: int
    population: str
    plan: str
    token: str | None

    def __post_init__(self) -> None:
        require_sha256(self, "plan")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskAssignment:
    """A seat in a round.

    Attributes:
      round: Number of the round, >= 1.
      plan: SHA-256 of the plan to follow.
      model: SHA-256 of the weights to start from.
      assignment: Identifier of the seat; the upload repeats it.
      upload_before_s: Seconds until the round closes.
      secure_sum: Label of the round's secure sum, if the plan has one.
    """

    round: int
    plan: str
    model: str
    assignment: str
    upload_before_s: int
    secure_sum: str | None = None

    def __post_init__(self) -> None:
        require_sha256(self, "plan", "model")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rejection:
    """No seat is free. The device asks again after `retry_after_s` seconds."""

    retry_after_s: int
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckinResponse:
    """The answer to `CheckIn`: either a task or a `Rejection`."""

    task: TaskAssignment | None = None
    rejection: Rejection | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class UploadHeader:
    """The header in front of the payload of an upload.

    Attributes:
      assignment: Assignment of the `TaskAssignment`.
      weight: Weight by the plan's `weighting`: tokens, examples, or 1; >= 0.
      loss: Mean loss on the device's own text, in nats a target, as the plan's `loss` defines.
      codec: `RAW`: little-endian float32; `QUANTISED`: `update_codec.py`; `MASKED`: little-endian
        integers of the plan's `secure_sums.bits`.
      shape: Shape of the delta, `[parameters]`.
      included: Signatures of this device, in hex, by the public key of each device whose pairwise
        mask is in the vector (`secure_sums/messages.py`). None unless the codec is `MASKED`.
    """

    assignment: str
    weight: float
    loss: float
    codec: str
    shape: list[int]
    included: dict[str, str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accepted:
    """The answer to an upload that is on the server's disk.

    Attributes:
      token: Token for the next check-in.
      accepted: Position among the round's uploads, from 1.
    """

    token: str
    accepted: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss:
    """The loss of a device before it uploads, if the server takes only some of the uploads."""

    assignment: str
    weight: float
    loss: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the device shall upload: "yes", "no" (it is done) or "wait" (it asks again)."""

    upload: str
    retry_after_s: int = 0


def require_sha256(message: object, *names: str) -> None:
    """Checks that these fields are 64 lowercase hex digits, because they become paths.

    Raises:
      ValueError: If one is not.
    """
    for name in names:
        _require(is_sha256(getattr(message, name)), name, "a SHA-256 in hex")


def is_sha256(text: str) -> bool:
    """Returns whether `text` is 64 lowercase hex digits."""
    return bool(_HASH.fullmatch(text))


def encode(message: Any) -> bytes:
    """Returns a message as JSON."""
    return json.dumps(typed_json.plain(message), separators=(",", ":")).encode()


def decode(cls: type[_Message], data: bytes) -> _Message:
    """Decodes a request or an answer.

    Raises:
      Refused: "bad_json" if it is not such a message, "too_large" if it is longer than
        `LONGEST_JSON`.
    """
    if len(data) > LONGEST_JSON:
        raise Refused("too_large", f"JSON of more than {LONGEST_JSON} bytes")
    try:
        message: _Message = typed_json.read(cls, json_text.parse(data), cls.__name__)
        values = [v for v in vars(message).values() if isinstance(v, int | float)]
        _require(all(map(math.isfinite, values)), cls.__name__, "of finite numbers")
    except (ValueError, OverflowError) as error:
        what = str(error) if type(error) is ValueError else "not JSON"
        raise Refused("bad_json", what) from None
    return message


def pack_upload(header: UploadHeader, payload: bytes) -> bytes:
    """Returns the body of an upload."""
    head = encode(header)
    return len(head).to_bytes(LENGTH_BYTES, "big") + head + payload


def unpack_upload(body: bytes) -> tuple[UploadHeader, bytes]:
    """Returns `(header, payload)` of the body of an upload.

    Raises:
      Refused: "bad_json" or "too_large".
    """
    length = int.from_bytes(body[:LENGTH_BYTES], "big")
    start = LENGTH_BYTES + length
    if length > LONGEST_JSON:
        raise Refused("too_large", f"header of more than {LONGEST_JSON} bytes")
    if len(body) < start:
        raise Refused("bad_json", "the body ends before its header does")
    return decode(UploadHeader, body[LENGTH_BYTES:start]), body[start:]


def _require(holds: bool, name: str, kind: str) -> None:
    if not holds:
        raise ValueError(f"`{name}` must be {kind}")
