"""Runs the tests in `*_on_two_nodes.py`, which need their own namespaces."""

import pathlib
import subprocess
import sys

import pytest

from tests.support.cluster import cluster_fakes

FILES = sorted(pathlib.Path(__file__).parent.glob("*_on_two_nodes.py"))


def run(marker, seconds):
    reason = cluster_fakes.why_not()
    if reason:
        pytest.skip(f"no cluster: {reason}")
    command = cluster_fakes.namespaced(
        sys.executable,
        "-m",
        "pytest",
        *map(str, FILES),
        "-q",
        "-m",
        marker,
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--no-header",
        "--durations=5",
        "-s",
    )
    done = subprocess.run(
        command,
        cwd=cluster_fakes.ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


@pytest.mark.slow
@pytest.mark.timeout(1600)
def test_rounds_on_two_nodes_have_the_bits_of_one_machine():
    run("not slow", 1500)


@pytest.mark.slow
@pytest.mark.timeout(7300)
def test_every_rule_and_every_fault():
    run("slow", 7200)
