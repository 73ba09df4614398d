"""The engine on two nodes of a Ray cluster, without TFF; `test_two_nodes.py` runs this.

One cluster serves all: to start a node costs more than all that is computed on it.
"""

import os
import pathlib
import random
import signal
import time

import pytest

from tests import cluster_fakes
from tests.cluster_fakes import Arithmetic, named
from tff_keyboard.config.execution_config import ClusterConfig
from tff_keyboard.program.cluster import ray_engine
from tff_keyboard.program.cluster.node import NodeOptions
from tff_keyboard.program.cluster.ray_engine import RayEngine
from tff_keyboard.program.engine import Job
from tff_keyboard.program.errors import ClusterError, RunDirectoryError

LAZY = NodeOptions(at_once=False)
PATIENT = ClusterConfig(min_nodes=2, wait_seconds=300.0, max_losses=1000)


@pytest.fixture
def engine(cluster):
    found = RayEngine(PATIENT, LAZY, {})
    yield found
    found.close()
    deadline = time.monotonic() + 30
    while named("ray::NodeServer"):  # nothing of ours is left on the nodes
        assert time.monotonic() < deadline
        time.sleep(0.1)


def job(items, folder=None, addend=0, seconds=0.0):
    return Job(Arithmetic(), (folder and str(folder), addend, seconds), items)


def squares(items, addend=0):
    return [(i, addend + item**2) for i, item in enumerate(items)]


def test_every_item_once_on_both_nodes(engine):
    for addend in (0, 10):
        items = [3, 1, 4, 1, 5, 9]
        found = list(engine.run(job(items, addend=addend, seconds=0.05)))
        assert sorted(found) == squares(items, addend)
    spans = engine.pop_spans()
    assert [span.outcome for span in spans] == ["done"] * 12
    assert len({span.node for span in spans}) == 2 == len(engine.place_names())
    for span in spans:
        assert 0.05 <= span.compute_seconds <= span.end - span.start + 1e-6  # rounding of the epoch
    assert list(engine.run(job([]))) == []


def test_a_job_that_is_given_up_leaves_the_engine_ready(engine):
    def interrupt(*unused):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):  # while the main thread waits for a result
            list(engine.run(job(range(100), seconds=0.3)))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert sorted(engine.run(job([2, 3]))) == squares([2, 3])


def test_errors_of_the_data_end_it_and_others_are_tried_again(engine, tmp_path):
    (tmp_path / "passing_2").touch()
    assert sorted(engine.run(job(range(4), tmp_path))) == squares(range(4))
    assert sum(path.name.startswith("2_") for path in tmp_path.iterdir()) == 2
    (tmp_path / "fail_3").touch()
    with pytest.raises(RunDirectoryError, match=r"^item 3 has no data$"):
        list(engine.run(job(range(4), tmp_path)))


def test_what_hangs_is_computed_by_another(engine, tmp_path):
    (tmp_path / "stop_1").touch()
    assert sorted(engine.run(job(range(6), tmp_path, seconds=0.1))) == squares(range(6))
    # The node that hangs is not asked again, and the other one goes on.
    assert sorted(engine.run(job(range(3)))) == squares(range(3))


def test_no_node_fits(cluster, monkeypatch):
    own = ray_engine.Crew

    class OtherMachine(own):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self._own_facts["processor"] = "another one"

    monkeypatch.setattr(ray_engine, "Crew", OtherMachine)
    strict = ClusterConfig(min_nodes=1, wait_seconds=20.0)
    with pytest.raises(ClusterError, match=r"0 of 1 .* is not as this machine: processor: "):
        RayEngine(strict, LAZY, {})
    lenient = ClusterConfig(min_nodes=1, wait_seconds=200.0, allow_other_bits=True)
    found = RayEngine(lenient, LAZY, {})
    found.close()


def test_status(cluster, tmp_path, capsys):
    from tasks import cli
    from tasks import cluster as cluster_task

    assert cli.launch(cluster_task, ["status"]) == cli.OK
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 3
    assert all(row.split()[1:] == ["nobody", "yes"] for row in rows[1:])
    (tmp_path / "data_card.json").write_text("{}")
    assert cli.launch(cluster_task, ["status", f"--store={tmp_path}"]) == cli.OK


def shared_memory():
    return sorted(pathlib.Path("/dev/shm").iterdir())


def is_drivers(node):
    """Whether the driver belongs to a node: it would end with it."""
    from ray._private import worker

    socket = worker._global_node.raylet_socket_name
    table = cluster_fakes.processes()
    return any(socket in table[pid][1] for pid in cluster_fakes.processes_of(node.pid))


@pytest.mark.slow
def test_fifty_faults(cluster, engine):
    """Actors die, stop or are slow, and a whole node goes and comes, at random moments."""
    generator = random.Random(os.environ.get("FAULT_SEED", "1"))
    items = range(12)
    faults = {"kill": 0, "stop": 0, "node": 0}
    stopped = []
    cluster.start(f"--address={cluster_fakes.ADDRESS}")  # so that one is not the driver's
    start = shared_memory()
    for _ in range(200):
        if sum(faults.values()) >= 50:
            break
        results = []
        for result in engine.run(job(items, seconds=0.2)):
            results.append(result)
            actors = named("ray::NodeServer")
            if len(results) != generator.randint(1, 12) or not actors:
                continue
            fault = generator.choice(["kill", "kill", "kill", "stop", "stop", "node"])
            victim = next((node for node in cluster.processes[1:] if not is_drivers(node)), None)
            if fault == "node" and victim is not None:
                cluster.kill_node(victim)
                cluster.processes.remove(victim)
                cluster.start(f"--address={cluster_fakes.ADDRESS}")
            elif fault == "stop":
                stopped.append(generator.choice(actors))
                os.kill(stopped[-1], signal.SIGSTOP)
            else:
                fault = "kill"
                os.kill(generator.choice(actors), signal.SIGKILL)
            faults[fault] += 1
        assert sorted(results) == squares(items)
        for pid in stopped:
            cluster_fakes.signal_if_there(pid, signal.SIGCONT)
        stopped.clear()
    assert sum(faults.values()) >= 50, faults
    print(faults)
    assert len(shared_memory()) <= len(start) + 2
