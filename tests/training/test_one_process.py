"""A training is one process: it starts no other, and takes no connection."""

import collections
import os
import subprocess
import sys
import time

import pytest

from tests.support import fakes
from tests.support.processes import processes_below
from tff_keyboard import config as config_lib
from tff_keyboard.storage.run_directory import RunDirectory


@pytest.mark.slow
def test_train_starts_no_process_and_listens_nowhere(store, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(config_lib.dump(fakes.tiny_config(store, "train.rounds=3")))
    command = [sys.executable, "-m", "tasks", "train"]
    run = subprocess.Popen(
        [*command, f"--config={path}", f"--workdir={tmp_path / 'run'}"],
        env={**os.environ, "TF_NUM_INTRAOP_THREADS": ""},
        stdout=subprocess.PIPE,
        text=True,
    )
    parent = processes_below.name(run.pid)
    children, ports, looked = set(), set(), 0
    times_seen = collections.Counter()  # process id -> looks
    while run.poll() is None:
        names = {pid: processes_below.name(pid) for pid in processes_below.descendants(run.pid)}
        times_seen.update(names)
        # Between fork and exec, a child has the name of its parent.
        children |= {one for pid, one in names.items() if one != parent or times_seen[pid] > 20}
        ports |= set(processes_below.listening_ports(run.pid))
        looked += 1
        time.sleep(0.02)
    output = run.communicate()[0]
    assert run.returncode == 0, output
    assert looked > 10
    assert len(RunDirectory(tmp_path / "run").rows()) == 3
    assert children <= {"git", "lscpu"}  # asked for the commit; by numpy.testing, as it is imported
    assert not ports
