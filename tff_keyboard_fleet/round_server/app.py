"""The round server as a WSGI application (`wire.messages` lists the requests).

To any request the answer is one of the protocol: no traceback, no 5xx except "busy". The log has
nothing of a body. POST and PUT are signed by the device (`wire.keys`). The answers to GET are the
same for everyone and, except the newest plan, never change.
"""

import dataclasses
import http
import math
import pathlib
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, cast

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from werkzeug import exceptions, routing, utils, wrappers

from tff_keyboard.storage import update_codec
from tff_keyboard.storage.errors import DataError
from tff_keyboard_fleet.round_server import rounds
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.limits import PaceSteering, RateLimit
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.secure_rounds import SecureRoundStore
from tff_keyboard_fleet.round_server.tables import Upload
from tff_keyboard_fleet.wire import keys, messages, secure_steps, tokens, weights
from tff_keyboard_fleet.wire.messages import Refused

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_FOREVER = 365 * 24 * 3600  # seconds for which a file named by its hash may be cached
# HTTP status of Werkzeug's own errors -> code.
_CODES = {404: "not_found", 405: "bad_method", 413: "too_large", 416: "bad_range"}
_NAME = "<string(length=64):name>"
_ROUND = "/v1/rounds/<int(max=999999999):number>"
_WAIT_SECONDS = 5  # until a device asks again whether it shall upload


@dataclasses.dataclass(frozen=True, kw_only=True)
class Population:
    """Facts about the run for an application.

    Attributes:
      name: Name of the population of devices.
      run: Name of the run in tokens.
      parameters: Number of elements of a delta.
      codec: `Codec.name` of the plan.
    """

    name: str
    run: str
    parameters: int
    codec: str


