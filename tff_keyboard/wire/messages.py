"""The verbs of the round server, as frozen dataclasses that are JSON on the wire.

    POST /v1/check-in              CheckIn -> Answer: a Task, or Later
    GET  /v1/plan                  the newest plan; GET /v1/plans/SHA256 any (`plan.py`)
    GET  /v1/models/SHA256         bytes: weights (`weights.py`) or graph; with Range. With
                                   `?from=SHA256` of older weights, if these are known: what changed
                                   (`model_delta.py`)
    POST /v1/rounds/ROUND/loss     Loss -> Verdict, where the plan has a phase "loss"
    POST /v1/rounds/ROUND/secure/STEP   where the plan has secure sums (`secure_steps.py`)
    PUT  /v1/rounds/ROUND/upload   4 bytes, the header's length, big-endian; UploadHeader; payload
                                   -> Accepted

A device begins every exchange. What the server does not take, it answers with a `Refused`: a 4xx
or 503 and `{"code": ..., "message": ...}`. Names and meaning follow Bonawitz et al. 2019,
https://arxiv.org/abs/1902.01046, and federated-compute's protocol.
"""

import dataclasses
import json
import math
import re
from typing import Any, TypeVar

from tff_keyboard.storage import typed_json

PROTOCOL = 1
LONGEST_JSON = 64 * 1024  # bytes of a request or of the header of an upload
LENGTH_BYTES = 4  # before the header of an upload
RAW, QUANTISED, MASKED = "float32", "quantised", "masked"  # codecs of a payload
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # hosts that may be spoken to without TLS

# One code a refusal -> its HTTP status.
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
    """A request that is not taken.

    Attributes:
      code: A key of `REFUSALS`.
      message: One line for who debugs a device; it quotes nothing of the request's body.
      retry_after_s: Seconds after which it may be tried again, or None.
    """

    def __init__(self, code: str, message: str, retry_after_s: int | None = None):
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.retry_after_s = code, message, retry_after_s
        self.status = REFUSALS[code]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckIn:
    """A device that meets the plan's conditions offers to take part.

    Attributes:
      plan: SHA-256 of the plan whose conditions the device found met.
      token: What `Accepted` gave it last (`tokens.py`); None: it never took part.
    """

    protocol: int
    population: str
    plan: str
    token: str | None

    def __post_init__(self) -> None:
        require_sha256(self, "plan")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A seat in a round.

    Attributes:
      round: Number of the round, >= 1.
      plan: SHA-256 of the plan to follow.
      model: SHA-256 of the weights to start from.
      assignment: Names the seat; the upload gives it back.
      upload_before_s: Seconds from now until the round closes.
      secure_sum: Label of its secure sum, where the plan has one.
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
class Later:
    """No seat is free: why, and after how many seconds to ask again."""

    retry_after_s: int
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to `CheckIn`: one of the two."""

    task: Task | None = None
    later: Later | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class UploadHeader:
    """What stands before the payload of an upload.

    Attributes:
      assignment: That of the `Task`.
      weight: What the plan's `weighting` counts: tokens, examples, or 1; >= 0.
      loss: Mean loss of the device's own text, nats a target, as the plan's `loss` says.
      codec: `RAW`: little-endian float32; `QUANTISED`: `update_codec.py`;
        `MASKED`: little-endian integers of the plan's `secure_sums.bits`.
      shape: Numbers of the delta, `[parameters]`.
    """

    assignment: str
    weight: float
    loss: float
    codec: str
    shape: list[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accepted:
    """An upload is on the server's disk.

    Attributes:
      token: What to show at the next check-in.
      accepted: Its place among the round's uploads, from 1.
    """

    token: str
    accepted: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss:
    """The loss of a device before it uploads, where the server takes some of the round only."""

    assignment: str
    weight: float
    loss: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the device is to upload: "yes", "no" (it is done) or "wait" (ask again)."""

    upload: str
    retry_after_s: int = 0


def require_sha256(message: object, *names: str) -> None:
    """Raises `ValueError` unless these fields are 64 lowercase hex digits: they become paths."""
    for name in names:
        _require(is_sha256(getattr(message, name)), name, "a SHA-256 in hex")


def is_sha256(text: str) -> bool:
    """Whether it is 64 lowercase hex digits."""
    return bool(_HASH.fullmatch(text))


def encode(message: Any) -> bytes:
    """A message as JSON."""
    return json.dumps(typed_json.plain(message), separators=(",", ":")).encode()


def decode(cls: type[_Message], data: bytes) -> _Message:
    """The message of a request or answer.

    Raises:
      Refused: "bad_json" if it is none, "too_large" if it is longer than `LONGEST_JSON`.
    """
    if len(data) > LONGEST_JSON:
        raise Refused("too_large", f"JSON of more than {LONGEST_JSON} bytes")
    try:
        found: _Message = typed_json.read(cls, json.loads(data), cls.__name__)
        numbers = [v for v in vars(found).values() if isinstance(v, int | float)]
        _require(all(map(math.isfinite, numbers)), cls.__name__, "of finite numbers")
    except (ValueError, RecursionError, OverflowError) as error:
        what = str(error) if type(error) is ValueError else "not JSON"
        raise Refused("bad_json", what) from None
    return found


def pack_upload(header: UploadHeader, payload: bytes) -> bytes:
    """The body of an upload."""
    head = encode(header)
    return len(head).to_bytes(LENGTH_BYTES, "big") + head + payload


def unpack_upload(body: bytes) -> tuple[UploadHeader, bytes]:
    """`(header, payload)` of the body of an upload.

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
