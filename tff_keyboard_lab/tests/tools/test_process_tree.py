"""Facts that tools read about processes, and files that they compare."""

import os
import subprocess

import numpy as np

from tff_keyboard_lab.tools import kill_test, process_tree


def test_descendants_and_memory():
    # `sh` stays, because a command follows the one in the background.
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo; wait"], stdout=subprocess.PIPE) as shell:
        shell.stdout.readline()
        below = process_tree.descendants(os.getpid())
        assert shell.pid in below
        children = process_tree.descendants(shell.pid)
        assert len(children) == 1
        assert set(children) < set(below)
        assert process_tree.is_running(children[0])
        assert process_tree.cpu_seconds(os.getpid()) > 0
        assert 0 < process_tree.resident_megabytes(shell.pid) < 100
        assert kill_test.kill(shell) == children  # they outlive it: the benchmark must notice
        os.kill(children[0], 9)
    assert process_tree.resident_megabytes(shell.pid) == 0
    assert not process_tree.is_running(shell.pid)


def make_run(path, weight):
    (path / "model").mkdir(parents=True)
    np.savez(path / "model" / "weights.npz", kernel=np.array([1.0, weight]))
    (path / "metrics.csv").write_text("round\n1\n")
    (path / "timings.csv").write_text(str(path))  # wall clock: not compared
    return kill_test.digests(path)


def test_digests(tmp_path):
    assert make_run(tmp_path / "a", 2.0) == make_run(tmp_path / "b", 2.0)
    other = make_run(tmp_path / "c", 2.0000000000000004)
    assert list(other) == ["metrics.csv", "model/weights.npz"]
    assert other["model/weights.npz"] != make_run(tmp_path / "d", 2.0)["model/weights.npz"]