class RoundApplication:
    """Answers devices from the store; see the module.

    Args:
      store: The rounds on disk.
      blobs: Files that devices fetch.
      population: Facts about the run.
      key: The server's key. It signs tokens, and the secret of devices' pseudonyms is derived from
        it.
      clock: Returns seconds since 1970.

    Attributes:
      max_body_bytes: Length of the longest body of a request, which is an upload's.
    """

    def __init__(
        self,
        store: RoundStore,
        blobs: Blobs,
        population: Population,
        key: Ed25519PrivateKey,
        clock: Callable[[], float] = time.time,
    ):
        self._store, self._blobs, self._population = store, blobs, population
        self._clock = clock
        self._key = key
        self._secret = _secret_of(key)
        sums = store.round_settings.sums
        self._bytes_per_number = sums.bits // 8 if sums else weights.BYTES_PER_NUMBER
        self._max_json_body_bytes = messages.LONGEST_JSON + messages.LENGTH_BYTES
        self.max_body_bytes = (
            self._max_json_body_bytes + self._bytes_per_number * population.parameters
        )
        self._limit = RateLimit(clock)
        self._pace = PaceSteering(max(store.round_settings.deadline_seconds / 20, 1.0), clock)
        self._urls = routing.Map(
            [
                routing.Rule("/v1/check-in", endpoint="check_in", methods=["POST"]),
                routing.Rule("/v1/plan", endpoint="plan", methods=["GET"]),
                routing.Rule(f"/v1/plans/{_NAME}", endpoint="blob", methods=["GET"]),
                routing.Rule(f"/v1/models/{_NAME}", endpoint="blob", methods=["GET"]),
                routing.Rule(f"{_ROUND}/loss", endpoint="loss", methods=["POST"]),
                routing.Rule(f"{_ROUND}/secure/<string:step>", endpoint="secure", methods=["POST"]),
                routing.Rule(f"{_ROUND}/upload", endpoint="upload", methods=["PUT"]),
            ],
            merge_slashes=False,
        )

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        request = wrappers.Request(environ)
        try:
            response = self._respond(request)
        except Refused as refused:
            response = _refusal(refused)
        except exceptions.HTTPException as error:
            code = _CODES.get(error.code or 0, "bad_json")
            response = _refusal(Refused(code, _line(error)), error.code)
        except Exception as error:
            print(f"round server: {_place(error)}", file=sys.stderr, flush=True)
            response = _refusal(Refused("busy", "try again later", 60))
        return response(environ, start_response)

    def _respond(self, request: wrappers.Request) -> wrappers.Response:
        """Answers one request. All but those of public files must be signed by their device."""
        endpoint, values = self._urls.bind_to_environ(request.environ).match()
        if endpoint == "plan":
            current = self._store.round
            if current is None:
                raise Refused("busy", "the first round has not started", self._pace.seconds())
            return self._blob(request, current.plan, seconds=0)
        if endpoint == "blob":
            return self._blob(request, values["name"])
        is_upload = endpoint == "upload"
        request.max_content_length = self.max_body_bytes if is_upload else self._max_json_body_bytes
        body = request.get_data(cache=False)
        now_s = self._clock()
        headers = cast(Mapping[str, str], request.headers)  # only `get` is called
        device = keys.check_request(headers, request.method, request.path, body, now_s)
        self._limit.check(device)
        if is_upload:
            return _json(self._upload(device, values["number"], body))
        if endpoint == "secure":
            return _json(self._secure(device, values["number"], values["step"], body))
        if endpoint == "loss":
            return _json(self._loss(device, values["number"], body))
        return _json(self._check_in(device, messages.decode(messages.CheckIn, body)))

    def _blob(
        self, request: wrappers.Request, name: str, seconds: int = _FOREVER
    ) -> wrappers.Response:
        """Returns a released file, or the difference to an older file that the device has (`from`).

        `seconds` is the time for which proxies may keep it.
        """
        path = self._blobs.path(name)
        if path is None and not self._blobs.is_ready:
            raise Refused("busy", "the server is starting", 5)
        if path is None:
            raise Refused("wrong_model", "there is no released file with this name")
        if delta := self._blobs.delta(request.args.get("from", ""), name):
            path = delta
        response = utils.send_file(
            path,
            request.environ,
            mimetype="application/octet-stream",
            etag=path.name,
            max_age=seconds,
        )
        response.cache_control.public = True
        response.cache_control.immutable = seconds == _FOREVER
        return response

    def _check_in(self, device: str, message: messages.CheckIn) -> messages.CheckinResponse:
        """Gives a device a seat in the current round, or tells it when to come back."""
        expected = (messages.PROTOCOL, self._population.name)
        if (message.protocol, message.population) != expected:
            raise Refused(
                "wrong_plan", f"this server has protocol {expected[0]}, population {expected[1]}"
            )
        current = self._store.round
        if current is None:
            return self._later("starting")
        if message.plan != current.plan:
            raise Refused("wrong_plan", "the plan has changed: GET /v1/plan")
        if message.token is not None:
            took_part = tokens.check(self._key.public_key(), device, message.token)
            if took_part.run == self._population.run and self._store.is_too_soon(took_part):
                raise Refused("too_soon", "the token is for a later round", self._pause())
        pseudonym = tokens.digest(self._secret, device)
        try:
            seat = self._store.take_seat(pseudonym, secrets.token_hex(16))
        except Refused as refused:
            raise Refused(refused.code, refused.message, self._pause()) from None
        if seat is None:
            return self._later(current.state)
        seat_round, assignment = seat
        return messages.CheckinResponse(
            task=messages.TaskAssignment(
                round=seat_round.number,
                plan=seat_round.plan,
                model=seat_round.model,
                assignment=assignment,
                upload_before_s=rounds.seconds_left(
                    seat_round, self._store.round_settings, self._clock()
                ),
                secure_sum=sums.label(seat_round) if (sums := self._sums) else None,
            )
        )

    @property
    def _sums(self) -> SecureRoundStore | None:
        return self._store if isinstance(self._store, SecureRoundStore) else None

    def _secure(self, device: str, number: int, step: str, body: bytes) -> secure_steps.Next:
        """Takes a device's step of a secure sum, and returns its answer."""
        if self._sums is None:
            raise Refused("wrong_plan", "the plan has no secure sums")
        if step not in secure_steps.STEPS:
            raise Refused("not_found", "a secure sum has no such step")
        message = cast(secure_steps.Step, messages.decode(secure_steps.STEPS[step], body))
        pseudonym = tokens.digest(self._secret, device)
        return self._sums.step(number, pseudonym, bytes.fromhex(device), step, message)

    def _loss(self, device: str, number: int, body: bytes) -> messages.Verdict:
        """Records the loss of a device, and returns whether the round needs its update."""
        message = messages.decode(messages.Loss, body)
        if self._store.round_settings.top is None:
            raise Refused("wrong_plan", "the plan has no phase 'loss'")
        if message.weight < 0 or message.loss < 0:
            raise Refused("not_finite", "weight and loss must be numbers >= 0")
        verdict = self._store.tell_loss(
            number,
            tokens.digest(self._secret, device),
            message.assignment,
            message.weight,
            message.loss,
        )
        wait = _WAIT_SECONDS if verdict == "wait" else 0
        return messages.Verdict(upload=verdict, retry_after_s=wait)

    def _upload(self, device: str, number: int, body: bytes) -> messages.Accepted:
        """Records an upload, and returns the signed token of the device's part in the round."""
        header, payload = messages.unpack_upload(body)
        pseudonym = tokens.digest(self._secret, device)
        if not self._store.has_seat(number, pseudonym, header.assignment):
            raise Refused("unknown_round", "no seat of this device in this round")
        if header.codec != self._population.codec:
            raise Refused("bad_codec", f"the plan says {self._population.codec!r}")
        if header.shape != [self._population.parameters]:
            raise Refused(
                "wrong_shape", f"an update must have [{self._population.parameters}] numbers"
            )
        if header.weight < 0 or header.loss < 0:
            raise Refused("not_finite", "weight and loss must be numbers >= 0")
        upload = Upload(
            header.assignment,
            header.weight,
            header.loss,
            header.codec,
            payload,
            weights.sha256(body),
            header.included,
        )
        if header.codec == messages.MASKED:
            if len(payload) != self._bytes_per_number * self._population.parameters:
                raise Refused("wrong_shape", "the masked vector has the wrong length")
        elif not np.isfinite(delta_of(upload, self._population.parameters)).all():
            raise Refused("not_finite", "the update has NaN or infinity")
        took_part, position = self._store.accept(number, pseudonym, upload)
        took_part = dataclasses.replace(took_part, run=self._population.run)
        return messages.Accepted(token=tokens.sign(self._key, device, took_part), accepted=position)

    def _later(self, reason: str) -> messages.CheckinResponse:
        rejection = messages.Rejection(retry_after_s=self._pace.seconds(), reason=reason)
        return messages.CheckinResponse(rejection=rejection)

    def _pause(self) -> int:
        return math.ceil(self._store.round_settings.deadline_seconds)


