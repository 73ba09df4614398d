"""A server that is killed anywhere in a round resumes without losing uploads or changing models."""

import contextlib
import json
import subprocess
import sys
import threading

import pytest
import tensorflow_federated  # noqa: F401 (that the seconds of its import are not this file's)

from tff_keyboard.storage.errors import ProgramError, RunDirectoryError
from tff_keyboard_fleet.tests.support import served_fakes
from tff_keyboard_fleet.tests.support.served_fakes import PLACES, ROUNDS


class Killed(BaseException):
    """Stands for SIGKILL: no code of the product catches it."""


class Server:
    """Trains in this process, and is killed the third time it reaches `place`."""

    def __init__(self, folder, death_point=""):
        self._folder, self._place = folder, death_point
        self._times = self.deaths = 0
        self._app = None
        self.seen = {}

    def train(self):
        """Restarts after each kill, and returns the results that must not depend on kills."""
        is_over = threading.Event()
        devices = threading.Thread(
            target=served_fakes.take_part, args=[self._ask, self.seen, is_over], daemon=True
        )
        devices.start()
        while True:
            try:
                served_fakes.train(self._folder, self._serve, self._die)
                break
            except (Killed, ProgramError):
                assert self.deaths == 1
        is_over.set()
        devices.join()
        return served_fakes.outcome(self._folder)

    @contextlib.contextmanager
    def _serve(self, app):
        self._app = app
        try:
            yield
        finally:
            self._app = None

    def _ask(self, environ, start_response):
        app = self._app
        if app is None:
            raise OSError("no server")
        try:
            return app(environ, start_response)
        except Killed:
            self._app = None
            app._store.stop()  # the death of its other thread
            raise OSError("it died") from None

    def _die(self, here):
        self._times += here == self._place
        if self._times == 3 and not self.deaths:
            self.deaths += 1
            raise Killed


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return Server(tmp_path_factory.mktemp("straight") / "run").train()


def test_without_a_death(straight):
    assert straight["ledger"] == "".join(f"{n}\n" for n in range(1, ROUNDS + 1))
    assert len(straight["rows.csv"].splitlines()) == 1 + ROUNDS


@pytest.mark.parametrize("place", PLACES)
def test_death_changes_nothing(place, straight, tmp_path):
    server = Server(tmp_path / "run", place)
    actual = server.train()
    assert server.deaths == 1
    assert {n: len(models) for n, models in server.seen.items()} == dict.fromkeys(
        range(1, ROUNDS + 1), 1
    )
    # The digest of a cohort is of its seats, which are drawn.
    assert _without_cohorts(actual) == _without_cohorts(straight)


def _without_cohorts(outcome):
    header, *rows = (line.split(",") for line in outcome["rows.csv"].splitlines())
    position = header.index("cohort")
    return [
        outcome["ledger"],
        outcome["digest"],
        [row[:position] + row[position + 1 :] for row in rows],
    ]


def test_lost_checkpoint_of_a_released_round_is_an_error(tmp_path):
    Server(tmp_path / "run").train()
    ledger = (tmp_path / "run" / "ledger").read_bytes()
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        checkpoint.unlink()
    with pytest.raises(RunDirectoryError, match="two models"):
        served_fakes.train(tmp_path / "run", lambda app: contextlib.nullcontext())
    assert (tmp_path / "run" / "ledger").read_bytes() == ledger  # devices have those models


@pytest.mark.slow
def test_sigkill_changes_nothing(tmp_path):
    command = [sys.executable, "-m", "tff_keyboard_fleet.tests.support.served_fakes", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr
    actual = json.loads(done.stdout.splitlines()[-1])
    for death_point in ("", *PLACES):
        one = actual[death_point]
        assert (one["kills"], one["code"]) == (int(bool(death_point)), 0), (
            death_point,
            done.stderr,
        )
        assert set(one["models"].values()) == {1}
        assert _without_cohorts(one["outcome"]) == _without_cohorts(actual[""]["outcome"]), (
            death_point
        )
