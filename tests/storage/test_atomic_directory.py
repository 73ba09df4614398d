"""A directory appears whole or not at all, also when its maker is killed."""

import os
import signal
import subprocess
import sys

import pytest

from tff_keyboard.storage.atomic_directory import new_directory

MAKER = """
import pathlib, sys, time
from tff_keyboard.storage.atomic_directory import new_directory
with new_directory(pathlib.Path(sys.argv[1])) as work:
    (work / "half").write_text("1")
    print("ready", flush=True)
    time.sleep(60)
"""


def names(directory):
    return sorted(entry.name for entry in directory.iterdir())


def test_appears_at_the_end(tmp_path):
    target = tmp_path / "deep" / "store"
    with new_directory(target) as work:
        (work / "a").write_text("1")
        assert not target.exists()
    assert names(target) == ["a"]
    assert names(target.parent) == ["store"]


def test_replaces_and_leaves_nothing_behind(tmp_path):
    target = tmp_path / "store"
    for name in ("old", "new"):
        with new_directory(target) as work:
            (work / name).write_text("1")
    assert names(target) == ["new"]
    assert names(tmp_path) == ["store"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_one(tmp_path, error):
    target = tmp_path / "store"
    with new_directory(target) as work:
        (work / "old").write_text("1")

    def fail():
        with new_directory(target) as work:
            (work / "new").write_text("1")
            raise error

    with pytest.raises(error):
        fail()
    assert names(target) == ["old"]
    assert names(tmp_path) == ["store"]


def test_leftover_of_a_killed_process_is_removed_and_of_a_living_one_is_not(tmp_path):
    target = tmp_path / "store"
    makers = [
        subprocess.Popen([sys.executable, "-c", MAKER, str(target)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for maker in makers:
            assert maker.stdout.readline() == b"ready\n"
        assert len(names(tmp_path)) == 2
        os.kill(makers[0].pid, signal.SIGKILL)
        makers[0].wait()
        with new_directory(target) as work:
            (work / "a").write_text("1")
        assert len(names(tmp_path)) == 2  # the store, and the living one's work
        assert target.is_dir()
    finally:
        for maker in makers:
            maker.kill()
            maker.wait()
            maker.stdout.close()
