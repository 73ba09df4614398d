"""A run with secure sums and correlated noise that is killed with SIGKILL, and resumed.

As a program, with STORE RUN NAME FIRST PLACE, this file serves the rounds from FIRST on, and dies
in round 2 at PLACE ("" lives).
"""

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard_fleet.tests.on_devices.test_restored_run import MECHANISMS, serve
from tff_keyboard_fleet.tests.on_devices.test_serve_secure_sums import SecureFleet

ROOT = pathlib.Path(__file__).parents[3]
ROUNDS = 4


def people(first):
    """Three devices of each round. Each takes part once, and signs of their updates alternate."""
    return {
        round_num: [(3 * round_num + k, (-1.0) ** round_num) for k in range(3)]
        for round_num in range(first, ROUNDS + 1)
    }


def main():
    from tff_keyboard.privacy.ledger_hook import LedgerHook

    store, run, name, first, place = sys.argv[1:]
    before_release = LedgerHook.before_release

    def dying(self, round_num, state, metrics):
        is_here = round_num == 2 and place
        if is_here and place == "before the ledger":  # the noise is added, and nothing is on disk
            os.kill(os.getpid(), signal.SIGKILL)
        result = before_release(self, round_num, state, metrics)
        if is_here and place == "after the ledger":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    LedgerHook.before_release = dying
    run = pathlib.Path(run)
    serve(pathlib.Path(store), run, MECHANISMS[name], people(int(first)), SecureFleet)


def run_child(*arguments):
    return subprocess.run(
        [sys.executable, __file__, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, place", [("secure tree", "before the ledger"), ("secure blt", "after the ledger")]
)
def test_sigkill_changes_nothing(name, place, store, tmp_path):
    straight = serve(store, tmp_path / "straight", MECHANISMS[name], people(1), SecureFleet)
    run = tmp_path / "run"
    # The key of a run is drawn, so both runs get the same nonce, and the same one of the server.
    run.mkdir()
    (run / "noise_nonce").write_bytes((tmp_path / "straight" / "noise_nonce").read_bytes())
    killed = run_child(store, run, name, 1, place)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = run_child(store, run, name, 3, "")
    assert resumed.returncode == 0, resumed.stderr
    with np.load(run / "model" / "weights.npz") as arrays:
        weights = np.concatenate([array.reshape(-1) for array in arrays.values()])
    np.testing.assert_array_equal(weights.astype(np.float64), straight)
    header, rounds = read_ledger(run / "privacy_ledger.jsonl")
    assert header.secure_sums
    assert rounds == read_ledger(tmp_path / "straight" / "privacy_ledger.jsonl")[1]
    assert len({entry["content"] for entry in rounds}) == ROUNDS


if __name__ == "__main__":
    main()
