"""Test devices that sign, check in, fetch and upload through any WSGI client, without LiteRT."""

import contextlib
import hashlib
import json
import threading

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from werkzeug import test

from tff_keyboard_fleet.wire import keys, messages, weights
from tff_keyboard_fleet.wire.plan import Cache, Codec, Conditions, Plan

PLAN = Plan(
    population="keyboard",
    vocabulary="0" * 64,
    graph="0" * 64,
    parameters=3,
    learning_rate=0.1,
    epochs=1,
    max_messages=0,
    max_targets=20,
    weighting="tokens",
    clip=None,
    codec=Codec(),
    phases=["upload"],
    secure_sums=None,
    conditions=Conditions(),
    cache=Cache(),
)


def key_of(number):
    """Returns the key of a made-up device or server."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(str(number).encode()).digest())


@contextlib.contextmanager
def beside(run, app, errors):
    """Runs devices, `run(app)`, in a thread; at the end it is over and has noted no errors."""
    thread = threading.Thread(target=run, args=[app], daemon=True)
    thread.start()
    yield
    thread.join(timeout=60)
    assert not errors
    assert not thread.is_alive()


class Device:
    """A device that speaks the protocol to an application. `number` identifies it."""

    def __init__(self, app, number, population="keyboard", clock=None):
        self.client, self.number = test.Client(app), number
        self.key, self.population, self.clock = key_of(number), population, clock
        self.token = None

    def send(self, method, path, body=b"", **changed_headers):
        """Returns `(status, bytes)` of a signed request."""
        now = self.clock() if self.clock else None
        headers = keys.sign_request(self.key, method, path, body, now) | changed_headers
        answer = self.client.open(path, method=method, data=body, headers=headers)
        return answer.status_code, answer.get_data()

    def get(self, path, **headers):
        return self.client.get(path, headers=headers)

    def plan_hash(self):
        return weights.sha256(self.get("/v1/plan").get_data())

    def check_in(self, plan=None):
        """Returns the answer, or the code of the refusal."""
        message = messages.CheckIn(
            protocol=messages.PROTOCOL,
            population=self.population,
            plan=plan or self.plan_hash(),
            token=self.token,
        )
        status, data = self.send("POST", "/v1/check-in", messages.encode(message))
        return messages.decode(messages.CheckinResponse, data) if status == 200 else code_of(data)

    def model(self, task):
        data = self.get(f"/v1/models/{task.model}").get_data()
        assert weights.sha256(data) == task.model
        return weights.from_bytes(data)

    def verdict(self, task, weight, loss):
        """Returns the server's verdict on a loss, or the code of the refusal."""
        message = messages.Loss(assignment=task.assignment, weight=weight, loss=loss)
        path = f"/v1/rounds/{task.round}/loss"
        status, data = self.send("POST", path, messages.encode(message))
        return messages.decode(messages.Verdict, data).upload if status == 200 else code_of(data)

    def upload(self, task, delta, weight=1.0, loss=1.0, codec=messages.RAW):
        """Returns `Accepted`, or the code of the refusal."""
        delta = np.asarray(delta, np.float32)
        header = messages.UploadHeader(
            assignment=task.assignment,
            weight=weight,
            loss=loss,
            codec=codec,
            shape=list(delta.shape),
        )
        body = messages.pack_upload(header, weights.to_bytes(delta))
        status, data = self.send("PUT", f"/v1/rounds/{task.round}/upload", body)
        if status != 200:
            return code_of(data)
        accepted = messages.decode(messages.Accepted, data)
        self.token = accepted.token
        return accepted


def code_of(data):
    """Returns the code of a refusal, after checking that it has a message."""
    refusal = json.loads(data)
    assert set(refusal) == {"code", "message"}
    return refusal["code"]
