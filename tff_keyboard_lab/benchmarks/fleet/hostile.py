"""Attacking clients of a round server: each attack, and the accepted codes of its answers.

python -m tff_keyboard_lab.benchmarks.fleet.hostile http://127.0.0.1:8470
"""

import collections
import contextlib
import http.client
import json
import random
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard_fleet.wire import keys, messages, weights
from tff_keyboard_fleet.wire.messages import CheckIn, CheckinResponse, UploadHeader
from tff_keyboard_fleet.wire.plan import Plan

KINDS = (
    *("forgery", "wrong hash", "wrong shape", "not finite"),
    *("oversize", "replay", "garbage", "flood"),
)
Code = str  # code of a refusal; "200" without one; "closed" if the server closed the connection


class Connection:
    """Plain requests to a server, with counts of the answers.

    Attributes:
      statuses: HTTP status -> number of answers.
      wrong: Answers that no server should give, one line each.
    """

    def __init__(self, url: str):
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname or "", parts.port or 80)
        self.statuses: collections.Counter[int] = collections.Counter()
        self.wrong: list[str] = []

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[Code, bytes]:
        """Sends a request, and returns the code of its answer, and the answer."""
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException):
            return "closed", b""
        finally:
            connection.close()
        self.statuses[answer.status] += 1
        if answer.status in (200, 206):
            return "200", data
        try:
            code = str(json.loads(data)["code"])
        except (ValueError, KeyError, TypeError):
            code = f"HTTP {answer.status}"  # of cheroot itself, before the application
        if (answer.status >= 500 and code != "busy") or b"Traceback" in data:
            self.wrong.append(f"{method} {path[:40]}: {answer.status} {code}")
        return code, data

    def signed(
        self, key: Ed25519PrivateKey, method: str, path: str, body: bytes
    ) -> tuple[Code, bytes]:
        """Sends a signed request of a device."""
        return self.ask(method, path, body, keys.sign_request(key, method, path, body))


