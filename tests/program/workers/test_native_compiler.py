"""Compiling needs no cluster of grappler's, makes the same graphs, and does not mind the clock."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_federated as tff
from tensorflow.python.grappler import cluster as grappler_cluster
from tensorflow.python.grappler import tf_optimizer

from tests.support import fakes
from tff_keyboard.program.workers import native_compiler

ROOT = pathlib.Path(__file__).parents[3]


@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def total(values):
    return tff.federated_sum(values)


def test_a_cluster_that_was_not_shut_down_is_in_nobodys_way():
    """So it is left where the clock jumps while TensorFlow waits for the end of a thread."""
    left = grappler_cluster.Cluster()
    try:
        assert total([1.0, 2.0, 4.0]) == 7.0
    finally:
        left.Shutdown()


def test_graphs_are_those_of_a_real_cluster(monkeypatch):
    optimise = native_compiler._optimize
    sizes = []

    def both(config, graph):
        ours, real = optimise(config, graph), tf_optimizer.OptimizeGraph(config, graph)
        assert ours == real
        sizes.append(len(real.node))
        return ours

    monkeypatch.setattr(native_compiler, "_optimize", both)
    native_compiler.to_native(fakes.tiny_process().next)
    assert sum(sizes) > 20


JUMPS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long jump(void) {  /* of the clock on the wall: a day back or forth, or none */
  static unsigned state = 1;
  state = state * 1103515245u + 12345u;
  return ((long)((state >> 16) % 3) - 1) * 86400;
}
int clock_gettime(clockid_t id, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, now);
  if (id == CLOCK_REALTIME) now->tv_sec += jump();
  return result;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(struct timeval *now, void *zone) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
def test_a_clock_that_jumps_ends_no_training_and_changes_no_bit(store, tmp_path):
    (tmp_path / "jumps.c").write_text(JUMPS)
    library = tmp_path / "jumps.so"
    command = ["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "jumps.c", "-ldl"]
    subprocess.run(command, check=True)
    weights = []
    for name, preload in (("steady", {}), ("jumping", {"LD_PRELOAD": str(library)})):
        sets = [f"--set={option}" for option in (*fakes.TINY, f"data.store={store}")]
        options = ["--config=configs/demo.toml", *sets]
        run = subprocess.run(
            [sys.executable, "-m", "tasks", "train", f"--workdir={tmp_path / name}", *options],
            env={**os.environ, **preload},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        with np.load(tmp_path / name / "model" / "weights.npz") as arrays:
            weights.append({key: arrays[key].tobytes() for key in arrays.files})
    assert weights[0] == weights[1]