def delta_of(upload: Upload, parameters: int) -> np.ndarray:
    """Decodes the delta of an upload, [parameters] float32.

    Raises:
      Refused: "wrong_shape" or "bad_codec", if the payload is not valid for its codec.
    """
    if upload.codec == messages.RAW:
        if len(upload.payload) != weights.BYTES_PER_NUMBER * parameters:
            raise Refused("wrong_shape", f"an update must have [{parameters}] numbers")
        return weights.from_bytes(upload.payload)
    try:
        return update_codec.decode(upload.payload, parameters)
    except DataError as error:
        raise Refused("bad_codec", str(error)) from None


def _secret_of(key: Ed25519PrivateKey) -> bytes:
    """Returns the secret from which devices' pseudonyms follow, derived from the server's key."""
    raw = key.private_bytes(
        serialization.Encoding.Raw,
        serialization.PrivateFormat.Raw,
        serialization.NoEncryption(),
    )
    return tokens.digest(raw, "devices' pseudonyms")


def _json(message: object) -> wrappers.Response:
    return wrappers.Response(messages.encode(message), content_type="application/json")


def _refusal(refused: Refused, status: int | None = None) -> wrappers.Response:
    response = _json({"code": refused.code, "message": refused.message})
    response.status_code = status or refused.status
    if refused.retry_after_s is not None:
        response.headers["Retry-After"] = str(refused.retry_after_s)
    return response


def _line(error: exceptions.HTTPException) -> str:
    return http.HTTPStatus(error.code or 400).phrase.lower()


def _place(error: BaseException) -> str:
    """Returns the type of an error and its location in the code, without any values."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        line = f"{pathlib.Path(code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} at {line}"