class Attacker:
    """One attacking device.

    Args:
      connection: The connection to the server.
      seed: Seed of random bytes.
      copies: Bodies of uploads of other devices, to be replayed.
    """

    def __init__(self, connection: Connection, seed: int, copies: list[bytes]):
        self._connection = connection
        self._random = random.Random(seed)
        self._copies = copies
        self._key = Ed25519PrivateKey.generate()
        code, data = connection.ask("GET", "/v1/plan")
        self._plan = Plan.from_bytes(data) if code == "200" else None

    def attacks(self) -> dict[str, Callable[[], Iterator[tuple[Code, set[Code]]]]]:
        """Returns name -> attack. An attack yields each answer with the accepted codes."""
        return {
            "forgery": self._forgery,
            "wrong hash": self._wrong_hash,
            "wrong shape": self._wrong_shape,
            "not finite": self._not_finite,
            "oversize": self._oversize,
            "replay": self._replay,
            "garbage": self._garbage,
            "flood": self._flood,
        }

    def run(self, name: str) -> list[str]:
        """Runs one attack, and returns lines about wrong answers."""
        if self._plan is None:
            return []
        answers = [(code, right | {"busy"}) for code, right in self.attacks()[name]()]
        return [
            f"{name}: {code}, not {sorted(right)}" for code, right in answers if code not in right
        ]

    def _check_in(self, **changes: Any) -> tuple[Code, bytes]:
        """Checks in with some fields changed. Returns the code and the body of the answer."""
        assert self._plan is not None
        fields: dict[str, Any] = {
            "protocol": messages.PROTOCOL,
            "population": self._plan.population,
            "plan": self._plan.sha256,
            "token": None,
        }
        body = messages.encode(CheckIn(**fields | changes))
        return self._connection.signed(self._key, "POST", "/v1/check-in", body)

    def _forgery(self) -> Iterator[tuple[Code, set[Code]]]:
        """Yields the codes for forged signatures, old times and tokens, and the right codes."""
        other = Ed25519PrivateKey.generate()
        body = b'{"protocol": 1}'
        headers = keys.sign_request(other, "POST", "/v1/check-in", body)
        headers |= {keys.DEVICE_KEY: keys.public_hex(self._key)}
        yield self._connection.ask("POST", "/v1/check-in", body, headers)[0], {"bad_signature"}
        old = keys.sign_request(self._key, "POST", "/v1/check-in", body, time.time() - 3600)
        yield self._connection.ask("POST", "/v1/check-in", body, old)[0], {"stale_time"}
        token = f"run.1.1.{'0' * 128}"
        yield self._check_in(token=token)[0], {"forged_token", "wrong_plan"}

    def _wrong_hash(self) -> Iterator[tuple[Code, set[Code]]]:
        yield self._check_in(plan="0" * 64)[0], {"wrong_plan"}
        yield self._connection.ask("GET", f"/v1/models/{'0' * 64}")[0], {"wrong_model"}
        up = "/v1/models/" + "%2e%2e%2f" * 4 + "x" * 28
        yield self._connection.ask("GET", up)[0], {"not_found", "wrong_model"}

    def _upload(self, delta: np.ndarray, shape: int) -> Code:
        """Sends an upload from a seat, if one is free."""
        assert self._plan is not None
        code, data = self._check_in()
        task = messages.decode(CheckinResponse, data).task if code == "200" else None
        header = UploadHeader(
            assignment=task.assignment if task else "0" * 32,
            weight=1.0,
            loss=1.0,
            codec=self._plan.codec.name,
            shape=[shape],
        )
        body = messages.pack_upload(header, weights.to_bytes(delta))
        path = f"/v1/rounds/{task.round if task else 1}/upload"
        code = self._connection.signed(self._key, "PUT", path, body)[0]
        return code if task else "no seat" if code == "unknown_round" else code

    def _wrong_shape(self) -> Iterator[tuple[Code, set[Code]]]:
        assert self._plan is not None
        size = self._plan.parameters
        yield self._upload(np.zeros(size - 1), size - 1), {"wrong_shape", "no seat"}
        yield self._upload(np.zeros(size - 1), size), {"wrong_shape", "bad_codec", "no seat"}

    def _not_finite(self) -> Iterator[tuple[Code, set[Code]]]:
        assert self._plan is not None
        delta = np.zeros(self._plan.parameters, np.float32)
        for value in (np.nan, np.inf):
            delta[self._random.randrange(len(delta))] = value
            yield self._upload(delta, len(delta)), {"not_finite", "bad_codec", "no seat"}

    def _oversize(self) -> Iterator[tuple[Code, set[Code]]]:
        """Yields the codes for requests that are too large, and the right codes."""
        for method, path in (("POST", "/v1/check-in"), ("PUT", "/v1/rounds/1/upload")):
            headers = {"Content-Length": str(2**40)}
            yield (
                self._connection.ask(method, path, b"x" * 1000, headers)[0],
                {"too_large", "closed"},
            )
        body = b" " * (messages.LONGEST_JSON + 99)
        code = self._connection.signed(self._key, "POST", "/v1/check-in", body)[0]
        yield code, {"too_large", "closed"}
        wide = self._connection.ask("GET", "/v1/plan", b"", {"X": "x" * 100_000})[0]
        yield wide, {"HTTP 413", "HTTP 400", "HTTP 431", "closed"}

    def _replay(self) -> Iterator[tuple[Code, set[Code]]]:
        for body in self._random.sample(self._copies, min(3, len(self._copies))):
            for round_num in (1, 2, 999):
                path = f"/v1/rounds/{round_num}/upload"
                code = self._connection.signed(self._key, "PUT", path, body)[0]
                yield code, {"unknown_round"}

    def _garbage(self) -> Iterator[tuple[Code, set[Code]]]:
        """Yields the codes for random bodies on all paths and methods, and the right codes."""
        paths = ("/v1/check-in", "/v1/rounds/1/upload", "/v1/plan", "/", "/v1/rounds/-1/upload")
        right = {*messages.REFUSALS, "200", "closed", "HTTP 400"}
        for path in paths:
            for method in ("GET", "POST", "PUT", "DELETE", "TRACE"):
                body = (
                    self._random.randbytes(self._random.randrange(300)) if method != "GET" else b""
                )
                yield self._connection.signed(self._key, method, path, body)[0], right

    def _flood(self) -> Iterator[tuple[Code, set[Code]]]:
        """Lets one device send as many requests as it can, then many devices one request each."""
        answers = [self._check_in()[0] for _ in range(200)]
        yield ("slowed down" if "busy" in answers else "not slowed down"), {"slowed down"}
        for _ in range(50):
            self._key = Ed25519PrivateKey.generate()
            yield self._check_in(token="")[0], {"forged_token", "200", "wrong_plan"}


def main() -> int:
    """Runs every attack once."""
    connection = Connection(sys.argv[1])
    attacker = Attacker(connection, 0, [])
    errors = [line for name in attacker.attacks() for line in attacker.run(name)]
    print(
        "\n".join(errors + connection.wrong) or "Every attack was refused with the expected code.",
        connection.statuses,
    )
    return bool(errors or connection.wrong)


if __name__ == "__main__":
    sys.exit(main())
